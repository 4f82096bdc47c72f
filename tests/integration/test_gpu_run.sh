#!/bin/bash
# tests/gpu/run.sh without a GPU: it says what did not run, and why. Then with the stand-in for the driver, which has everything but
# kernels that compute: the steps find what they should.
set -u
BUILD=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source tests/support/tally.sh
export GPU_RESULTS=$work/results

run() {
    timeout -k 5 100 tests/gpu/run.sh "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}
# tells STATUS COUNT WHAT: the last run's exit status and last line.
tells() {
    if [[ $rc == "$1" && $(tail -n 1 "$work/out") == "$2" ]]; then ok "$3"; else bad "$3 (status $rc)"; fi
}

export WEFT_DEVICE=^cuda
run check
tells 0 "0 passed, 0 failed, 7 skipped" "without a GPU nothing is checked"
[[ $(grep -c "^SKIP: [a-z]*: left out: WEFT_DEVICE is '^cuda'" "$work/out") == 7 ]] && ok "and the reason is told" ||
    bad "the reason is not told"
run perf
tells 0 "0 passed, 0 failed, 4 skipped" "without a GPU nothing is measured"
run tidy
[[ $rc == 2 ]] && ok "check or perf" || bad "neither check nor perf (status $rc)"
unset WEFT_DEVICE

if [[ ! -f $BUILD/tests/drivers/libcuda.so.1 ]]; then
    skip "the stand-in for the driver is not built"
    echo "$passed passed, $failed failed, $skipped skipped"
    [[ $failed == 0 ]]
    exit
fi
export LD_LIBRARY_PATH=$BUILD/tests/drivers${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
run check record gates
tells 0 "3 passed, 0 failed, 0 skipped" "the stand-in's trace is the stand-in's, and its queues go on"
[[ -s $GPU_RESULTS/trace.txt && -s $GPU_RESULTS/gates.txt ]] && grep -q 'Stand-in' "$GPU_RESULTS/machine.txt" &&
    ok "results are kept" || bad "results are not kept"
run check tidy
tells 1 "0 passed, 1 failed, 0 skipped" "a step that there is none of"
timeout -k 5 100 "$BUILD/tests/gpu/test_devices_gpu" copies >"$work/out" 2>&1 </dev/null
rc=$?
[[ $rc == 0 ]] && grep -q '^\[  PASSED  \] [0-9]* test(s)' "$work/out" && ok "the contract without reductions" ||
    bad "the contract without reductions (status $rc)"

# The same packed for another machine, which has none of the libraries that travel: it takes them from the kit.
if tests/gpu/kit.sh "$work/kit" >"$work/out" 2>"$work/err"; then
    ok "the kit is packed"
    mkdir "$work/bin" # an ldconfig that knows nothing
    printf '#!/bin/sh\n' >"$work/bin/ldconfig"
    chmod 700 "$work/bin/ldconfig"
    (
        cd "$work/kit" || exit
        unset BUILD
        export PATH=$work/bin:$PATH LD_LIBRARY_PATH=$work/kit/build/tests/drivers
        timeout -k 5 100 tests/gpu/run.sh check conformance record gates
    ) >"$work/out" 2>"$work/err" </dev/null
    # Reductions need kernels, which the stand-in does not run.
    read -r good wrong < <(tail -n 1 "$work/out" | awk '{ print $1, $3 }')
    if ((good > 15 && wrong <= 3)); then ok "the kit runs"; else bad "the kit does not run"; fi
else
    bad "the kit is not packed"
fi

# What the steps make of a sanitizer's answers; it runs nothing here.
export COMPUTE_SANITIZER=$work/sanitizer
answer() { # STATUS TEXT
    printf '#!/bin/sh\necho "========= %s"\nexit %s\n' "$2" "$1" >"$COMPUTE_SANITIZER"
    chmod 700 "$COMPUTE_SANITIZER"
}
answer 0 "ERROR SUMMARY: 0 errors"
run check memcheck
if grep -q 'built without nvcc' "$work/out"; then
    tells 0 "0 passed, 0 failed, 1 skipped" "a library without kernels has none to check"
else
    tells 0 "3 passed, 0 failed, 0 skipped" "memcheck is content"
    answer 99 "ERROR SUMMARY: 1 error"
    run check memcheck
    tells 1 "0 passed, 3 failed, 0 skipped" "memcheck is not"
    answer 0 "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
    run check racecheck
    tells 0 "3 passed, 0 failed, 0 skipped" "racecheck is content"
    answer 1 "Error: Device not supported"
    run check racecheck
    tells 0 "0 passed, 0 failed, 3 skipped" "racecheck does not know the device"
fi
COMPUTE_SANITIZER=$work/nowhere run check memcheck
tells 0 "0 passed, 0 failed, 1 skipped" "no sanitizer"

echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 ]]
