#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: unthreaded (a report is computed)
# What docs/topology-report.md claims: weft's ring within 5 % of the least possible load and with the least crossings, less than orders
# at random; an ordered allreduce never slower than a shuffled one, nor all rings than one; and the NIC of each GPU as
# tests/topo/expected/ has it. A quick report is made here. It keeps those promises, too, and each of its rows stands in the document as
# it is, but for seconds. WEFT_LONG: the whole report is made, and each row of the document stands in it.
source "$(dirname "$0")/../support/start.sh"
report=$BUILD/perf/micro/topo_report
[[ -x $report ]] || { echo "SKIP: $report is not built"; exit 77; }
samples=${WEFT_SHARED_DATA:-../shared/data}/topologies

# Prints what a report's tables and sentences get wrong; tables is how many of loads there must be, rows how many of allreduces.
wrong() {
    awk -F ' *[|] *' -v tables="$2" -v rows="$3" '
    function off(what) { print FILENAME ": line " FNR ": " what ": " $0 }
    $2 == "rank order (ranks placed at random)" { by_rank = $3; by_rank_crossings = $4 }
    $2 == "weft'\''s order" { ours = $3; crossings = $4 }
    $2 == "the least possible" {
        found++
        if (ours + 0 <= 0 || ours > 1.05 * $3) off("load " ours)
        if (crossings != $4) off("crossings " crossings)
        if (by_rank + 0 <= ours + 0 || by_rank_crossings + 0 <= crossings + 0) off("not better than by number")
        ours = crossings = by_rank = ""
    }
    # The worst of all shuffles, and all rings together.
    match($0, /at most [0-9.]+ times the least/) || match($0, /link, [0-9.]+ times the least/) {
        split(substr($0, RSTART, RLENGTH), words, " ")
        ratio = words[1] == "at" ? words[3] : words[2]
        sentences++
        if (ratio < 0.999 || ratio > 1.05) off("ratio " ratio)
    }
    $4 ~ /MiB$/ || $5 ~ /MiB$/ {
        found_rows++
        before = ($4 ~ /MiB$/ ? $5 : $6) + 0
        after = ($4 ~ /MiB$/ ? $6 : $7) + 0
        ratio = ($4 ~ /MiB$/ ? $7 : $8) + 0
        if (after <= 0 || after > before) off("slower")
        if (ratio < before / after - 0.1 || ratio > before / after + 0.1) off("ratio")
    }
    END {
        if (found != tables) print FILENAME ": " found " tables of loads, expected " tables
        if (sentences < tables) print FILENAME ": " sentences " sentences on the worst, expected " tables
        if (found_rows != rows) print FILENAME ": " found_rows " allreduces, expected " rows
    }' "$1"
}
check() { # WHAT FILE TABLES ROWS
    wrong "$2" "$3" "$4" >"$work/out" 2>&1
    if [[ ! -s $work/out ]]; then ok "$1"; else bad "$1"; fi
}

# The machines' rows: "gpu0: mlx5_0 PIX; ..." out of the expected NIC map, or nothing where there are no GPUs.
expected_row() {
    tr -d '",' <"$1" | awk '$1 == "gpu:" { gpu = $2 } $1 == "nic:" { nic = $2 } $1 == "class:" {
        row = row (row ? "; " : "") gpu ": " (nic == "null" ? "none" : nic " " $2) } END { print row }'
}
check_machines() { # WHAT FILE
    local file name row count=0
    : >"$work/out"
    for file in tests/topo/expected/*.json; do
        name=$(basename "$file" .json)
        row=$(grep "/$name.xml\`" "$2" | awk -F '|' '{ sub(/^ +/, "", $7); sub(/ +$/, "", $7); print $7 }')
        grep -q "/$name.xml\`" "$2" && count=$((count + 1))
        [[ $row == "$(expected_row "$file")" ]] || echo "$2: $name: $row" >>"$work/out"
    done
    [[ $count -ge 8 ]] || echo "$2: $count machines" >>"$work/out"
    if [[ ! -s $work/out ]]; then ok "$1"; else bad "$1"; fi
}

# Rows of tables, behind the small fabric that only a quick report has. Seconds are this machine's.
rows() {
    sed -n '/^## A small fat tree/,/^## /!p' "$1" | grep '^|' | grep -v '^| --- ' | sed -E 's/ [0-9.]+ s [|]//g'
}
# check_same WHAT REPORT OTHER LEAST: each row of the report, at least so many, is a row of the other.
check_same() {
    local found
    found=$(rows "$2" | wc -l)
    rows "$2" | grep -vxFf <(rows "$3") | sed "s|^|not in $3: |" >"$work/out"
    ((found >= $4)) || echo "$2: $found rows, expected $4" >>"$work/out"
    if [[ ! -s $work/out ]]; then ok "$1"; else bad "$1"; fi
}

document=docs/topology-report.md
check "$document's figures" $document 3 7
check_machines "$document's machines" $document
folder= tables=1
if [[ -d $samples ]]; then folder=$samples tables=3; else skip "real topologies: no $samples"; fi
if "$report" --quick ${folder:+"$folder"} >"$work/quick" 2>"$work/err" && [[ ! -s $work/err ]]; then
    ok "a quick report"
    check "its figures" "$work/quick" "$tables" 2
    [[ -n $folder ]] && check_machines "its machines" "$work/quick"
    check_same "its rows are the document's" "$work/quick" $document $((tables == 1 ? 4 : 20))
    if [[ -n $folder && ${WEFT_LONG-} ]]; then
        "$report" "$folder" >"$work/whole" 2>"$work/err"
        check_same "the document's rows are those of the whole report" $document "$work/whole" 30
    fi
else
    bad "a quick report"
fi
# A report that is wrong is found out.
sed "s/^| weft's order | 1.000/| weft's order | 1.100/" docs/topology-report.md >"$work/changed"
if [[ -n $(wrong "$work/changed" 3 7) ]]; then ok "5 % too much is found"; else bad "5 % too much is found"; fi
sum_up
