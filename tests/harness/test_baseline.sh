#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/tools/check_baseline.sh --refresh leaves the baseline of the ABI alone where it cannot write all of it. In a tree of its own.
source "$(dirname "$0")/../support/start.sh"
mkdir -p "$work"/tree/tests/{abi,tools} "$work/bin"
cp tests/tools/check_baseline.sh "$work/tree/tests/tools/"
ln -s /usr/bin/* /bin/* "$work/bin/" 2>/dev/null
rm -f "$work/bin/abidw"
baseline=$work/tree/tests/abi/libweft.abi
echo before >"$baseline"

# refreshes STATUS BASELINE TEXT WHAT: how it ends, what the baseline holds then, and a text that it says.
refreshes() {
    PATH=$work/bin BUILD=build "$work/tree/tests/tools/check_baseline.sh" --refresh >"$work/out" 2>"$work/err"
    local status=$?
    if [[ $status == "$1" && $(<"$baseline") == "$2" && $(ls "${baseline%/*}") == libweft.abi ]] &&
        cat "$work/out" "$work/err" | grep -qF -- "$3"; then ok "$4"; else bad "$4 (status $status, baseline: $(<"$baseline"))"; fi
}
refreshes 1 before "no abidw to write tests/abi/libweft.abi with, which is left as it is: install the package abigail-tools" "no abidw"
printf '#!/bin/sh\necho half\nexit 1\n' >"$work/bin/abidw"
chmod 755 "$work/bin/abidw"
refreshes 1 before "tests/abi/libweft.abi is left as it is" "an abidw that fails half-way"
printf '#!/bin/sh\necho after\n' >"$work/bin/abidw"
refreshes 0 after "wrote tests/abi/libweft.abi" "an abidw that works"
sum_up
