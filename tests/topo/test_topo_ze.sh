#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# weft-perf --devices and weft-topo where there is no loader of Level Zero, a loader without drivers, and the loader with the tests' driver.
source "$(dirname "$0")/../support/start.sh"
ze=$BUILD/tests/fakes/ze/libweft_ze_fake.so
[[ -f $ze ]] || { echo "SKIP: Level Zero is not built"; exit 77; }
ze=$(realpath "$ze")
unset ZE_ENABLE_ALT_DRIVERS ZES_ENABLE_SYSMAN WEFT_TEST_ZE HWLOC_XMLFILE HWLOC_SYNTHETIC
# shows WHAT TEXT COMMAND...: it succeeds, and a line of its output is the text, but for spaces in front.
shows() {
    local what=$1 text=$2
    shift 2
    timeout -k 5 60 "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    if [[ $rc == 0 ]] && sed 's/^[ |+`-]*//' "$work/out" | grep -qE -- "$text"; then ok "$what"; else bad "$what (status $rc)"; fi
}
# lacks WHAT TEXT: the last output has no such line.
lacks() {
    if [[ $rc == 0 ]] && ! grep -qE -- "$2" "$work/out"; then ok "$1"; else bad "$1"; fi
}
perf=$BUILD/weft-perf topo=$BUILD/weft-topo
"$topo" --all >"$work/plain" 2>/dev/null

# A loader that is no library stands for none.
mkdir "$work/none"
echo "no library" >"$work/none/libze_loader.so.1"
shows "--devices without a loader" '^ze: none: libze_loader\.so\.1 cannot be loaded: no Level Zero here' env LD_LIBRARY_PATH="$work/none" "$perf" --devices
shows "weft-topo without a loader" '^host ' env LD_LIBRARY_PATH="$work/none" ZES_ENABLE_SYSMAN=1 "$topo" --all
lacks "it shows no GPU of Level Zero's" 'LevelZero'

shows "--devices without drivers" '^ze: none: (starting the drivers of libze_loader\.so\.1|libze_loader\.so\.1 finds no driver)' "$perf" --devices
shows "weft-topo without drivers" '^host ' env ZES_ENABLE_SYSMAN=1 "$topo" --all
lacks "it shows no GPU of Level Zero's" 'LevelZeroModel=Fake'

export ZE_ENABLE_ALT_DRIVERS=$ze WEFT_TEST_ZE=devices=2,tiles=2 ZE_ENABLE_VALIDATION_LAYER=1 ZE_ENABLE_PARAMETER_VALIDATION=1
shows "a driver that is not there is named" '^ze: none: .*finds no driver that works: ZE_ENABLE_ALT_DRIVERS names /nonsense$' \
    env ZE_ENABLE_ALT_DRIVERS=/nonsense "$perf" --devices
shows "the kind has no options" "^ze: none: WEFT_DEVICE_OPTIONS has 'foo=1' for it: expected nothing" env WEFT_DEVICE_OPTIONS=ze:foo=1 "$perf" --devices
shows "--devices with the driver" '^ze 1: Fake GPU 1, 16\.0 GiB$' "$perf" --devices
shows "weft-topo with the driver" '^GPU gpu[0-9]+, 0000:10:00\.0.*LevelZeroModel=.?Fake GPU 0' env ZES_ENABLE_SYSMAN=1 "$topo" --all
shows "tiles and memory" 'LevelZeroSubdevices=.?2.*LevelZeroMemorySize=16777216' env ZES_ENABLE_SYSMAN=1 "$topo" --all
shows "its uuid" 'LevelZeroUUID=.?[0-9a-f]{8}-[0-9a-f]{4}-' env ZES_ENABLE_SYSMAN=1 "$topo" --all
[[ $(grep -c 'LevelZeroModel' "$work/out") == 2 ]] && ok "each once" || bad "not each once"
shows "in JSON" '"LevelZeroModel": "Fake GPU 1"' env ZES_ENABLE_SYSMAN=1 "$topo" --format json
shows "short" '^GPU gpu[0-9]+, 0000:11:00\.0.*, Fake GPU 1' env ZES_ENABLE_SYSMAN=1 "$topo"
shows "an old loader is not asked by itself" '^host ' env WEFT_LOG=info "$topo" --all
grep -q 'libze_loader\.so\.1 has no zesInit(): ZES_ENABLE_SYSMAN=1' "$work/err" && ok "and that is said" || bad "not said why"
lacks "it shows no GPU of Level Zero's" 'LevelZero'
sum_up
