/* SPDX-License-Identifier: Apache-2.0 */
/* Weft's own messages where they lie until somebody looks for them. */
#include <stdlib.h>

#include "comm/p2p/internal.h"

struct weft_arrived *weft_p2p_oob_next(const struct weft_p2p *p2p, int32_t source, int64_t tag,
                                       const struct weft_arrived *after)
{
    return after ? weft_match_next_alike(after)
                 : weft_match_find(&p2p->match, WEFT_SPACE_INTERNAL, source, tag);
}

struct weft_arrived *weft_p2p_oob_next_of_all(const struct weft_p2p *p2p, const struct weft_arrived *after)
{
    return weft_match_next(&p2p->match, WEFT_SPACE_INTERNAL, after);
}

const void *weft_p2p_oob_bytes(const struct weft_arrived *message, size_t *size)
{
    const struct weft_p2p_arrived *arrived = (const struct weft_p2p_arrived *)message;
    *size = arrived->bytes;
    return arrived->payload;
}

void weft_p2p_oob_drop(struct weft_p2p *p2p, struct weft_arrived *message)
{
    struct weft_p2p_arrived *arrived = (struct weft_p2p_arrived *)message;
    struct weft_p2p_peer *peer = p2p->peers[message->source];
    uint32_t cost = (uint32_t)arrived->bytes + WEFT_P2P_COST;
    weft_match_remove(&p2p->match, message);
    peer->held[WEFT_SPACE_INTERNAL] -= cost;
    weft_p2p_owe(p2p, peer, WEFT_SPACE_INTERNAL, cost);
    free(arrived);
}
