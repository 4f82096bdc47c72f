#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# weft beside perftest over RDMA: on the device that RDMA_DEVICE names, or in a virtual machine that has one
# (tests/vm/README.md). `make perf-rdma` calls it after building weft.
#
# RDMA_DEVICE      device of this system, such as mlx5_0
# RDMA_REPEATS     turns of each program (7; 5 in the virtual machine)
# RDMA_ITERATIONS  round trips of 8 bytes per turn (2000; 200 in the virtual machine)
# RDMA_WINDOW      messages of 1 MiB in flight (16), RDMA_WINDOWS how often (20; 2 in the virtual machine)
# RDMA_STATISTIC   median, or fastest for a machine that is busy with other work
# RDMA_CPUS        processors of the virtual machine (2)
set -eu
here=$(dirname "$0")
command -v python3 >/dev/null || { echo "SKIP: python3 is missing: apt-get install python3"; exit 0; }

[[ ${RDMA_DEVICE:-} ]] && exec env PYTHONDONTWRITEBYTECODE=1 python3 "$here/compare.py" "$@"

status=0
"$here/../../tests/vm/run.sh" --timeout 900 --cpus "${RDMA_CPUS:-2}" \
    --env PYTHONDONTWRITEBYTECODE=1 --env RDMA_REPEATS="${RDMA_REPEATS:-5}" \
    --env RDMA_ITERATIONS="${RDMA_ITERATIONS:-200}" --env RDMA_WINDOW="${RDMA_WINDOW:-}" \
    --env RDMA_WINDOWS="${RDMA_WINDOWS:-2}" --env RDMA_STATISTIC="${RDMA_STATISTIC:-}" \
    -- python3 "$here/compare.py" "$@" || status=$?
((status == 77)) && exit 0 # no such machine here; it has said why
exit "$status"
