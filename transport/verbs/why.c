/* SPDX-License-Identifier: Apache-2.0 */
/* The texts. Names of states and statuses are those of the InfiniBand Architecture Specification 1.4 (volume 1,
 * 11.6.2 "Completion return status", 14.2.5.6 "PortInfo"), so that people find them again in their adapter's manual.
 * A text has up to three parts: what and where; what it means; what to look at next, which depends on whether the own
 * port still works and on the kind of network. */
#include "transport/verbs/why.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct meaning {
    const char *name;
    const char *means;
    const char *next; /* NULL: depends on the network, see next_step() */
};

static const struct meaning meanings[] = {
    [IBV_WC_SUCCESS] = {"success", "nothing failed", "this is an error in weft"},
    [IBV_WC_LOC_LEN_ERR] = {"local length error",
                            "a message is longer than its receive buffer or the port's limit",
                            "the peer runs another version of weft, or with other settings"},
    [IBV_WC_LOC_QP_OP_ERR] = {"local QP operation error", "the adapter refused a request as malformed",
                              "an error in weft or the driver: update driver and firmware, look into dmesg"},
    [IBV_WC_LOC_EEC_OP_ERR] = {"local EE context operation error", "not used by weft",
                               "an error of the driver: look into dmesg"},
    [IBV_WC_LOC_PROT_ERR] = {"local protection error", "the memory of a request is not registered (any more)",
                             "was memory freed or unmapped while an operation on it was in flight?"},
    [IBV_WC_WR_FLUSH_ERR] = {"work request flushed error",
                             "an earlier error of this queue pair took this along",
                             "look for the first error of this link in the log, here or at the peer"},
    [IBV_WC_MW_BIND_ERR] = {"memory window bind error", "the adapter refused a memory window",
                            "WEFT_VERBS_WINDOWS=0 does without; update driver and firmware"},
    [IBV_WC_BAD_RESP_ERR] =
        {"bad response error", "the peer's adapter answered with what does not belong here",
         "look for a foreign queue pair with the same number: a restarted peer, doubled addresses"},
    [IBV_WC_LOC_ACCESS_ERR] =
        {"local access error", "a write from the peer hit memory that it may not write",
         "the receive buffer was withdrawn or its memory freed; look for an error at the peer"},
    [IBV_WC_REM_INV_REQ_ERR] =
        {"remote invalid request error",
         "the peer's adapter refused the request: too long, or not allowed on its queue pair",
         "look for an error at the peer, and whether both run the same version of weft"},
    [IBV_WC_REM_ACCESS_ERR] = {"remote access error",
                               "the key was wrong or stale: the peer has withdrawn this memory or freed it",
                               "look for the first error at the peer: it has cancelled, timed out or failed"},
    [IBV_WC_REM_OP_ERR] = {"remote operation error", "the peer's adapter could not finish the request",
                           "look into the peer's log and its dmesg"},
    [IBV_WC_RETRY_EXC_ERR] = {"transport retry counter exceeded", NULL, NULL},
    [IBV_WC_RNR_RETRY_EXC_ERR] =
        {"RNR retry counter exceeded", "the peer's adapter had no receive buffer for a long time",
         "the peer's process is stopped or starved: look whether it runs (SIGSTOP, a debugger, "
         "swapping, an oversubscribed host)"},
    [IBV_WC_LOC_RDD_VIOL_ERR] = {"local RDD violation error", "not used by weft",
                                 "an error of the driver: look into dmesg"},
    [IBV_WC_REM_INV_RD_REQ_ERR] = {"remote invalid RD request", "not used by weft",
                                   "an error of the driver: look into dmesg"},
    [IBV_WC_REM_ABORT_ERR] = {"remote aborted error", "the peer's adapter gave the request up",
                              "look into the peer's log and its dmesg"},
    [IBV_WC_INV_EECN_ERR] = {"invalid EE context number", "not used by weft",
                             "an error of the driver: look into dmesg"},
    [IBV_WC_INV_EEC_STATE_ERR] = {"invalid EE context state error", "not used by weft",
                                  "an error of the driver: look into dmesg"},
    [IBV_WC_FATAL_ERR] = {"fatal error", "the adapter has stopped working",
                          "look into dmesg; the adapter needs a reset, the host perhaps a reboot"},
    [IBV_WC_RESP_TIMEOUT_ERR] = {"response timeout error",
                                 "the peer's adapter took too long for its response",
                                 "look into the peer's log and its dmesg"},
    [IBV_WC_GENERAL_ERR] =
        {"general error", "the adapter names no reason",
         "the vendor error may be in its manual; look into dmesg, update driver and firmware"},
};

