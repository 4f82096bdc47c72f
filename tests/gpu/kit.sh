#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Packs what tests/gpu/run.sh needs into $BUILD/gpu-kit, or the folder given, for a machine that has a GPU but no compiler and not every library:
# copy the folder there, and in it call tests/gpu/run.sh check, or perf.
#
# Libraries are those that the programs are linked with and those that weft opens by name, with what these need; not
# the C library's, whose version must be this machine's or later, and nothing of NVIDIA's.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
kit=${1:-$build/gpu-kit}
limit_mib=64
scripts=(tests/gpu/run.sh tests/run.sh tests/skips tests/scripts/skips.sh tests/scripts/marks.sh tests/scripts/idle.sh tests/support/tally.sh tests/system/test_cuda_record.sh)
programs=(weft-perf perf/micro/collective tests/gpu/cuda_record tests/gpu/test_devices_gpu tests/gpu/test_calls_gpu tests/gpu/wait_probe
    tests/fakes/drivers/libcuda.so.1)
opened=(libfabric.so.1 libhwloc.so.15 libibverbs.so.1)

rm -rf "$kit"
mkdir -p "$kit/lib"
for file in "${scripts[@]}" tests/gpu/traces/*; do
    [[ -f $file ]] && install -D "$file" "$kit/$file"
done
for program in "${programs[@]}"; do
    install -D "$build/$program" "$kit/build/$program" || exit 1
    strip -g "$kit/build/$program"
done
# Paths of everything that a file is linked with.
needs() {
    ldd "$1" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
        grep -vE '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util|anl|cuda|nvidia-ml))\.so\.[0-9]+$'
}
{
    for program in "${programs[@]}"; do needs "$build/$program"; done
    for name in "${opened[@]}"; do
        path=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk -v name="$name" '$1 == name && !found++ { print $NF }')
        [[ $path ]] || { echo "gpu-kit: no $name here: the kit goes without" >&2; continue; }
        echo "$path"
        needs "$path"
    done
} | sort -u >"$kit/lib.list"
while read -r path; do cp -L "$path" "$kit/lib/"; done <"$kit/lib.list"
rm "$kit/lib.list"
mib=$(du -sm "$kit" | cut -f 1)
echo "gpu-kit: $kit, $mib MiB, $(ls "$kit/lib" | wc -l) libraries"
((mib < limit_mib)) || { echo "gpu-kit: expected less than $limit_mib MiB" >&2; exit 1; }
