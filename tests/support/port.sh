# SPDX-License-Identifier: Apache-2.0
# For scripts that source it: a port of this host for a server of theirs.

# Below those that the kernel gives to outgoing connections (net.ipv4.ip_local_port_range), so that none of these takes it
# before the server does; and nobody listens there now.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo $port; return; }
    done
}
