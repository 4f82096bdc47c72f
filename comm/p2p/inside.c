/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that go inside one of the link's, and those that are announced.
 *
 * Up to the eager limit a message goes inside. Over shared memory one a little longer does so where that is faster: between processors that
 * share a cache two copies through it take half of the time of an announcement, an answer and the kernel's copy; between others they take
 * longer. Which it is is measured (comm/exec/ways.h). An announced message costs the time until its receiver has taken it. One that goes inside costs twice what
 * writing it takes, as the receiver takes the same lines from this processor's cache as this one has taken from its. Memory that the peer maps is
 * announced, and read there.
 */
#include "base/clock.h"
#include "comm/drive/context.h"
#include "comm/p2p/internal.h"

int weft_p2p_goes_inside(struct weft_p2p *p2p, struct weft_p2p_peer *peer, const void *memory, size_t bytes,
                         int *is_timed)
{
    int timed;
    if (peer->decided || !p2p->options.context || weft_memory_is_shared(p2p->options.context, memory, bytes))
        return 0;
    if (weft_choice_next(&peer->inside, &timed) == WEFT_P2P_INSIDE) {
        *is_timed = timed;
        return 1;
    }
    peer->decided = timed ? WEFT_P2P_DECIDED_TIMED : WEFT_P2P_DECIDED;
    return 0;
}

/* Of 8 KiB. */
static int64_t scale(int64_t cost_ns, size_t bytes)
{
    return (int64_t)((double)cost_ns * 8192 / (double)bytes);
}

void weft_p2p_went_inside(struct weft_p2p_peer *peer, size_t bytes, int64_t taken_ns)
{
    weft_choice_observe(&peer->inside, WEFT_P2P_INSIDE, scale(2 * taken_ns, bytes));
}

void weft_p2p_went_announced(struct weft_p2p_peer *peer, const struct weft_request *request)
{
    weft_choice_observe(&peer->inside, WEFT_P2P_ANNOUNCED,
                        scale(weft_clock_ns() - request->announced_ns, request->bytes));
}
