#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: quiet (nine answers in ten come within a second, and name who is wrong)
# Ranks that disagree hear of it within a second: test_mismatch.c, judged by the clock.
source "$(dirname "$0")/../../support/start.sh"
for seed in 1 2 3; do
    step "seed $seed" env WEFT_TEST_CLOCK=1 WEFT_SEED=$seed WEFT_TEST_CASE=test_matrix "$BUILD/tests/comm/core/test_mismatch"
done
sum_up
