# SPDX-License-Identifier: Apache-2.0
# What test_pmix.sh and test_pmix_slurm.sh share; they set launch, an array that starts a job when "-n N PROGRAM..."
# is appended, and work, a folder of theirs.
perf=$BUILD/weft-perf
ranks=$BUILD/tests/system/test_pmix
source "$(dirname "${BASH_SOURCE[0]}")/tally.sh"
source "$(dirname "${BASH_SOURCE[0]}")/port.sh"
finish() {
    sum_up
    exit
}
# job N PROGRAM ARGUMENTS: leaves the exit status in $rc, the streams in $work/out and $work/err.
job() {
    timeout -k 5 90 "${launch[@]}" -n "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
}

# N ranks of weft-perf: one table, no wrong element, ranks counted.
sweep() {
    local n=$1 heads
    job "$n" "$perf" allreduce -e 64K -f 32 -n 3
    heads=$(grep -c '^# weft-perf' "$work/out")
    if [[ $rc == 0 && $heads == 1 ]] && grep -q "^# weft-perf allreduce, weft [0-9.]*, $n ranks" "$work/out" &&
        grep -q "^# 1 host, $n ranks\? on each$" "$work/out" &&
        grep -q '^# Out of bounds values : 0 OK$' "$work/out" &&
        grep -v '^#' "$work/out" | awk 'NF != 13 || $9 != 0 || $13 != 0 { exit 1 } END { exit NR != 3 }'; then
        ok "weft-perf with $n ranks"
    else
        bad "weft-perf with $n ranks (status $rc)"
    fi
}

# mode NAME N ARGUMENTS: N ranks of test_pmix, all of which must be fine.
mode() {
    local name=$1 n=$2
    shift 2
    job "$n" "$ranks" "$@"
    if [[ $rc == 0 && $(grep -c "is fine" "$work/out") == "$n" ]]; then
        ok "$name"
    else
        bad "$name (status $rc)"
    fi
}

# What every PMIx launcher must be able to do.
common() {
    sweep 1
    sweep 2
    sweep 4
    mode "communicators by name, each made three times" 3 recreate
    mode "a rank that comes late is named, and the next attempt works" 3 late 3 "$work/gave-up-3"
    mode "contexts one after the other" 3 reopen
    mode "signal dispositions stay, a forked child is refused" 2 quiet
    mode "a communicator of the first ranks only" 3 part
    mode "what the launcher knows of ranks and nodes" 3 facts 1 3

    job 3 sh -c "'$ranks' recreate && '$ranks' recreate"
    if [[ $rc == 0 && $(grep -c "is fine" "$work/out") == 6 ]]; then
        ok "two programs, one after the other, in one job"
    else
        bad "two programs, one after the other, in one job (status $rc)"
    fi

    job 2 "$perf" allreduce --ranks 3 -e 8 -n 1
    if [[ $rc != 0 && ! -s $work/out ]] && grep -q "ranks '3': expected 2, as many as the launcher" "$work/err"; then
        ok "weft-perf does not start ranks of its own under a launcher"
    else
        bad "weft-perf --ranks under a launcher (status $rc)"
    fi

    # Ranks by torchrun's variables, the other way round than PMIx has them.
    local port
    port=$(free_port)
    job 3 env WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 WEFT_PORT=$port WEFT_SECRET_FILE="$work/secret" \
        sh -c "RANK=\$((2 - PMIX_RANK)) exec '$ranks' explicit"
    if [[ $rc == 0 && $(grep -c "is fine" "$work/out") == 3 ]]; then
        ok "explicit variables win, and libpmix is not even loaded"
    else
        bad "explicit variables win (status $rc)"
    fi

    : >"$work/libpmix.so.2"
    job 2 env LD_LIBRARY_PATH="$work" "$perf" allreduce -e 8 -n 1
    if [[ $rc != 0 ]] && grep -q 'PMIx: .* libpmix.so.2 cannot be loaded .*install the package libpmix2' "$work/err"; then
        ok "a missing libpmix is named, with the package"
    else
        bad "a missing libpmix (status $rc)"
    fi
    rm -f "$work/libpmix.so.2"

    two_jobs
}

# At the same time, with other numbers of ranks.
two_jobs() {
    local first second
    timeout -k 5 90 "${launch[@]}" -n 3 "$ranks" recreate >"$work/one" 2>"$work/one.err" </dev/null &
    first=$!
    timeout -k 5 90 "${launch[@]}" -n 2 "$ranks" recreate >"$work/two" 2>"$work/two.err" </dev/null &
    second=$!
    wait $first
    first=$?
    wait $second
    second=$?
    cat "$work/one" "$work/two" >"$work/out"
    cat "$work/one.err" "$work/two.err" >"$work/err"
    if [[ $first == 0 && $second == 0 && $(grep -c "is fine" "$work/one") == 3 &&
        $(grep -c "is fine" "$work/two") == 2 ]]; then
        ok "two jobs at once do not mix"
    else
        bad "two jobs at once (status $first and $second)"
    fi
}

head -c 64 /dev/urandom >"$work/secret"
chmod 600 "$work/secret"
