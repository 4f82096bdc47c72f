/* SPDX-License-Identifier: Apache-2.0 */
/* Which network transport two ranks use that do not share memory: verbs where both have RDMA devices that reach each other,
 * libfabric otherwise.
 *
 * Opening libfabric costs 100 ms and tens of MB, so verbs comes first. The first vote carries verbs addresses; an ofi
 * address only from a rank that cannot open verbs, since it will need one. Whether two verbs addresses reach each
 * other is a symmetric function of both, so after that vote each rank finds for itself the peers that need
 * ofi, and each of those peers finds this rank: both open it and bring their addresses to one more vote. That vote is held
 * when anybody has a verbs address, which all know; without RDMA devices there is none.
 *
 * If ranks of a host have parts of its ports, and the ports that all have told prove to be of separate InfiniBand subnets with
 * one prefix, nobody knows which reach each other, and links would fail on their first use: all ranks fail instead, with the reason.
 * Where every rank has its host's first ports, these pair by their place (transport/verbs/address.h), which is right where
 * subnets go by rails, and there is nothing to fail for.
 */
#ifndef WEFT_COMM_AGREE_NETWORK_H
#define WEFT_COMM_AGREE_NETWORK_H

#include "comm/comm.h"
#include "comm/ports.h"

/* A rank's part of the vote. */
struct weft_network {
    int32_t status; /* of what this rank tried: others fail with it */
    uint16_t ofi_size, verbs_size;
    uint8_t ofi_address[WEFT_ADDRESS_MAX], verbs_address[WEFT_ADDRESS_MAX];
    struct weft_told_port ports[WEFT_TOLD_PORTS]; /* that verbs uses, the rank's own first */
    uint32_t port_count;
    uint32_t is_part; /* the ports are this rank's part of its host's: ports.h */
    char reason[200]; /* of the status */
};

int weft_network_allowed(const struct weft_comm *comm, const char *transport);

/* Whether a part from another rank has sizes and text in bounds. */
int weft_network_is_valid(const struct weft_network *network);

/* [lock] Opens verbs, or ofi where that cannot be had, and notes the address, or why there is none. */
void weft_network_open(struct weft_comm *comm, struct weft_network *network);

/* [lock] Adds an ofi address, or why there is none, if a rank of another host (its group is not this one's) cannot be reached by
 * verbs. Every rank's in `all`. */
struct weft_network_claim {
    const struct weft_network *network;
    uint32_t group;
};
void weft_network_complete(struct weft_comm *comm, const struct weft_network_claim *all,
                           struct weft_network *network);

/* Takes a rank's addresses into its member record. */
int weft_network_note(struct weft_comm *comm, int rank, const struct weft_network *network);

/* Chooses by what each rank is reached, once all member records are whole. WEFT_TRANSPORT says what two ranks have that
 * cannot reach each other. */
int weft_network_choose(struct weft_comm *comm);

#endif
