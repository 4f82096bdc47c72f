#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs tests and counts them: tests/run.sh PROGRAM...
# One test N times, with K busy loops beside it, to show that it is mended: tests/run.sh --repeat N [--beside K] PROGRAM
# Without those that judge by the machine's clock, or those alone, one at a time: tests/run.sh --not-quiet PROGRAM..., --quiet PROGRAM...
#
# A program is a cmocka test (counted by its own summary) or a script (one test, unless its last line says
# "N passed, N failed, N skipped"). Exit 77 is a skip; lines "SKIP: reason" are repeated in the summary. Each
# program runs in its own process group under a time limit; what overruns is killed with its group and counts
# as failed. A program that ends badly without naming a failed test, or that runs nothing, counts as one failure, and so does each skip
# that tests/skips does not allow.
#
# A second look: a program that failed runs once more at the end, alone. Where it passes then it counts as passed, and a line
# "UNSTABLE: NAME (what failed first)" before the last one names it; its first log is NAME.first.log. There is none after what no busy machine
# does: wrong bits, a hang, a crash, a sanitizer's report, a leak, a skip that is not allowed. When more than three programs failed there is
# none at all.
#
# Tests say in their sources how they are run: beside the others, early, or quiet (tests/scripts/marks.sh).
#
# TEST_JOBS     programs at a time, and as many of those that mostly wait (default: processors and one more,
#               for most programs wait now and then; at most 3)
# TEST_TIMEOUT  seconds per program (default 1200; make check gives 300). One that has used less than half a second of processors in TEST_IDLE
#               seconds (120) is ended earlier
# TEST_RUNNER   a command that runs the program
# TEST_LOGS     folder for the output of each program (default $BUILD/test-logs; with --quiet quiet-logs, with --repeat repeat-logs)
# BUILD         build folder
set -u
SECOND_LOOKS=3
# On a busy machine a healthy rank may be silent for longer than the default. Programs set it too, for those who run them by hand
# (tests/support/heartbeat.h); this is for scripts.
export WEFT_HEARTBEAT_MS=${WEFT_HEARTBEAT_MS:-600000}
# libfabric's verbs provider reads all names in the kernel each time it is loaded: a tenth of a second of every rank that starts
# over libfabric, and most of it. Where tests can have a mount namespace of their own there are none to read.
if [[ -z ${TEST_WITHOUT_KALLSYMS-} ]]; then
    export TEST_WITHOUT_KALLSYMS=1
    # Not all of a chroot can be made private: what holds the file can.
    hide='{ mount --make-rprivate / || mount --make-private /proc; } 2>/dev/null && mount --bind /dev/null /proc/kallsyms'
    own='unshare --mount --propagation unchanged'
    $own sh -c "$hide" 2>/dev/null && exec $own sh -c "$hide && exec \"\$@\"" sh "$0" "$@"
fi
BUILD=${BUILD:-build}
export BUILD
limit=${TEST_TIMEOUT:-1200}
processors=$(nproc 2>/dev/null || echo 1)
jobs=${TEST_JOBS:-$((processors < 2 ? 2 : 3))}
logs=$BUILD/test-logs repeat=0 loops=0 which=all
usage() {
    echo "usage: tests/run.sh [--not-quiet | --quiet] PROGRAM..., or tests/run.sh --repeat N [--beside K] PROGRAM" >&2
    exit 2
}
while [[ ${1-} == --* ]]; do
    case $1 in
    --quiet | --not-quiet) which=${1#--} ;;
    --repeat | --beside)
        [[ ${2-} =~ ^[0-9]{1,6}$ ]] || usage
        if [[ $1 == --beside ]]; then loops=$2; else repeat=$2 logs=$BUILD/repeat-logs; fi
        shift
        ;;
    *) usage ;;
    esac
    shift
