#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The documents agree with the code: a man page per public function, clean ones, and every variable of the environment, as
# base/settings.c has it. Needs a built weft-perf.
set -u
cd "$(dirname "$0")/../.." || exit 1
source tests/support/tally.sh

functions=$(${CC:-gcc} -E -P -Iinclude include/weft/weft.h | sed "/^typedef .*(/d" | grep -o '\bweft_[a-z0-9_]* *(' | tr -d ' (' | sort -u)
nothing "functions without a man page" "$(for name in $functions; do
    page=docs/man/$name.3
    [[ -f $page ]] || { echo "$name"; continue; }
    [[ $(head -c 4 "$page") == ".so " ]] && page=docs/man/$(sed 's|.*/||' "$page")
    grep -q "^\.Nm $name\b" "$page" && grep -q "^\.Fn $name\b\|^\.Fo $name\b" "$page" || echo "$name is not described in $page"
done)"
nothing "man pages of functions that do not exist" "$(for page in docs/man/weft_*.3; do
    name=$(basename "$page" .3)
    grep -qx "$name" <<<"$functions" || echo "$page"
done)"
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
printed=$(mktemp -d)
trap 'rm -rf "$printed"' EXIT
nothing "what the documents take from base/settings.c is not what it says: make docs" "$(tests/scripts/docs.sh "$printed" 2>&1
    for page in settings.md man/weft.7; do diff -u "docs/$page" "$printed/$page" 2>&1 | head -n 20; done)"
# Hints of an error, and what only weft-topo reads, which its own page has.
not_settings="SLURM_PROCID PMI_RANK HWLOC_XMLFILE HWLOC_SYNTHETIC ZES_ENABLE_SYSMAN"
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
# docs/glossary.md has the words that are used instead. What stands in backquotes is a name of the source, or a line as it is printed.
retired='tells?|told|telling|letters?|landings?|loans?|conduits?|undead|bur(y|ied)|mourns?|despair|hopeless|stand-ins?|under way'
retired+='|in the order of (a stream|streams)|memory of (a device|devices)|operations? of the caller'
nothing "retired words in documents" "$(for page in ./*.md docs/*.md docs/guides/*.md tests/*.md docs/man/*.[0-9]; do
    sed 's/`[^`]*`//g' "$page" | grep -nwE "$retired" | sed "s|^|$page:|"
done)"
sum_up
