/* SPDX-License-Identifier: Apache-2.0 */
/* The witness of test_verbs_zero_copy: what has passed memory of weft's own between begin and end. Two things show it: the
 * counters, and the memory itself, which is filled with a pattern but for the start of each frame buffer, where control messages
 * lie. */
#ifndef WEFT_TESTS_ZERO_COPY_WATCH_H
#define WEFT_TESTS_ZERO_COPY_WATCH_H

#include <string.h>

#include "comm/core/comm.h"
#include "comm/exec/internal.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "transport/verbs/verbs_private.h"

#define CONTROL 256 /* a frame's header and a control message fit into it */
#define PATTERN 0xa7

struct watch {
    struct job *job;
    weft_comm_stats before;
    uint64_t barrier_bytes; /* that one barrier sends inside messages */
    uint32_t barriers;      /* since then */
};

struct touched {
    uint32_t frames, pooled;
};

static inline struct weft_transport *instance_of(const struct job *job)
{
    return job->context->transports[WEFT_VERBS].instance;
}

static inline int stats_of(const struct job *job, weft_comm_stats *stats)
{
    *stats = (weft_comm_stats)WEFT_COMM_STATS_INIT;
    return weft_comm_get_stats(job->comm, stats);
}

static inline int is_filled(const uint8_t *memory, size_t size, uint8_t value)
{
    return memory[0] == value && memcmp(memory, memory + 1, size - 1) == 0;
}

/* Fills what lies behind a control message, or says whether something else lies there now. A buffer that has been made
 * meanwhile is new memory. */
static inline uint32_t frame_look(const struct verbs_buffer *buffer, int fill)
{
    uint8_t *memory = buffer->memory + CONTROL;
    size_t size = VERBS_FRAME_BYTES - CONTROL;
    if (fill)
        memset(memory, PATTERN, size);
    return !is_filled(memory, size, PATTERN) && !is_filled(memory, size, 0);
}

/* Buffers of frames that have left, as far as nobody has heard so yet. */
static inline uint32_t qp_each(const struct verbs_qp *qp, int fill, uint32_t *seen)
{
    uint32_t touched = 0;
    for (uint32_t i = qp->retired; i != qp->posted; i++) {
        const struct verbs_post *post = &qp->posts[i % qp->depth];
        if (post->kind != VERBS_POST_FRAME)
            continue;
        ++*seen;
        touched += frame_look(post->owner, fill);
    }
    return touched;
}

/* With the lock; every frame buffer that there is, whatever it is used for. */
static inline int frames_each(const struct job *job, int fill, uint32_t *touched)
{
    struct weft_transport *transport = instance_of(job);
    uint32_t seen = 0, expected = 0;
    *touched = 0;
    if (!transport)
        return 0; /* libfabric's buffers are not weft's, and not to be seen */
    for (int rail = 0; rail < transport->rails_count; rail++) {
        const struct verbs_queues *queues = &transport->queues[rail];
        expected += queues->sends_count;
        for (uint32_t i = 0; i < queues->receives_count; i++)
            *touched += frame_look(queues->receives[i], fill);
        for (const struct verbs_buffer *buffer = queues->sends_free; buffer; buffer = buffer->next, seen++)
            *touched += frame_look(buffer, fill);
    }
    for (uint32_t i = 0; i < transport->qp_capacity; i++) {
        if (transport->qps[i])
            *touched += qp_each(transport->qps[i], fill, &seen);
    }
    CHECK(seen == expected);
    return 0;
}

static inline uint32_t pool_each(const struct job *job, int fill)
{
    uint32_t touched = 0;
    for (struct weft_pool_buffer *buffer = job->context->regions.buffers; buffer; buffer = buffer->next) {
        if (fill)
            memset(buffer->memory, PATTERN, buffer->size);
        else
            touched += !is_filled(buffer->memory, buffer->size, PATTERN);
    }
    return touched;
}

static inline int meet(struct watch *watch)
{
    watch->barriers++;
    CHECK_OK(weft_barrier(watch->job->comm, NULL));
    return 0;
}

/* Both ranks have ended what they did before, and do nothing until both watch. */
static inline int watch_begin(struct watch *watch, struct job *job)
{
    weft_comm_stats first;
    uint32_t touched;
    watch->job = job;
    CHECK_OK(weft_barrier(job->comm, NULL));
    CHECK_OK(stats_of(job, &first));
    CHECK_OK(weft_barrier(job->comm, NULL));
    weft_context_lock(job->context);
    int status = frames_each(job, 1, &touched);
    pool_each(job, 1);
    weft_context_unlock(job->context);
    CHECK(status == 0);
    CHECK_OK(stats_of(job, &watch->before));
    watch->barrier_bytes = watch->before.bytes_eager - first.bytes_eager;
    watch->barriers = 0;
    return meet(watch);
}

static inline int watch_end(struct watch *watch, struct touched *touched, weft_comm_stats *moved)
{
    weft_comm_stats now;
    CHECK(meet(watch) == 0);
    CHECK_OK(stats_of(watch->job, &now));
    weft_context_lock(watch->job->context);
    int status = frames_each(watch->job, 0, &touched->frames);
    touched->pooled = pool_each(watch->job, 0);
    const struct weft_exec *exec = watch->job->comm->exec;
    int scratched = exec->scratch_bytes[0] || exec->scratch_bytes[1];
    weft_context_unlock(watch->job->context);
    CHECK(status == 0 && !scratched);
    *moved = now;
    moved->bytes_eager -= watch->before.bytes_eager + watch->barriers * watch->barrier_bytes;
    moved->bytes_direct -= watch->before.bytes_direct;
    moved->bytes_staged -= watch->before.bytes_staged;
    return 0;
}

/* Nothing has passed weft's memory, and so many bytes have come to this rank without. */
static inline int watch_prove(struct watch *watch, uint64_t bytes)
{
    struct touched touched;
    weft_comm_stats moved;
    CHECK(watch_end(watch, &touched, &moved) == 0);
    CHECK(moved.bytes_staged == 0);
    CHECK(moved.bytes_eager == 0);
    CHECK(moved.bytes_direct == bytes);
    CHECK(touched.frames == 0);
    CHECK(touched.pooled == 0);
    return 0;
}

#endif
