#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make dist: the same bytes each time, also from a tarball that was unpacked, and what is in it can be built.
source "$(dirname "$0")/../support/start.sh"
target() { # FOLDER TARGET...: the caller's job server is not ours to use
    MAKEFLAGS='' ${MAKE:-make} --no-print-directory -C "$1" CC="${CC:-gcc}" BUILD="$work/$2" "${@:3}"
}
listed() { diff <(find . -type f -o -type l | sed 's,^\./,,' | LC_ALL=C sort) <({ cat MANIFEST && echo MANIFEST; } | LC_ALL=C sort -u); }

step "make dist" target . first dist
tarball=$(cd "$work/first" && echo weft-*.tar.gz)
step "its name has the version" grep -qE '^weft-[0-9]+\.[0-9]+\.[0-9]+\.tar\.gz$' <<<"$tarball"
step "unpacking it" tar xzf "$work/first/$tarball" -C "$work"
tree=$work/${tarball%.tar.gz}
step "its list of files is right" bash -c "$(declare -f listed); cd '$tree' && listed"
# With another mask for modes.
umask 077
step "make dist in it" target "$tree" again dist
step "the same bytes" cmp "$work/first/$tarball" "$work/again/$tarball"
step "what building it would do" target "$tree" built -n all
step "nothing was written into it" bash -c "$(declare -f listed); cd '$tree' && listed"
nowhere() { mkdir "$work/bare" && (cd "$work/bare" && "$tree/mk/dist.sh" 1.2.3 "$work/none.tar.gz"); }
refused() { nowhere >"$work/said" 2>&1 && return 1; grep -q MANIFEST "$work/said" && [[ ! -e $work/none.tar.gz ]]; }
step "a folder that is neither is refused" refused
sum_up
