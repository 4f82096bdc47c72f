#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: elsewhere (tests/perf/test_perf)
# Command lines as scripts of nccl-tests have them, and what reads its table: by word, from the left and from the right.
. tests/support/perf_runs.sh

small=(allreduce --ranks 2 -b 8 -e 64 -f 8 -n 2 -w 1)

# taken FLAGS: the run is the same as without them: two rows, thirteen columns, nothing wrong.
taken() {
    run "${small[@]}" "$@"
    if [[ $rc == 0 && $(rows | awk '{ printf "%s:%d:%s:%s ", $1, NF, $9, $13 }') == "8:13:0:0 64:13:0:0 " ]]; then
        ok "taken: $*"
    else
        bad "'$*' is not taken (status $rc): $(head -n 1 "$work/err")"
    fi
}
for flag in -g1 "-t 1" "-z 0" "-z 1" "-p 0" "-p 1" "-y 0" "-y 1" "-G 0" "-a 1" "-a 3" "-m 20" "-C 0" "-N 1" "-R 0" \
    "-R 1" "-T 30" "-T 0" "-x 2" "-D 0" "-V 16" "-M 0" "-S 0" "-c 1" "-o sum -r 1"; do
    taken $flag
done
taken --ngpus=1 --nthreads 1 --blocking=1 --cudagraph 0 --average=1 --timeout 30 --check=1
taken --warmup_iters=1 --agg_iters 2 --parallel_init=1 --run_cycles 1 --stream_null 0 --report_cputime=0 --local_register 1
taken --warmup-iters 1 --agg-iters=2 --parallel-init 1 --run-cycles=1 --stream-null 0 --report-cputime 0 --local-register=1
taken --cta_policy=0 --device_implementation 0 --device_cta_count=16 --memory_report 0 --report_timestamps=0

# answer TEXT FLAGS: the whole message.
answer() {
    local text=$1
    shift
    run allreduce --ranks 2 "$@"
    if [[ $rc == 2 && ! -s $work/out && $(<"$work/err") == "weft-perf: $text" ]]; then
        ok "answered: $*"
    else
        bad "'$*': status $rc: $(<"$work/err")"
    fi
}
answer "-g '2': one rank per GPU: start 2 times as many ranks (mpirun -n, srun -n, or --ranks on one host)" -g 2
answer "--ngpus '8': one rank per GPU: start 8 times as many ranks (mpirun -n, srun -n, or --ranks on one host)" --ngpus=8
answer "-g 'all': expected 1" -g all
answer "-g '0': expected 1" -g 0
answer "-t '00': expected 1" -t 00
answer "-t '4': one rank per GPU: start 4 times as many ranks (mpirun -n, srun -n, or --ranks on one host)" -t 4
answer "-G '10': calls cannot be captured into graphs: leave it out; --clock device makes calls ahead of the device" -G 10
answer "-a '2': times are the slowest rank's: leave it out, or write -a 3" -a 2
answer "-R '2': there are no symmetric windows: --memory weft has memory that ranks of a host read in place" -R 2
answer "-N '0': 0 cycles go on for ever in nccl-tests, and weft-perf ends: give a large number, or write a loop in the shell" -N 0
answer "-N '2000000': expected a whole number from 1 to 1000000" -N 2000000
answer "-J 'x.json': write --json x.json: the file is laid out in another way, see weft-perf-json.md" -J x.json
answer "-o 'mulsum': mulsum is not measured: -o sum moves the same; weft_op_create(3) has it for programs" -o mulsum
answer "-o 'sum,mulsum': mulsum is not measured: -o sum moves the same; weft_op_create(3) has it for programs" -o sum,mulsum
for op in premulsum mulsumx sum,mul; do
    answer "-o '$op': expected sum, prod, max, min, avg, and, or, xor, several with commas between them, or all" -o "$op"
