#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make install, a program built against the result by pkg-config (shared and static), make uninstall: the
# program is the C example of README.md, run by four ranks.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/checks/ranks.sh
BUILD=${BUILD:-build}
passed=0 failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
step() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$scratch/log" 2>&1; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$name failed:"
        tail -n 20 "$scratch/log"
    fi
}
target() {
    # The caller's job server is not ours to use.
    MAKEFLAGS='' ${MAKE:-make} --no-print-directory BUILD="$BUILD" CC="${CC:-gcc}" DESTDIR="$scratch/root" PREFIX=/opt/weft \
        BINDIR=/opt/weft/tools "$@"
}
example() { # FLAGS...
    ${CC:-gcc} -std=c11 -Wall -Wextra -Werror "$scratch/example.c" "$@" -o "$scratch/example"
}
run() {
    run_ranks 4 "$scratch/example" | sort >"$scratch/out"
    cat "$scratch/out"
    cmp "$scratch/out" - <<<"$(printf 'rank %d of 4: 10 10 10 10\n' 0 1 2 3)"
}

awk '/^```c$/ { on = 1; next } /^```/ { if (on) exit } on' README.md >"$scratch/example.c"
step "the example of README.md has at most 30 lines" test "$(wc -l <"$scratch/example.c")" -le 30 -a -s "$scratch/example.c"
step "building the example in the tree" example -Iinclude "$BUILD/libweft.a" $(MAKEFLAGS='' ${MAKE:-make} -s print-libs)
step "running it" run

step "make install" target install
root=$scratch/root/opt/weft
export PKG_CONFIG_LIBDIR=$root/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$scratch/root
step "the pkg-config file" test "$(pkg-config --modversion weft)" = "$("$BUILD/weft-perf" --version | sed -n '1s/.* //p')"
step "building against the installed library" example $(pkg-config --cflags --libs weft)
step "the library that it names" grep -qx "libweft\.so\.$(pkg-config --modversion weft | sed 's/^\(0\.[0-9]*\)\..*/\1/; t; s/\..*//')" \
    <(readelf -d "$scratch/example" | sed -n 's/.*NEEDED.*\[\(libweft.*\)\]/\1/p')
LD_LIBRARY_PATH=$root/lib step "running it" run
step "building against the installed archive" example $(pkg-config --cflags --libs --static weft | sed 's/-lweft/-l:libweft.a/')
step "running it" run
step "the program is static" test -z "$(readelf -d "$scratch/example" | grep -F libweft)"
step "tools where BINDIR says" test -x "$root/tools/weft-topo" -a -x "$root/tools/weft-plan" -a -x "$root/tools/weft-perf" -a ! -e "$root/bin"
step "a page in its place" test -f "$root/share/man/man3/weft_allreduce.3"
step "make uninstall" target uninstall
step "nothing stays after uninstall" test -z "$(find "$scratch/root" -type f -o -type l | tee /dev/stderr)"
echo "$passed passed, $failed failed, 0 skipped"
[[ $failed == 0 ]]
