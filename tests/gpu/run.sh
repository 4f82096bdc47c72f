#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What only a machine with an NVIDIA GPU can show: tests/gpu/run.sh check|perf [STEP...]
#                          what its figures are worth: tests/gpu/run.sh judge
#
# A step is a function step_NAME below, and a word in the list of check or of perf; steps named behind these run alone. Each counts
# what it finds (ok, bad, skip of tests/support/tally.sh) and may leave files in $results. What cannot run here says why and
# counts as skipped; the last line is the count. Judge needs no GPU: it goes by the figures that perf has left in $results.
#
# BUILD         the programs (build). They may come from another machine: tests/gpu/kit.sh packs them with the libraries they
#               need, in lib/ beside tests/, of which those are used that this machine lacks. Nothing is installed.
# GPU_RESULTS   folder for logs, the driver's trace and figures ($BUILD/gpu-results)
# GPU_DEVICE    the device's number for perf (0)
set -u
cd "$(dirname "$0")/../.." || exit 1
export BUILD=${BUILD:-build}
check_steps=(conformance kernels record waits calls collectives memcheck racecheck)
perf_steps=(bandwidth figures allreduce programs waits)
judge_steps=(judge_sums judge_allreduce)
least_share=85     # percent of the copies' bandwidth, from 64 MiB up
most_times=1.3     # the time that an allreduce's least traffic takes at that bandwidth
sums=$((64 << 20)) # bytes from which sums are judged
reduced=$((256 << 20))
results=${GPU_RESULTS:-$BUILD/gpu-results}
perf=$BUILD/weft-perf
mkdir -p "$results"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source tests/support/tally.sh

case ${1:-} in
check) steps=("${check_steps[@]}") ;;
perf) steps=("${perf_steps[@]}") ;;
judge) steps=("${judge_steps[@]}") ;;
*)
    echo "usage: $0 check|perf|judge [STEP...]" >&2
    exit 2
    ;;
esac
mode=$1
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

# The contract for kinds of devices, which the fake driver fulfils, on the driver.
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

# Calls of 1, 2 and 4 ranks that share the device, as the fake serves them: in threads and processes, over shared memory and tcp, in
# streams and as programs, aborted, late, and mixed with the host's memory.
step_calls() {
    needs_kernels calls || return
    programs calls 3000 "$BUILD/tests/gpu/test_calls_gpu"
}

# What the driver answers, beside what the fake answers. The trace belongs into tests/gpu/traces/.
step_record() {
    attempt 60 "$BUILD/tests/gpu/cuda_record"
    cp "$work/out" "$results/trace.txt"
    cat tests/gpu/traces/*.differs >"$results/trace.differs" 2>/dev/null
    if [[ $rc != 0 ]]; then
        bad "recording the driver (status $rc); the last line is what it did not come back from"
        return
    fi
    attempt 60 tests/system/test_cuda_record.sh "$results/trace.txt"
    add_count
}

# Queues go on while streams stand at stream waits.
step_waits() {
    attempt 120 "$BUILD/tests/gpu/wait_probe"
    cp "$work/out" "$results/waits.txt"
    sed 's/^/    /' "$work/out"
    case $rc in
    0) ok "queues go on while streams wait" ;;
    77) skip "waits: $(sed -n 's/^SKIP: //p' "$work/out")" ;;
    *) bad "queues while streams wait (status $rc)" ;;
    esac
}

# ranks NAME SECONDS ARGUMENTS: a sweep of weft-perf's, whose results it checks bit for bit.
ranks() {
    local name=$1 limit=$2
    shift 2
    attempt "$limit" "$perf" "$@"
    if [[ $rc == 0 ]] && grep -q '^# Out of bounds values : 0 OK$' "$work/out"; then
        ok "$name"
    elif [[ $rc == 3 ]] && grep -q 'a library, device or file was not found' "$work/err"; then
        skip "$name: $(grep -m 1 -o 'a library, device or file was not found.*' "$work/err")"
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

# sanitize TOOL NAME COMMAND...: errors that calls return are what weft asks for; memory is what counts.
sanitize() {
    local tool=$1 name=$2
    shift 2
    attempt 580 env "${rank_alone[@]}" "$sanitizer" --tool "$tool" --report-api-errors no --error-exitcode 99 "$@"
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

# step_memcheck and step_racecheck; COMPUTE_SANITIZER may name the program. Reductions by a rank of weft-perf reduce_local by itself, since
# its launcher uses no CUDA.
sanitize_all() {
    local tool=$1 rank_alone
    sanitizer=$(PATH=$PATH:$(echo /usr/local/cuda*/bin | tr ' ' ':') command -v "${COMPUTE_SANITIZER:-compute-sanitizer}") || {
        skip "$tool: no compute-sanitizer here"
        return
    }
    needs_kernels "$tool" || return
    (umask 077 && head -c 32 /dev/urandom >"$work/secret")
    rank_alone=(RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 "WEFT_PORT=$((20000 + RANDOM % 10000))" "WEFT_SECRET_FILE=$work/secret")
    local reduce=("$perf" reduce_local --memory "cuda:${GPU_DEVICE:-0}" -d all -o all -n 1 -w 0)
    sanitize "$tool" "two inputs" "${reduce[@]}" -b 50 -e 2M -f 3300
    sanitize "$tool" "three inputs" "${reduce[@]}" -b 1000 -e 9000 -f 9 --inputs 3
    sanitize "$tool" "eight inputs" "${reduce[@]}" -b 1000 -e 9000 -f 9 --inputs 8
    sanitize "$tool" "programs" "$BUILD/perf/micro/collective" cuda "${GPU_DEVICE:-0}"
}
step_memcheck() { sanitize_all memcheck; }
step_racecheck() { sanitize_all racecheck; }

