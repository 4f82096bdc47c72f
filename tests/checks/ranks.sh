# SPDX-License-Identifier: Apache-2.0
# For scripts: runs a program as several ranks of one job. Sourced, not run.

# Prints a TCP port of the loopback that nobody listens on.
free_port() {
    local port
    while port=$((20000 + RANDOM % 12000)) && (: </dev/tcp/127.0.0.1/$port) 2>/dev/null; do :; done
    echo "$port"
}

# run_ranks RANKS PROGRAM...: fails when a rank does, or is still there after 60 seconds. The output is the ranks'.
run_ranks() {
    local ranks=$1 port pids=() rank status=0 secret
    shift
    port=$(free_port)
    secret=$(mktemp) # mode 0600
    head -c 32 /dev/urandom >"$secret"
    for ((rank = 0; rank < ranks; rank++)); do
        RANK=$rank WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 WEFT_PORT=$port WEFT_SECRET_FILE=$secret timeout -k 5 60 "$@" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
    rm -f "$secret"
    return "$status"
}