const char *verbs_status_text(int status)
{
    if (status < 0 || status >= (int)(sizeof meanings / sizeof *meanings))
        return "unknown status";
    return meanings[status].name;
}

static const char *port_state_text(int state)
{
    static const char *const names[] = {"not readable", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
    return state >= 0 && state <= IBV_PORT_ACTIVE_DEFER ? names[state] : "?";
}

static const char *physical_state_text(int state)
{
    static const char *const names[] = {
        "not readable",      "Sleep",   "Polling", "Disabled", "PortConfigurationTraining", "LinkUp",
        "LinkErrorRecovery", "Phy Test"};
    return state >= 0 && state < (int)(sizeof names / sizeof *names) ? names[state] : "?";
}

int verbs_why_status(int status)
{
    int is_silence = status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR ||
                     status == IBV_WC_RESP_TIMEOUT_ERR;
    return is_silence ? WEFT_PEER_FAILED : WEFT_TRANSPORT;
}

/* A text that grows; what does not fit is cut off. */
struct line {
    char *text;
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line->text + line->used, VERBS_WHY - line->used, format, arguments);
    va_end(arguments);
    if (size > 0)
        line->used += (size_t)size < VERBS_WHY - line->used ? (size_t)size : VERBS_WHY - line->used - 1;
}

static void add_peer(struct line *line, const struct verbs_failure *failure)
{
    add(line, " with a peer");
    if (failure->gid_index < 0 && failure->peer_lid)
        add(line, " at LID %u", failure->peer_lid);
    else if (failure->peer_gid[0])
        add(line, " at %s", failure->peer_gid);
}

static void add_name(struct line *line, const struct verbs_failure *failure)
{
    add(line, "%s port %d", failure->device, failure->port);
    if (failure->gid_index >= 0)
        add(line, " (GID %d %s, %s)", failure->gid_index, failure->gid,
            verbs_gid_type_text(failure->gid_type));
}

static void add_state(struct line *line, const struct verbs_failure *failure)
{
    add(line, "%s", port_state_text(failure->state));
    if (failure->interface[0])
        add(line, ", interface %s is down", failure->interface);
    else if (failure->state)
        add(line, ", %s", physical_state_text(failure->physical_state));
}

static void add_port(struct line *line, const struct verbs_failure *failure)
{
    add(line, ", from ");
    add_name(line, failure);
    if (failure->queue_pair)
        add(line, ", queue pair %u to %u", failure->queue_pair, failure->peer_queue_pair);
    add(line, "; port ");
    add_state(line, failure);
}

static int is_port_down(const struct verbs_failure *failure)
{
    return failure->state != IBV_PORT_ACTIVE && failure->state != IBV_PORT_ACTIVE_DEFER;
}

/* An acknowledgement is awaited for 4.096 us * 2^timeout (9.7.6.1.3). */
static void add_silence(struct line *line, const struct verbs_failure *failure)
{
    unsigned long long ms = (4096ull << failure->timeout) / 1000000;
    if (failure->timeout)
        add(line, "no acknowledgement in %d tries of %llu ms", failure->retry + 1, ms);
    else
        add(line, "no acknowledgement");
}

static const char *port_step(const struct verbs_failure *failure)
{
    return failure->layer == IBV_LINK_LAYER_ETHERNET
               ? "look at cable, switch port and 'ip link'"
               : "look at cable, switch port and subnet manager (ibstat)";
}

static const char *next_step(const struct verbs_failure *failure)
{
    int is_ethernet = failure->layer == IBV_LINK_LAYER_ETHERNET;
    const struct meaning *meaning = &meanings[failure->status];
    if (meaning->next)
        return meaning->next;
    return is_ethernet
               ? "does the peer live? Then look at its port, MTU, GID, UDP port 4791 and PFC/ECN on the "
                 "switches; WEFT_VERBS_TIMEOUT waits longer"
               : "does the peer live? Then look at its port, cables (ibqueryerrors), partition key and "
                 "subnet "
                 "manager; WEFT_VERBS_TIMEOUT waits longer";
}

