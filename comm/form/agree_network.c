/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/form/agree_network.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "comm/form/arrange.h"

int weft_network_allowed(const struct weft_comm *comm, const char *transport)
{
    const char *allowed = comm->context->settings.transports;
    return !*allowed || strstr(allowed, transport) != NULL;
}

int weft_network_is_valid(const struct weft_network *network)
{
    size_t bytes = 0;
    for (int t = 0; t < WEFT_TRANSPORT_COUNT; t++) {
        if (network->sizes[t] > WEFT_ADDRESS_MAX)
            return 0;
        bytes += network->sizes[t];
    }
    return !network->sizes[WEFT_SHM] && bytes <= sizeof network->addresses &&
           weft_ports_are_valid(network->ports, network->port_count) &&
           memchr(network->reason, 0, sizeof network->reason);
}

int weft_network_has(const struct weft_network *network)
{
    int has = 0;
    for (int t = 0; t < WEFT_TRANSPORT_COUNT; t++)
        has |= network->sizes[t] != 0;
    return has;
}

static int open_one(struct weft_comm *comm, enum weft_transport_index index, struct weft_network *network)
{
    int status = weft_context_transport(comm->context, index, weft_bootstrap_local_address(comm->bootstrap));
    if (status != WEFT_OK)
        return status;
    struct weft_open_transport *transport = &comm->context->transports[index];
    size_t length = WEFT_ADDRESS_MAX;
    uint8_t address[WEFT_ADDRESS_MAX];
    status = transport->ops.address(transport->instance, address, &length);
    if (status != WEFT_OK)
        return status;
    size_t before = 0, behind = 0;
    for (int t = 0; t < WEFT_TRANSPORT_COUNT; t++)
        *(t < (int)index ? &before : &behind) += network->sizes[t];
    if (before + behind + length > sizeof network->addresses)
        return weft_fail(WEFT_PROTOCOL, "addresses of %zu bytes, expected at most %zu",
                         before + behind + length, sizeof network->addresses);
    memmove(network->addresses + before + length, network->addresses + before, behind);
    memcpy(network->addresses + before, address, length);
    network->sizes[index] = (uint16_t)length;
    return WEFT_OK;
}

/* Why there is no way: what failed with shared memory, if that should have been one. */
static int fail_for_lack(const struct weft_comm *comm)
{
    const char *allowed = comm->context->settings.transports;
    if (comm->shm_status)
        return weft_fail(comm->shm_status, "%s (and WEFT_TRANSPORT=%s allows no other transport)",
                         comm->shm_reason, allowed);
    return weft_fail(WEFT_TRANSPORT,
                     "rank %d on host '%s' does not share memory with every rank, and the setting "
                     "WEFT_TRANSPORT=%s allows no other transport",
                     comm->rank, comm->members[comm->rank].host, allowed);
}

static void note_status(struct weft_network *network, int status)
{
    network->status = status;
    if (status != WEFT_OK)
        snprintf(network->reason, sizeof network->reason, "%s", weft_error_detail());
}

/* What is there without verbs, as all ranks would say: they agree on the settings. WEFT_SHM: nothing. */
static enum weft_transport_index plain_transport(const struct weft_comm *comm)
{
    int ofi = weft_network_allowed(comm, "ofi"), tcp = weft_network_allowed(comm, "tcp");
    if (ofi && (!tcp || *comm->context->settings.provider))
        return WEFT_OFI;
    return tcp ? WEFT_TCP : WEFT_SHM;
}

/* Whether this host has a device that only libfabric may know how to use: EFA and Omni-Path are among the RDMA devices, Slingshot has a
 * class of its own. Asking libfabric itself costs 100 ms. */
static int has_fabric(void)
{
    static const char *const classes[] = {"/sys/class/infiniband", "/sys/class/cxi"};
    int found = 0;
    for (size_t i = 0; i < sizeof classes / sizeof classes[0] && !found; i++) {
        DIR *directory = opendir(classes[i]);
        if (!directory)
            continue;
        for (struct dirent *entry; !found && (entry = readdir(directory));)
            found = entry->d_name[0] != '.';
        closedir(directory);
    }
    return found;
}

static void open_plain(struct weft_comm *comm, struct weft_network *network)
{
    enum weft_transport_index index = plain_transport(comm);
    if (index == WEFT_TCP && weft_network_allowed(comm, "ofi") && has_fabric()) {
        if (open_one(comm, WEFT_OFI, network) == WEFT_OK)
            return;
        weft_log_once(WEFT_LOG_WARN, "no ofi transport: %s", weft_error_detail());
    }
    note_status(network, open_one(comm, index, network));
}

