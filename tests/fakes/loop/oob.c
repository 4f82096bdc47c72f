/* SPDX-License-Identifier: Apache-2.0 */
/* Links that come up by out-of-band (oob) messages, as those of a network transport do: who connects knocks, and the
 * link is up when the peer has answered. A message that got lost is sent again. */
#include <string.h>
#include "base/clock.h"
#include "tests/fakes/loop/loop_private.h"

#define AGAIN_NS 2000000 /* until a knock that nobody has answered is repeated */

static const struct loop_oob knock = {LOOP_OOB_MAGIC, LOOP_KNOCK};
static const struct loop_oob answer = {LOOP_OOB_MAGIC, LOOP_ANSWER};

/* What becomes of it shows in whether an answer comes. */
static void oob_send(struct weft_transport *transport, const struct loop_address *to,
                     const struct loop_oob *oob)
{
    transport->oob_send(transport->oob_arg, to, sizeof *to, oob, sizeof *oob);
}

void loop_oob_connect(struct weft_link *link, const struct loop_address *peer)
{
    struct weft_transport *transport = link->transport;
    if (!transport->oob_send)
        return;
    link->peer = *peer;
    link->unanswered = 1;
    link->asked_ns = weft_clock_ns();
    transport->unanswered++;
    oob_send(transport, peer, &knock);
}

void loop_oob_disconnect(struct weft_link *link)
{
    link->transport->unanswered -= (uint32_t)link->unanswered;
    link->unanswered = 0;
}

void loop_oob_poll(struct weft_transport *transport)
{
    int64_t now_ns = weft_clock_ns();
    for (struct weft_link *link = transport->links; link; link = link->next) {
        if (!link->unanswered || link->failed || now_ns - link->asked_ns < AGAIN_NS)
            continue;
        link->asked_ns = now_ns;
        oob_send(transport, &link->peer, &knock);
    }
}

void loop_oob_receive(struct weft_transport *transport, const void *from, size_t from_size, const void *bytes,
                      size_t size)
{
    struct loop_oob oob;
    struct loop_address peer;
    if (!transport->oob_send || size != sizeof oob || from_size != sizeof peer)
        return;
    memcpy(&oob, bytes, sizeof oob);
    memcpy(&peer, from, sizeof peer);
    if (oob.magic != LOOP_OOB_MAGIC)
        return;
    if (oob.kind == LOOP_KNOCK)
        oob_send(transport, &peer, &answer);
    for (struct weft_link *link = transport->links; link && oob.kind == LOOP_ANSWER; link = link->next) {
        if (memcmp(&link->peer, &peer, sizeof peer) == 0)
            loop_oob_disconnect(link);
    }
}
