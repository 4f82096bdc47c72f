#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The documents agree with the code: a man page per public function, clean ones, and every setting in
# weft(7), those of README.md with their defaults.
set -u
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0 skipped=0
result() { # NAME OUTPUT
    if [[ -z $2 ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf '%s:\n%s\n' "$1" "$2"
    fi
}

functions=$(${CC:-gcc} -E -P -Iinclude include/weft/weft.h | sed "/^typedef .*(/d" | grep -o '\bweft_[a-z0-9_]* *(' | tr -d ' (' | sort -u)
result "functions without a man page" "$(for name in $functions; do
    page=docs/man/$name.3
    [[ -f $page ]] || { echo "$name"; continue; }
    [[ $(head -c 4 "$page") == ".so " ]] && page=docs/man/$(sed 's|.*/||' "$page")
    grep -q "^\.Nm $name\b" "$page" && grep -q "^\.Fn $name\b\|^\.Fo $name\b" "$page" || echo "$name is not described in $page"
done)"
result "man pages of functions that do not exist" "$(for page in docs/man/weft_*.3; do
    name=$(basename "$page" .3)
    grep -qx "$name" <<<"$functions" || echo "$page"
done)"
if command -v mandoc >/dev/null; then
    # Pages of one line only lead to another page.
    result "man page warnings" "$(grep -L '^\.so ' docs/man/*.[0-9] | xargs mandoc -T lint -W warning 2>&1)"
else
    echo "SKIP: no mandoc to check the man pages"
    skipped=1
fi
result "cross references to pages that do not exist" "$(grep -ho '^\.Xr weft[a-z_-]* [0-9]' docs/man/*.[0-9] | sort -u |
    while read -r _ name section; do [[ -f docs/man/$name.$section ]] || echo "$name($section)"; done)"
statuses=$(sed -n 's/^ *X(\(WEFT_[A-Z_]*\), \(-\?[0-9]*\),.*/\1 \2/p' include/weft/status.h)
result "statuses that weft_strerror(3) does not list as <weft/status.h> does" "$(diff <(echo "${statuses:?}") \
    <(sed -n 's/^\.It Dv \(WEFT_[A-Z_]*\) Pq \\\{0,1\}\(-\{0,1\}[0-9]*\)$/\1 \2/p' docs/man/weft_strerror.3))"

# Rows of the table in settings.c: {"NAME", AT(field), TYPE, low, high, default, ...
settings=$(sed -n 's/^ *{"\(WEFT_[A-Z_]*\)", AT([a-z_.]*), \([A-Z]*\), [^,]*, [^,]*, \([^,]*\),.*/\1 \2 \3/p' base/settings.c)
result "no settings found in base/settings.c" "$([[ $settings ]] || echo "has the table changed its form?")"
result "settings missing in weft(7), or with another default in README.md" "$(while read -r name type default; do
    default=$((default))
    grep -qx "\.It Ev $name\( .*\)\?" docs/man/weft.7 || echo "weft(7): $name"
    row=$(grep -F "| \`$name\` |" README.md)
    [[ -z $row || $type != NUMBER ]] || grep -qF "| \`$default\` |" <<<"$row" || echo "README.md: default of $name is $default: $row"
done <<<"$settings")"
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 ]]
