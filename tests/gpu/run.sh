#!/bin/bash
# What only a machine with an NVIDIA GPU can show: tests/gpu/run.sh check|perf [STEP...]
#
# A step is a function step_NAME below, and a word in the list of check or of perf; steps named behind these run alone. Each counts
# what it finds (ok, bad, skip of tests/support/tally.sh) and may leave files in $results. What cannot run here says why and
# counts as skipped; the last line is the count.
#
# BUILD         the programs (build). They may come from another machine: tests/gpu/kit.sh packs them with the libraries they
#               need, in lib/ beside tests/, of which those are used that this machine lacks. Nothing is installed.
# GPU_RESULTS   folder for logs, the driver's trace and figures ($BUILD/gpu-results)
# GPU_DEVICE    the device's number for perf (0)
set -u
cd "$(dirname "$0")/../.." || exit 1
export BUILD=${BUILD:-build}
check_steps=(conformance kernels record gates collectives memcheck racecheck)
perf_steps=(bandwidth figures allreduce gates)
least_share=85 # percent of the copies' bandwidth, from 64 MiB up
results=${GPU_RESULTS:-$BUILD/gpu-results}
perf=$BUILD/weft-perf
mkdir -p "$results"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source tests/support/tally.sh

case ${1:-} in
check) steps=("${check_steps[@]}") ;;
perf) steps=("${perf_steps[@]}") ;;
*)
    echo "usage: $0 check|perf [STEP...]" >&2
    exit 2
    ;;
