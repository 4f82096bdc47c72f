#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A checked allreduce between 4 processes of this machine, over shared memory and then over TCP. Fails when a
# result is wrong or a rank fails.
set -eu
perf=${BUILD:-build}/weft-perf
sweep=(allreduce --columns weft --ranks 4 -b 8 -e 4M -f 4 -n 10 -w 3)
echo "== shared memory"
timeout 120 "$perf" "${sweep[@]}" --transport shm
echo "== TCP"
timeout 120 "$perf" "${sweep[@]}" --transport tcp
echo "== every element is right, over shared memory and over TCP"
