#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# weft-perf register: with a fake libfabric device that wants memory registered. What is timed is not judged.
. tests/support/perf_runs.sh
[[ -f $BUILD/tests/fakes/provider/libwefttest-fi.so ]] || { echo "SKIP: libfabric's test provider is not built"; exit 77; }
export FI_PROVIDER_PATH=$PWD/$BUILD/tests/fakes/provider FI_PROVIDER=wefttest WEFT_LOG=error
[[ $BUILD == /* ]] && FI_PROVIDER_PATH=$BUILD/tests/fakes/provider
ofi=(--transport ofi --provider wefttest)

# table WHAT ROWS HIT ARGUMENTS: so many rows; HIT: N/A, or "kept" where each has a time.
table() {
    local what=$1 count=$2 hit=$3
    shift 3
    run register -n 3 -w 1 "${ofi[@]}" "$@"
    if [[ $rc == 0 && $(rows | wc -l) == "$count" ]] &&
        rows | awk -v hit="$hit" 'NF != 6 || $2 < 0 || $4 < 0 || $5 < 0 { exit 1 }
            hit == "N/A" ? $6 != "N/A" : $6 !~ /^[0-9.]+$/ { exit 1 }'; then
        ok "$what"
    else
        bad "$what: $(rows | wc -l) of $count rows (status $rc)"
    fi
}
# Remote writes with keys of the provider's: nothing is kept.
export WEFT_TEST_PROVIDER=local,prov_key
table "the default is the host" 3 N/A -b 4K -e 64K -f 4
grep -q '^# Memory of host:0 with transport ofi$' "$work/out" && ok "memory and transport are named" || bad "memory and transport are not named"
table "odd sizes" 2 N/A -b 1 -e 3M -i 3000000
table "two ranks" 1 N/A -b 64K -e 64K --ranks 2

# Tagged messages: regions have no keys, so they are kept, where memory can be watched.
export WEFT_TEST_PROVIDER=local,tagged
WEFT_CACHE_BYTES=0 table "nothing is kept when nothing may be" 1 N/A -b 1M -e 1M
run register "${ofi[@]}" -b 1M -e 1M -n 1
if [[ $(rows | awk '{ print $6 }') == N/A ]]; then
    skip "kept registrations: memory cannot be watched here"
else
    table "registrations are kept" 2 kept -b 1M -e 4M -f 4
fi

run register "${ofi[@]}" -b 4K -e 8K -n 3 --json "$work/figures.json" --csv "$work/figures.csv"
[[ $rc == 0 && $(wc -l <"$work/figures.csv") == 3 ]] && awk -F, 'NF != 9 { exit 1 }' "$work/figures.csv" &&
    grep -q '^size_bytes,kind,ordinal,transport,time_us,' "$work/figures.csv" && ok "CSV has 2 rows of 9 fields" || bad "CSV is malformed (status $rc)"
if command -v python3 >/dev/null; then
    python3 - "$work/figures.json" <<'PYTHON' && ok "JSON of register" || bad "JSON of register"
import json, sys
document = json.load(open(sys.argv[1]))
assert document["command"] == "register" and document["environment"]["memory"] == "host"
assert [row["size_bytes"] for row in document["rows"]] == [4096, 8192]
for row in document["rows"]:
    assert (row["kind"], row["ordinal"], row["transport"]) == ("host", 0, "ofi")
    assert len(row["samples_us"]) == 3 and len(row["deregister_samples_us"]) == 3
    assert len(row["hit_samples_us"]) == (0 if row["hit_us"] is None else 3)
    assert abs(row["time_us"] - sorted(row["samples_us"])[1]) <= 1e-3 * row["time_us"]
    assert abs(row["register_gbs"] - row["size_bytes"] / row["time_us"] / 1e3) <= 1e-2 * row["register_gbs"]
PYTHON
else
    skip "JSON not parsed: no python3"
fi

# What cannot be registered is said to be so.
WEFT_TEST_PROVIDER=local,prov_key,memlock=3000000 expect 3 "registering 4194304 bytes on device host:0" register "${ofi[@]}" -b 4M -e 4M
WEFT_TEST_PROVIDER='' expect 3 "transport ofi registers no memory of kind host as it is used here: expected another --transport" register "${ofi[@]}"
expect 3 "no transport that registers memory can be opened: the settings allow none" register --transport shm
plugin=$work/device-sim.so
if [[ -f $BUILD/examples/device-sim/device-sim.so ]] && install -m 700 "$BUILD/examples/device-sim/device-sim.so" "$plugin"; then
    # The provider was asked for device memory, and libfabric has no name for this kind.
    WEFT_DEVICE_PLUGIN=$plugin expect 3 "by its pointer: ofi: libfabric does not know devices of kind sim" register "${ofi[@]}" --memory sim
else
    skip "the simulated device is not built"
fi
expect 2 "--memory 'weft'" register --memory weft

sum_up