esac
shift
(($# == 0)) || steps=("$@")

# --- the machine

borrow_libraries() {
    [[ -d lib ]] || return
    local known library
    known=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null)
    mkdir "$work/lib"
    for library in lib/*; do
        grep -qF "	${library#lib/} " <<<"$known" || ln -s "$PWD/$library" "$work/lib/"
    done
    export LD_LIBRARY_PATH=$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# What weft says of the kind cuda: no_gpu and no_kernels are why steps cannot run, or empty.
look() {
    no_gpu='' no_kernels='' memory_gib=0
    local missing
    missing=$(ldd "$perf" 2>&1 | grep 'not found' | awk '{ print $1 }' | sort -u | tr '\n' ' ')
    [[ -z $missing ]] || { echo "$perf cannot run: this machine lacks $missing"; return 1; }
    "$perf" --devices >"$work/out" 2>"$work/err" || return 1
    no_gpu=$(sed -n 's/^cuda\( [0-9]*\)\?: none: //p' "$work/out" | head -1)
    awk '/^[^ ]/ { ours = /^cuda/ } ours { print "# " $0 }' "$work/out"
    awk '/^[^ ]/ { ours = /^cuda 0: / } ours && /^    supports/' "$work/out" | grep -q reductions ||
        no_kernels="the library was built without nvcc, so it has no kernels"
    memory_gib=$(sed -n 's/^cuda 0: .*, \([0-9]*\)[.0-9]* GiB$/\1/p' "$work/out")
    {
        date -u +%FT%TZ
        uname -srm
        "$perf" --version
        cat "$work/out"
        nvidia-smi 2>&1
    } >"$results/machine.txt"
    return 0
}

# needs_kernels NAME: whether there are any; else skips NAME.
needs_kernels() {
    [[ -z $no_kernels ]] && return
    skip "$1: $no_kernels"
    return 1
}

# --- helpers of steps

# attempt SECONDS COMMAND...: leaves the exit status in $rc, the streams in $work/out and $work/err.
attempt() {
    timeout -k 5 "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    [[ $rc == 124 || $rc == 137 ]] && echo "ran into its limit of $1 seconds" >>"$work/err"
}

# Adds the last line of $work/out to the count, and prints the others.
add_count() {
    local p f s
    sed '$d' "$work/out"
    read -r p f s < <(tail -n 1 "$work/out" | awk '/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { print $1, $3, $5 }')
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1})) skipped=$((skipped + ${s:-0}))
}

# programs NAME SECONDS PROGRAM...: test programs, as tests/run.sh counts them.
programs() {
    local name=$1 limit=$2
    shift 2
    TEST_JOBS=1 TEST_TIMEOUT=$limit TEST_LOGS=$results/$name tests/run.sh "$@" >"$work/out" 2>"$work/err"
    add_count
}

# reductions NAME SECONDS ARGUMENTS: weft-perf's, which compares each with the host's bits.
reductions() {
    local name=$1 limit=$2
    shift 2
    attempt "$limit" "$perf" reduce_local --memory "cuda:${GPU_DEVICE:-0}" "$@"
    if [[ $rc == 0 ]] && grep -q '^# Out of bounds values : 0 OK$' "$work/out"; then
        ok "$name: $(grep -vc '^#' "$work/out") rows"
    else
        bad "$name (status $rc)"
    fi
}

# --- steps of check

# The contract for kinds of devices, which the stand-in for the driver fulfils, on the driver.
step_conformance() {
    programs conformance 300 "$BUILD/tests/gpu/test_devices_gpu"
}

# All types and operations, against the host's bits: every number of inputs; sizes with and without a tail; large ones.
step_kernels() {
    needs_kernels kernels || return
    local inputs
    for inputs in 1 2 3 4 5 6 7 8; do
        reductions "kernels of $inputs inputs" 300 -d all -o all -b 50 -e 2M -f 33 -n 1 -w 0 --inputs "$inputs"
    done
    reductions "kernels on 64 MiB" 300 -d all -o all -b 64M -e 64M -n 1 -w 0
    if ((memory_gib >= 20)); then
        reductions "a kernel on more than 4 GiB" 300 -d uint8 -o sum -b 4500000001 -e 4500000001 -n 1 -w 0
    else
        skip "a kernel on more than 4 GiB: the device has $memory_gib GiB, expected 20"
    fi
}

# What the driver answers, beside what the stand-in answers. The trace belongs into tests/gpu/traces/.
step_record() {
    attempt 60 "$BUILD/tests/gpu/cuda_record"
    cp "$work/out" "$results/trace.txt"
    cat tests/gpu/traces/*.differs >"$results/trace.differs" 2>/dev/null
    if [[ $rc != 0 ]]; then
        bad "recording the driver (status $rc); the last line is what it did not come back from"
        return
    fi
    attempt 60 tests/integration/test_cuda_record.sh "$results/trace.txt"
    add_count
}

# Queues go on while streams wait at gates.
step_gates() {
    attempt 120 "$BUILD/tests/gpu/gate_probe"
    cp "$work/out" "$results/gates.txt"
    sed 's/^/    /' "$work/out"
    case $rc in
    0) ok "queues go on while streams wait at gates" ;;
    77) skip "gates: $(sed -n 's/^SKIP: //p' "$work/out")" ;;
    *) bad "queues while streams wait at gates (status $rc)" ;;
    esac
}

# ranks NAME SECONDS ARGUMENTS: a sweep of weft-perf's, whose results it checks bit for bit.
ranks() {
    local name=$1 limit=$2
    shift 2
    attempt "$limit" "$perf" "$@"
    if [[ $rc == 0 ]] && grep -q '^# Out of bounds values : 0 OK$' "$work/out"; then
        ok "$name"
    elif [[ $rc == 3 ]] && grep -q 'a library or device is missing' "$work/err"; then
        skip "$name: $(grep -m 1 -o 'a library or device is missing.*' "$work/err")"
    else
        bad "$name (status $rc)"
    fi
}

# Ranks as processes that share the device, through shared memory and through libfabric's tcp; one rank's buffers on the host.
step_collectives() {
    needs_kernels collectives || return
    local number way command
    for number in 1 2 4; do
        for way in "--transport shm" "--transport ofi --provider tcp"; do
            for command in allreduce broadcast reduce allgatherv reduce_scatter alltoallv gather scatterv; do
                ranks "$command, $number ranks, $way" 120 $command --ranks $number --memory cuda $way -b 50 -e 4M -f 33 -n 1 -w 0
            done
        done
    done
    ranks "allreduce of all types and operations" 300 allreduce --ranks 4 --memory cuda -d all -o all -b 50 -e 60K -f 33 -n 1 -w 0
    ranks "allreduce of device and host memory" 120 allreduce --ranks 3 --memory cuda,host,malloc -b 50 -e 4M -f 33 -n 1 -w 0
}

# sanitize TOOL NAME ARGUMENTS: a rank of weft-perf reduce_local by itself, since its launcher uses no CUDA. Errors that calls return
# are what weft asks for; memory is what counts.
sanitize() {
    local tool=$1 name=$2
    shift 2
    (umask 077 && head -c 32 /dev/urandom >"$work/secret")
    attempt 580 env RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 WEFT_PORT=$((20000 + RANDOM % 10000)) \
        WEFT_SECRET_FILE="$work/secret" "$sanitizer" --tool "$tool" --report-api-errors no --error-exitcode 99 \
        "$perf" reduce_local --memory cuda -d all -o all -n 1 -w 0 "$@"
    local told="$results/$tool-${name// /-}.txt"
    cat "$work/out" "$work/err" >"$told"
    if grep -q 'Device not supported' "$told"; then
        skip "$tool of $name: compute-sanitizer does not support the device here"
    elif [[ $rc == 0 ]] && grep -q 'ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards' "$told"; then
        ok "$tool of $name"
    else
        bad "$tool of $name (status $rc)"
    fi
}

# step_memcheck and step_racecheck; COMPUTE_SANITIZER may name the program.
sanitize_all() {
    local tool=$1
    sanitizer=$(PATH=$PATH:$(echo /usr/local/cuda*/bin | tr ' ' ':') command -v "${COMPUTE_SANITIZER:-compute-sanitizer}") || {
        skip "$tool: no compute-sanitizer here"
        return
    }
    needs_kernels "$tool" || return
    sanitize "$tool" "two inputs" -b 50 -e 2M -f 3300
    sanitize "$tool" "three inputs" -b 1000 -e 9000 -f 9 --inputs 3
    sanitize "$tool" "eight inputs" -b 1000 -e 9000 -f 9 --inputs 8
}
step_memcheck() { sanitize_all memcheck; }
step_racecheck() { sanitize_all racecheck; }

