/* SPDX-License-Identifier: Apache-2.0 */
/* The bound: what two processes that already share all memory can do at best, without any library.
 *
 * Together they read each input once and write each output once. Variants:
 *   0  each process sums its half of both inputs into both outputs, between two barriers;
 *   1  the same with streaming stores, which spare reading the outputs' old contents (large sizes);
 *   2  tiny messages: each process publishes its input in cache lines that carry their own sequence number,
 *      and reads the other's: one crossing, no barrier (sizes up to LINES_MAX lines).
 * The coordinator takes the fastest for each size. A variant that does not fit the size falls back to 0.
 */
#include "perf/peers/pair.h"

enum { LINE_FLOATS = 14, LINES_MAX = 80 };

struct line {
    float values[LINE_FLOATS];
    uint64_t sequence; /* written last: the values belong to this call */
} __attribute__((aligned(64)));

struct shared {
    struct pair_side sides[2];
    struct line lines[2][2][LINES_MAX]; /* by rank, by the sequence's last bit */
};

struct job {
    struct shared *shared;
    int rank;
    char *arenas;       /* both ranks': send, recv, send, recv */
    size_t arena_bytes; /* of each */
    int allocated;
    uint64_t arrivals, sequence;
};

#if defined __x86_64__ && !defined __clang__
__attribute__((target_clones("default", "avx2", "avx512f")))
#endif
static void
sum_plain(const float *a, const float *b, float *x, float *y, size_t count)
{
#if defined __GNUC__ && !defined __clang__
#pragma GCC ivdep
#endif
    for (size_t i = 0; i < count; i++) {
        float sum = a[i] + b[i];
        x[i] = sum;
        y[i] = sum;
    }
}

static void sum_streaming(const float *a, const float *b, float *x, float *y, size_t count)
{
#ifdef __SSE2__
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        for (size_t j = i; j < i + 16; j += 4) {
            __m128 sum = _mm_add_ps(_mm_load_ps(a + j), _mm_load_ps(b + j));
            _mm_stream_ps(x + j, sum);
            _mm_stream_ps(y + j, sum);
        }
    _mm_sfence();
    sum_plain(a + i, b + i, x + i, y + i, count - i);
#else
    sum_plain(a, b, x, y, count);
#endif
}

static void exchange_lines(struct job *job, const float *send, float *recv, size_t count)
{
    uint64_t sequence = ++job->sequence;
    struct line *mine = job->shared->lines[job->rank][sequence & 1];
    struct line *theirs = job->shared->lines[!job->rank][sequence & 1];
    for (size_t at = 0, line = 0; at < count; at += LINE_FLOATS, line++) {
        size_t here = count - at < LINE_FLOATS ? count - at : LINE_FLOATS;
        memcpy(mine[line].values, send + at, here * sizeof(float));
        __atomic_store_n(&mine[line].sequence, sequence, __ATOMIC_RELEASE);
    }
    for (size_t at = 0, line = 0; at < count; at += LINE_FLOATS, line++) {
        size_t here = count - at < LINE_FLOATS ? count - at : LINE_FLOATS;
        while (__atomic_load_n(&theirs[line].sequence, __ATOMIC_ACQUIRE) != sequence)
            pair_relax();
        for (size_t i = 0; i < here; i++)
            recv[at + i] = send[at + i] + theirs[line].values[i];
    }
}

static int allreduce(void *self, const struct peers_call *call)
{
    struct job *job = self;
    const float *send = call->send;
    float *recv = call->recv;
    size_t count = call->count;
    int variant = call->variant;
    if (variant == 2 && count <= (size_t)LINES_MAX * LINE_FLOATS) {
        exchange_lines(job, send, recv, count);
        return 0;
    }
    /* The other's buffers lie at the same places in its arenas. */
    ptrdiff_t across = (ptrdiff_t)(2 * job->arena_bytes / sizeof(float)) * (job->rank == 0 ? 1 : -1);
    size_t half = count / 2 / 16 * 16;
    size_t from = job->rank == 0 ? 0 : half, to = job->rank == 0 ? half : count;
    pair_meet(job->shared->sides, job->rank, &job->arrivals);
    if (to > from)
        (variant == 1 ? sum_streaming : sum_plain)(send + from, send + across + from, recv + from,
                                                   recv + across + from, to - from);
    pair_meet(job->shared->sides, job->rank, &job->arrivals);
    return 0;
}

static void *allocate(void *self, size_t size)
{
    struct job *job = self;
    if (size != job->arena_bytes || job->allocated == 2)
        return NULL;
    return job->arenas + (size_t)(2 * job->rank + job->allocated++) * job->arena_bytes;
}

int main(void)
{
    struct job job = {.rank = peers_pin()};
    job.arena_bytes =
        (size_t)strtoull(peers_environment("PEERS_ARENA", "67108864"), NULL, 10) / PEERS_PAGE * PEERS_PAGE;
    size_t control = (sizeof *job.shared + PEERS_PAGE - 1) / PEERS_PAGE * PEERS_PAGE;
    char *memory = pair_map(control + 4 * job.arena_bytes);
    if (!memory)
        return 1;
    job.shared = (struct shared *)memory;
    job.arenas = memory + control;
    struct peers_library library = {"bound", job.rank, 2, allocate, &job, 0, {allreduce}};
    return peers_serve(&library);
}
