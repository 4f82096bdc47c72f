/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that go inside one of the link's, and those that are announced.
 *
 * Up to the eager limit a message goes inside. Over shared memory one a little longer does so where that is faster: between processors that
 * share a cache two copies through it take half of the time of an announcement, an answer and the kernel's copy; between others they take
 * longer. Which it is is measured (base/choice.h). An announced message costs the time from where both ends have met until the receiver has all of it, so that nobody's being
 * late counts. One that goes inside costs what
 * writing it takes here and what reading it takes there, which the peer says with the credit that it gives back; until then it is thought to be the
 * same. Memory that the peer maps is announced, and read there.
 */
#include "comm/drive/context.h"
#include "comm/p2p/internal.h"

#define TIMED 4 /* of so many that are read one is timed */

int weft_p2p_goes_inside(struct weft_p2p *p2p, struct weft_p2p_peer *peer, const void *memory, size_t bytes,
                         int *is_timed)
{
    int timed;
    if (!p2p->options.context || weft_memory_is_shared(p2p->options.context, memory, bytes))
        return 0;
    if (peer->decided == WEFT_P2P_UNDECIDED) {
        int is_inside = weft_choice_next(&peer->inside, &timed) == WEFT_P2P_INSIDE;
        peer->decided = is_inside ? WEFT_P2P_DECIDED_INSIDE : WEFT_P2P_DECIDED_ANNOUNCED;
        peer->is_decided_timed = timed != 0;
    }
    int goes_inside = peer->decided == WEFT_P2P_DECIDED_INSIDE;
    *is_timed = goes_inside && peer->is_decided_timed;
    return goes_inside;
}

static int64_t scale(int64_t cost_ns, size_t bytes)
{
    return (int64_t)((double)cost_ns * WEFT_P2P_SCALE_BYTES / (double)bytes);
}

void weft_p2p_went_inside(struct weft_p2p_peer *peer, size_t bytes, int64_t taken_ns)
{
    int64_t write_ns = scale(taken_ns, bytes);
    weft_choice_observe(&peer->inside, WEFT_P2P_INSIDE,
                        write_ns + (peer->their_read_ns ? (int64_t)peer->their_read_ns : write_ns));
}

void weft_p2p_inside_read(struct weft_p2p_peer *peer, size_t bytes, int64_t taken_ns)
{
    int64_t read_ns = scale(taken_ns, bytes);
    peer->until_timed = TIMED - 1;
    if (read_ns > 0 && read_ns < UINT32_MAX && (!peer->read_ns || (uint32_t)read_ns < peer->read_ns))
        peer->read_ns = (uint32_t)read_ns;
    if (!peer->is_read_known) /* the peer has nothing but a guess */
        peer->is_read_known = peer->is_read_due = 1;
}

void weft_p2p_inside_observe(struct weft_p2p_peer *peer, size_t bytes, int64_t cost_ns)
{
    weft_choice_observe(&peer->inside, WEFT_P2P_ANNOUNCED, scale(cost_ns, bytes));
}
