# SPDX-License-Identifier: Apache-2.0
# For scripts that source it, in the project's folder: makes a virtual environment in $BUILD/torch, installs torch there
# (TORCH_VERSION, the CPU build where pip's index or PyTorch's has one), what its own tests need, and bindings/torch. Then
# $home/bin/python has them; where that cannot be, the script ends with a skip, or with a failure where tests/skips does not allow
# that one.
BUILD=$(mkdir -p "${BUILD:-build}" && cd "${BUILD:-build}" && pwd) || exit 1
version=${TORCH_VERSION:-2.13.0}
home=$BUILD/torch
log=$home/install.log
skip() {
    local unlisted
    echo "SKIP: $1"
    if unlisted=$(tests/scripts/skips.sh tests/torch/check.sh - <<<"SKIP: $1"); then
        echo "0 passed, 0 failed, 1 skipped"
        exit 0
    fi
    echo "$unlisted"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
python=$(command -v python3) || skip "no python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "PyTorch wants Python 3.10 or later"
[[ -f $(dirname "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h")/Python.h ]] ||
    skip "no Python.h: install python3-dev"
command -v g++ >/dev/null || skip "no g++"
mkdir -p "$home"
if [[ ! -x $home/bin/python ]] && ! "$python" -m venv "$home" >"$log" 2>&1; then
    skip "no virtual environment can be made: install python3-venv"
fi
if ! "$home/bin/python" -c "import torch, numpy, expecttest, sys; sys.exit(torch.__version__.split('+')[0] != '$version')" 2>/dev/null; then
    "$home/bin/pip" install -q --no-compile "torch==$version+cpu" numpy expecttest >"$log" 2>&1 ||
        "$home/bin/pip" install -q --no-compile --retries 0 --timeout 10 --extra-index-url https://download.pytorch.org/whl/cpu \
            "torch==$version+cpu" numpy expecttest >>"$log" 2>&1 ||
        "$home/bin/pip" install -q --no-compile "torch==$version" numpy expecttest >>"$log" 2>&1 ||
        skip "torch $version cannot be installed: $(tail -n 1 "$log")"
    # Python compiles what is imported here, which is a part of it all: what distributed.py asks for, with what that asks to be set.
    env -u PYTHONDONTWRITEBYTECODE BACKEND=gloo WORLD_SIZE=2 TEMP_DIR=/ INIT_METHOD=file:/// "$home/bin/python" \
        -c 'import torch.testing._internal.distributed.distributed_test' >>"$log" 2>&1 || tail -n 1 "$log"
fi
# As a user would: an sdist, the wheel that pip makes of it in an environment of its own, which lies in $dist, and that installed.
# Objects of libweft are kept, and apart: those of the sdist's copy of a source may be newer than what the tree's has become.
dist=$home/dist
install_weft() {
    rm -rf "$dist" && mkdir "$dist" || return
    (cd bindings/torch && "$home/bin/python" -c 'import sys, weft_build; weft_build.build_sdist(sys.argv[1])' "$dist") || return
    TORCH_WEFT_BUILD=$home/weft "$home/bin/pip" wheel -v --no-cache-dir --no-deps --wheel-dir "$dist" "$dist"/torch*.tar.gz || return
    "$home/bin/pip" install --force-reinstall --no-deps "$dist"/torch*.whl
}
if ! install_weft >"$log" 2>&1; then
    grep -aE 'error|Error|^ *torch_weft: ' "$log" | head -20
    echo "bindings/torch does not install: $log"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
