#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make install, a program built against the result by pkg-config (shared and static), make uninstall: the
# program is the C example of README.md, run by four ranks.
source "$(dirname "$0")/../support/start.sh"
. tests/checks/ranks.sh
target() {
    # The caller's job server is not ours to use.
    MAKEFLAGS='' ${MAKE:-make} --no-print-directory BUILD="$BUILD" CC="${CC:-gcc}" DESTDIR="$work/root" PREFIX=/opt/weft \
        BINDIR=/opt/weft/tools "$@"
}
example() { # FLAGS...
    ${CC:-gcc} -std=c11 -Wall -Wextra -Werror "$work/example.c" "$@" -o "$work/example"
}
run() {
    run_ranks 4 "$work/example" | sort >"$work/sums"
    cat "$work/sums"
    cmp "$work/sums" - <<<"$(printf 'rank %d of 4: 10 10 10 10\n' 0 1 2 3)"
}

awk '/^```c$/ { on = 1; next } /^```/ { if (on) exit } on' README.md >"$work/example.c"
step "the example of README.md has at most 30 lines" test "$(wc -l <"$work/example.c")" -le 30 -a -s "$work/example.c"
step "building the example in the tree" example -Iinclude "$BUILD/libweft.a" $(MAKEFLAGS='' ${MAKE:-make} -s print-libs)
step "running it" run

step "make install" target install
root=$work/root/opt/weft
export PKG_CONFIG_LIBDIR=$root/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/root
step "the pkg-config file" test "$(pkg-config --modversion weft)" = "$("$BUILD/weft-perf" --version | sed -n '1s/.* //p')"
step "building against the installed library" example $(pkg-config --cflags --libs weft)
step "the library that it names" grep -qx "libweft\.so\.$(pkg-config --modversion weft | sed 's/^\(0\.[0-9]*\)\..*/\1/; t; s/\..*//')" \
    <(readelf -d "$work/example" | sed -n 's/.*NEEDED.*\[\(libweft.*\)\]/\1/p')
LD_LIBRARY_PATH=$root/lib step "running it" run
step "building against the installed archive" example $(pkg-config --cflags --libs --static weft | sed 's/-lweft/-l:libweft.a/')
step "running it" run
# A program's own functions may have the names of weft's inner ones.
clash() {
    {
        nm -g --defined-only "$BUILD/libweft-parts.a" | awk 'NF == 3 && $2 == "T" { print $3 }' |
            grep -vxFf <(grep -o 'weft_[a-z0-9_]*;' libweft.map | tr -d ';') | sort -u | sed 's/.*/int &(void);\nint &(void) { return 1; }/'
    } >"$work/clash.c"
    grep -q shm_ "$work/clash.c" && example "$work/clash.c" "$@"
}
step "building a program with functions of the names of weft's own" clash $(pkg-config --cflags --libs --static weft | sed 's/-lweft/-l:libweft.a/')
step "running it" run
step "the program is static" test -z "$(readelf -d "$work/example" | grep -F libweft)"
step "tools where BINDIR says" test -x "$root/tools/weft-topo" -a -x "$root/tools/weft-plan" -a -x "$root/tools/weft-perf" -a ! -e "$root/bin"
step "a page in its place" test -f "$root/share/man/man3/weft_allreduce.3"
cp -a "$root" "$work/moved"
moved() { PKG_CONFIG_LIBDIR=$work/moved/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR='' pkg-config --define-prefix --cflags --libs weft; }
step "pkg-config --define-prefix finds what has been moved" grep -qF -- "-I$work/moved/include -L$work/moved/lib" <(moved)
step "make uninstall" target uninstall
step "nothing stays after uninstall" test -z "$(find "$work/root" -type f -o -type l | tee /dev/stderr)"
sum_up
