#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The packages of $BUILD/deb in a system that has nothing else: a fresh one of the same release is installed in a folder
# (CHECK_DEB_ROOT, a temporary one) from the mirror that apt-get uses here. They are installed there as a user would, the program of
# README.md is built and four ranks of it run, and purging them leaves nothing. Needs root. make check does not run it.
set -u
cd "$(dirname "$0")/../.." || exit 1
debs=$(cd "${BUILD:-build}/deb" && pwd) || exit 1
[[ $(id -u) == 0 ]] || { echo "check-deb.sh: only root can install a system in a folder" >&2; exit 1; }
PATH=$PATH:/usr/sbin:/sbin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=${CHECK_DEB_ROOT:-$work/root}
[[ ! -e $root ]] || { echo "check-deb.sh: $root is there already: a folder that does not exist is expected" >&2; exit 1; }
source tests/support/tally.sh
# inside COMMAND...: runs in the system, with /proc and /dev/shm of its own, which end with the command and all that it has started.
inside() {
    # shellcheck disable=SC2016
    unshare --mount --pid --fork bash -c 'mount -t proc proc "$0/proc" && mkdir -p "$0/dev/shm" && mount -t tmpfs tmpfs "$0/dev/shm" &&
        exec chroot "$0" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"' "$root" "$@"
}

library=$(find "$debs" -regextype posix-extended -regex ".*/libweft[0-9.]+_[^/]*\.deb")
packages=("${library##*/}" "$(basename "$debs"/libweft-dev_*.deb)" "$(basename "$debs"/weft-tools_*.deb)")
changes=("$debs"/*.changes)
step "one build lies in $debs" test ${#changes[@]} = 1 -a -f "${changes[0]}"
step "lintian finds no error" lintian --fail-on error --tag-display-limit 0 --allow-root "${changes[0]}"
cat "$work/out"

codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v codename="$codename" '$2 == codename && $3 == "main" { print $1; exit }')
step "a fresh $codename" debootstrap --variant=minbase "$codename" "$root" "$mirror"
((failed == 0)) || {
    sum_up
    exit
}

mkdir "$root/debs"
cp "$debs"/*.deb "$root/debs/"
awk '/^```c$/ { on = 1; next } /^```/ { if (on) exit } on' README.md >"$root/root/sum.c"
cp tests/checks/ranks.sh "$root/root/"
# With hard dependencies alone, and what a compiler is.
install() { inside apt-get install -y --no-install-recommends "$@"; }
step "apt-get update" inside apt-get update
step "apt-get install" install "${packages[@]/#//debs/}" gcc libc6-dev pkg-config
step "nothing that is loaded at run time came with it" bash -c "! ls $root/usr/lib/*/libfabric.so* $root/usr/lib/*/libibverbs.so*"

four_sums() {
    # shellcheck disable=SC2016
    inside bash -c 'cd && cc sum.c $(pkg-config --cflags --libs weft) "$@" -o sum && . ./ranks.sh && run_ranks 4 ./sum' bash "$@" >"$work/sums" || return
    cat "$work/sums"
    sort "$work/sums" | cmp - <(printf 'rank %d of 4: 10 10 10 10\n' 0 1 2 3)
}
step "the program of README.md, and four ranks of it" four_sums
step "it uses the shared library" inside bash -c 'ldd /root/sum | grep "libweft\.so\.0\.[0-9]* => /"'
static_libraries() { inside pkg-config --static --libs weft | sed 's/-lweft/-l:libweft.a/'; }
# shellcheck disable=SC2046
step "the same, linked with libweft.a" four_sums -static-libgcc $(static_libraries)
for tool in weft-perf weft-plan weft-topo; do
    step "$tool --version" inside "$tool" --version
    step "a man page of $tool" test -s "$root/usr/share/man/man1/$tool.1.gz"
done
step "man pages of calls" test -s "$root/usr/share/man/man3/weft_allreduce.3.gz" -a -s "$root/usr/share/man/man7/weft.7.gz"
step "the licence" grep -q "Apache" "$root"/usr/share/doc/libweft0*/copyright
step "a checked allreduce over shared memory" inside weft-perf allreduce --ranks 4 --transport shm -b 8 -e 64K -f 8 -n 5 -w 1

# --- with what is recommended

of_package() { dpkg-deb --field "$2" "$1"; } # FIELD FILE
recommended() { [[ $(of_package Recommends "$library") == *"$1"* ]]; }
step "libfabric is recommended" recommended libfabric1
step "verbs are recommended" recommended libibverbs1
step "the loader of Level Zero is recommended" recommended libze1
step "kernels for Level Zero are in the library" bash -c "grep -aq OpenCL.std $root/usr/lib/*/libweft.so.0.*.*"
echo "libweft: Depends: $(of_package Depends "$library"); Recommends: $(of_package Recommends "$library");" \
    "Suggests: $(of_package Suggests "$library")"
step "what is recommended" install libfabric1 libibverbs1
step "a checked allreduce over TCP" inside weft-perf allreduce --ranks 4 --transport ofi --provider tcp -b 8 -e 64K -f 8 -n 5 -w 1

# --- debug symbols

symbols_fit() {
    local id
    id=$(readelf -n "$root"/usr/lib/*/libweft.so.0.*.* | sed -n 's/.*Build ID: //p')
    echo "build id $id"
    [[ $id ]] && dpkg-deb --contents "$debs"/libweft0*-dbgsym_*.deb | grep -F "/.build-id/${id:0:2}/${id:2}.debug"
}
step "debug symbols of the library that is installed" symbols_fit

step "purging" inside apt-get purge -y 'libweft*' weft-tools
nothing "what stays" "$(find "$root" -xdev -path "$root/debs" -prune -o -path "$root/proc" -prune -o -name '*weft*' -print)"
sum_up
