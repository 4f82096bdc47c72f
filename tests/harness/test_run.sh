#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/run.sh with programs made here: what gets a second look, what never does, how an unstable one is named, what stands still is ended, which
# ones are quiet, and one test repeated.
source "$(dirname "$0")/../support/start.sh"
unset CI TEST_RUNNER TEST_TIMEOUT
export BUILD=$work/build TEST_WITHOUT_KALLSYMS=1 TEST_SKIPS=$work/skips TEST_LOGS=$work/logs
: >"$TEST_SKIPS"

# program NAME: a test of these lines of bash.
program() {
    { echo '#!/bin/bash'; cat; } >"$work/$1"
    chmod 755 "$work/$1"
}
run() { # ARGUMENT...
    tests/run.sh "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}
# gives STATUS COUNTS UNSTABLE WHAT: the last run's status, its last line, and how many lines name an unstable program.
gives() {
    local named
    named=$(grep -c '^UNSTABLE: ' "$work/out")
    if [[ $rc == "$1" && $(tail -n 1 "$work/out") == "$2" && $named == "$3" ]]; then ok "$4"; else
        bad "$4: not status $1, '$2' and $3 unstable, but $rc and $named"
    fi
}
has() { # LINE WHAT
    if grep -qxF -- "$1" "$work/out"; then ok "$2"; else bad "$2: no line '$1'"; fi
}
# first_time TEXT STATUS: lines of a program that prints this and ends so the first time it runs, and passes the second time.
first_time() {
    printf 'if mkdir "$0.seen" 2>/dev/null; then printf "%%b\\n" %q; %s; fi\necho 2 passed, 0 failed, 0 skipped\n' "$1" "$2"
}
forget() { rm -rf "$work"/*.seen; }

program test_good.sh <<<'echo 3 passed, 0 failed, 0 skipped'
run "$work/test_good.sh"
gives 0 "3 passed, 0 failed, 0 skipped" 0 "one that passes has no second look"

# Fails beside others only: while the other one is there. The other one waits for it.
program test_lonely.sh <<'END'
for ((n = 0; n < 500; n++)); do [[ ! -e ${0%/*}/other ]] || break; [[ ! -e ${0%/*}/over ]] || break; sleep 0.02; done
[[ ! -e ${0%/*}/other ]] || { touch "${0%/*}/met"; echo "test_lonely.c:7: not alone"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
echo 4 passed, 0 failed, 0 skipped
END
program test_other.sh <<'END'
touch "${0%/*}/other"
for ((n = 0; n < 1500; n++)); do [[ ! -e ${0%/*}/met ]] || break; sleep 0.02; done
rm "${0%/*}/other"; touch "${0%/*}/over"
echo 1 passed, 0 failed, 0 skipped
END
run "$work/test_lonely.sh" "$work/test_other.sh"
gives 0 "5 passed, 0 failed, 0 skipped" 1 "one that fails beside others only"
has "UNSTABLE: $work/test_lonely.sh (test_lonely.c:7: not alone)" "it is named, with what failed first"
if [[ $(tail -n 2 "$work/out" | head -n 1) == UNSTABLE:* ]]; then ok "just before the last line"; else bad "not before the last line"; fi
name=${work//\//_}_test_lonely.sh
if grep -q 'not alone' "$TEST_LOGS/$name.first.log" && ! grep -q 'not alone' "$TEST_LOGS/$name.log"; then ok "both logs are kept"; else
    bad "logs: $(ls "$TEST_LOGS")"
fi
tests/scripts/sum.sh "tests/run.sh $work/test_good.sh; rm $work/over $work/met; tests/run.sh $work/test_lonely.sh $work/test_other.sh" \
    "tests/run.sh $work/test_good.sh" >"$work/out" 2>"$work/err"
rc=$?
if [[ $rc == 0 && $(grep -cxF "UNSTABLE: $work/test_lonely.sh (test_lonely.c:7: not alone)" "$work/out") == 2 ]]; then ok "sum.sh says it again"; else
    bad "sum.sh does not say it at its end (status $rc)"
fi

# A failure that stays.
program test_bad.sh <<<'echo "FAILED: a sum"; echo 5 passed, 2 failed, 0 skipped; exit 1'
run "$work/test_good.sh" "$work/test_bad.sh"
gives 1 "8 passed, 2 failed, 0 skipped" 0 "a plain failure fails twice, and counts once"
if [[ $(grep -c "^FAIL .*test_bad.sh" "$work/out") == 2 ]]; then ok "it had its second look"; else bad "not two looks"; fi

# What gets none, though it would pass.
certain() { # WHAT TEXT STATUS
    forget
    first_time "$2" "$3" | program test_certain.sh
    run "$work/test_certain.sh"
    if [[ $rc == 1 && $(grep -c 'a second look at' "$work/out") == 0 ]] && grep -q -- "^---- exit status [0-9]*, $1; " "$work/out"; then ok "no second look: $1"; else
        bad "a second look: $1, $2 (status $rc)"
    fi
}
certain "wrong bits" 'WRONG: element 3 of 8' 'exit 1'
certain "wrong bits" 'tests/system/test_x.c:12: WRONG: data[i] == 3' 'exit 1'
certain "wrong bits" '[  ERROR   ] --- difference at offset 0 0x01 0x02' 'exit 1'
certain "wrong bits" 'tests/system/test_x.c:12: memcmp(in, out, 8) == 0' 'exit 1'
certain "a hang" 'HANG seed 3' 'exit 1'
certain "a hang" 'rank 1 has not returned after 40 s: killed' 'exit 1'
certain "a crash" 'rank 1 of 2 ended by signal 11 (Segmentation fault)' 'exit 1'
certain "a crash" '[  ERROR   ] --- Test failed with exception: Segmentation fault(11)' 'exit 1'
certain "a crash" 'nothing' 'kill -SEGV $$'
certain "a sanitizer's report" '==77==ERROR: AddressSanitizer: heap-use-after-free' 'exit 1'
certain "a sanitizer's report" 'WARNING: ThreadSanitizer: data race (pid=3)' 'exit 66'
certain "a sanitizer's report" 'base/x.c:3:1: runtime error: signed integer overflow' 'exit 1'
certain "a leak" 'leak: 5 descriptors, were 4' 'exit 1'
certain "a skip that is not allowed" 'SKIP: no sound' 'exit 77'
program test_slow.sh < <(first_time hello 'sleep 60')
TEST_TIMEOUT=1 run "$work/test_slow.sh"
gives 1 "0 passed, 1 failed, 0 skipped" 0 "no second look: the time limit"
# Two that stand still, one of them in a child, beside one that works for as long, and gets a twentieth of a processor at least.
program test_still.sh <<<'sleep 60 & sleep 60'
program test_below.sh <<<'bash -c "sleep 60; true"'
program test_works.sh <<'END'
until [[ -e ${0%/*}/enough ]]; do for ((n = 0; n < 100000; n++)); do :; done; done
echo 1 passed, 0 failed, 0 skipped
END
(until [[ $(cat "$TEST_LOGS"/*.count 2>/dev/null | wc -l) == 2 ]]; do sleep 0.1; done; touch "$work/enough") &
TEST_IDLE=10 run "$work"/test_{still,below,works}.sh
gives 1 "1 passed, 2 failed, 0 skipped" 0 "what stands still is ended, what works is not"
if [[ $(grep -cx 'used less than 0.5 s of processors in 10 s: ended' "$TEST_LOGS"/*.log | grep -c ':1$') == 2 ]]; then ok "the log says so"; else
    bad "the logs do not say so"
fi
program test_patient.sh <<<'echo "patience $WEFT_TEST_PATIENCE"; ((WEFT_TEST_PATIENCE >= 1)) && echo 1 passed, 0 failed, 0 skipped'
run "$work/test_patient.sh"
gives 0 "1 passed, 0 failed, 0 skipped" 0 "patience is given"
WEFT_TEST_PATIENCE=7 run "$work/test_patient.sh"
if grep -qx 'patience 7' "$TEST_LOGS"/*.log; then ok "or taken from whoever calls"; else bad "another patience"; fi
# Words that are no such thing: a plain failure that is unstable.
forget
program test_words.sh < <(first_time 'test_x.c:9: variant == WRONG_SECRET\nleak: none? no leak' 'exit 1')
run "$work/test_words.sh"
gives 1 "0 passed, 1 failed, 0 skipped" 0 "a line that begins with leak: is one"
forget
program test_words.sh < <(first_time 'test_x.c:9: variant == WRONG_SECRET || HANG_NS' 'exit 1')
run "$work/test_words.sh"
gives 0 "2 passed, 0 failed, 0 skipped" 1 "words in longer names are not"

# Three may be unstable, and four not.
forget
for n in 1 2 3 4; do program test_once$n.sh < <(first_time "test_once.c:1: $n" 'exit 1'); done
run "$work"/test_once[123].sh
gives 0 "6 passed, 0 failed, 0 skipped" 3 "three unstable ones"
forget
run "$work"/test_once?.sh
gives 1 "0 passed, 4 failed, 0 skipped" 0 "four fail"
has "no second look: 4 programs failed, and it is for 3 at most" "it is said"

# Those that judge by the clock.
printf '%s\n' '# run: quiet (a ratio of times)' 'echo 10 passed, 0 failed, 0 skipped' | program test_ratio.sh
printf '%s\n' '# run: quiet (a share)' 'echo 20 passed, 0 failed, 0 skipped' | program test_share.sh
tests=("$work"/test_{good,ratio,share}.sh)
run "${tests[@]}"
gives 0 "33 passed, 0 failed, 0 skipped" 0 "quiet ones run where nobody leaves them out"
run --not-quiet "${tests[@]}"
gives 0 "3 passed, 0 failed, 0 skipped" 0 "they are left out"
has "2 programs that judge by the machine's clock are left out: make check-quiet" "it is said how many"
unset TEST_LOGS
run --quiet "${tests[@]}"
gives 0 "30 passed, 0 failed, 0 skipped" 0 "they alone"
if [[ $(ls "$BUILD") == quiet-logs ]]; then ok "their logs are apart"; else bad "logs in $(ls "$BUILD")"; fi
export TEST_LOGS=$work/logs
printf '%s\n' '# run: quiet' 'echo 20 passed, 0 failed, 0 skipped' | program test_share.sh
run --not-quiet "${tests[@]}"
if [[ $rc == 1 ]] && grep -q 'its line "run:" is not understood: quiet$' "$work/err"; then ok "a mark without a reason"; else bad "status $rc"; fi

# One test, repeated.
program test_third.sh <<'END'
mkdir "$0.1.seen" 2>/dev/null || mkdir "$0.2.seen" 2>/dev/null || mkdir "$0.3.seen" 2>/dev/null && exit 1
echo 1 passed, 0 failed, 0 skipped
END
mkdir "$work"/test_third.sh.{1,2}.seen
run --repeat 4 --beside 1 "$work/test_third.sh"
gives 1 "3 passed, 1 failed, 0 skipped" 0 "one of four runs fails: no second look there"
has "$work/test_third.sh: 1 of 4 runs failed, beside 1 busy loops" "it is said"
for words in "--repeat x $work/test_good.sh" "--repeat 2 $work/test_good.sh $work/test_good.sh" "--beside 2 $work/test_good.sh" "--what 3"; do
    read -ra arguments <<<"$words"
    run "${arguments[@]}"
    if [[ $rc == 2 ]] && grep -q '^usage: ' "$work/err"; then ok "usage: ${words//"$work"\//}"; else bad "status $rc for $words"; fi
done
sum_up
