#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# weft-perf --settings: values in force, where they come from, what would be refused.
. tests/support/perf_runs.sh

# The line of a setting, in an environment.
shows() { # WHAT EXPECTED STATUS VARIABLES...
    local what=$1 expected=$2 status=$3
    shift 3
    env "$@" "$perf" --settings >"$work/out" 2>"$work/err"
    rc=$?
    [[ $rc == "$status" ]] && grep -qxF -- "$expected" "$work/out" && ok "$what" ||
        bad "$what (status $rc): $(grep -F "${expected%% *} =" "$work/out")"
}
shows "a default" "WEFT_TIMEOUT_MS = 1800000  (default)" 0
shows "a default in words" "WEFT_VERBS_DEVICE = the rank's share of its host's ports  (default)" 0
shows "a value" "WEFT_TIMEOUT_MS = 5000  (environment)" 0 WEFT_TIMEOUT_MS=5000
shows "an empty value" "WEFT_TIMEOUT_MS = 1800000  (default)" 0 WEFT_TIMEOUT_MS=
shows "transports in weft's order" "WEFT_TRANSPORT = shm,verbs  (environment)" 0 WEFT_TRANSPORT=verbs,shm
shows "what is not in the table of settings" "WEFT_LOG = error  (environment)" 0 WEFT_LOG=error
shows "a refused value" "WEFT_WINDOW = 900  (environment, refused)" 2 WEFT_WINDOW=900
grep -qF "error: WEFT_WINDOW is '900': expected a whole number from 4 to 64" "$work/out" && ok "the reason" || bad "the reason"
run --settings=html
[[ $rc == 2 ]] && grep -q "expected --settings, --settings=md or --settings=man" "$work/err" && ok "a form that is not there" ||
    bad "a form that is not there (status $rc)"
run --settings all
[[ $rc == 2 ]] && grep -q "'all': expected nothing behind --settings" "$work/err" && ok "an argument behind it" ||
    bad "an argument behind it (status $rc)"
sum_up
