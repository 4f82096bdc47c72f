/* SPDX-License-Identifier: Apache-2.0 */
/* Errors as people need them: what failed where, what that means, and what to look at next, in one line.
 *
 * Texts are made by pure functions over a plain struct, which the caller fills when it fails something.
 */
#ifndef WEFT_TRANSPORT_VERBS_WHY_H
#define WEFT_TRANSPORT_VERBS_WHY_H

#include <stddef.h>
#include <stdint.h>
#include <weft/transport.h>
#include "transport/verbs/device.h"

#define VERBS_INTERFACE 16
#define VERBS_WHY       560 /* longest text with its end; fits into a detail with room for the rank */

struct verbs_failure {
    int status; /* enum ibv_wc_status */
    uint32_t vendor_error;
    char device[VERBS_NAME];
    int port;
    int gid_index; /* own; -1 on InfiniBand without GRH */
    char gid[VERBS_GID_TEXT];
    int gid_type;                  /* enum verbs_gid_type */
    char peer_gid[VERBS_GID_TEXT]; /* "" when unknown */
    uint16_t peer_lid;             /* InfiniBand, 0 unknown */
    int layer;                     /* IBV_LINK_LAYER_* */
    int state; /* enum ibv_port_state, read after the error; 0 when the device did not answer */
    int physical_state;
    char interface[VERBS_INTERFACE];      /* of the own GID, if it is down; "" otherwise */
    uint32_t queue_pair, peer_queue_pair; /* numbers; peer's 0 unknown */
    int timeout, retry;                   /* as set */
};

/* Fills the struct: reads the rail's state now. path may be NULL. */
void verbs_failure_fill(struct verbs_rail *rail, const struct weft_verbs_settings *settings,
                        const struct verbs_path *path, int status, uint32_t vendor_error,
                        struct verbs_failure *failure);

/* One line, for example
 *   "transport retry counter exceeded (12, vendor error 0x81) with a peer at ::ffff:10.7.0.2, from rxe0 port 1 (GID 1
 *   ::ffff:10.7.0.1, RoCE v2), queue pair 17 to 18; port ACTIVE, LinkUp: no acknowledgement in 8 tries of 1073 ms; does the
 *   peer live? Then ..."
 * Returns text. Nothing is cut off, however long the names are. */
const char *verbs_why(const struct verbs_failure *failure, char text[VERBS_WHY]);

/* Only the own port: "rxe0 port 1 (GID 1 ::ffff:10.7.0.1, RoCE v2) is DOWN, Disabled: look at ...". NULL when it is ACTIVE. */
const char *verbs_why_port(const struct verbs_failure *failure, char text[VERBS_WHY]);

/* The same for what the device reported of a queue pair, in place of a completion's status. */
const char *verbs_why_event(const char *event, const struct verbs_failure *failure, char text[VERBS_WHY]);

/* The weft status of a completion's status: WEFT_PEER_FAILED where the peer did not answer, else WEFT_TRANSPORT. */
int verbs_why_status(int status);

/* "transport retry counter exceeded". */
const char *verbs_status_text(int status);

#endif
