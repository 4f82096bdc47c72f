#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run: quiet (99 of 100 answers come within 100 ms of a death)
# A death inside the host is noticed within 100 ms: test_kill.c, judged by the clock. tests/scripts/kills.sh asks ten thousand times.
source "$(dirname "$0")/../support/start.sh"
for case in test_shm test_tcp; do
    step "$case" env WEFT_KILLS=200 WEFT_KILL_JOBS=1 WEFT_TEST_CASE=$case "$BUILD/tests/system/test_kill"
done
sum_up