done
if ((repeat)); then [[ $# == 1 && $which == all ]] || usage; else ((loops == 0)) || usage; fi
[[ $which != quiet ]] || logs=$BUILD/quiet-logs
logs=${TEST_LOGS:-$logs}
unset TEST_LOGS # programs may run this, too
rm -rf "$logs"
mkdir -p "$logs"

# Prints "passed failed skipped" for a log and an exit status.
count() {
    awk -v rc="$2" '
        /^\[  PASSED  \] [0-9]+ test/ { passed += $4; next }
        /^\[  FAILED  \] [0-9]+ test/ { failed += $4; next }
        /^\[  SKIPPED \] [0-9]+ test/ { skipped += $4; next }
        { if (NF) last = $0 }
        END {
            cmocka = passed + failed + skipped
            if (!cmocka && last ~ /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/) {
                split(last, word, /[ ,]+/); passed = word[1]; failed = word[3]; skipped = word[5]
            } else if (!cmocka && rc == 77) skipped = 1
            else if (!cmocka && rc == 0 && script) passed = 1
            if (rc != 0 && !(rc == 77 && !failed) && !failed) failed = 1
            if (!(passed + failed + skipped)) failed = 1
            print passed + 0, failed + 0, skipped + 0
        }' script="$3" "$1"
}

# What a log says of its failures, wherever in it that is: cmocka's verdicts and the lines before each, which are the
# test's own, assertions of ranks ("file.c:12: ..."), sanitizers' reports. The summary at the end names tests twice.
NO_NEWS='^\[       OK \]\|^\[ RUN      \]\|^\[==========\]\|^\[  PASSED  \]'
blame() {
    local bad='^\[  ERROR   \]|^\[  FAILED  \]|^(not ok|FAIL(ED)?:?|WRONG:?|HANG|SLOW) |[a-z_0-9]+\.[ch]:[0-9]+: |runtime error: '
    bad+='|^(==[0-9]+==)?(ERROR|WARNING|SUMMARY|FATAL): |^leak: '
    grep -av "$NO_NEWS" "$1" | grep -aE -B 3 -A 12 "$bad" | awk '!/^\[  FAILED  \]/ || !seen[$0]++' | head -n 150
}

# certain STATUS LOG: what is real however rarely it is seen, or nothing. Programs print what they have caught: WRONG, HANG, "leak: ".
certain() {
    if (($1 == 124 || $1 == 137)) || grep -qaE '(^|[^A-Z_])HANG([^A-Z_]|$)|^rank [0-9]+ .*has not returned after ' "$2"; then
        echo "a hang"
    elif grep -qaE '(^|[^A-Za-z])(ERROR|WARNING|FATAL): [A-Z][A-Za-z]*Sanitizer|: runtime error: ' "$2"; then
        echo "a sanitizer's report"
    elif (($1 > 128)) || grep -qaE 'ended by signal (4|6|7|8|11|31) |failed with exception: |^\[.*Segmentation fault' "$2"; then
        echo "a crash"
    elif grep -qaE '(^|[^A-Z_])WRONG([^A-Z_]|$)|difference at offset [0-9]+ 0x|: .*memcmp\(' "$2"; then
        echo "wrong bits"
    elif grep -qa '^leak: ' "$2"; then
        echo "a leak"
    elif grep -qaE '^FAIL: skipped, and ' "$2"; then
        echo "a skip that is not allowed"
    fi
}

# reason LOG: what failed first, in one line.
reason() {
    local line
    line=$(grep -m 1 -aE '^(\[  ERROR   \] --- [^[]|FAILED: |FAIL|not ok )|[a-z_0-9]+\.[ch]:[0-9]+: ' "$1" | tr -d '\0-\037')
    [[ $line ]] || line=$(grep -a . "$1" | tail -n 1 | tr -d '\0-\037')
    line=${line#'[  ERROR   ] --- '}
    echo "${line:0:200}"
}

# judge_skips TEST LOG FAILED SKIPPED: prints the two numbers after what tests/skips says, and writes into the log which skips it does
# not allow.
judge_skips() {
    local unlisted number
    unlisted=$("${BASH_SOURCE[0]%/*}/scripts/skips.sh" "$1" "$2")
    number=$(grep -c . <<<"$unlisted")
    if (($4 > 0)) && ! grep -qaE '^(\[[0-9]+\] )?SKIP: |^\[  SKIPPED \] ' "$2"; then
        unlisted="FAIL: skipped, and no reason is given: $1"
        number=1
    fi
    ((number == 0)) || echo "$unlisted" >>"$2"
    echo "$(($3 + number)) $(($4 > number ? $4 - number : 0))"
}

# How many times longer than on a quiet machine a program that starts now shall wait for what is to come (tests/support/patience.h): by how
# long others waited for a processor in the last ten seconds, and by how much the machine's host has taken away since we began.
stolen_before=$(awk '{ for (i = 2; i <= 9; i++) all += $i; print $9, all; exit }' /proc/stat)
patience() {
    cat /proc/stat /proc/pressure/cpu 2>/dev/null | awk -v before="$stolen_before" '
        $1 == "cpu" { for (i = 2; i <= 9; i++) all += $i; split(before, b, " "); stolen = all > b[2] ? ($9 - b[1]) / (all - b[2]) : 0 }
        $1 == "some" { split($2, word, "="); waited = word[2] / 100 }
        END { printf "%.0f", (1 + 3 * waited) / (1 - (stolen < 0.8 ? stolen : 0.8)) }'
}

name_of() {
    local name=${1#"$BUILD"/}
    echo "${name//\//_}"
}

# run_one TEST [NAME]: NAME.log has what it printed, NAME.out what is said of it here, NAME.count its counts, and NAME.doubtful is there when
# it failed in a way that deserves a second look.
run_one() {
    local test=$1 name log rc seconds user system cpu passed failed skipped script=0 word=ok TIMEFORMAT='%R %U %S' certain=
    name=${2:-$(name_of "$1")}
    log=$logs/$name.log
    [[ $test == *.sh ]] && script=1
    # timeout puts the program into a process group of its own and signals that group.
    {
        time WEFT_TEST_PATIENCE=${WEFT_TEST_PATIENCE:-$(patience)} bash -c 'echo $$ >"$1"; shift; exec timeout -k 5 "$@"' limit "$logs/$name.pid" \
            "$limit" ${TEST_RUNNER:-} "$test" >"$log" 2>&1 </dev/null
    } 2>"$log.time"
    rc=$?
    rm -f "$logs/$name.pid"
    if [[ -e $logs/$name.idle ]]; then
        cat "$logs/$name.idle" >>"$log"
        rc=124
    fi
    read -r seconds user system < <(tail -n 1 "$log.time")
    cpu=$(awk "BEGIN { print $user + $system }")
    rm -f "$log.time"
    [[ $rc == 124 || $rc == 137 ]] && echo "ran into the time limit, or was killed (status $rc)" >>"$log"
    read -r passed failed skipped < <(count "$log" "$rc" "$script")
    read -r failed skipped < <(judge_skips "${test#"$BUILD"/}" "$log" "$failed" "$skipped")
    if [[ $failed != 0 ]]; then
        word=FAIL
        certain=$(certain "$rc" "$log")
        [[ $certain ]] || : >"$logs/$name.doubtful"
    fi
    [[ $word == ok && $passed == 0 ]] && word=skip
    {
        printf '%-4s %5.1f s %5.1f cpu  %3d passed %3d failed %3d skipped  %s\n' "$word" "$seconds" "$cpu" \
            "$passed" "$failed" "$skipped" "$test"
        grep -ah '^SKIP: ' "$log" | sort | uniq -c | sort -rn | sed 's/^ *1 SKIP/           SKIP/; s/^ *\([0-9]\+\) SKIP/     \1 x SKIP/'
        if [[ $word == FAIL ]]; then
            echo "---- exit status $rc${certain:+, $certain}; what failed in $log:"
            blame "$log"
            echo "---- its last lines:"
            grep -av "$NO_NEWS" "$log" | tail -n 40
            echo "----"
        fi
    } >"$logs/$name.out"
    echo "$passed $failed $skipped $cpu" >"$logs/$name.count"
    cat "$logs/$name.out"
}

# look_again TEST: alone, and what is said of the first time is kept.
look_again() {
    local name kind failed
    name=$(name_of "$1")
    for kind in log out; do mv "$logs/$name.$kind" "$logs/$name.first.$kind"; done
    rm -f "$logs/$name.doubtful"
    echo "---- a second look at $1:"
    run_one "$1"
    read -r _ failed _ <"$logs/$name.count"
    if [[ $failed == 0 ]]; then unstable+=("UNSTABLE: $1 ($(reason "$logs/$name.first.log"))"); fi
}

# What runs beside the programs and ends with this shell: busy loops, and who looks for programs that stand still.
beside_us=()
trap '{ kill "${beside_us[@]}"; wait "${beside_us[@]}"; } 2>/dev/null' EXIT
"${BASH_SOURCE[0]%/*}/scripts/idle.sh" "$logs" "${TEST_IDLE:-120}" >/dev/null 2>&1 &
beside_us+=($!)
# repeat TIMES TEST: one after the other, however they end, beside busy loops.
repeat() {
    local i
    for ((i = 0; i < loops; i++)); do
        while kill -0 $$ 2>/dev/null; do for ((i = 0; i < 100000; i++)); do :; done; done &
        beside_us+=($!)
    done
    for ((i = 1; i <= $1; i++)); do run_one "$2" "$(name_of "$2").$i"; done
}

# batch PROGRAMS-AT-A-TIME PROGRAM...
batch() {
    local at_a_time=$1 test
    shift
    for test in "$@"; do
        while (($(jobs -rp | wc -l) >= at_a_time)); do wait -n; done
        run_one "$test" &
    done
    wait
}

failed_marks=0
marked() { "${BASH_SOURCE[0]%/*}/scripts/marks.sh" "$@"; }
# choose PROGRAM...: those that are wanted, in chosen. The others are counted where they are fewer.
chosen=()
choose() {
    local test quiet
    local -A is_quiet
    quiet=$(marked quiet "$@") || failed_marks=1
    while read -r test; do is_quiet[$test]=quiet; done <<<"${quiet:--}"
    for test in "$@"; do [[ ${is_quiet[$test]-not-quiet} != "$which" && $which != all ]] || chosen+=("$test"); done
    [[ $which != not-quiet || $# == "${#chosen[@]}" ]] ||
        echo "$(($# - ${#chosen[@]})) programs that judge by the machine's clock are left out: make check-quiet"
}

# run_all PROGRAM...: what mostly waits has a line of its own beside the others; in each, what is to be begun early comes first.
run_all() {
    local test turn beside early busy=() waiting=()
    local -A is_beside is_early
    beside=$(marked beside "$@") && early=$(marked early "$@") || failed_marks=1
    while read -r test; do is_beside[$test]=1; done <<<"${beside:--}"
    while read -r test; do is_early[$test]=1; done <<<"${early:--}"
    for turn in early late; do
        for test in "$@"; do
            [[ ${is_early[$test]+early} == "${turn#late}" ]] || continue
            if [[ ${is_beside[$test]-} ]]; then waiting+=("$test"); else busy+=("$test"); fi
        done
    done
    # Each in a shell of its own, which waits for its programs only.
    local lines=()
    if [[ $which == quiet ]]; then
        batch 1 "${waiting[@]}" "${busy[@]}" &
        lines+=($!)
    else
        batch "$jobs" "${waiting[@]}" &
        lines+=($!)
        batch "$jobs" "${busy[@]}" &
        lines+=($!)
    fi
    wait "${lines[@]}"
}

# look_again_at PROGRAM...: at those of them that deserve it, where they are few.
unstable=()
look_again_at() {
    local test doubtful=()
    for test in "$@"; do [[ ! -e $logs/$(name_of "$test").doubtful ]] || doubtful+=("$test"); done
    if ((${#doubtful[@]} > SECOND_LOOKS)); then
        echo "no second look: ${#doubtful[@]} programs failed, and it is for $SECOND_LOOKS at most"
        return
    fi
    for test in "${doubtful[@]}"; do look_again "$test"; done
}

if ((repeat)); then
    programs=$repeat
    repeat "$repeat" "$1"
else
    choose "$@"
    programs=${#chosen[@]}
    run_all "${chosen[@]}"
    look_again_at "${chosen[@]}"
fi
read -r passed failed skipped cpu bad < <(cat "$logs"/*.count 2>/dev/null | awk '
    { p += $1; f += $2; s += $3; c += $4; b += $2 != 0 } END { printf "%d %d %d %.0f %d\n", p, f, s, c, b }')
[[ $programs != "$(ls "$logs"/*.count 2>/dev/null | wc -l)" ]] && { echo "not every test left a count"; failed=$((failed + 1)); }
failed=$((failed + failed_marks))
if ((repeat)); then echo "$1: $bad of $repeat runs failed, beside $loops busy loops"; fi
echo "$programs programs in $SECONDS s, $cpu s of processors"
((${#unstable[@]} == 0)) || printf '%s\n' "${unstable[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 && $passed != 0 ]]