/* With the ports that are this rank's among those of its host, or where they cannot be had with what verbs chooses. */
static int open_verbs(struct weft_comm *comm, struct weft_network *network)
{
    struct weft_context *context = comm->context;
    if (!(context->working & 1u << WEFT_VERBS))
        weft_ports_choose(comm);
    int status = open_one(comm, WEFT_VERBS, network);
    if (status == WEFT_OK || !*context->form.ports->chosen)
        return status;
    weft_ports_give_up(context);
    return open_one(comm, WEFT_VERBS, network);
}

void weft_network_open(struct weft_comm *comm, struct weft_network *network)
{
    int is_plain = plain_transport(comm) != WEFT_SHM;
    if (weft_network_allowed(comm, "verbs")) {
        int status = open_verbs(comm, network);
        if (status == WEFT_OK) {
            network->port_count = weft_ports_announce(comm->context, network->ports);
            network->is_part = comm->context->form.ports->is_part != 0;
        }
        if (status == WEFT_OK || !is_plain) {
            note_status(network, status);
            return;
        }
        if (status == WEFT_NOT_FOUND) /* as on most machines */
            weft_log(WEFT_LOG_DEBUG, "no verbs transport: %s", weft_error_detail());
        else
            weft_log_once(WEFT_LOG_WARN, "no verbs transport: %s", weft_error_detail());
    }
    if (is_plain)
        open_plain(comm, network);
    else
        note_status(network, fail_for_lack(comm));
}

static const uint8_t *verbs_of(const struct weft_network *network)
{
    return network->addresses + network->sizes[WEFT_OFI]; /* the only one before it */
}

/* By what this rank reaches one of another host, WEFT_SHM: by nothing. */
static enum weft_transport_index reach(const struct weft_comm *comm, const uint16_t *mine,
                                       const uint16_t *theirs, const uint8_t *verbs_address)
{
    const struct weft_open_transport *verbs = &comm->context->transports[WEFT_VERBS];
    if (mine[WEFT_VERBS] && theirs[WEFT_VERBS] && verbs->instance &&
        verbs->ops.reachable(verbs->instance, verbs_address, theirs[WEFT_VERBS]))
        return WEFT_VERBS;
    if (mine[WEFT_OFI] && theirs[WEFT_OFI])
        return WEFT_OFI;
    return mine[WEFT_TCP] && theirs[WEFT_TCP] ? WEFT_TCP : WEFT_SHM;
}

/* What ranks have may not reach each other, though it seems to. */
static int check_subnets(const struct weft_comm *comm, const struct weft_network_claim *all)
{
    char reason[WEFT_APART_TEXT];
    int are_parts = 0;
    struct weft_announced_place *announced = calloc((size_t)comm->ranks, sizeof *announced);
    if (!announced)
        return weft_fail(WEFT_NOMEM, "no memory for the ports of %d ranks", comm->ranks);
    for (int r = 0; r < comm->ranks; r++) {
        announced[r].ports = all[r].network->ports;
        announced[r].port_count = all[r].network->port_count;
        are_parts |= all[r].network->is_part != 0;
    }
    int status = are_parts ? weft_ports_are_apart(comm, announced, reason) : 0;
    if (status > 0)
        status =
            weft_fail(WEFT_TRANSPORT,
                      "InfiniBand subnets look like one, and WEFT_VERBS_DEVICE has to name ports of each "
                      "for every rank: %s",
                      reason);
    free(announced);
    return status;
}

void weft_network_complete(struct weft_comm *comm, const struct weft_network_claim *all,
                           struct weft_network *network)
{
    if (network->status == WEFT_OK)
        note_status(network, check_subnets(comm, all));
    enum weft_transport_index plain = plain_transport(comm);
    for (int r = 0; r < comm->ranks && network->status == WEFT_OK && !network->sizes[plain]; r++) {
        const struct weft_network *theirs = all[r].network;
        if (all[r].group == all[comm->rank].group ||
            reach(comm, network->sizes, theirs->sizes, verbs_of(theirs)) != WEFT_SHM)
            continue;
        if (plain != WEFT_SHM)
            note_status(network, open_one(comm, plain, network));
        else
            note_status(network,
                        weft_fail(WEFT_TRANSPORT,
                                  "rank %d on host '%s' cannot be reached over verbs: %s. The setting "
                                  "WEFT_TRANSPORT=%s allows no other transport",
                                  r, comm->members[r].host,
                                  theirs->sizes[WEFT_VERBS]
                                      ? "its ports and this rank's are of different networks"
                                      : "it has no port for that",
                                  comm->context->settings.transports));
    }
}

