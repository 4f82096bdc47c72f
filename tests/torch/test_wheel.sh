#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the package of bindings/torch consists of: tests/torch/test_wheel.sh HOME, the virtual environment of tests/torch/install.sh.
# The wheel that was installed there is looked at. Others are built by a compiler that writes empty files, and for folders
# that look like torch, so that they take seconds; they are made in a copy of the sources where earlier builds have left things.
source "$(dirname "$0")/../support/start.sh"
home=$1

# has_one_binary WHEEL MINOR: and depends on this minor version of torch, and comes with its licence.
has_one_binary() {
    "$home/bin/python" - "$@" <<'PYTHON'
import sys, zipfile

wheel, minor = zipfile.ZipFile(sys.argv[1]), sys.argv[2]
print(*wheel.namelist(), sep="\n")
binaries = [name for name in wheel.namelist() if ".so" in name]
assert len(binaries) == 1 and binaries[0].startswith(f"torch_weft/_C_{minor.replace('.', '_')}."), binaries
expected = {"torch_weft/__init__.py", *binaries}
assert {name for name in wheel.namelist() if ".dist-info/" not in name} == expected
assert any(name.endswith("/LICENSE") for name in wheel.namelist())
metadata = next(wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/METADATA"))
assert f"Requires-Dist: torch=={minor}.*" in metadata, metadata
PYTHON
}
installed=("$home"/dist/*.whl)
version=$("$home/bin/python" -c 'import torch; print(".".join(torch.__version__.split(".")[:2]))')
step "one wheel was made from the sdist" test ${#installed[@]} = 1 -a -f "${installed[0]}"
step "the wheel from the sdist has one binary" has_one_binary "${installed[0]}" "$version"

# --- a copy of the sources, two that look like torch, a compiler, an objcopy and a pkg-config

tree=$work/tree
mkdir "$tree"
cp -r Makefile LICENSE libweft.map mk algos base bindings comm devmem include topo transport "$tree"
mkdir -p "$tree/bindings/torch/build/lib.linux-x86_64-cpython-311/torch_weft" "$tree/bindings/torch/torch_weft.egg-info"
stale=torch_weft/_C_2_99.cpython-311-x86_64-linux-gnu.so
echo stale >"$tree/bindings/torch/$stale"
echo stale >"$tree/bindings/torch/build/lib.linux-x86_64-cpython-311/$stale"
echo "$stale" >"$tree/bindings/torch/torch_weft.egg-info/SOURCES.txt"
for minor in 2.12 2.14 2.15; do
    mkdir -p "$work/$minor/torch/include"
    echo "__version__ = '$minor.3+cpu'" >"$work/$minor/torch/version.py"
done
cat >"$work/compiler" <<'COMPILER'
#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" = -o ] && : >"$2"
    shift
done
COMPILER
cat >"$work/objcopy" <<'OBJCOPY'
#!/bin/sh
for last; do :; done
: >"$last"
OBJCOPY
cat >"$work/no-fabrics" <<'PKG_CONFIG'
#!/bin/sh
case $* in *libfabric* | *libibverbs*) exit 1 ;; *) exec pkg-config "$@" ;; esac
PKG_CONFIG
chmod +x "$work/compiler" "$work/objcopy" "$work/no-fabrics"
state() { find "$tree" -type d -print -o -printf '%p %y %s %T@\n' | sort; }
build() { # [NAME=VALUE...] -- [pip's...]: makes $work/wheels/*.whl
    local settings=()
    while [[ $1 != -- ]]; do settings+=("$1") && shift; done
    shift
    # As pip is called by hand: Python writes what it compiles beside its sources.
    env -u PYTHONDONTWRITEBYTECODE TORCH_WEFT_BUILD="$work/build" CC="$work/compiler" CXX="$work/compiler" OBJCOPY="$work/objcopy" "${settings[@]}" \
        "$home/bin/pip" wheel -v --no-cache-dir --no-build-isolation --no-deps --wheel-dir "$work/wheels" "$@" "$tree/bindings/torch"
}
# refused WORDS [NAME=VALUE...] -- [pip's...]: it fails, and says every one of the words, and makes no wheel.
refused() {
    local words=$1 word
    shift
    rm -rf "$work/wheels"
    build "$@" >"$work/said" 2>&1 && { echo "it did not fail" && return 1; }
    [[ ! -e $work/wheels ]] || [[ -z $(ls "$work/wheels") ]] || return
    tail -n 20 "$work/said"
    for word in $words; do grep -qF -- "$word" "$work/said" || { echo "not said: $word" && return 1; }; done
}

# --- stale binaries

state >"$work/before"
step "a wheel for torch 2.15" build TORCH_WEFT_TORCH="$work/2.15/torch" --
step "a wheel for torch 2.14 after it" build TORCH_WEFT_TORCH="$work/2.14/torch" --
for minor in 2.14 2.15; do
    wheels=("$work"/wheels/*-"$minor"torch-*.whl)
    step "the wheel for torch $minor has its binary alone" has_one_binary "${wheels[0]}" "$minor"
done
sdist() { (cd "$tree/bindings/torch" && env -u PYTHONDONTWRITEBYTECODE "$home/bin/python" -c 'import weft_build; weft_build.build_sdist("..")'); }
state >"$work/after"
step "nothing was written among the sources" diff "$work/before" "$work/after"
step "an sdist" sdist
without_stale() { tar tzf "$tree"/bindings/torch*.tar.gz >"$work/listed" && ! grep -E '\.so|/build/' "$work/listed"; }
step "the sdist has no binary" without_stale
rm "$tree"/bindings/torch*.tar.gz
state >"$work/after"
step "nor by the sdist" diff "$work/before" "$work/after"

# --- without headers of a fabric

here=TORCH_WEFT_TORCH=$work/2.15/torch
bare=PKG_CONFIG=$work/no-fabrics
says_tcp_alone() { build "$@" >"$work/said" 2>&1 || return; grep -xE ' *torch_weft: transports between hosts: tcp' "$work/said"; }
step "without headers of a fabric it has TCP" says_tcp_alone "$here" "$bare" --
step "and where that is meant" says_tcp_alone "$here" "$bare" WITH_VERBS=no WITH_OFI=no --

# --- what is refused

step "a torch that is too old" refused "2.13 2.12.3+cpu" TORCH_WEFT_TORCH="$work/2.12/torch" --
step "no torch" refused "$work/nowhere TORCH_WEFT_TORCH --config-settings" TORCH_WEFT_TORCH="$work/nowhere" --
step "another torch than asked for" refused "2.16.0 2.15.3+cpu" "$here" -- --config-settings torch=2.16.0
sum_up
