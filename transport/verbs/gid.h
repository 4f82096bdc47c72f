/* SPDX-License-Identifier: Apache-2.0 */
/* Which GID of a port talks to which GID of a peer's port.
 *
 * A RoCE port has a table of GIDs: for each IP address of its network interface one entry of each RoCE version.
 * Both ends of a connection must use entries of the same version and address family. On InfiniBand there is one
 * GID per port (and per subnet prefix), which matters only between subnets. Everything here is pure.
 */
#ifndef WEFT_TRANSPORT_VERBS_GID_H
#define WEFT_TRANSPORT_VERBS_GID_H

#include <stdint.h>

#define VERBS_GID_TEXT  48
#define VERBS_PORT_GIDS 4 /* GIDs of a port that a peer gets to know */

enum verbs_gid_type { VERBS_GID_IB, VERBS_GID_ROCE1, VERBS_GID_ROCE2 };

struct verbs_gid {
    uint8_t raw[16];
    uint8_t type;        /* enum verbs_gid_type */
    uint8_t prefix_bits; /* of its subnet, of 128 (an IPv4 /24 has 120); 0 unknown */
    uint8_t foreign;     /* belongs to an interface that this network namespace does not have */
    uint8_t index;       /* in the port's table */
};

/* "::ffff:10.7.0.1", "fe80::1". Returns text. */
const char *verbs_gid_text(const uint8_t raw[16], char text[VERBS_GID_TEXT]);
const char *verbs_gid_type_text(int type);

/* How well two GIDs go together; the higher the better, 0: not at all. Symmetric. */
int verbs_gid_score(const struct verbs_gid *a, const struct verbs_gid *b);

/* The entries of a port's table that peers get to know, the most useful first: at most one for each combination
 * of version, address family and routable or link-local. wanted is WEFT_VERBS_GID: that entry alone, -1 to
 * choose. Returns how many, 0 when none will do. */
int verbs_gids_choose(const struct verbs_gid *table, int count, int wanted,
                      struct verbs_gid chosen[VERBS_PORT_GIDS]);

#endif