done
answer "-z '2': expected 0 or 1" -z 2
answer "-C '1': calls block, so there is no time of the host alone: leave it out" -C 1
answer "--report-cputime '1': calls block, so there is no time of the host alone: leave it out" --report_cputime=1
answer "-C '1': calls block, so there is no time of the host alone: leave it out" -C 1 --clock device --memory host
answer "-C '2': expected 0" -C 2
expect 2 "-g: matrix has no use for it" matrix --ranks 2 -g 1

# What the flags do that do something.
sizes() { # EXPECTED FLAGS
    local expected=$1
    shift
    run allreduce --ranks 2 -n 1 "$@"
    if [[ $rc == 0 && $(rows | awk '{ print $1 }' | tr '\n' ' ') == "$expected " ]]; then
        ok "sizes of $*"
    else
        bad "sizes of $* (status $rc): $(rows | awk '{ print $1 }' | tr '\n' ' ')"
    fi
}
sizes "8 64 8 64 8 64" -b 8 -e 64 -f 8 -N 3
sizes "1048576 2097152 3145728" -b 1M -e 3M -f 1
sizes "8 16 24" -b 8 -e 24 -f 1 -i 8
sizes "8 16 32" -b 8 -e 32 -i 8 -f 2
sizes "8 16 24 32" -b 8 -e 32 -i 8
sizes "1536" -b 1.5K -e 2K
sizes "1024 2048" -b 1k -e 2kB
expect 2 "-b '1.5'" allreduce --ranks 2 -b 1.5
run allreduce --ranks 2 -b 4M -e 4M -n 1 -w 0 -c 0 -m 7 --json "$work/m.json"
[[ $rc == 0 && $(grep -c '"calls_per_sample": 7,\?$' "$work/m.json") == 2 ]] && ok "-m is calls in a sample" ||
    bad "-m (status $rc): $(grep calls_per_sample "$work/m.json")"
run allreduce --ranks 2 -b 8 -e 8 -T 1 --stay-away 1:4 --hang 0
[[ $rc == 3 ]] && grep -qE "1 s|1[0-9]{3} ms" "$work/err" && ok "-T is a deadline" || bad "-T (status $rc): $(<"$work/err")"

types() { # FLAG PRINTED
    run allreduce --ranks 2 -b 64 -e 64 -n 1 -d "$1"
    [[ $rc == 0 && $(rows | awk '{ print $3 }' | tr '\n' ' ') == "$2 " ]] && ok "types $1" || bad "types $1 (status $rc)"
}
types int8,uint8,int32,uint32,int64,uint64,half,float,double,bfloat16 "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16"
types f8e4m3,f8e5m2 "f8e4m3 f8e5m2"
types fp8_e4m3,fp8_e5m2 "f8e4m3 f8e5m2"
types float16,float32,float64 "half float double"
types char,int "int8 int32"

# named GIVEN COMMAND PROGRAM: what it runs, and what nccl-tests calls it.
named() {
    run "$1" --ranks 2 -b 64 -e 64 -n 1 -w 0 -o sum -r 0 -g 1
    if [[ $rc == 0 && $(rows | wc -l) == 1 ]] && grep -q "^# weft-perf $2, " "$work/out" &&
        grep -qx "# Collective test starting: $3" "$work/out" && grep -qx "# Collective test concluded: $3" "$work/out"; then
        ok "$1"
    else
        bad "$1 (status $rc): $(<"$work/err")"
    fi
}
for pair in all_reduce:allreduce all_gather:allgather reduce_scatter:reduce_scatter broadcast:broadcast reduce:reduce \
    gather:gather scatter:scatter alltoall:alltoall alltoallv:alltoallv sendrecv:sendrecv; do
    named "${pair%:*}_perf" "${pair#*:}" "${pair%:*}_perf"
