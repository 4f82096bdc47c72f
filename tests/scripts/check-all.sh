#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make check-all: make check and all that it leaves out, one step after the other, in the order of steps below. Each step keeps logs of its
# own and says how long it took. It ends with a table and the sum.
#
# FROM=tsan           goes on at a step
# ONLY="asan tsan"    runs these
set -u
cd "$(dirname "$0")/../.." || exit 1
steps=(check quiet rdma ze torch tools asan tsan fuzz clang aarch64)
export FUZZ_SECONDS=${FUZZ_SECONDS:-3}
# make check draws the same runs each time; here they are others each time.
seed=${WEFT_SEED:-$((RANDOM << 15 | RANDOM))}
export WEFT_SEED=$seed WEFT_TEST_SEED=$seed WEFT_KILL_SEED=$seed
echo "seed: WEFT_SEED=$seed"

for name in ${FROM-} ${ONLY-}; do
    [[ " ${steps[*]} " == *" $name "* ]] || {
        echo "check-all: there is no step '$name'; the steps are: ${steps[*]}" >&2
        exit 2
    }
done
commands=()
from=${FROM-}
for step in "${steps[@]}"; do
    [[ $step != "$from" ]] || from=
    [[ -z $from ]] || continue
    [[ -z ${ONLY-} || " $ONLY " == *" $step "* ]] || continue
    case $step in
    check | asan | tsan | fuzz) commands+=("${MAKE:-make} $step") ;;
    clang | aarch64) commands+=("count: ${MAKE:-make} check-$step") ;;
    *) commands+=("${MAKE:-make} check-$step") ;;
    esac
done
exec tests/scripts/sum.sh "${commands[@]}"
