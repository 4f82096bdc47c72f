#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch on gloo and on weft, two ranks, in one run: perf/torch/compare.py, in the virtual environment that make check-torch uses.
set -u
cd "$(dirname "$0")/../.." || exit 1
export PYTHONDONTWRITEBYTECODE=1
source tests/torch/install.sh
"$home/bin/python" -c 'import torch; print("torch", torch.__version__)'
uname -srm
exec "$home/bin/python" -m torch.distributed.run --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint localhost:0 \
    perf/torch/compare.py 2>&1