done
named all_reduce allreduce all_reduce_perf
named all_reduce_perf_mpi allreduce all_reduce_perf
named reduce_scatter_perf_mpi reduce_scatter reduce_scatter_perf
expect 2 "command 'all_reduce_mpi': expected allreduce" all_reduce_mpi
named all_to_all alltoall alltoall_perf
named ReduceScatter reduce_scatter reduce_scatter_perf
expect 2 "(did you mean allreduce?)" alreduce_perf
expect 2 "command 'hypercube_perf': expected allreduce, broadcast" hypercube_perf
expect 2 "command '-b': expected a command in front of the flags" -b 8 -e 128M

# The table, read in three ways; each must find what the CSV file has, to the digits of the table.
run all_reduce_perf --ranks 2 -b 1M -e 4M -f 2 -n 2 -g 1 --csv "$work/table.csv"
[[ $rc == 0 ]] || bad "the table (status $rc)"
# out IN_PLACE: busbw of every row with that placement.
from_file() {
    awk -F, -v want="$1" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["in_place"] == want { printf "%s ", $at["busbw_gbs"] }' "$work/table.csv"
}
# By word: the columns are where the line of their names has the word, the second one for in place.
by_word() {
    awk -v want="$1" '$1 == "#" && $2 == "size" { for (i = 2; i <= NF; i++) if ($i == "busbw") at[seen++] = i - 1 }
        !/^#/ { printf "%s ", $at[want] }' "$work/out"
}
# From the left: a row is thirteen words of the kinds that nccl-tests has, and nothing else.
from_left() {
    local figure='[0-9]+(\.[0-9]+)? +'
    local half="$figure$figure$figure[0-9]+"
    grep -E "^ *[0-9]+ +[0-9]+ +float +sum +-1 +$half +$half\$" "$work/out" |
        awk -v at="$((8 + 4 * $1))" '{ printf "%s ", $at }'
}
# From the right: all that lies between the heads of the columns and the line of the end is rows.
from_right() {
    awk -v back="$((5 - 4 * $1))" '/out-of-place/ { head = NR } /Out of bounds values/ { head = 0 }
        head && NR >= head + 3 { printf "%s ", $(NF - back) }' "$work/out"
}
# near LIST LIST: as many figures, alike to the second digit behind the point.
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { n = split(a, x, " "); if (n == 0 || n != split(b, y, " ")) exit 1
        for (i = 1; i <= n; i++) if (x[i] - y[i] > 0.0051 || y[i] - x[i] > 0.0051) exit 1 }'
}
for placement in 0 1; do
    figures=$(from_file $placement)
    [[ $(wc -w <<<"$figures") == 3 ]] || bad "busbw in the file: '$figures'"
    for rule in by_word from_left from_right; do
        found=$($rule $placement)
        near "$found" "$figures" && ok "$rule, in place: $placement" || bad "$rule, in place: $placement: '$found', not '$figures'"
    done
done
# Around the rows.
average=$(awk '!/^#/ { sum += $8 + $12; n += 2 } END { print sum / n }' "$work/out")
grep 'Avg bus bandwidth' "$work/out" | awk -v average="$average" '{ exit !(NF == 6 && $6 - average < 0.01 && average - $6 < 0.01) }' &&
    ok "the mean" || bad "the mean: $(grep Avg "$work/out"), of the rows $average"
grep -qx '# Out of bounds values : 0 OK' "$work/out" && ok "the verdict" || bad "the verdict"
grep -qx '# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 2 agg iters: 1 validation: 1 graph: 0' \
    "$work/out" && ok "the line of parameters" || bad "the line of parameters"
run "${small[@]}" -c 0
[[ $(rows | awk '{ print NF, $9, $13 }' | sort -u) == "13 N/A N/A" ]] && ok "unchecked rows" || bad "unchecked rows"

# weft's own columns, and its names.
run "${small[@]}" --columns weft --transport shm
[[ $rc == 0 && $(rows | awk '{ print NF, $3, $17 }' | sort -u) == "17 float32 shm" ]] && ok "--columns weft" || bad "--columns weft (status $rc)"
taken --columns nccl
expect 2 "--columns 'all': expected nccl or weft" allreduce --ranks 2 --columns all

sum_up
