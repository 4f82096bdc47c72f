/* SPDX-License-Identifier: Apache-2.0 */
/* Links that come up by letters, as those of a network transport do: who connects knocks, and the link is up when the
 * peer has answered. A letter that got lost is told again. */
#include <string.h>
#include "base/clock.h"
#include "transport/loop/loop_private.h"

#define AGAIN_NS 2000000 /* until a knock that nobody has answered is repeated */

static const struct loop_letter knock = {LOOP_LETTER_MAGIC, LOOP_KNOCK};
static const struct loop_letter answer = {LOOP_LETTER_MAGIC, LOOP_ANSWER};

/* What becomes of it shows in whether an answer comes. */
static void tell(struct weft_transport *transport, const struct loop_address *to,
                 const struct loop_letter *letter)
{
    transport->tell(transport->tell_arg, to, sizeof *to, letter, sizeof *letter);
}

void loop_letters_connect(struct weft_link *link, const struct loop_address *peer)
{
    struct weft_transport *transport = link->transport;
    if (!transport->tell)
        return;
    link->peer = *peer;
    link->unanswered = 1;
    link->told_ns = weft_clock_ns();
    transport->unanswered++;
    tell(transport, peer, &knock);
}

void loop_letters_disconnect(struct weft_link *link)
{
    link->transport->unanswered -= (uint32_t)link->unanswered;
    link->unanswered = 0;
}

void loop_letters_poll(struct weft_transport *transport)
{
    int64_t now_ns = weft_clock_ns();
    for (struct weft_link *link = transport->links; link; link = link->next) {
        if (!link->unanswered || link->failed || now_ns - link->told_ns < AGAIN_NS)
            continue;
        link->told_ns = now_ns;
        tell(transport, &link->peer, &knock);
    }
}

void loop_told(struct weft_transport *transport, const void *from, size_t from_size, const void *bytes,
               size_t size)
{
    struct loop_letter letter;
    struct loop_address peer;
    if (!transport->tell || size != sizeof letter || from_size != sizeof peer)
        return;
    memcpy(&letter, bytes, sizeof letter);
    memcpy(&peer, from, sizeof peer);
    if (letter.magic != LOOP_LETTER_MAGIC)
        return;
    if (letter.kind == LOOP_KNOCK)
        tell(transport, &peer, &answer);
    for (struct weft_link *link = transport->links; link && letter.kind == LOOP_ANSWER; link = link->next) {
        if (memcmp(&link->peer, &peer, sizeof peer) == 0)
            loop_letters_disconnect(link);
    }
}
