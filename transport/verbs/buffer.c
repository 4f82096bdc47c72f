/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of a rail, and the memory that frames are sent from and arrive in.
 *
 * Buffers are made in slabs, each one mapping and one registration, when links (or receive buffers) need them, and stay
 * until the instance closes. Receives are posted in chains: a single one may stay out of the queue for as long as
 * POST_BATCH others are missing too, which the spare ones make up for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "base/error.h"
#include "transport/verbs/region.h"
#include "transport/verbs/verbs_private.h"

#define SLAB_BUFFERS  32
#define SLAB_RETRY_NS INT64_C(100000000)
#define SRQ_ENTRIES   32768 /* wanted, for about 1,840 peers; not every driver lets it grow later */
#define CQ_ENTRIES    1024  /* to begin with */
#define POST_BATCH    8     /* receive buffers that are posted at once */
#define RECEIVES_LOST 4096  /* of a rail that are replaced at most */

_Static_assert(VERBS_FRAME_BYTES % 64 == 0, "buffers are aligned to cache lines");

struct verbs_slab {
    struct verbs_slab *next;
    struct ibv_mr *mr;
    uint8_t *memory;
    size_t size;
    struct verbs_buffer buffers[SLAB_BUFFERS];
};

/* Which of the two was missing decides what the user can do about it. */
static struct verbs_slab *slab_failed(struct verbs_queues *queues, int error, int was_refused)
{
    const char *device = queues->rail->device;
    queues->slab_error = error;
    queues->slab_refused = was_refused;
    if (was_refused && error == ENOMEM)
        verbs_fail_memory(device, (size_t)SLAB_BUFFERS * VERBS_FRAME_BYTES);
    else if (was_refused)
        weft_fail(WEFT_NOMEM, "verbs: %s cannot register %d message buffers: %s", device, SLAB_BUFFERS,
                  weft_errno_text(error));
    else
        weft_fail(WEFT_NOMEM, "verbs: no memory for %d message buffers of %s: %s", SLAB_BUFFERS, device,
                  weft_errno_text(error));
    errno = error;
    return NULL;
}

