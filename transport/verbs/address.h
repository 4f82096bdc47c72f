/* SPDX-License-Identifier: Apache-2.0 */
/* The address of an instance, and what two addresses say about the paths between them.
 *
 * An address names every port that the instance uses, so that both ends know the other's before they exchange an
 * oob message, and both decide alike which ports talk to each other, by which GIDs and with which MTU: the functions here
 * are pure, and mirror each other (if one end pairs its port 0 with the peer's port 1, the peer pairs its port 1
 * with that port 0, and the pairs have the same order).
 *
 * Wire format, little-endian: u32 magic "WVRB", u8 lowest and u8 highest version of the oob messages understood, u8 number
 * of ports, u8 0, u64 instance. Then for each port: u64 device GUID, u32 speed in Mb/s, u16 LID, u8 LMC, u8 port number, u8
 * link layer, u8 MTU (1 to 5: 256 to 4096 bytes), u16 partition key, u8 number of GIDs, u8 flags (1: packets to and from it
 * carry a GRH); for each GID 16 bytes, then u8 type | foreign << 7, u8 prefix bits, u8 index. As many GIDs are named as fit
 * into WEFT_ADDRESS_MAX, at least one per port.
 */
#ifndef WEFT_TRANSPORT_VERBS_ADDRESS_H
#define WEFT_TRANSPORT_VERBS_ADDRESS_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/transport.h>
#include "transport/verbs/gid.h"

#define VERBS_RAILS         4 /* ports of an instance */
#define VERBS_PAIRS         4 /* pairs of ports between two instances */
#define VERBS_ADDRESS_MAGIC 0x42525657u
#define VERBS_VERSION_MIN   1
#define VERBS_VERSION       1

struct verbs_port {
    uint64_t guid;       /* of the device, as the device orders the bytes */
    uint32_t speed_mbps; /* of data */
    uint16_t lid;        /* InfiniBand */
    uint16_t partition;  /* its key; the highest bit is full membership */
    uint8_t lmc;         /* InfiniBand: the port answers to 2^lmc LIDs */
    uint8_t number;      /* from 1 */
    uint8_t layer;       /* IBV_LINK_LAYER_* */
    uint8_t mtu;         /* enum ibv_mtu, active */
    uint8_t needs_grh;   /* 1: InfiniBand ports that share a LID are told apart by GID */
    uint8_t gid_count;
    struct verbs_gid gids[VERBS_PORT_GIDS];
};

struct verbs_address {
    uint64_t instance; /* random */
    uint8_t version_min, version_max;
    uint8_t port_count;
    struct verbs_port ports[VERBS_RAILS];
};

/* Two ports that talk: rails (indexes into ports) and GIDs (indexes into their gids). */
struct verbs_pair {
    uint8_t mine, theirs;
    uint8_t my_gid, their_gid;
};

/* How a queue pair of a pair reaches its peer. */
struct verbs_path {
    int mtu;       /* enum ibv_mtu, the smaller of both */
    int is_global; /* packets carry a GRH: always on Ethernet, between subnets, and where a port asks for it */
    int gid_index;   /* own */
    uint16_t lid;    /* InfiniBand: destination */
    uint8_t bits;    /* InfiniBand: source path bits */
    uint8_t gid[16]; /* the peer's */
};

/* Returns the size, at most WEFT_ADDRESS_MAX. GIDs that do not fit are left out, of all ports alike. */
size_t verbs_address_encode(const struct verbs_address *address, uint8_t bytes[WEFT_ADDRESS_MAX]);

/* Reads what a peer says: WEFT_PROTOCOL, with the reason, unless everything in it can be used. */
int verbs_address_decode(const void *bytes, size_t size, struct verbs_address *address);

/* The pairs of ports that shall talk, best first; returns how many, 0: no way. Only pairs of the fastest speed
 * class are taken: a slower one would hold up every put that is cut over all. */
int verbs_pairs(const struct verbs_address *mine, const struct verbs_address *theirs,
                struct verbs_pair pairs[VERBS_PAIRS]);

/* The path of the number-th queue pair of a pair (with an LMC, queue pairs use different LIDs). */
void verbs_path(const struct verbs_address *mine, const struct verbs_address *theirs,
                const struct verbs_pair *pair, int number, struct verbs_path *path);

/* Writes path_mtu and ah_attr for the step to RTR. */
void verbs_path_fill(const struct verbs_path *path, const struct weft_verbs_settings *settings, int port,
                     struct ibv_qp_attr *attributes);

/* 256 to 4096. */
int verbs_mtu_bytes(int mtu);

#endif
