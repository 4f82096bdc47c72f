# SPDX-License-Identifier: Apache-2.0
# For the tests of weft-perf from outside: runs it and counts what holds. Sourced; $perf is the program afterwards.
source "$(dirname "${BASH_SOURCE[0]}")/start.sh"
unset RANK WORLD_SIZE MASTER_ADDR WEFT_PORT
perf=$BUILD/weft-perf
[[ -x $perf ]] || { echo "SKIP: $perf is not built"; exit 77; }
# run ARGUMENTS: leaves the exit status in $rc, the streams in $work/out and $work/err.
run() {
    timeout -k 5 60 "$perf" "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}
# Whether the last run failed because something is not installed: then skips what $1 says.
absent() {
    [[ $rc == 3 ]] && grep -q 'a library, device or file was not found' "$work/err" || return 1
    skip "$1: $(grep -m 1 -o 'a library, device or file was not found.*' "$work/err")"
}
rows() {
    grep -v '^#' "$work/out"
}

# expect STATUS TEXT ARGUMENTS: the status, and a message that contains TEXT.
expect() {
    local status=$1 text=$2
    shift 2
    run "$@"
    if [[ $rc == "$status" ]] && grep -qF -- "$text" "$work/err"; then
        ok "refused: $*"
    else
        bad "'$*': status $rc, expected $status and a message with '$text'"
    fi
}
