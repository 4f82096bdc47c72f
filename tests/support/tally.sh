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
