/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/reduce_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devmem/reduce.h"
#include "tests/support/reduce_reference.h"

#define SOURCES    WEFT_DEVICE_SOURCES_MAX
#define SLOT_BYTES (REDUCE_TABLE_BYTES / (SOURCES + 2) / 64 * 64)
#define GUARD      64
#define GUARD_BYTE 0xa5
#define SAID_MAX   5
#define NONE       (-1)

struct job {
    weft_dtype dtype;
    weft_op op;
    uint32_t sources, finish;
    size_t count, skew_to, skew_from; /* elements, and bytes */
    int alias;                        /* the source that the result replaces, or NONE */
    int second;                       /* bytes by which a second result is askew, or NONE */
    int is_scaled, is_filled;         /* what lies in the sources is taken */
};

static unsigned char wanted[SLOT_BYTES], scaled[SLOT_BYTES];

static unsigned char *slot(const struct reduce_table *table, uint32_t number)
{
    return table->memory + number * SLOT_BYTES + GUARD;
}

static void expect(const struct job *job, const void *const *sources, const void *scalar)
{
    const void *from[SOURCES];
    memcpy(from, sources, sizeof from);
    if (job->is_scaled && weft_scale(job->dtype, scaled, sources[0], job->count, scalar) != WEFT_OK)
        abort();
    from[0] = job->is_scaled ? scaled : from[0];
    weft_reduce_find(job->dtype, job->op)(wanted, from, (int)job->sources, job->count, job->finish);
}

static int is_right(const unsigned char *result, size_t size)
{
    int is_kept = 1;
    for (size_t i = 0; i < GUARD; i++)
        is_kept &= result[size + i] == GUARD_BYTE && result[-1 - (ptrdiff_t)i] == GUARD_BYTE;
    return is_kept && memcmp(result, wanted, size) == 0;
}

static void judge(struct reduce_table *table, const struct job *job, int is_done, int is_good)
{
    table->tried++;
    table->failed += !is_done;
    table->wrong += is_done && !is_good;
    if ((!is_done || !is_good) && table->wrong + table->failed <= SAID_MAX)
        fprintf(stderr,
                "%s: %s of %s, %u sources, %zu elements, in place of %d, second %d, finish %u, scaled %d, "
                "skews %zu "
                "and %zu\n",
                is_done ? "WRONG" : "FAILED", weft_op_name(job->op), weft_dtype_name(job->dtype),
                job->sources, job->count, job->alias, job->second, job->finish, job->is_scaled, job->skew_to,
                job->skew_from);
}

static void try_job(struct reduce_table *table, const struct job *job)
{
    static uint64_t random = 7;
    const void *sources[SOURCES] = {NULL};
    unsigned char scalar[16], *results[2];
    size_t size = job->count * weft_dtype_size(job->dtype);
    results[0] = slot(table, SOURCES) + job->skew_to;
    results[1] = slot(table, SOURCES + 1) + job->skew_to + (job->second > 0 ? job->second : 0);
    for (uint32_t s = 0; s < job->sources; s++) {
        unsigned char *from = slot(table, s) + (job->skew_from + s * (job->skew_from % 5)) % 32;
        from = job->alias == (int)s ? results[0] : from;
        sources[s] = from;
        for (size_t i = 0; !job->is_filled && i < job->count; i++)
            reference_set(job->dtype, from, i, reference_element(job->dtype, &random));
    }
    reference_set(job->dtype, scalar, 0, reference_element(job->dtype, &random));
    expect(job, sources, scalar);
    struct weft_device_reduction reduction = {.size = sizeof reduction,
                                              .dtype = job->dtype,
                                              .op = job->op,
                                              .source_count = job->sources,
                                              .destination_count = job->second == NONE ? 1 : 2,
                                              .sources = sources,
                                              .destinations = (void **)results,
                                              .count = job->count,
                                              .finish = job->finish,
                                              .scalar = job->is_scaled ? scalar : NULL};
    for (uint32_t d = 0; d < 2; d++) {
        memset(results[d] - GUARD, GUARD_BYTE, GUARD);
        memset(results[d] + size, GUARD_BYTE, GUARD);
        if (job->alias == NONE || d)
            memset(results[d], GUARD_BYTE, size);
    }
    int is_done = table->reduce(&reduction) == 0;
    judge(table, job, is_done,
          is_right(results[0], size) && (job->second == NONE || is_right(results[1], size)));
}

