/* SPDX-License-Identifier: Apache-2.0 */
/* Reading ordinary memory of a peer: by the kernel, which the owner may help with (help.c), or fed by the owner (feed.c), through a cache
 * that both share or past the caches.
 *
 * Which is faster depends on how near both processors are and on the size, and changes while a program runs. So the reader measures all three, per peer
 * and size (base/choice.h), and keeps apart what it has found while the owner was near and while it was far (near.c). What counts is the time of one
 * read, from its beginning to its end. A read that is not fed to its end says nothing.
 *
 * Two that read from each other had better do so in the same way, as who is inside the kernel's copy feeds nobody. So a read is fed as well whose owner has asked for the same since the
 * last one: then what either measures in a trial is what both would have. That is no wish of its own, or one would follow the other for ever.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/shm/shm_private.h"

static const char *const way_names[] = {"by the kernel", "fed", "fed past the caches"};

/* Reads that are asked for before a peer is taken for one that has other things to do; then one of so many is. Odd, as messages often have 2, 4 or 8
 * pieces. */
#define UNHELPED_MAX  4u
#define UNHELPED_EACH 17u
#define LARGE_BYTES   (512u << 10)
#define WAKING_BYTES  (1u << 20) /* a message that an owner is worth waking for */

/* How this read is done. */
struct how {
    struct weft_choices *choices; /* that hear what it costs; NULL: none do */
    enum shm_read way;
    int is_timed; /* its cost is to be observed */
    int is_trial;
    int is_void;     /* it was chosen for another distance: its cost says nothing */
    int is_likewise; /* as the owner has wanted the same, since it was read last */
};

static struct how next_read(struct weft_link *link, const struct shm_token *token, size_t size)
{
    struct how how = {.way = SHM_READ_KERNEL};
    if (link->transport->params.help == WEFT_HELP_NEVER || token->segment & SHM_TOKEN_NOT_FED ||
        token->cell == SHM_CELL_SHARED || size < SHM_FED_BYTES_MIN)
        return how;
    if (token->segment & SHM_TOKEN_ALWAYS_FED) {
        how.way = token->segment & SHM_TOKEN_PAST ? SHM_READ_PAST : SHM_READ_FED;
        return how;
    }
    struct shm_reads *reads = shm_reads_of(link);
    if (!reads)
        return how;
    shm_reads_begin(link, reads, size);
    how.choices = &reads->choices[reads->distance.is_far];
    how.way = (enum shm_read)weft_choices_next(how.choices, size, &how.is_timed);
    how.is_trial = how.way != weft_choices_taken(how.choices, size);
    if (how.is_trial) {
        how.choices = shm_reads_look(link, reads, how.choices);
        how.is_void = how.choices != &reads->choices[reads->distance.is_far];
    }
    int was_wanted = shm_feed_was_wanted(link, size);
    if (was_wanted && how.way == SHM_READ_KERNEL && !how.is_trial) /* which says nothing about either way */
        how = (struct how){.way = shm_feed_is_past(link) ? SHM_READ_PAST : SHM_READ_FED, .is_likewise = 1};
    return how;
}

/* Whether the owner is asked to do its part. Where it has other things to do that costs a call more, or the time until it is not waited for
 * any more. */
static int is_asked(struct weft_link *link, const struct shm_token *token, size_t size, const struct how *how)
{
    struct shm_peer *peer = link->peer;
    int setting = link->transport->params.help;
    peer->read_as = (uint32_t)token->segment &
                    (SHM_TOKEN_NOT_HELPED | SHM_TOKEN_NOT_FED | SHM_TOKEN_ALWAYS_FED | SHM_TOKEN_PAST);
    if (setting == WEFT_HELP_NEVER ||
        (how->way == SHM_READ_KERNEL &&
         (token->segment & SHM_TOKEN_NOT_HELPED || size < SHM_HELPED_BYTES_MIN)))
        return 0;
    peer->unhelped++;
    return setting == WEFT_HELP_ALWAYS || how->is_trial || how->is_likewise ||
           peer->unhelped <= UNHELPED_MAX || peer->unhelped % UNHELPED_EACH == 0;
}

/* A read of size bytes has taken so long, 0: it says nothing. */
static void observe(struct weft_link *link, int pid, size_t size, const struct how *how, int64_t cost_ns)
{
    const struct weft_transport *transport = link->transport;
    if (weft_choices_observe(how->choices, size, (uint8_t)how->way, cost_ns) && transport->params.log)
        transport->params.log(
            WEFT_LOG_DEBUG, "shm: reads of about %zu bytes of process %d are faster %s now, while it is %s",
            size, pid, way_names[how->way], how->choices == link->reads->choices ? "near" : "far");
}

