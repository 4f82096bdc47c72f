#!/bin/bash
# The tests of the PyTorch backend, tests/torch/test_*.py, or what is named, in a virtual environment of their own:
# tests/torch/check.sh [FILE...]
set -u
export PYTHONDONTWRITEBYTECODE=1
cd "$(dirname "$0")/../.." || exit 1
source tests/torch/install.sh
files=("$@")
((${#files[@]})) || files=(tests/torch/test_*.py)
exec "$home/bin/python" tests/torch/harness.py "${files[@]}"