/* After a failure others fail likewise for a while: each message and each receive buffer may ask. */
static struct verbs_slab *slab_make(struct verbs_queues *queues)
{
    const struct verbs_rail *rail = queues->rail;
    int was_refused = 0, error;
    if (queues->slab_ns && weft_clock_ns() < queues->slab_ns)
        return slab_failed(queues, queues->slab_error, queues->slab_refused);
    struct verbs_slab *slab = calloc(1, sizeof *slab);
    error = ENOMEM;
    if (!slab)
        goto fail;
    slab->size = (size_t)SLAB_BUFFERS * VERBS_FRAME_BYTES;
    slab->memory = mmap(NULL, slab->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    error = errno;
    if (slab->memory == MAP_FAILED)
        goto free_slab;
    errno = 0;
    slab->mr = rail->verbs->reg_mr(rail->domain, slab->memory, slab->size, (uintptr_t)slab->memory,
                                   IBV_ACCESS_LOCAL_WRITE);
    error = errno ? errno : ENOMEM;
    if (!slab->mr)
        goto unmap;
    for (uint32_t i = 0; i < SLAB_BUFFERS; i++) {
        slab->buffers[i].memory = slab->memory + (size_t)i * VERBS_FRAME_BYTES;
        slab->buffers[i].lkey = slab->mr->lkey;
    }
    slab->next = queues->slabs;
    queues->slabs = slab;
    queues->slab_ns = 0;
    return slab;

unmap:
    was_refused = 1;
    munmap(slab->memory, slab->size);
free_slab:
    free(slab);
fail:
    queues->slab_ns = weft_clock_ns() + SLAB_RETRY_NS;
    return slab_failed(queues, error, was_refused);
}

static void slabs_free(struct verbs_queues *queues)
{
    while (queues->slabs) {
        struct verbs_slab *slab = queues->slabs;
        queues->slabs = slab->next;
        queues->rail->verbs->dereg_mr(slab->mr);
        munmap(slab->memory, slab->size);
        free(slab);
    }
}

int verbs_queues_open(struct weft_transport *transport, struct verbs_queues *queues, struct verbs_rail *rail)
{
    queues->transport = transport;
    queues->rail = rail;
    const struct verbs_limits *limits = &rail->limits;
    if (limits->queue_entries < VERBS_SEND_DEPTH || limits->queue_segments < 3 || limits->shared_queues < 1 ||
        limits->completion_entries < CQ_ENTRIES)
        return weft_fail(
            WEFT_UNSUPPORTED,
            "verbs: %s allows %d send entries of %d parts, %d shared receive queues, %d completion "
            "entries; at least %d of 3, 1 and %d are needed",
            rail->device, limits->queue_entries, limits->queue_segments, limits->shared_queues,
            limits->completion_entries, VERBS_SEND_DEPTH, CQ_ENTRIES);
    rail->channel = rail->verbs->create_comp_channel(rail->context);
    if (!rail->channel)
        return weft_fail(WEFT_TRANSPORT, "verbs: no completion channel on %s: %s", rail->device,
                         strerror(errno));
    int status = verbs_sleep_prepare(rail->channel->fd);
    if (status)
        return status;
    rail->cq = rail->verbs->create_cq(rail->context, CQ_ENTRIES, queues, rail->channel, 0);
    if (!rail->cq)
        return weft_fail(
            WEFT_TRANSPORT,
            "verbs: no completion queue of %d entries on %s port %d: %s; a queue there has at most %d, and "
            "other processes may have taken what the device has in all",
            CQ_ENTRIES, rail->device, rail->port.number, strerror(errno), limits->completion_entries);
    queues->cq_entries = (uint32_t)rail->cq->cqe;
    struct ibv_srq_init_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.attr.max_wr =
        limits->shared_entries < SRQ_ENTRIES ? (uint32_t)limits->shared_entries : SRQ_ENTRIES;
    attributes.attr.max_sge = 1;
    queues->srq_entries = attributes.attr.max_wr;
    rail->srq = rail->verbs->create_srq(rail->domain, &attributes);
    if (!rail->srq)
        return weft_fail(
            WEFT_TRANSPORT,
            "verbs: no shared receive queue of %u entries on %s port %d: %s; the device has %d of at most "
            "%d entries, for all processes together",
            queues->srq_entries, rail->device, rail->port.number, strerror(errno), limits->shared_queues,
            limits->shared_entries);
    return WEFT_OK;
}

void verbs_queues_close(struct verbs_queues *queues)
{
    verbs_deferred_destroy(queues, INT64_MAX);
    struct verbs_rail *rail = queues->rail;
    if (!rail)
        return;
    if (rail->srq)
        rail->verbs->destroy_srq(rail->srq);
    if (rail->cq) {
        verbs_wakings_take(queues, 0);
        rail->verbs->destroy_cq(rail->cq);
    }
    if (rail->channel)
        rail->verbs->destroy_comp_channel(rail->channel);
    rail->srq = NULL;
    rail->cq = NULL;
    rail->channel = NULL;
    slabs_free(queues);
    free(queues->receives);
}

int verbs_completions_reserve(struct verbs_queues *queues, uint32_t count)
{
    struct verbs_rail *rail = queues->rail;
    uint32_t limit = (uint32_t)rail->limits.completion_entries, needed = queues->cq_reserved + count;
    if (needed > queues->cq_entries) {
        uint32_t entries = needed > limit / 2 ? limit : needed * 2;
        int error = needed > limit ? ENOMEM : rail->verbs->resize_cq(rail->cq, (int)entries);
        if (error)
            return weft_fail(
                WEFT_NOMEM,
                "verbs: %s has a completion queue of %u entries and needs %u (%s); it takes at most %u: use "
                "fewer peers, or fewer queue pairs (WEFT_VERBS_QPS)",
                rail->device, queues->cq_entries, needed, strerror(error), limit);
        queues->cq_entries = (uint32_t)rail->cq->cqe;
    }
    queues->cq_reserved = needed;
    return WEFT_OK;
}

void verbs_completions_release(struct verbs_queues *queues, uint32_t count)
{
    queues->cq_reserved -= count;
}

/* One more slab of receive buffers. */
static int receives_grow(struct verbs_queues *queues)
{
    uint32_t count = queues->receives_count + SLAB_BUFFERS;
    struct verbs_buffer **receives = realloc(queues->receives, count * sizeof(*receives));
    if (!receives)
        return weft_fail(WEFT_NOMEM, "verbs: no memory for %u receive buffers", count);
    queues->receives = receives;
    struct verbs_slab *slab = slab_make(queues);
    if (!slab)
        return WEFT_NOMEM;
    for (uint32_t i = 0; i < SLAB_BUFFERS; i++) {
        struct verbs_buffer *buffer = &slab->buffers[i];
        buffer->index = queues->receives_count;
        receives[queues->receives_count++] = buffer;
        buffer->next = queues->receives_free;
        queues->receives_free = buffer;
    }
    return WEFT_OK;
}

int verbs_receives_reserve(struct verbs_queues *queues, uint32_t count)
{
    if (!queues->receives_wanted)
        count += POST_BATCH;
    uint32_t wanted = queues->receives_wanted + count;
    if (wanted > queues->srq_entries)
        return weft_fail(
            WEFT_NOMEM,
            "verbs: the receive queue of %s holds %u entries, of which %u are taken, and needs %u more: use "
            "fewer peers",
            queues->rail->device, queues->srq_entries, queues->receives_wanted, count);
    int status = verbs_completions_reserve(queues, count);
    if (status)
        return status;
    while (!status && queues->receives_count < wanted)
        status = receives_grow(queues);
    if (status) {
        verbs_completions_release(queues, count);
        return status;
    }
    queues->receives_wanted = wanted;
    verbs_receives_post(queues);
    return WEFT_OK;
}

void verbs_receives_release(struct verbs_queues *queues, uint32_t count)
{
    queues->receives_wanted -= count;
    verbs_completions_release(queues, count);
}

void verbs_receives_post(struct verbs_queues *queues)
{
    while (queues->receives_posted < queues->receives_wanted && queues->receives_free) {
        struct ibv_recv_wr entries[POST_BATCH], *bad = NULL;
        struct ibv_sge parts[POST_BATCH];
        struct verbs_buffer *first = queues->receives_free, *buffer = first;
        uint32_t count = 0, missing = queues->receives_wanted - queues->receives_posted;
        for (; buffer && count < POST_BATCH && count < missing; buffer = buffer->next, count++) {
            parts[count].addr = (uintptr_t)buffer->memory;
            parts[count].length = VERBS_FRAME_BYTES;
            parts[count].lkey = buffer->lkey;
            entries[count].wr_id = VERBS_RECEIVE | buffer->index;
            entries[count].sg_list = &parts[count];
            entries[count].num_sge = 1;
            entries[count].next = &entries[count + 1];
            buffer->turn = queues->transport->settings.failover ? ++queues->receives_turn : 0;
        }
        entries[count - 1].next = NULL;
        queues->receives_free = buffer;
        queues->receives_posted += count;
        if (ibv_post_srq_recv(queues->rail->srq, entries, &bad) == 0)
            continue;
        /* What was not taken stays for the next time. */
        ptrdiff_t taken = bad ? bad - entries : 0;
        for (buffer = first; taken; taken--)
            buffer = buffer->next, count--;
        queues->receives_free = buffer;
        queues->receives_posted -= count;
        for (; count; count--, buffer = buffer->next)
            buffer->turn = 0;
        return;
    }
}

/* How many receives have not completed though younger ones have: those that queue pairs are working on, or have taken
 * along when they ended. */
static uint32_t receives_overtaken(const struct verbs_queues *queues)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < queues->receives_count; i++) {
        uint32_t turn = queues->receives[i]->turn;
        count += turn && (int32_t)(queues->receives_done - turn) > 0;
    }
    return count;
}