int shm_pull_ordinary(struct weft_link *link, int pid, const struct shm_token *token, uint64_t offset,
                      void *destination, size_t size, uint32_t flags)
{
    const struct how how = next_read(link, token, size);
    const struct shm_fed_how fed_how = {.is_wish = !how.is_likewise, .is_past = how.way == SHM_READ_PAST};
    int asks = is_asked(link, token, size, &how), is_fed = how.way != SHM_READ_KERNEL, status = WEFT_OK;
    int64_t begun_ns = how.is_timed ? weft_clock_ns() : 0;
    size_t fed = 0;
    if (asks && offset == 0 && token->size >= WAKING_BYTES && /* once: who is woken polls on for a while */
        atomic_load_explicit(&link->state, memory_order_acquire) == SHM_LINK_UP)
        shm_peer_wake(link);
    if (asks && is_fed)
        fed = shm_pull_fed(link, token, offset, destination, size, &fed_how, flags);
    link->fed_bytes += fed;
    if (fed == size)
        link->peer->unhelped = 0;
    else
        status = shm_pull_helped(link, pid, token, offset + fed, (uint8_t *)destination + fed, size - fed,
                                 asks && !is_fed);
    if (how.is_timed && how.choices)
        observe(link, pid, size, &how,
                status != WEFT_OK || how.is_void || (is_fed && fed < size) ? 0 : weft_clock_ns() - begun_ns);
    return status;
}

/* Whether its owner is asked to do its part of the next read; else why it is not. */
static int say_asked(const struct weft_link *link, char *why, size_t capacity)
{
    uint32_t unhelped = link->peer->unhelped;
    if (link->transport->params.help == WEFT_HELP_ALWAYS || unhelped < UNHELPED_MAX)
        return 1;
    snprintf(why, capacity, "the rank has neither helped nor fed %u times; every %uth read is offered",
             unhelped, UNHELPED_EACH);
    return (unhelped + 1) % UNHELPED_EACH == 0;
}

/* Why a read of so many bytes is fed, or is not. Returns whether it is. */
static int say_fed(const struct weft_link *link, size_t bytes, char *why, size_t capacity)
{
    uint64_t costs_ns[WEFT_CHOICE_WAYS];
    size_t of_bytes;
    if (link->transport->params.help == WEFT_HELP_NEVER || link->peer->read_as & SHM_TOKEN_NOT_FED ||
        bytes < SHM_FED_BYTES_MIN)
        return 0;
    if (link->peer->read_as & SHM_TOKEN_ALWAYS_FED) {
        snprintf(why, capacity, "%sWEFT_WAY_SHM of the rank says so; it has fed %" PRIu64 " bytes so far",
                 link->peer->read_as & SHM_TOKEN_PAST ? "past the caches: " : "", link->fed_bytes);
        return say_asked(link, why, capacity);
    }
    if (!link->reads)
        return 0;
    int taken =
        weft_choices_costs(&link->reads->choices[link->reads->distance.is_far], bytes, costs_ns, &of_bytes);
    int other = -1; /* the best of those that are known */
    for (int way = 0; way < SHM_READ_WAYS; way++) {
        if (way != taken && costs_ns[way] && (other < 0 || costs_ns[way] < costs_ns[other]))
            other = way;
    }
    if (costs_ns[taken] && other >= 0)
        snprintf(why, capacity,
                 "measured: %" PRIu64 " ns %s, %" PRIu64 " ns %s, for %zu bytes, while it is %s",
                 costs_ns[taken], way_names[taken], costs_ns[other], way_names[other], of_bytes,
                 link->reads->distance.is_far ? "far" : "near");
    return taken != SHM_READ_KERNEL && say_asked(link, why, capacity);
}

/* Whether the next read of so many bytes is offered to its owner in half, and why. */
static int say_helped(const struct weft_link *link, size_t bytes, char *why, size_t capacity)
{
    const struct shm_peer *peer = link->peer;
    int setting = link->transport->params.help, is_helped = !(peer->read_as & SHM_TOKEN_NOT_HELPED);
    const char *reason = NULL;
    if (!atomic_load_explicit(&peer->pid, memory_order_acquire))
        reason = "this process cannot read the rank's memory by itself";
    else if (setting == WEFT_HELP_NEVER)
        reason = "WEFT_HELP_SHM says so";
    else if (!is_helped)
        reason = "the rank does not help: by its WEFT_HELP_SHM, or as its kernel forbids that";
    else if (bytes < SHM_HELPED_BYTES_MIN)
        reason = "pieces of less than 64 KB are not offered";
    if (reason) {
        snprintf(why, capacity, "%s", reason);
        return 0;
    }
    if (setting == WEFT_HELP_ALWAYS)
        snprintf(why, capacity, "WEFT_HELP_SHM says so");
    else if (!link->offered_bytes)
        snprintf(why, capacity, "nothing has been offered to the rank so far");
    else
        snprintf(why, capacity,
                 "the rank has written %" PRIu64 " of %" PRIu64 " bytes that were offered to it",
                 link->helped_bytes, link->offered_bytes);
    return say_asked(link, why, capacity);
}

int shm_link_help(struct weft_link *link, struct weft_link_help *help)
{
    struct weft_link_help now = {.size = help->size,
                                 .bytes_offered = link->offered_bytes,
                                 .bytes_helped = link->helped_bytes,
                                 .bytes_fed = link->fed_bytes};
    now.bytes = help->size >= sizeof now ? help->bytes : LARGE_BYTES; /* who cannot ask means a large one */
    now.is_offered = say_helped(link, now.bytes, now.why, sizeof now.why);
    now.is_fed = say_fed(link, now.bytes, now.why, sizeof now.why);
    memcpy(help, &now, help->size < sizeof now ? help->size : sizeof now);
    return WEFT_OK;
}
