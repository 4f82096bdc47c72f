#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All operations on all types of Level Zero's memory, four ranks over shared memory and over libfabric, under the loader's validation layer, and what one device
# reduces by itself: a line for each, with how many elements are wrong. make check-ze prints it whole.
cd "$(dirname "$0")/../.." || exit 1
export BUILD=${BUILD:-build}
source tests/support/perf_runs.sh
ze=$BUILD/tests/fakes/ze/libweft_ze_fake.so
[[ -f $ze ]] || { echo "SKIP: Level Zero is not built"; exit 77; }
ZE_ENABLE_ALT_DRIVERS=$(realpath "$ze")
export ZE_ENABLE_ALT_DRIVERS WEFT_TEST_ZE=devices=4
export ZE_ENABLE_VALIDATION_LAYER=1 ZE_ENABLE_PARAMETER_VALIDATION=1 ZE_ENABLE_HANDLE_LIFETIME=1

# table WHERE COMMAND ROWS ARGUMENTS: so many rows, and nothing wrong in any.
table() {
    local where=$1 command=$2 count=$3
    shift 3
    run "$command" "$@" --csv "$work/table.csv" -b 4K -e 4K -n 1 -w 0
    absent "$command over $where" && return
    rm -f "$work/lines"
    [[ ! -f $work/table.csv ]] || awk -F, -v command="$command" -v where="$where" '
        NR == 1 { for (i = 1; i <= NF; i++) { if ($i == "wrong") back = NF - i; if ($i == "damaged") back2 = NF - i }; next }
        { key = sprintf("%-15s %-5s %-12s", command, $4 == "none" ? "-" : $4, $3); if (!(key in wrong)) order[++n] = key
          wrong[key] += $(NF - back) + $(NF - back2) }
        END { for (i = 1; i <= n; i++) printf "%s  #wrong %d  %s\n", order[i], wrong[order[i]], where }' "$work/table.csv" >"$work/lines"
    rm -f "$work/table.csv"
    cat "$work/lines"
    if [[ $rc == 0 && $(wc -l <"$work/lines") == "$count" ]] && ! grep -qv '#wrong 0 ' "$work/lines" &&
        grep -q '^# Out of bounds values : 0 OK$' "$work/out"; then
        ok "$command over $where: $count lines, nothing wrong"
    else
        bad "$command over $where (status $rc, $(wc -l <"$work/lines") lines of $count)"
    fi
}

reducing=(allreduce reduce reduce_scatter reduce_scatterv)
moving=(broadcast allgather allgatherv gather gatherv scatter scatterv alltoall alltoallv sendrecv)
for transport in shm ofi; do
    way=(--ranks 4 --memory ze --transport $transport)
    [[ $transport == shm ]] || way+=(--provider tcp)
    for command in "${reducing[@]}"; do table $transport "$command" 107 "${way[@]}" -d all -o all; done
    for command in "${moving[@]}"; do table $transport "$command" 17 "${way[@]}" -d all; done
done
table "one device" reduce_local 107 --memory ze:0 -d all -o all
sum_up