const char *verbs_why(const struct verbs_failure *failure, char text[VERBS_WHY])
{
    struct line line = {text, 0};
    int is_known = failure->status >= 0 && failure->status < (int)(sizeof meanings / sizeof *meanings);
    text[0] = '\0';
    add(&line, "%s (%d", verbs_status_text(failure->status), failure->status);
    if (failure->vendor_error)
        add(&line, ", vendor error 0x%x", failure->vendor_error);
    add(&line, ")");
    add_peer(&line, failure);
    add_port(&line, failure);
    if (!is_known)
        return text;
    add(&line, ": ");
    if (meanings[failure->status].means)
        add(&line, "%s", meanings[failure->status].means);
    else
        add_silence(&line, failure);
    if (is_port_down(failure) && failure->state)
        add(&line, "; this port is down: %s", port_step(failure));
    else
        add(&line, "; %s", next_step(failure));
    return text;
}

const char *verbs_why_port(const struct verbs_failure *failure, char text[VERBS_WHY])
{
    struct line line = {text, 0};
    if (!is_port_down(failure))
        return NULL;
    text[0] = '\0';
    add_name(&line, failure);
    add(&line, " is ");
    add_state(&line, failure);
    add(&line, ": %s", port_step(failure));
    return text;
}

const char *verbs_why_event(const char *event, const struct verbs_failure *failure, char text[VERBS_WHY])
{
    struct line line = {text, 0};
    text[0] = '\0';
    add(&line, "%s; this was the link", event);
    add_peer(&line, failure);
    add_port(&line, failure);
    return text;
}

/* The interface that has this address, if it is down. A device's port state lags behind that of its interface, and a
 * queue pair may find out first (Soft-RoCE: up to 100 ms). */
static void find_interface(const uint8_t raw[16], char name[VERBS_INTERFACE])
{
    struct ifaddrs *interfaces = NULL;
    if (getifaddrs(&interfaces))
        return;
    for (const struct ifaddrs *at = interfaces; at && !name[0]; at = at->ifa_next) {
        struct in6_addr address = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
        int family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;
        if (family == AF_INET)
            memcpy(&address.s6_addr[12], &((struct sockaddr_in *)at->ifa_addr)->sin_addr, 4);
        else if (family == AF_INET6)
            address = ((struct sockaddr_in6 *)at->ifa_addr)->sin6_addr;
        int is_up = (at->ifa_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
        if ((family == AF_INET || family == AF_INET6) && !is_up && memcmp(&address, raw, sizeof address) == 0)
            snprintf(name, VERBS_INTERFACE, "%.15s", at->ifa_name);
    }
    freeifaddrs(interfaces);
}

void verbs_failure_fill(struct verbs_rail *rail, const struct weft_verbs_settings *settings,
                        const struct verbs_path *path, int status, uint32_t vendor_error,
                        struct verbs_failure *failure)
{
    const struct verbs_port *port = &rail->port;
    memset(failure, 0, sizeof *failure);
    verbs_rail_refresh(rail);
    failure->status = status;
    failure->vendor_error = vendor_error;
    snprintf(failure->device, sizeof failure->device, "%s", rail->device);
    failure->port = port->number;
    failure->layer = port->layer;
    failure->state = rail->state;
    failure->physical_state = rail->physical_state;
    failure->timeout = (int)settings->timeout;
    failure->retry = (int)settings->retry;
    failure->gid_index = -1;
    if (!path)
        return;
    failure->peer_lid = path->lid;
    for (int i = 0; i < port->gid_count && path->is_global; i++) {
        if (port->gids[i].index != path->gid_index)
            continue;
        failure->gid_index = path->gid_index;
        failure->gid_type = port->gids[i].type;
        verbs_gid_text(port->gids[i].raw, failure->gid);
        verbs_gid_text(path->gid, failure->peer_gid);
        if (failure->state == IBV_PORT_ACTIVE && port->layer == IBV_LINK_LAYER_ETHERNET)
            find_interface(port->gids[i].raw, failure->interface);
    }
    if (failure->interface[0])
        failure->state = IBV_PORT_DOWN; /* as the device will say in a moment */
}
