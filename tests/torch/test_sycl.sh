#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What bindings/torch/csrc/xpu.cpp takes SYCL's queues for is so in Intel's own runtime, the package intel-sycl-rt: tests/torch/test_sycl.sh
# HOME, the virtual environment of tests/torch/install.sh. Nothing of it is run: it wants an Intel GPU.
source "$(dirname "$0")/../support/start.sh"
home=$1
sycl=$home/sycl
mkdir -p "$sycl"
if ! compgen -G "$sycl/*.whl" >/dev/null && ! "$home/bin/pip" download -q --no-deps --dest "$sycl" intel-sycl-rt >"$sycl/log" 2>&1; then
    skip "intel-sycl-rt cannot be fetched"
    sum_up
    exit
fi
# member PATTERN: a file of the package.
member() {
    "$home/bin/python" -c '
import fnmatch, sys, zipfile
package = zipfile.ZipFile(sys.argv[1])
sys.stdout.buffer.write(package.read(fnmatch.filter(package.namelist(), sys.argv[2])[0]))' "$sycl"/*.whl "$1"
}
# has TEXT FILE: on one line.
has() { grep -qF -- "$1" <(member "*/$2"); }
step "a queue gives out its handle, and says by a number what it is" has "ur_native_handle_t getNative(int32_t &NativeHandleDesc) const;" include/sycl/queue.hpp
step "handles are as long as pointers" has "typedef uintptr_t ur_native_handle_t;" include/unified-runtime/ur_api.h
step "Level Zero is number 2" has "ext_oneapi_level_zero = 2," include/sycl/backend_types.hpp
step "the number is a char" has "enum class backend : char" include/sycl/backend_types.hpp
member '*/lib/libsycl.so.[0-9]' >"$work/libsycl.so"
for name in $(grep -o '"_ZN[^"]*"' bindings/torch/csrc/xpu.cpp | tr -d '"'); do
    step "libsycl.so exports $name" grep -qw "$name" <(nm -D --defined-only "$work/libsycl.so")
done
sum_up
