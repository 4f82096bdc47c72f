/* SPDX-License-Identifier: Apache-2.0 */
/* Which network transport two ranks use that do not share memory: verbs where both have RDMA devices that reach each other, libfabric
 * where it was asked for or there is a device that it may know, sockets otherwise.
 *
 * Opening libfabric costs 100 ms and tens of MB, so verbs comes first. The first vote carries verbs addresses; another only from a rank
 * that cannot open verbs, since it will need one. Whether two verbs addresses reach each other is a symmetric function of both,
 * so after that vote each rank finds for itself the peers that it does not reach, and each of those peers finds this rank: both
 * open the plain transport, which follows from settings that all ranks share, and bring their addresses to one more vote. That vote is
 * held when anybody has a verbs address, or some have one of libfabric and some one of sockets, which all know.
 *
 * If ranks of a host have parts of its ports, and the ports that all have announced prove to be of separate InfiniBand subnets with
 * one prefix, nobody knows which reach each other, and links would fail on their first use: all ranks fail instead, with the reason.
 * Where every rank has its host's first ports, these pair by their place (transport/verbs/address.h), which is right where
 * subnets go by rails, and there is nothing to fail for.
 */
#ifndef WEFT_COMM_FORM_AGREE_NETWORK_H
#define WEFT_COMM_FORM_AGREE_NETWORK_H

#include "comm/core/comm.h"
#include "comm/form/ports.h"

/* A rank's part of the vote. */
struct weft_network {
    int32_t status;                                         /* of what this rank tried: others fail with it */
    uint16_t sizes[WEFT_TRANSPORT_COUNT];                   /* of addresses, 0: none; none for shm */
    uint8_t addresses[2 * WEFT_ADDRESS_MAX];                /* one behind the other: never more than two */
    struct weft_announced_port ports[WEFT_ANNOUNCED_PORTS]; /* that verbs uses, the rank's own first */
    uint32_t port_count;
    uint32_t is_part; /* the ports are this rank's part of its host's: ports.h */
    char reason[200]; /* of the status */
};

int weft_network_allowed(const struct weft_comm *comm, const char *transport);

/* Whether a part from another rank has sizes and text in bounds. */
int weft_network_is_valid(const struct weft_network *network);

/* Whether it has any address. */
int weft_network_has(const struct weft_network *network);

/* [lock] Opens verbs, or another where that cannot be had, and notes the address, or why there is none. */
void weft_network_open(struct weft_comm *comm, struct weft_network *network);

/* Every rank's in `all`. */
struct weft_network_claim {
    const struct weft_network *network;
    uint32_t group;
};
/* Whether some may not reach each other with what they have. */
int weft_network_is_open(const struct weft_comm *comm, const struct weft_network_claim *all);
/* [lock] Adds the address of the plain transport, or why there is none, if a rank of another host (its group is not this one's) cannot
 * be reached. */
void weft_network_complete(struct weft_comm *comm, const struct weft_network_claim *all,
                           struct weft_network *network);

/* Takes a rank's addresses into its member record. */
int weft_network_note(struct weft_comm *comm, int rank, const struct weft_network *network);

/* Chooses by what each rank is reached, once all member records are whole. WEFT_TRANSPORT says what two ranks have that
 * cannot reach each other. */
int weft_network_choose(struct weft_comm *comm);

#endif
