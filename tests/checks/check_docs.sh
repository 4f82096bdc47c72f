#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The documents agree with the code: a man page per public function, clean ones, and every variable of the environment, as
# base/settings.c has it. Needs a built weft-perf.
source "$(dirname "$0")/../support/start.sh"

functions=$(${CC:-gcc} -E -P -Iinclude include/weft/weft.h | sed "/^typedef .*(/d" | grep -o '\bweft_[a-z0-9_]* *(' | tr -d ' (' | sort -u)
nothing "functions without a man page" "$(for name in $functions; do
    page=docs/man/$name.3
    [[ -f $page ]] || { echo "$name"; continue; }
    [[ $(head -c 4 "$page") == ".so " ]] && page=docs/man/$(sed 's|.*/||' "$page")
    grep -q "^\.Nm $name\b" "$page" && grep -q "^\.Fn $name\b\|^\.Fo $name\b" "$page" || echo "$name is not described in $page"
done)"
nothing "man pages of what does not exist" "$(for page in docs/man/weft_*.3; do
    name=$(basename "$page" .3)
    grep -qx "$name" <<<"$functions" || grep -q "^} $name;" include/weft/weft.h || echo "$page"
done)"
# "weft_send(weft_comm *comm,const void *data,...)" for each function.
of_header() {
    ${CC:-gcc} -E -P -Iinclude include/weft/weft.h | tr '\n' ' ' | sed 's/typedef [^;{]*;//g' | grep -oE '\bweft_[a-z0-9_]+ ?\([^()]*\);' |
        sed 's/  */ /g; s/, /,/g; s/;$//' | sort
}
of_pages() {
    awk '/^\.Sh / { on = $2 == "SYNOPSIS" }
        !on { next }
        /^\.F[no] / { function_name = $2; arguments = ""; count = split($0, parts, "\""); bare = parts[1]
            for (i = 2; i < count; i += 2) arguments = arguments "," parts[i]
            if (bare ~ / void$/) arguments = ",void" }
        /^\.Fa / { split($0, parts, "\""); arguments = arguments "," parts[2] }
        /^\.Fc/ || /^\.Fn / { print function_name "(" substr(arguments, 2) ")" }' docs/man/weft_*.3 | sort
}
nothing "what the header declares (<) and the pages' SYNOPSIS has (>)" "$(diff <(of_header) <(of_pages))"
if command -v mandoc >/dev/null; then
    # Pages of one line only lead to another page.
    nothing "man page warnings" "$(grep -L '^\.so ' docs/man/*.[0-9] | xargs mandoc -T lint -W warning 2>&1)"
else
    skip "no mandoc to check the man pages"
fi
nothing "cross references to pages that do not exist" "$(grep -ho '^\.Xr weft[a-z_-]* [0-9]' docs/man/*.[0-9] | sort -u |
    while read -r _ name section; do [[ -f docs/man/$name.$section ]] || echo "$name($section)"; done)"
statuses=$(sed -n 's/^ *X(\(WEFT_[A-Z_]*\), \(-\?[0-9]*\),.*/\1 \2/p' include/weft/status.h)
nothing "statuses that weft_strerror(3) does not list as <weft/status.h> does" "$(diff <(echo "${statuses:?}") \
    <(sed -n 's/^\.It Dv \(WEFT_[A-Z_]*\) Pq \\\{0,1\}\(-\{0,1\}[0-9]*\)$/\1 \2/p' docs/man/weft_strerror.3))"

# docs/settings.md and ENVIRONMENT of weft(7) are printed from the table.
nothing "what the documents take from base/settings.c is not what it says: make docs" "$(tests/scripts/docs.sh "$work/printed" 2>&1
    for page in settings.md man/weft.7; do diff -u "docs/$page" "$work/printed/$page" 2>&1 | head -n 20; done)"
# Hints of an error, what only weft-topo reads, which its own page has, and what is Level Zero's loader's.
not_settings="SLURM_PROCID PMI_RANK HWLOC_XMLFILE HWLOC_SYNTHETIC ZES_ENABLE_SYSMAN ZE_ENABLE_ALT_DRIVERS"
nothing "variables that the library reads and base/settings.c does not have" "$(
    grep -rhoE '(getenv|non_empty|word_of|read_number)\("[A-Z][A-Z0-9_]*"' --include=*.c base algos topo devmem transport comm |
        sed 's/.*"\(.*\)"/\1/' | sort -u | while read -r name; do
        [[ " $not_settings " == *" $name "* ]] || grep -q "^| \`$name\` |" docs/settings.md || echo "$name"
    done)"
nothing "variables of weft-topo that weft-topo(1) does not have" "$(for name in HWLOC_XMLFILE HWLOC_SYNTHETIC ZES_ENABLE_SYSMAN; do
    grep -q "^\.It Ev .*$name" docs/man/weft-topo.1 || echo "$name"
done)"
default_of() { sed -n "s/^| \`$1\` | \([^|]*\) |.*/\1/p" "$2" | tr -d '`'; }
nothing "settings of README.md that do not exist, or have another default" "$(grep -o '^| `WEFT_[A-Z_]*` |' README.md | tr -d '|` ' |
    while read -r name; do
        default=$(default_of "$name" docs/settings.md)
        [[ $default ]] || { echo "$name: no such setting"; continue; }
        [[ $default =~ ^-?[0-9]+$ && $default != "$(default_of "$name" README.md)" ]] && echo "$name: the default is $default"
    done)"
sum_up