# --- steps of perf

# float16, float32 and bfloat16 sums, judged.
step_bandwidth() {
    needs_kernels bandwidth || return
    local csv=$results/bandwidth.csv line
    reductions "sums, checked" 580 -b 64M -e 1G -f 4 -n 21 --csv "$csv" --json "$results/bandwidth.json"
    sed 's/^/    /' "$work/out"
    [[ $rc == 0 ]] || return
    while read -r line; do
        if [[ $line == ok* ]]; then ok "${line#ok }"; else bad "${line#bad }"; fi
    done < <(awk -F, -v least=$least_share '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        {
            share = $at["share_percent"]
            printf "%s %s %s of %d MiB: %.0f GB/s, %.1f %% of the copies (at least %d)\n", share >= least ? "ok" : "bad",
                $at["type"], $at["redop"], $at["size_bytes"] / 1048576, $at["reduce_gbs"], share, least
        }' "$csv")
}

# Everything else, for the record.
step_figures() {
    needs_kernels figures || return
    reductions "sums of all sizes" 580 -b 1K -e 256M -f 4 -c 0 -n 11 --csv "$results/sizes.csv"
    cp "$work/out" "$results/sizes.txt"
    reductions "all types and operations" 580 -d all -o all -b 64M -e 64M -c 0 -n 11 --csv "$results/types.csv"
    cp "$work/out" "$results/types.txt"
    reductions "eight inputs" 580 -b 64M -e 64M -c 0 -n 11 --inputs 8 --csv "$results/inputs.csv"
    cp "$work/out" "$results/inputs.txt"
}

# Two ranks that share the device: 256 MiB, and small ones beside the host's.
step_allreduce() {
    needs_kernels allreduce || return
    ranks "allreduce of 256 MiB" 300 allreduce --ranks 2 --memory cuda -b 256M -e 256M -n 11 --csv "$results/allreduce.csv"
    sed 's/^/    /' "$work/out"
    ranks "allreduce of 8 B" 120 allreduce --ranks 2 --memory cuda -b 8 -e 64K -f 8 --csv "$results/allreduce-small.csv"
    sed 's/^/    /' "$work/out"
    ranks "allreduce of 8 B on the host" 120 allreduce --ranks 2 --memory malloc -b 8 -e 64K -f 8 --csv "$results/allreduce-host.csv"
    sed 's/^/    /' "$work/out"
}

borrow_libraries
look || { bad "weft-perf --devices"; steps=(); }
for step in "${steps[@]}"; do
    if ! declare -F "step_$step" >/dev/null; then
        bad "there is no step '$step'"
    elif [[ $no_gpu ]]; then
        skip "$step: $no_gpu"
    else
        echo "== $step"
        "step_$step"
    fi
done
echo "results are in $results"
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 ]]
