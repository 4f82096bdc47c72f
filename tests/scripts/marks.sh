#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What tests say about how they are run: tests/scripts/marks.sh WORD TEST...  prints those of the tests, one a line, that say WORD.
#
# A test says it in one of the first five lines of its source: /* run: beside (deadlines); early */ in C, "# run: ..." in a script.
#
#   beside (WHAT FOR)   mostly waits, for deadlines, heartbeats, ranks that stay away: tests/run.sh runs it beside the others. It is to
#                       use the processor less than half of its time
#   early               takes long: it is begun before others, so that nothing waits for it alone at the end
#   quiet (WHY)         judges by the clock of the machine: make check leaves it out, make check-quiet runs such tests one at a time. No promise
#                       about bits, hangs or culprits is held by one alone
#   unthreaded (WHY)    has one thread only, as has all that it runs: the thread sanitizer has nothing to compare in it, and make tsan
#                       leaves it out
#   elsewhere (TEST)    its threads share what they share in TEST, in the same way: make tsan runs that, and leaves this out
#   unsanitized (WHY)   runs nothing of the library that no other test runs: make asan and make tsan leave it out
#
# A test is a program in $BUILD, or a source with or without .c. Ends with 1 where one says something else.
set -u
word=$1
shift
sources=()
declare -A test_of
for test; do
    source=${test#"${BUILD:-build}"/}
    [[ $source == *.sh || $source == *.c ]] || source+=.c
    [[ -f $source ]] || continue # on a machine where only programs are
    sources+=("$source")
    test_of[$source]=$test
done
((${#sources[@]})) || exit 0
status=0
while IFS=$'\t' read -r source verdict; do
    if [[ $verdict == said ]]; then echo "${test_of[$source]}"; else
        echo "$source: its line \"run:\" is not understood: $verdict" >&2
        status=1
    fi
done < <(awk -v word="$word" '
    /^(\/\*|#) run: / {
        line = $0
        sub(/^(\/\*|#) run: /, "", line)
        sub(/ \*\/$/, "", line)
        marks = split(line, mark, /; */)
        for (m = 1; m <= marks; m++) {
            if (mark[m] !~ /^((beside|quiet|unthreaded|elsewhere|unsanitized) \([^()]+\)|early)$/) print FILENAME "\t" mark[m]
            else if (mark[m] == word || index(mark[m], word " (") == 1) print FILENAME "\tsaid"
        }
    }
    FNR == 5 { nextfile }' "${sources[@]}")
exit $status
