/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/agree_network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "comm/arrange.h"

int weft_network_allowed(const struct weft_comm *comm, const char *transport)
{
    const char *allowed = comm->context->settings.transports;
    return !*allowed || strstr(allowed, transport) != NULL;
}

int weft_network_is_valid(const struct weft_network *network)
{
    return network->ofi_size <= sizeof network->ofi_address &&
           network->verbs_size <= sizeof network->verbs_address &&
           weft_ports_are_valid(network->ports, network->port_count) &&
           memchr(network->reason, 0, sizeof network->reason);
}

static int open_one(struct weft_comm *comm, enum weft_transport_index index, uint8_t *address, uint16_t *size)
{
    int status = weft_context_transport(comm->context, index, weft_bootstrap_local_address(comm->bootstrap));
    if (status != WEFT_OK)
        return status;
    struct weft_open_transport *transport = &comm->context->transports[index];
    size_t length = WEFT_ADDRESS_MAX;
    status = transport->ops.address(transport->instance, address, &length);
    if (status == WEFT_OK)
        *size = (uint16_t)length;
    return status;
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

static void open_ofi(struct weft_comm *comm, struct weft_network *network)
{
    note_status(network, open_one(comm, WEFT_OFI, network->ofi_address, &network->ofi_size));
}

/* With the ports that are this rank's among those of its host, or where they cannot be had with what verbs chooses. */
static int open_verbs(struct weft_comm *comm, struct weft_network *network)
{
    struct weft_context *context = comm->context;
    if (!(context->working & 1u << WEFT_VERBS))
        weft_ports_choose(comm);
    int status = open_one(comm, WEFT_VERBS, network->verbs_address, &network->verbs_size);
    if (status == WEFT_OK || !*context->ports.chosen)
        return status;
    weft_ports_give_up(context);
    return open_one(comm, WEFT_VERBS, network->verbs_address, &network->verbs_size);
}

void weft_network_open(struct weft_comm *comm, struct weft_network *network)
{
    int ofi = weft_network_allowed(comm, "ofi");
    if (weft_network_allowed(comm, "verbs")) {
        int status = open_verbs(comm, network);
        if (status == WEFT_OK) {
            network->port_count = weft_ports_tell(comm->context, network->ports);
            network->is_part = comm->context->ports.is_part != 0;
        }
        if (status == WEFT_OK || !ofi) {
            note_status(network, status);
            return;
        }
        if (status == WEFT_MISSING) /* as on most machines */
            weft_log(WEFT_LOG_DEBUG, "no verbs transport: %s", weft_error_detail());
        else
            weft_log_once(WEFT_LOG_WARN, "no verbs transport: %s", weft_error_detail());
    }
    if (ofi)
        open_ofi(comm, network);
    else
        note_status(network, fail_for_lack(comm));
}

static int verbs_reaches(const struct weft_comm *comm, const void *address, size_t size)
{
    const struct weft_open_transport *verbs = &comm->context->transports[WEFT_VERBS];
    return size && verbs->instance && verbs->ops.reachable(verbs->instance, address, size);
}

/* What ranks have may not reach each other, though it seems to. */
static int check_subnets(const struct weft_comm *comm, const struct weft_network_claim *all)
{
    char reason[WEFT_APART_TEXT];
    int are_parts = 0;
    struct weft_told_place *told = calloc((size_t)comm->ranks, sizeof *told);
    if (!told)
        return weft_fail(WEFT_NOMEM, "no memory for the ports of %d ranks", comm->ranks);
    for (int r = 0; r < comm->ranks; r++) {
        told[r].ports = all[r].network->ports;
        told[r].port_count = all[r].network->port_count;
        are_parts |= all[r].network->is_part != 0;
    }
    int status = are_parts ? weft_ports_are_apart(comm, told, reason) : 0;
    if (status > 0)
        status =
            weft_fail(WEFT_TRANSPORT,
                      "InfiniBand subnets look like one, and WEFT_VERBS_DEVICE has to name ports of each "
                      "for every rank: %s",
                      reason);
    free(told);
    return status;
}

void weft_network_complete(struct weft_comm *comm, const struct weft_network_claim *all,
                           struct weft_network *network)
{
    if (network->status == WEFT_OK)
        note_status(network, check_subnets(comm, all));
    for (int r = 0; r < comm->ranks && network->status == WEFT_OK && !network->ofi_size; r++) {
        const struct weft_network *theirs = all[r].network;
        if (all[r].group == all[comm->rank].group ||
            (network->verbs_size && verbs_reaches(comm, theirs->verbs_address, theirs->verbs_size)))
            continue;
        if (weft_network_allowed(comm, "ofi"))
            open_ofi(comm, network);
        else
            note_status(network,
                        weft_fail(WEFT_TRANSPORT,
                                  "rank %d on host '%s' cannot be reached over verbs: %s. The setting "
                                  "WEFT_TRANSPORT=%s allows no other transport",
                                  r, comm->members[r].host,
                                  theirs->verbs_size ? "its ports and this rank's are of different networks"
                                                     : "it has no port for that",
                                  comm->context->settings.transports));
    }
}

int weft_network_note(struct weft_comm *comm, int rank, const struct weft_network *network)
{
    struct weft_member *member = &comm->members[rank];
    size_t before = member->sizes[WEFT_SHM];
    uint8_t *addresses = realloc(member->addresses, before + network->ofi_size + network->verbs_size + 1u);
    if (!addresses)
        return weft_fail(WEFT_NOMEM, "no memory for the addresses of rank %d", rank);
    memcpy(addresses + before, network->ofi_address, network->ofi_size);
    memcpy(addresses + before + network->ofi_size, network->verbs_address, network->verbs_size);
    member->addresses = addresses;
    member->sizes[WEFT_OFI] = network->ofi_size;
    member->sizes[WEFT_VERBS] = network->verbs_size;
    return WEFT_OK;
}

static const char *what_it_has(const struct weft_member *member)
{
    if (member->sizes[WEFT_OFI])
        return member->sizes[WEFT_VERBS] ? "addresses for verbs and ofi" : "an address for ofi";
    return member->sizes[WEFT_VERBS] ? "an address for verbs" : "no network address";
}

int weft_network_choose(struct weft_comm *comm)
{
    const struct weft_member *mine = &comm->members[comm->rank];
    comm->transports = 0;
    for (int r = 0; r < comm->ranks; r++) {
        struct weft_member *member = &comm->members[r];
        size_t size;
        const uint8_t *address = weft_member_address(member, WEFT_VERBS, &size);
        if (member->host_group == mine->host_group)
            member->transport = WEFT_SHM;
        else if (mine->sizes[WEFT_VERBS] && verbs_reaches(comm, address, size))
            member->transport = WEFT_VERBS;
        else if (mine->sizes[WEFT_OFI] && member->sizes[WEFT_OFI])
            member->transport = WEFT_OFI;
        else
            return weft_fail(WEFT_TRANSPORT,
                             "rank %d on host '%s' and rank %d on host '%s' have no transport in common: the "
                             "first has %s, the other %s",
                             comm->rank, mine->host, r, member->host, what_it_has(mine), what_it_has(member));
        if (r != comm->rank)
            comm->transports |= 1u << member->transport;
    }
    return WEFT_OK;
}
