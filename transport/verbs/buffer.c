/* Queues of a rail, and the memory that frames are sent from and arrive in.
 *
 * Buffers are made in slabs, each one mapping and one registration, when links (or landings) need them, and stay until
 * the instance closes. Receive buffers are posted in chains: a single one may stay out of the queue for as long as
 * VERBS_POST_BATCH others are missing too, which the spare ones make up for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/error.h"
#include "transport/verbs/verbs_private.h"

#define SLAB_BUFFERS 32
#define SRQ_ENTRIES  8192 /* wanted; not every driver lets it grow later */
#define CQ_ENTRIES   1024 /* to begin with */

_Static_assert(VERBS_FRAME_BYTES % 64 == 0, "buffers are aligned to cache lines");

struct verbs_slab {
    struct verbs_slab *next;
    struct ibv_mr *mr;
    uint8_t *memory;
    size_t size;
    struct verbs_buffer buffers[SLAB_BUFFERS];
};

static struct verbs_slab *slab_make(struct verbs_queues *queues)
{
    const struct verbs_rail *rail = queues->rail;
    struct verbs_slab *slab = calloc(1, sizeof *slab);
    if (!slab)
        goto fail;
    slab->size = (size_t)SLAB_BUFFERS * VERBS_FRAME_BYTES;
    slab->memory = mmap(NULL, slab->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slab->memory == MAP_FAILED)
        goto free_slab;
    slab->mr = rail->verbs->reg_mr(rail->domain, slab->memory, slab->size, (uintptr_t)slab->memory,
                                   IBV_ACCESS_LOCAL_WRITE);
    if (!slab->mr)
        goto unmap;
    for (uint32_t i = 0; i < SLAB_BUFFERS; i++) {
        slab->buffers[i].memory = slab->memory + (size_t)i * VERBS_FRAME_BYTES;
        slab->buffers[i].lkey = slab->mr->lkey;
    }
    slab->next = queues->slabs;
    queues->slabs = slab;
    return slab;

unmap:
    munmap(slab->memory, slab->size);
free_slab:
    free(slab);
fail:
    weft_fail(
        WEFT_NOMEM,
        "verbs: no memory for %d message buffers that %s can reach (%s); look at the limit on locked memory "
        "(ulimit -l)",
        SLAB_BUFFERS, rail->device, strerror(errno));
    return NULL;
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
        return weft_fail(WEFT_TRANSPORT, "verbs: no completion queue of %d entries on %s: %s", CQ_ENTRIES,
                         rail->device, strerror(errno));
    queues->cq_entries = (uint32_t)rail->cq->cqe;
    struct ibv_srq_init_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.attr.max_wr =
        limits->shared_entries < SRQ_ENTRIES ? (uint32_t)limits->shared_entries : SRQ_ENTRIES;
    attributes.attr.max_sge = 1;
    queues->srq_entries = attributes.attr.max_wr;
    rail->srq = rail->verbs->create_srq(rail->domain, &attributes);
    if (!rail->srq)
        return weft_fail(WEFT_TRANSPORT, "verbs: no shared receive queue of %u entries on %s: %s",
                         queues->srq_entries, rail->device, strerror(errno));
    return WEFT_OK;
}

void verbs_queues_close(struct verbs_queues *queues)
{
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
        count += VERBS_POST_BATCH;
    uint32_t wanted = queues->receives_wanted + count;
    if (wanted > queues->srq_entries)
        return weft_fail(WEFT_NOMEM, "verbs: the receive queue of %s holds %u entries, of which %u are taken",
                         queues->rail->device, queues->srq_entries, queues->receives_wanted);
    int status = verbs_completions_reserve(queues, count);
    while (!status && queues->receives_count < wanted)
        status = receives_grow(queues);
    if (status)
        return status;
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
        struct ibv_recv_wr entries[VERBS_POST_BATCH], *bad = NULL;
        struct ibv_sge parts[VERBS_POST_BATCH];
        struct verbs_buffer *first = queues->receives_free, *buffer = first;
        uint32_t count = 0, missing = queues->receives_wanted - queues->receives_posted;
        for (; buffer && count < VERBS_POST_BATCH && count < missing; buffer = buffer->next, count++) {
            parts[count].addr = (uintptr_t)buffer->memory;
            parts[count].length = VERBS_FRAME_BYTES;
            parts[count].lkey = buffer->lkey;
            entries[count].wr_id = VERBS_RECEIVE | buffer->index;
            entries[count].sg_list = &parts[count];
            entries[count].num_sge = 1;
            entries[count].next = &entries[count + 1];
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
        return;
    }
}

void verbs_receive_return(struct verbs_queues *queues, struct verbs_buffer *buffer)
{
    buffer->next = queues->receives_free;
    queues->receives_free = buffer;
    if (queues->receives_posted + VERBS_POST_BATCH <= queues->receives_wanted)
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
