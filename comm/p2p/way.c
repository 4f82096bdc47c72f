/* SPDX-License-Identifier: Apache-2.0 */
/* Which way a message would go now, and why, in words. The decisions themselves are in p2p.c, inside.c, offer.c and comm/exec/send.c. */
#include <inttypes.h>
#include <stdio.h>

#include "comm/drive/context.h"
#include "comm/p2p/internal.h"

struct words {
    char *why;
    size_t capacity;
};

static const char *say(const struct words *words, const char *way, const char *why)
{
    snprintf(words->why, words->capacity, "%s", why);
    return way;
}

/* Whether a message may go inside, and both costs are known: then why has them, that of the way that is taken first. */
static int say_measured(const struct weft_p2p_peer *peer, const struct weft_exec_peer *link, size_t bytes,
                        const struct words *words)
{
    static const char *const names[2] = {[WEFT_P2P_ANNOUNCED] = "announced", [WEFT_P2P_INSIDE] = "inside"};
    if (!peer || bytes > link->inside_bytes || !peer->inside.cost_ns[0] || !peer->inside.cost_ns[1])
        return 0;
    int taken = peer->inside.taken;
    snprintf(words->why, words->capacity,
             "measured: %" PRIu32 " ns %s, %" PRIu32 " ns %s, for messages of %d bytes",
             peer->inside.cost_ns[taken], names[taken], peer->inside.cost_ns[!taken], names[!taken],
             WEFT_P2P_SCALE_BYTES);
    return 1;
}

static const char *ordinary(const struct weft_exec_peer *link, uint32_t flags, const struct words *words)
{
    if (!(flags & WEFT_LINK_PEER_PULLS))
        return say(words, "staged", "the rank cannot read this process's memory");
    if (link->way != WEFT_WAY_AUTO)
        return say(words, "pulled", "WEFT_WAY_SHM says so");
    return say(words, "pulled", "the rank reads this process's memory, or is fed: as it finds faster");
}

/* A message that may be read where it is. */
static const char *within_host(const struct weft_p2p *p2p, const struct weft_p2p_peer *peer,
                               const struct weft_exec_peer *link, const void *memory, size_t bytes,
                               const struct words *words)
{
    uint32_t flags;
    if (link->ops->link_flags(link->link, &flags) != WEFT_OK)
        return say(words, "-", "the link to the rank is coming up, or has failed");
    if (flags & WEFT_LINK_PEER_MAPS && p2p->options.context && !link->stage_only &&
        weft_memory_is_shared(p2p->options.context, memory, bytes))
        return say(words, "mapped", "the rank maps memory of weft_mem_alloc()");
    if (bytes <= link->inside_bytes && peer && peer->inside.taken == WEFT_P2P_INSIDE)
        return say_measured(peer, link, bytes, words)
                   ? "inside"
                   : say(words, "inside", "to be measured beside announced");
    if (link->stage_only)
        return say(words, "staged", "WEFT_DIRECT is 0");
    if (flags & WEFT_LINK_PEER_PULLS && say_measured(peer, link, bytes, words))
        return "pulled";
    return ordinary(link, flags, words);
}

const char *weft_p2p_help(struct weft_p2p *p2p, uint32_t rank, size_t bytes, char *why, size_t capacity)
{
    const struct words words = {.why = why, .capacity = capacity};
    struct weft_link_help help = {.size = sizeof help};
    struct weft_exec_peer *link;
    if (rank == p2p->options.rank)
        return say(&words, "-", "what comes from the rank itself is copied");
    if (!weft_exec_link(p2p->options.exec, rank) ||
        weft_exec_connect(p2p->options.exec, rank, &link) != WEFT_OK)
        return say(&words, "-", "there is no link to the rank yet");
    if (bytes <= link->eager_bytes) {
        snprintf(why, capacity, "messages up to %u bytes come inside one of the link's", link->eager_bytes);
        return "-";
    }
    if (link->stage_only)
        return say(&words, "-", "WEFT_DIRECT is 0");
    help.bytes = weft_exec_read_bytes(link->slice_bytes);
    if (help.bytes > bytes)
        help.bytes = bytes;
    if (link->ops->link_help(link->link, &help) != WEFT_OK)
        return say(&words, "-", "nothing is pulled over this transport");
    return say(&words, help.is_fed ? "fed" : help.is_offered ? "helped" : "alone", help.why);
}

const char *weft_p2p_way(struct weft_p2p *p2p, uint32_t rank, const void *memory, size_t bytes, char *why,
                         size_t capacity)
{
    const struct words words = {.why = why, .capacity = capacity};
    struct weft_exec_peer *link;
    if (rank == p2p->options.rank)
        return say(&words, "copied", "it goes to the rank itself");
    if (!weft_exec_link(p2p->options.exec, rank) ||
        weft_exec_connect(p2p->options.exec, rank, &link) != WEFT_OK)
        return say(&words, "-", "there is no link to the rank yet");
    if (p2p->options.context && weft_where_is_device(p2p->options.context, memory))
        return say(&words, "device", "a device's memory goes by a command queue of that device");
    if (bytes <= link->eager_bytes) {
        snprintf(why, capacity, "messages up to %u bytes go inside one of the link's", link->eager_bytes);
        return "inside";
    }
    if (link->caps & WEFT_CAP_READ)
        return within_host(p2p, p2p->peers ? p2p->peers[rank] : NULL, link, memory, bytes, &words);
    if (link->caps & WEFT_CAP_PUT)
        return say(&words, "put", "the transport writes into the memory of the receive");
    return say(&words, "inside", "the transport has messages alone: in slices");
}