/* Numbers of sources with all the rest that a reduction can have. */
static void try_forms(struct reduce_table *table, struct job job)
{
    static const uint32_t finishes[] = {0, 1, 2, 7, 300, 100003, 0x80000000, 0xffffffff};
    static const size_t counts[] = {1, 5, 37, 67, 131, 300, 3001};
    size_t element = weft_dtype_size(job.dtype), unit = element > 8 ? 8 : element;
    int is_sum = job.op == WEFT_SUM || job.op == WEFT_AVG;
    for (job.sources = 1; job.sources <= SOURCES; job.sources++) {
        for (size_t i = 0; i < 28; i++) {
            if ((i + job.sources) % (size_t)table->stride)
                continue;
            job.count = counts[i % 7];
            job.finish = job.op == WEFT_AVG ? finishes[(i + job.sources) % 8] : 0;
            job.alias = (int)(i % (job.sources + 1)) - 1;
            job.second = i % 3 == 1 ? (int)(i % 2 * 16 + i % 4 * unit) : NONE;
            job.is_scaled = is_sum && job.dtype != WEFT_BOOL && i % 4 == 3;
            job.skew_to = i * unit % 16;
            job.skew_from = i % 5 == 0 ? job.skew_to : i * 3 * unit % 32;
            try_job(table, &job);
        }
    }
}

/* All combinations of three special elements; of elements of 8 bits all pairs, and of those of 16 all. */
static void try_specials(struct reduce_table *table, struct job job)
{
    reference_bits specials[REFERENCE_SPECIALS];
    size_t count = reference_specials(job.dtype, specials), size = weft_dtype_size(job.dtype);
    job.sources = 3;
    job.count = count * count * count;
    job.is_filled = 1;
    for (size_t i = 0; i < job.count; i++) {
        reference_set(job.dtype, slot(table, 0), i, specials[i % count]);
        reference_set(job.dtype, slot(table, 1), i, specials[i / count % count]);
        reference_set(job.dtype, slot(table, 2), i, specials[i / count / count]);
    }
    for (int f = 0; f < (job.op == WEFT_AVG ? 4 : 1); f++) {
        job.finish = (uint32_t)f * 3;
        try_job(table, &job);
    }
    job.sources = 2;
    job.count = size <= 2 ? 65536 : 0;
    for (size_t i = 0; i < job.count; i++) {
        reference_set(job.dtype, slot(table, 0), i, i);
        reference_set(job.dtype, slot(table, 1), i, size == 1 ? i / 256 : i * 40503 % 65536);
    }
    for (int f = 0; job.count && f < (job.op == WEFT_AVG ? 2 : 1); f++) {
        job.finish = (uint32_t)f * 3;
        try_job(table, &job);
    }
}

void reduce_table_run(struct reduce_table *table)
{
    table->tried = table->wrong = table->failed = table->pairs = 0;
    for (int t = 0; t < REFERENCE_TYPES; t++) {
        for (int o = 0; o < WEFT_OP_COUNT; o++) {
            struct job job = {.dtype = reference_types[t], .op = (weft_op)o, .alias = NONE, .second = NONE};
            if (!reference_pair(job.dtype, job.op) ||
                (table->leaves_out && table->leaves_out(job.dtype, job.op)))
                continue;
            table->pairs++;
            try_forms(table, job);
            try_specials(table, job);
        }
    }
}
