# SPDX-License-Identifier: Apache-2.0
# Wordings of errors, which stand in tests/golden/errors.txt alone. Sourced in the project's folder, after tally.sh.

# golden ID FILE: whether the text in the file is the one that has this id. Counts as a test.
golden() {
    local expected
    expected=$(sed -n "s/^$1 //p" tests/golden/errors.txt)
    if [[ $expected && $(<"$2") == "$expected" ]]; then ok "wording of $1"; else bad "wording of $1: expected '$expected'"; fi
}