/* Some devices (rxe) swallow the receive that a queue pair was working on when it went into error. With failover it is known
 * which: receives complete in about the order in which they were posted, so those that were overtaken may be lost, and
 * one of each queue pair that has just ended. Without, each that ends counts. There are to be as many others. */
void verbs_receives_replace(struct verbs_queues *queues, uint32_t ended)
{
    if (!ended)
        return;
    uint32_t known =
        queues->transport->settings.failover ? receives_overtaken(queues) : queues->receives_lost;
    while (queues->receives_lost < known + ended && queues->receives_lost < RECEIVES_LOST &&
           verbs_receives_reserve(queues, 1) == WEFT_OK)
        queues->receives_lost++;
}

void verbs_receive_return(struct verbs_queues *queues, struct verbs_buffer *buffer)
{
    buffer->next = queues->receives_free;
    queues->receives_free = buffer;
    if (queues->receives_posted + POST_BATCH <= queues->receives_wanted)
        verbs_receives_post(queues);
}

struct verbs_buffer *verbs_send_take(struct verbs_queues *queues)
{
    struct verbs_buffer *buffer = queues->sends_free;
    if (!buffer && queues->sends_count < queues->sends_limit) {
        struct verbs_slab *slab = slab_make(queues);
        for (uint32_t i = 0; slab && i < SLAB_BUFFERS; i++)
            verbs_send_return(queues, &slab->buffers[i]);
        queues->sends_count += slab ? SLAB_BUFFERS : 0;
        buffer = queues->sends_free;
    }
    if (buffer)
        queues->sends_free = buffer->next;
    return buffer;
}

void verbs_send_return(struct verbs_queues *queues, struct verbs_buffer *buffer)
{
    buffer->next = queues->sends_free;
    queues->sends_free = buffer;
}
