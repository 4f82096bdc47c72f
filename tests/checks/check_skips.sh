#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What tests say of their threads (tests/scripts/marks.sh). The list of allowed skips, tests/skips: each line names a place, a test that is there and a reason. Then what counts as allowed, by
# lists made here; that tests/run.sh fails what is not; and that steps without QEMU or Python fail in CI, and only there.
source "$(dirname "$0")/../support/start.sh"
unset CI WEFT_SANITIZER WEFT_VM WEFT_RDMA_DEVICE RDMA_DEVICE TEST_RUNNER
export BUILD=$work TEST_WITHOUT_KALLSYMS=1

# gives STATUS TEXT WHAT COMMAND...: its status, and a line of its output that is TEXT (none where TEXT is empty).
gives() {
    local status=$1 text=$2 what=$3 rc
    shift 3
    "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    if [[ $rc == "$status" ]] && { [[ -z $text ]] || grep -qxF -- "$text" "$work/out"; }; then ok "$what"; else
        bad "$what (status $rc)"
    fi
}
gives 0 '' "tests/skips is well-formed" tests/scripts/skips.sh
gives 0 '' "what tests say of their threads" tests/scripts/sanitize.sh marks

export TEST_SKIPS=$work/skips
printf '%s\n' 'elsewhere tests/run.sh x' 'anywhere tests/nothing x' 'anywhere tests/run.sh' 'anywhere tests/run.sh .*' 'anywhere tests/run.sh (' \
    >"$TEST_SKIPS"
gives 1 "$TEST_SKIPS:1: no place 'elsewhere'" "a list with faults" tests/scripts/skips.sh
for fault in '2: no test tests/nothing' '3: no reason' "4: '.*' is no expression, or allows a skip without a reason" \
    "5: '(' is no expression, or allows a skip without a reason"; do
    if grep -qxF "$TEST_SKIPS:$fault" "$work/out"; then ok "$fault"; else bad "$fault"; fi
done

# A test that prints what it is given, and ends with that status.
says() { # STATUS LINE...
    printf '#!/bin/bash\nprintf "%%s\\n" %s\nexit %s\n' "$(printf '%q ' "${@:2}")" "$1" >"$work/test_says.sh"
    chmod 755 "$work/test_says.sh"
}
# judged STATUS COUNT WHAT: tests/run.sh with that test.
judged() { gives "$1" "$2" "$3" tests/run.sh "$work/test_says.sh"; }
{
    echo "anywhere test_says.sh no colou?r"
    echo "not-ci test_says.sh no qemu.*"
    echo "sanitized test_says.sh memory"
    echo "machine test_* no window"
} >"$TEST_SKIPS"
says 0 "SKIP: no colour" "3 passed, 0 failed, 1 skipped"
judged 0 "3 passed, 0 failed, 1 skipped" "a skip that the list allows"
says 0 "SKIP: no colours" "3 passed, 0 failed, 1 skipped"
judged 1 "3 passed, 1 failed, 0 skipped" "a skip that it does not: the reason is compared as a whole"
if grep -q '^FAIL: skipped, and not allowed by tests/skips: test_says.sh: no colours$' "$work/out"; then ok "it is named"; else
    bad "it is not named"
fi
says 0 "SKIP: no colour" "SKIP: no sound" "3 passed, 0 failed, 2 skipped"
judged 1 "3 passed, 1 failed, 1 skipped" "one of two"
says 0 "3 passed, 0 failed, 2 skipped"
judged 1 "3 passed, 1 failed, 1 skipped" "a count without a reason"
says 77
judged 1 "0 passed, 1 failed, 0 skipped" "exit status 77 without a reason"
says 0 "[1] SKIP: no sound" "1 passed, 0 failed, 0 skipped"
judged 1 "1 passed, 1 failed, 0 skipped" "a reason from one of several hosts, which nobody counted"
says 0 "SKIP: no qemu-system-x86_64" "3 passed, 0 failed, 1 skipped"
judged 0 "3 passed, 0 failed, 1 skipped" "not-ci, on somebody's machine"
CI=true judged 1 "3 passed, 1 failed, 0 skipped" "not-ci, in CI"
says 0 "SKIP: memory" "3 passed, 0 failed, 1 skipped"
judged 1 "3 passed, 1 failed, 0 skipped" "sanitized, without a sanitizer"
WEFT_SANITIZER=asan judged 0 "3 passed, 0 failed, 1 skipped" "sanitized, with one"
says 0 "SKIP: no window" "3 passed, 0 failed, 1 skipped"
judged 1 "3 passed, 1 failed, 0 skipped" "machine, not in one"
WEFT_VM=1 judged 0 "3 passed, 0 failed, 1 skipped" "machine, in one"
cmocka=("[==========] Running 2 test(s)." "[ RUN      ] one" "[       OK ] one" "[ RUN      ] two")
ended=("[  SKIPPED ] two" "[==========] 2 test(s) run." "[  PASSED  ] 1 test(s)." "[  SKIPPED ] 1 test(s), listed below:" "[  SKIPPED ] two")
says 0 "${cmocka[@]}" "SKIP: no colour" "${ended[@]}"
judged 0 "1 passed, 0 failed, 1 skipped" "cmocka's skip with a reason"
says 0 "SKIP: no colour" "${cmocka[@]}" "${ended[@]}"
judged 1 "1 passed, 1 failed, 0 skipped" "cmocka's skip with the reason of something else"

# What is missing on this machine, to scripts that look for it by PATH.
unset TEST_SKIPS
mkdir "$work/bin"
ln -s /usr/bin/* /bin/* "$work/bin/" 2>/dev/null
rm -f "$work"/bin/{qemu-system-x86_64,python3*}
gives 0 "0 passed, 0 failed, 2 skipped" "no QEMU on somebody's machine" env PATH="$work/bin" tests/vm/check.sh one two
gives 1 "0 passed, 1 failed, 0 skipped" "no QEMU in CI" env CI=true PATH="$work/bin" tests/vm/check.sh one two
if grep -q '^FAIL: skipped, and not allowed by tests/skips: tests/vm/check.sh: no virtual machine for RDMA: no qemu' "$work/out"; then
    ok "QEMU is named"
else
    bad "QEMU is not named"
fi
gives 1 "0 passed, 1 failed, 0 skipped" "no programs for the virtual machines in CI" env CI=true PATH="$work/bin" tests/vm/check.sh one.sh
gives 0 "0 passed, 0 failed, 1 skipped" "no Python on somebody's machine" env PATH="$work/bin" tests/torch/check.sh
gives 1 "0 passed, 1 failed, 0 skipped" "no Python in CI" env CI=true PATH="$work/bin" tests/torch/check.sh
gives 1 "FAIL: skipped, and not allowed by tests/skips: tests/torch/check.sh: no python3" "it is named" \
    env CI=true PATH="$work/bin" tests/torch/check.sh

sum_up