/* Whether ranks of several hosts may not reach each other with what they have. */
int weft_network_is_open(const struct weft_comm *comm, const struct weft_network_claim *all)
{
    int hosts = 0, verbs = 0, ofi = 0, tcp = 0;
    for (int r = 0; r < comm->ranks; r++) {
        const uint16_t *sizes = all[r].network->sizes;
        hosts |= all[r].group != 0;
        verbs |= sizes[WEFT_VERBS] != 0;
        ofi |= sizes[WEFT_OFI] != 0;
        tcp |= sizes[WEFT_TCP] != 0;
    }
    return hosts && (verbs || (ofi && tcp));
}

int weft_network_note(struct weft_comm *comm, int rank, const struct weft_network *network)
{
    struct weft_member *member = &comm->members[rank];
    size_t size = member->sizes[WEFT_SHM];
    for (int t = 0; t < WEFT_TRANSPORT_COUNT; t++)
        size += network->sizes[t];
    uint8_t *addresses = realloc(member->addresses, size + 1);
    if (!addresses)
        return weft_fail(WEFT_NOMEM, "no memory for the addresses of rank %d", rank);
    member->addresses = addresses;
    memcpy(addresses + member->sizes[WEFT_SHM], network->addresses, size - member->sizes[WEFT_SHM]);
    for (int t = WEFT_SHM + 1; t < WEFT_TRANSPORT_COUNT; t++)
        member->sizes[t] = network->sizes[t];
    return WEFT_OK;
}

/* "addresses for verbs and ofi" */
static const char *what_it_has(const struct weft_member *member, char text[64])
{
    static const struct {
        enum weft_transport_index index;
        const char *name;
    } all[] = {{WEFT_VERBS, "verbs"}, {WEFT_OFI, "ofi"}, {WEFT_TCP, "tcp"}};
    int count = 0;
    char names[32] = "";
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!member->sizes[all[i].index])
            continue;
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", count++ ? " and " : "",
                 all[i].name);
    }
    snprintf(text, 64,
             count > 1 ? "addresses for %s"
             : count   ? "an address for %s"
                       : "no network address%s",
             names);
    return text;
}

/* By what this rank reaches the others. */
static void say_chosen(const struct weft_comm *comm)
{
    char text[160] = "";
    size_t used = 0;
    if (comm->ranks == 1 || !weft_log_enabled(WEFT_LOG_INFO))
        return;
    for (int t = 0; t < WEFT_TRANSPORT_COUNT; t++) {
        int count = 0;
        for (int r = 0; r < comm->ranks; r++)
            count += r != comm->rank && comm->members[r].transport == t;
        if (count)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%d rank%s by %s", used ? ", " : "",
                                     count, count == 1 ? "" : "s", comm->context->transports[t].ops.name);
    }
    weft_log(WEFT_LOG_INFO, "communicator%s%s: rank %d reaches %s", comm->name && *comm->name ? " " : "",
             comm->name ? comm->name : "", comm->rank, text);
}

int weft_network_choose(struct weft_comm *comm)
{
    const struct weft_member *mine = &comm->members[comm->rank];
    comm->driven.transports = 0;
    for (int r = 0; r < comm->ranks; r++) {
        struct weft_member *member = &comm->members[r];
        size_t size;
        char here[64], there[64];
        const uint8_t *verbs = weft_member_address(member, WEFT_VERBS, &size);
        int shares = member->host_group == mine->host_group;
        member->transport = shares ? WEFT_SHM : (uint16_t)reach(comm, mine->sizes, member->sizes, verbs);
        if (!shares && member->transport == WEFT_SHM)
            return weft_fail(WEFT_TRANSPORT,
                             "rank %d on host '%s' and rank %d on host '%s' have no transport in common: the "
                             "first has %s, the other %s",
                             comm->rank, mine->host, r, member->host, what_it_has(mine, here),
                             what_it_has(member, there));
        if (r != comm->rank)
            comm->driven.transports |= 1u << member->transport;
    }
    say_chosen(comm);
    return WEFT_OK;
}
