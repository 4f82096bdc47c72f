# SPDX-License-Identifier: Apache-2.0
# Counts what a test script finds; $work is a folder of the script, with the last run's streams in out and err. Sourced.
passed=0 failed=0 skipped=0

ok() {
    passed=$((passed + 1))
    echo "ok: $1"
}
bad() {
    failed=$((failed + 1))
    echo "FAILED: $1"
    sed 's/^/    out: /' "$work/out" 2>/dev/null | tail -20
    sed 's/^/    err: /' "$work/err" 2>/dev/null | tail -20
}
skip() {
    skipped=$((skipped + 1))
    echo "SKIP: $1"
}
# step NAME COMMAND...: passes where the command succeeds.
step() {
    local name=$1
    shift
    if "$@" >"$work/out" 2>"$work/err"; then ok "$name"; else bad "$name"; fi
}
# nothing NAME FINDINGS: passes where there are none. Says nothing then, for checks look for much that is not there.
nothing() {
    if [[ -z $2 ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf 'FAILED: %s:\n%s\n' "$1" "$2"
    fi
}
# The last line, and the status of a script that ends with it.
sum_up() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [[ $failed == 0 ]]
}
