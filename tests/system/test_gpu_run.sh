#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: beside (streams and ranks that wait for each other); early; unsanitized (its programs are the tests of devices)
# tests/gpu/run.sh without a GPU: it says what did not run, and why. Then with the fake driver, without kernels that
# compute, and with weft's compiled as C: the steps find what they should.
source "$(dirname "$0")/../support/start.sh"
export GPU_RESULTS=$work/results

run() {
    timeout -k 5 100 tests/gpu/run.sh "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}
# gives STATUS COUNT WHAT: the last run's exit status and last line.
gives() {
    if [[ $rc == "$1" && $(tail -n 1 "$work/out") == "$2" ]]; then ok "$3"; else bad "$3 (status $rc)"; fi
}

export WEFT_DEVICE=^cuda
run check
gives 0 "0 passed, 0 failed, 8 skipped" "without a GPU nothing is checked"
[[ $(grep -c "^SKIP: [a-z]*: left out: WEFT_DEVICE is '^cuda'" "$work/out") == 8 ]] && ok "and the reason is told" ||
    bad "the reason is not told"
run perf
gives 0 "0 passed, 0 failed, 5 skipped" "without a GPU nothing is measured"
run tidy
[[ $rc == 2 ]] && ok "check or perf" || bad "neither check nor perf (status $rc)"
unset WEFT_DEVICE

# What figures are worth, by figures made up: copies move 2000 GB/s, so 256 MiB take 536.9 us at least.
sums() { # SHARE of bfloat16
    mkdir -p "$GPU_RESULTS"
    {
        echo "size_bytes,count,type,redop,reduce_gbs,share_percent"
        echo "33554432,1,float32,sum,1000,50" # not judged
        echo "67108864,1,float32,sum,1700,85"
        echo "268435456,1,float16,sum,1900,95.2"
        echo "268435456,1,bfloat16,sum,1699,$1"
    } >"$GPU_RESULTS/bandwidth.csv"
}
allreduces() { # TIME in place
    local head=size_bytes,type,in_place,time_us
    printf 'size_bytes,copy_gbs\n268435456,2000\n' >"$GPU_RESULTS/allreduce-copies.csv"
    printf '%s\n268435456,float32,0,697.9\n268435456,float32,1,%s\n' $head "$1" >"$GPU_RESULTS/allreduce.csv"
    printf '%s\n8,float32,0,12.5\n8,float32,1,99\n64,float32,0,99\n' $head >"$GPU_RESULTS/allreduce-small.csv"
    printf '%s\n8,float32,0,0.5\n' $head >"$GPU_RESULTS/allreduce-host.csv"
}
says() { grep -qxF "$1" "$work/out" || bad "it does not say '$1'"; }
sums 85.1
allreduces 600
run judge
gives 0 "6 passed, 0 failed, 0 skipped" "figures that are good enough"
says "ok: float32 sum of 64 MiB: 1700 GB/s, 85.0 % of the copies (at least 85)"
says "ok: allreduce of 256 MiB out of place: 698 us, 1.30 times what its traffic takes at 2000 GB/s (at most 1.3)"
says "ok: allreduce of 8 B: 12.50 us on the device, 0.50 us on the host, 25.0 times as long"
sums 84.9
allreduces 698.1
run judge
gives 1 "4 passed, 2 failed, 0 skipped" "figures that are not"
says "FAILED: bfloat16 sum of 256 MiB: 1699 GB/s, 84.9 % of the copies (at least 85)"
says "FAILED: allreduce of 256 MiB in place: 698 us, 1.30 times what its traffic takes at 2000 GB/s (at most 1.3)"
sums ""
sed -i '$d' "$GPU_RESULTS/allreduce.csv"
rm "$GPU_RESULTS/allreduce-host.csv"
run judge
gives 1 "3 passed, 3 failed, 0 skipped" "figures that are missing"
rm -r "$GPU_RESULTS"
run judge
gives 1 "0 passed, 5 failed, 0 skipped" "no figures at all"

if [[ ! -f $BUILD/tests/fakes/drivers/libcuda.so.1 ]]; then
    skip "the fake driver is not built"
    sum_up
    exit
fi
export LD_LIBRARY_PATH=$BUILD/tests/fakes/drivers${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
run check record waits
gives 0 "3 passed, 0 failed, 0 skipped" "the fake's trace is the fake's, and its queues go on"
[[ -s $GPU_RESULTS/trace.txt && -s $GPU_RESULTS/waits.txt ]] && grep -q 'NVIDIA Fake' "$GPU_RESULTS/machine.txt" &&
    ok "results are kept" || bad "results are not kept"
run check tidy
gives 1 "0 passed, 1 failed, 0 skipped" "a step that there is none of"
timeout -k 5 100 "$BUILD/tests/gpu/test_devices_gpu" copies >"$work/out" 2>&1 </dev/null
rc=$?
[[ $rc == 0 ]] && grep -q '^\[  PASSED  \] [0-9]* test(s)' "$work/out" && ok "the contract without reductions" ||
    bad "the contract without reductions (status $rc)"

# One device and weft's kernels compiled as C, where the library has the image that they stand for: messages of ranks that share the
# device. The other tests of test_calls_gpu are run on the fake in tests/system/test_{device_calls,device_collectives,streams}, the contract whole in
# tests/conform/test_devices_cuda; here only with WEFT_LONG.
(
    export CUDA_VISIBLE_DEVICES=0 LD_LIBRARY_PATH=$BUILD/tests/fakes/drivers/kernels:$LD_LIBRARY_PATH
    timeout -k 5 200 "$BUILD/tests/gpu/test_calls_gpu" messages >"$work/calls" 2>&1 </dev/null
    echo $? >"$work/calls.rc"
    if [[ -n ${WEFT_LONG-} && -z ${WEFT_SANITIZER-} ]]; then
        run check conformance
        cp "$work/out" "$work/conformance"
        run perf programs
        cp "$work/out" "$work/programs"
    fi
)
if grep -qs 'built without' "$work/calls"; then
    skip "calls and programs: the library was built without nvcc"
else
    if [[ $(<"$work/calls.rc") == 0 ]] && grep -q '^\[  PASSED  \] 12 test(s)' "$work/calls"; then
        ok "ranks that share a device"
    else
        bad "ranks that share a device (status $(<"$work/calls.rc"))"
    fi
    if [[ -n ${WEFT_LONG-} && -n ${WEFT_SANITIZER-} ]]; then
        skip "what programs cost: kernels compiled as C with a sanitizer take minutes"
    elif [[ -n ${WEFT_LONG-} ]]; then
        [[ $(tail -n 1 "$work/conformance") =~ ^[3-9][0-9]\ passed,\ 0\ failed,\ 0\ skipped$ ]] && ok "the contract whole" ||
            bad "the contract whole: $(tail -n 1 "$work/conformance")"
        [[ $(tail -n 1 "$work/programs") == "1 passed, 0 failed, 0 skipped" ]] && grep -q ' us' "$GPU_RESULTS/programs.txt" &&
            ok "what programs cost" || bad "what programs cost: $(tail -n 1 "$work/programs")"
    fi
fi

# The same packed for another machine, which has none of the libraries that travel: it takes them from the kit.
if [[ -n ${WEFT_SANITIZER-} ]]; then
    skip "programs with a sanitizer are larger than a kit may be"
elif tests/gpu/kit.sh "$work/kit" >"$work/out" 2>"$work/err"; then
    ok "the kit is packed"
    mkdir "$work/bin" # an ldconfig that knows nothing
    printf '#!/bin/sh\n' >"$work/bin/ldconfig"
    chmod 700 "$work/bin/ldconfig"
    (
        cd "$work/kit" || exit
        unset BUILD
        export PATH=$work/bin:$PATH LD_LIBRARY_PATH=$work/kit/build/tests/fakes/drivers
        timeout -k 5 100 tests/gpu/run.sh check conformance record waits
    ) >"$work/out" 2>"$work/err" </dev/null
    # Reductions and programs need kernels, which the fake does not run.
    read -r good wrong < <(tail -n 1 "$work/out" | awk '{ print $1, $3 }')
    if ((good > 15 && wrong <= 12)); then ok "the kit runs"; else bad "the kit does not run"; fi
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
    gives 0 "0 passed, 0 failed, 1 skipped" "a library without kernels has none to check"
else
    gives 0 "4 passed, 0 failed, 0 skipped" "memcheck is content"
    answer 99 "ERROR SUMMARY: 1 error"
    run check memcheck
    gives 1 "0 passed, 4 failed, 0 skipped" "memcheck is not"
    answer 0 "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
    run check racecheck
    gives 0 "4 passed, 0 failed, 0 skipped" "racecheck is content"
    answer 1 "Error: Device not supported"
    run check racecheck
    gives 0 "0 passed, 0 failed, 4 skipped" "racecheck does not know the device"
fi
COMPUTE_SANITIZER=$work/nowhere run check memcheck
gives 0 "0 passed, 0 failed, 1 skipped" "no sanitizer"

sum_up
