#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each optional part can be left out: the library links without all of them, and with WEFT_LONG without any one. What the parts share is taken from
# $BUILD, so that only what stands in for a part is compiled. And a part that is asked for and not there fails, by name.
source "$(dirname "$0")/../support/start.sh"
unset MAKEFLAGS MFLAGS MAKELEVEL
run_make() { ${MAKE:-make} --no-print-directory BUILD="$work/build" CC="${CC:-gcc}" "$@"; }

# links WHAT OPTION...
links() {
    local what=$1 object objects=() missing=() needed
    shift
    readarray -t needed < <(run_make -n "$@" "$work/build/libweft-parts.a" 2>"$work/err" | grep '&& ar ' | tr ' ' '\n' | grep '\.o$')
    for object in "${needed[@]}"; do
        if [[ -f $BUILD/${object#"$work/build/"} ]]; then objects+=("$BUILD/${object#"$work/build/"}"); else
            objects+=("$object")
            missing+=("$object")
        fi
    done
    if ((${#objects[@]} > 200)) && { ((!${#missing[@]})) || run_make "$@" "${missing[@]}" >"$work/out" 2>"$work/err"; } &&
        ${CC:-gcc} -shared -Wl,-z,defs "${objects[@]}" $(run_make -s print-libs) -o "$work/libweft.so" 2>"$work/err"; then
        ok "$what: ${#missing[@]} of ${#objects[@]} objects stand in"
    else
        bad "$what: ${#missing[@]} of ${#objects[@]} objects stand in"
    fi
}
if [[ ${WEFT_LONG-} ]]; then
    for part in VERBS OFI PMIX CUDA ZE SPIRV HWLOC; do links "without $part" "WITH_$part=no"; done
fi
links "without all" WITH_VERBS=no WITH_OFI=no WITH_PMIX=no WITH_CUDA=no WITH_ZE=no WITH_HWLOC=no
links "without kernels for Level Zero" WITH_SPIRV=no

mkdir "$work/bin"
printf '#!/bin/sh\ncase "$*" in *libfabric*) exit 1 ;; esac\nexec %s "$@"\n' "$(command -v pkg-config)" >"$work/bin/pkg-config"
chmod 755 "$work/bin/pkg-config"
PATH=$work/bin:$PATH run_make WITH_OFI=yes "$work/build/config" >"$work/out" 2>"$work/err"
status=$?
if [[ $status != 0 ]] && grep -q '^weft: ofi is missing: ' "$work/err"; then ok "a part that is asked for and not there"; else
    bad "a part that is asked for and not there (status $status)"
fi
# Kernels for Level Zero need two programs, and the kind itself needs neither.
if run_make WITH_SPIRV=yes CLANG_SPIRV=clang-0 LLVM_SPIRV=llvm-spirv-0 "$work/build/config" >"$work/out" 2>"$work/err" ||
    ! grep -q '^weft: spirv is missing: ' "$work/err"; then
    bad "kernels for Level Zero without their compilers"
else
    ok "kernels for Level Zero without their compilers"
fi
flags() { run_make -n "$@" "$work/build/weft-whole.o" >"$work/out" 2>"$work/err" && grep -c -- '-flinker-output=nolto-rel' "$work/out"; }
if [[ $(flags WITH_LTO=no) == 0 ]]; then ok "link-time optimisation that is left out"; else bad "link-time optimisation that is left out"; fi
if run_make WITH_LTO=yes "$work/build/config" >"$work/out" 2>"$work/err"; then
    if [[ $(flags) == 1 ]]; then ok "link-time optimisation where the compiler has it"; else bad "link-time optimisation where the compiler has it"; fi
fi
if run_make O=-O0 WITH_LTO=yes "$work/build/config" >"$work/out" 2>"$work/err" || ! grep -q '^weft: lto is missing: ' "$work/err"; then
    bad "link-time optimisation that is asked for and cannot be"
else
    ok "link-time optimisation that is asked for and cannot be"
fi

run_make WITH_OFI=perhaps print-libs >"$work/out" 2>"$work/err"
status=$?
if [[ $status != 0 ]] && grep -q 'WITH_OFI=perhaps: auto, yes or no is expected' "$work/err"; then ok "a value that is none"; else
    bad "a value that is none (status $status)"
fi
sum_up
