#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The packages of the libraries that are loaded at run time, from the tools' own list (base/tool/runtime.c):
# loaded.sh recommends|suggests USERS. What is recommended must have a package; what is suggested may come from elsewhere.
set -eu
packages=$(build/weft-plan --version | awk -v kind="$1" -v users="$2" '
    NR > 1 && index(users, $3) && $4 == kind { print $1 }' | while read -r file; do
    package=$(dpkg-query -S "*/$file" 2>/dev/null | sed -n 's/:.*//p' | sort -u | head -n 1)
    if [ "$package" ]; then echo "$package"; elif [ "$1" = recommends ]; then
        echo "loaded.sh: no package here has $file" >&2
        exit 1
    fi
done)
echo "$packages" | paste -sd, -
