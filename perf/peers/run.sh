#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the drivers and runs the comparison with peers; `make perf-peers` calls it after building weft.
#
# BUILD             build folder (build)
# PEERS_OPERATIONS  which of allreduce,alltoall,allgather,broadcast,pingpong,window,init (all)
# PEERS_SIZES       sizes, such as 8,4K,32M
# PEERS_REPEATS     turns per library and size (21), jobs per library of init (11 at most)
# PEERS_TABLES      which of shm,tcp,over (all for allreduce, shm and tcp for pingpong, tcp for window, shm for the others)
# PEERS_INIT_RANKS  numbers of ranks that init starts (2,4,8)
# PEERS_INSTALL     no: packages that are missing stay away (as root they are installed)
# PEERS_STATISTIC   median, or fastest for a machine that is busy with other work
set -eu
here=$(dirname "$0")
root=$here/../..
BUILD=${BUILD:-build}
out=$BUILD/peers
mkdir -p "$out"

# Package and the file that shows it is there, which may be a pattern.
needed() {
    cat <<'LIST'
python3 /usr/bin/python3
openmpi-bin /usr/bin/mpirun.openmpi
libopenmpi-dev /usr/lib/*/openmpi/include/mpi.h
mpich /usr/bin/mpirun.mpich
libmpich-dev /usr/bin/mpicc.mpich
libgloo-dev /usr/include/gloo/allreduce.h
g++ /usr/bin/g++
LIST
}

missing=$(needed | while read -r package file; do ls $file >/dev/null 2>&1 || printf '%s ' "$package"; done)
if [ -n "$missing" ]; then
    if [ "${PEERS_INSTALL:-yes}" = no ]; then
        echo "# absent, and PEERS_INSTALL=no: $missing"
    elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "# installing $missing"
        # One by one: a package that cannot be had must not keep the others away.
        DEBIAN_FRONTEND=noninteractive apt-get update -qq || true
        for package in $missing; do
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" \
                >"$out/apt.log" 2>&1 || echo "# absent: package $package does not install (see $out/apt.log)"
        done
    else
        echo "# absent, and only root can install: $missing"
    fi
fi
command -v python3 >/dev/null || { echo "perf-peers: python3 is missing: apt-get install python3" >&2; exit 1; }

# compile OUTPUT COMMAND...: leaves no old driver behind when it cannot be built.
compile() {
    target=$out/$1
    shift
    rm -f "$target"
    "$@" -o "$target" 2>"$target.err" || echo "# absent: $target does not build (see $target.err)"
}
flags="-O3 -Wall -Wextra -D_GNU_SOURCE -I$root"
[ -x /usr/bin/mpicc.openmpi ] && compile peer-openmpi mpicc.openmpi -std=c11 $flags "$here/peer_mpi.c"
[ -x /usr/bin/mpicc.mpich ] && compile peer-mpich mpicc.mpich -std=c11 $flags "$here/peer_mpi.c"
[ -e /usr/include/gloo/allreduce.h ] && compile peer-gloo g++ -std=c++14 $flags "$here/peer_gloo.cc" -lgloo -lpthread
compile peer-bound ${CC:-gcc} -std=c11 $flags "$here/peer_bound.c"
compile peer-readv ${CC:-gcc} -std=c11 $flags "$here/peer_readv.c"
compile peer-sockets ${CC:-gcc} -std=c11 $flags "$here/peer_sockets.c"
compile peer-weft ${CC:-gcc} -std=c11 $flags -I"$root/include" "$here/peer_weft.c" "$BUILD/libweft.a" \
    $("${MAKE:-make}" -s -C "$root" print-libs)

PYTHONDONTWRITEBYTECODE=1 BUILD=$BUILD exec python3 "$here/coordinate.py" "$@"