# --- steps of perf

# float16, float32 and bfloat16 sums.
step_bandwidth() {
    needs_kernels bandwidth || return
    rm -f "$results/bandwidth.csv"
    reductions "sums, checked" 580 -b $sums -e 1G -f 4 -n 21 --csv "$results/bandwidth.csv" --json "$results/bandwidth.json"
    sed 's/^/    /' "$work/out"
    step_judge_sums
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
    local large=(-b "$reduced" -e "$reduced" -n 11) small=(-b 8 -e 64K -f 8)
    rm -f "$results"/allreduce*.csv
    reductions "copies of 256 MiB" 300 -d float32 "${large[@]}" --csv "$results/allreduce-copies.csv"
    ranks "allreduce of 256 MiB" 300 allreduce --ranks 2 --memory cuda "${large[@]}" --csv "$results/allreduce.csv"
    sed 's/^/    /' "$work/out"
    ranks "allreduce of 8 B" 120 allreduce --ranks 2 --memory cuda "${small[@]}" --csv "$results/allreduce-small.csv"
    sed 's/^/    /' "$work/out"
    ranks "allreduce of 8 B on the host" 120 allreduce --ranks 2 --memory malloc "${small[@]}" --csv "$results/allreduce-host.csv"
    sed 's/^/    /' "$work/out"
    step_judge_allreduce
}

# What a launch, a word and a step of a program cost, beside reduce().
step_programs() {
    needs_kernels programs || return
    attempt 300 "$BUILD/perf/micro/collective" cuda "${GPU_DEVICE:-0}"
    cp "$work/out" "$results/programs.txt"
    sed 's/^/    /' "$work/out"
    case $rc in
    0) ok "what programs cost: $(grep -c ' us' "$work/out") rows" ;;
    77) skip "programs: $(tail -n 1 "$work/err")" ;;
    *) bad "what programs cost (status $rc)" ;;
    esac
}

# --- what figures are worth

# figures FILE: $results/FILE.csv for awk, which finds a column's number in at[NAME] from its second line on.
figures() {
    [[ -f $results/$1.csv ]] && cat "$results/$1.csv"
}
columns='NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }'

# verdicts STEP: counts lines "ok TEXT" and "bad TEXT", of which there are some.
verdicts() {
    local word text before=$((passed + failed))
    : >"$work/out"
    : >"$work/err"
    while read -r word text; do
        if [[ $word == ok ]]; then ok "$text"; else bad "$text"; fi
    done
    ((passed + failed > before)) || bad "$1 came to no verdict"
}

# Each type's sums at each size, beside copies of the same size.
step_judge_sums() {
    verdicts sums < <(figures bandwidth | awk -F, -v least=$least_share -v from="$sums" "$columns"'
        $at["redop"] == "sum" && $at["size_bytes"] >= from {
            share = $at["share_percent"]
            seen[$at["type"]] = 1
            printf "%s %s %s of %d MiB: %.0f GB/s, %.1f %% of the copies (at least %d)\n",
                (share ~ /^[0-9]/ && share + 0 >= least ? "ok" : "bad"),
                $at["type"], $at["redop"], $at["size_bytes"] / 1048576, $at["reduce_gbs"], share, least
        }
        END {
            split("float32 float16 bfloat16", types, " ")
            for (t = 1; t in types; t++)
                if (!(types[t] in seen)) printf "bad %s sum: there is no figure\n", types[t]
        }')
}

# Each element is read by one of the two ranks from both inputs, and written to both outputs: four times the size passes, which
# copies of that size do at copy_gbs, bytes read and written.
step_judge_allreduce() {
    local bandwidth device host
    bandwidth=$(figures allreduce-copies | awk -F, -v size="$reduced" "$columns"'$at["size_bytes"] == size { print $at["copy_gbs"] }')
    verdicts allreduce < <(figures allreduce | awk -F, -v most=$most_times -v size="$reduced" -v gbs="${bandwidth:-0}" "$columns"'
        $at["size_bytes"] == size && gbs > 0 {
            times = $at["time_us"] / (4 * size / gbs / 1000)
            seen[$at["in_place"]] = 1
            printf "%s allreduce of %d MiB %s: %.0f us, %.2f times what its traffic takes at %.0f GB/s (at most %s)\n",
                (times > 0 && times <= most ? "ok" : "bad"), size / 1048576, ($at["in_place"] ? "in place" : "out of place"),
                $at["time_us"], times, gbs, most
        }
        END { if (!(0 in seen) || !(1 in seen)) print "bad allreduce of 256 MiB: there are no figures, in place or not" }')
    small() { figures "$1" | awk -F, "$columns"'$at["size_bytes"] == 8 && !$at["in_place"] { print $at["time_us"] }'; }
    device=$(small allreduce-small) host=$(small allreduce-host)
    verdicts 'small allreduce' < <(awk -v device="${device:-0}" -v host="${host:-0}" 'BEGIN {
        if (device > 0 && host > 0)
            printf "ok allreduce of 8 B: %.2f us on the device, %.2f us on the host, %.1f times as long\n", device, host, device / host
        else
            print "bad allreduce of 8 B: there are no figures of the device and the host"
    }')
}

no_gpu=''
if [[ $mode != judge ]]; then
    borrow_libraries
    look || { bad "weft-perf --devices"; steps=(); }
fi
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
sum_up
