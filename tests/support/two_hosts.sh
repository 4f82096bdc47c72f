# SPDX-License-Identifier: Apache-2.0
# For scripts that source it: two hosts as network namespaces, ${tag}a and ${tag}b, joined by a veth pair.

# two_hosts NETWORK: makes them, as NETWORK.1 and NETWORK.2. Fails, and says why on stderr, where that is not allowed.
two_hosts() {
    local try
    ip netns add "${tag}a" && ip netns add "${tag}b" &&
        ip link add v0 netns "${tag}a" type veth peer name v0 netns "${tag}b" &&
        ip -n "${tag}a" address add "$1.1/24" dev v0 && ip -n "${tag}b" address add "$1.2/24" dev v0 &&
        ip -n "${tag}a" link set v0 up && ip -n "${tag}b" link set v0 up &&
        ip -n "${tag}a" link set lo up && ip -n "${tag}b" link set lo up || return
    for try in $(seq 50); do
        ip -n "${tag}a" link show v0 | grep -q 'state UP' && ip -n "${tag}b" link show v0 | grep -q 'state UP' && break
        sleep 0.1
    done
}

two_hosts_end() {
    ip netns del "${tag}a" 2>/dev/null
    ip netns del "${tag}b" 2>/dev/null
}
