#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tests of the PyTorch backend in a virtual environment of their own: of the package, tests/torch/test_*.py and PyTorch's own, or
# what is named: tests/torch/check.sh [FILE...]. PyTorch's own run with 2 and 4 ranks, and with 3 in make check-long (WEFT_LONG).
set -u
export PYTHONDONTWRITEBYTECODE=1
cd "$(dirname "$0")/../.." || exit 1
source tests/torch/install.sh
export WEFT_HEARTBEAT_MS=${WEFT_HEARTBEAT_MS:-600000} # as in tests/run.sh
all() {
    local status=0
    tests/torch/test_wheel.sh "$home" || status=1
    tests/torch/test_sycl.sh "$home" || status=1
    # XPUs are played on Level Zero's loader, by a driver of the tests' own.
    local files=(tests/torch/test_*.py)
    if [[ ! -f $BUILD/tests/fakes/ze/libweft_ze_fake.so ]]; then
        echo "SKIP: the library was built without Level Zero: no XPU is played"
        echo "0 passed, 0 failed, 1 skipped"
        files=("${files[@]/*test_xpu.py/}")
    fi
    BUILD=$BUILD "$home/bin/python" tests/torch/harness.py ${files[@]} || status=1
    "$home/bin/python" tests/torch/distributed.py --worlds "2,${WEFT_LONG:+3,}4" || status=1
    # With 8 ranks what PyTorch does not run with fewer.
    "$home/bin/python" tests/torch/distributed.py --worlds 8 '*_group' '*_group_*' 'test_monitored_barrier_*' || status=1
    return $status
}
(($#)) && exec "$home/bin/python" tests/torch/harness.py "$@"
all | tee "$home/check.log"
status=${PIPESTATUS[0]}
awk '/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { passed += $1; failed += $3; skipped += $5 }
    END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$home/check.log"
exit "$status"
