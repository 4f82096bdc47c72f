/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions: every type and operation, all numbers of sources, one and two destinations, odd counts and offsets, in place,
 * scaled, finished: bit for bit what the reference says. Also as steps of programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include <string.h>
#include <weft/weft.h>

#include "tests/support/device_suite.h"
#include "tests/support/reduce_reference.h"
#include "tests/support/effort.h"

#define COUNT_MAX    67
#define ELEMENT_MAX  16
#define OFFSET_MAX   3 /* elements */
#define ROOM         ((COUNT_MAX + OFFSET_MAX) * ELEMENT_MAX)
#define DESTINATIONS WEFT_DEVICE_DESTINATIONS_MAX
#define SOURCES      WEFT_DEVICE_SOURCES_MAX

/* One buffer has the sources, then the destinations, ROOM bytes each; in staging memory and on the device. */
struct bench {
    struct device_world world;
    struct weft_device_queue *queue;
    unsigned char *staging, *memory;
    uint64_t *stop;
    uint64_t random;
};

static size_t room_of(int place)
{
    return (size_t)place * ROOM;
}

static void bench_open(struct bench *bench, const struct device_row *row)
{
    device_open(&bench->world, row);
    bench->queue = device_queue(&bench->world, 0);
    bench->staging = device_allocate(&bench->world, -1, WEFT_MEMORY_PINNED, room_of(SOURCES + DESTINATIONS));
    bench->memory = device_allocate(&bench->world, 0, WEFT_MEMORY_DEVICE, room_of(SOURCES + DESTINATIONS));
    bench->stop = device_allocate(&bench->world, -1, WEFT_MEMORY_PINNED, sizeof *bench->stop);
    *bench->stop = 0;
    bench->random = 7;
}

static void bench_close(struct bench *bench)
{
    const struct weft_device_ops *ops = bench->world.ops;
    ops->queue_close(bench->queue);
    DEVICE_OK(ops->release(bench->world.device, bench->staging));
    DEVICE_OK(ops->release(bench->world.device, bench->memory));
    DEVICE_OK(ops->release(bench->world.device, bench->stop));
    device_close(&bench->world);
}

struct trial {
    weft_dtype dtype;
    weft_op op;
    uint32_t sources, destinations, finish;
    size_t count;
    int in_place; /* the first destination is this source; -1: it is not */
    int scaled;
    int programmed; /* by run() */
};

static reference_bits expect(const struct bench *bench, const struct trial *trial, const size_t *offsets,
                             size_t i, reference_bits scalar)
{
    reference_bits elements[SOURCES];
    for (uint32_t s = 0; s < trial->sources; s++)
        elements[s] = reference_get(trial->dtype, bench->staging + room_of((int)s) + offsets[s], i);
    if (trial->programmed && trial->sources == 1 && !trial->finish)
        return elements[0]; /* a copy: also of what is no number */
    if (trial->scaled)
        elements[0] =
            reference_reduce(trial->dtype, WEFT_PROD, (reference_bits[]){elements[0], scalar}, 2, 0);
    return reference_reduce(trial->dtype, trial->op, elements, (int)trial->sources, trial->finish);
}

/* The same by a program of one step. */
static int run(struct bench *bench, const struct weft_device_reduction *reduction)
{
    struct weft_device_step step = {.kind = WEFT_DEVICE_STEP_REDUCE,
                                    .source_count = reduction->source_count,
                                    .destination_count = reduction->destination_count,
                                    .finish = reduction->finish,
                                    .count = reduction->count};
    memcpy(step.sources, reduction->sources, sizeof step.sources);
    memcpy(step.destinations, reduction->destinations, sizeof step.destinations);
    const struct weft_device_collective collective = {
        sizeof collective, reduction->dtype, reduction->op, 1, 0, &step, bench->stop};
    return bench->world.ops->run(bench->queue, &collective);
}

static void try_once(struct bench *bench, const struct trial *trial)
{
    const struct weft_device_ops *ops = bench->world.ops;
    size_t element = weft_dtype_size(trial->dtype), offsets[SOURCES + DESTINATIONS];
    const void *sources[SOURCES];
    void *destinations[DESTINATIONS];
    unsigned char expected[DESTINATIONS * ROOM], scalar[ELEMENT_MAX];
    reference_bits scalar_bits = reference_element(trial->dtype, &bench->random);
    reference_set(trial->dtype, scalar, 0, scalar_bits);
    for (int place = 0; place < SOURCES + DESTINATIONS; place++) {
        offsets[place] = reference_random(&bench->random) % (OFFSET_MAX + 1) * element;
        for (size_t i = 0; i < ROOM / element; i++)
            reference_set(trial->dtype, bench->staging + room_of(place), i,
                          reference_element(trial->dtype, &bench->random));
    }
    for (int s = 0; s < SOURCES; s++)
        sources[s] = bench->memory + room_of(s) + offsets[s];
    for (int d = 0; d < DESTINATIONS; d++)
        destinations[d] = bench->memory + room_of(SOURCES + d) + offsets[SOURCES + d];
    memcpy(expected, bench->staging + room_of(SOURCES), sizeof expected);
    for (size_t i = 0; i < trial->count; i++) {
        reference_bits bits = expect(bench, trial, offsets, i, scalar_bits);
        for (uint32_t d = 0; d < trial->destinations; d++)
            reference_set(trial->dtype, expected + room_of((int)d) + offsets[SOURCES + d], i, bits);
    }
    if (trial->in_place >= 0)
        destinations[0] = bench->memory + room_of(trial->in_place) + offsets[trial->in_place];
    struct weft_device_reduction reduction = {.size = sizeof reduction,
                                              .dtype = trial->dtype,
                                              .op = trial->op,
                                              .source_count = trial->sources,
                                              .destination_count = trial->destinations,
                                              .sources = sources,
                                              .destinations = destinations,
                                              .count = trial->count,
                                              .finish = trial->finish,
                                              .scalar = trial->scaled ? scalar : NULL};
    DEVICE_OK(ops->copy(bench->queue, bench->memory, bench->staging, room_of(SOURCES + DESTINATIONS)));
    DEVICE_OK(trial->programmed ? run(bench, &reduction) : ops->reduce(bench->queue, &reduction));
    memset(&reduction, 0xff, sizeof reduction); /* it may go */
    memset(scalar, 0xff, sizeof scalar);
    memset(sources, 0xff, sizeof sources);
    memset(destinations, 0xff, sizeof destinations);
    DEVICE_OK(ops->copy(bench->queue, bench->staging, bench->memory, room_of(SOURCES + DESTINATIONS)));
    assert_int_equal(device_finish(&bench->world, bench->queue), 1);
    const unsigned char *found = bench->staging + room_of(SOURCES);
    for (int d = 0; d < DESTINATIONS; d++) {
        size_t skipped = trial->in_place >= 0 && d == 0 ? ROOM : 0;
        if (memcmp(found + room_of(d) + skipped, expected + room_of(d) + skipped, ROOM - skipped) != 0)
            fail_msg("WRONG: %s of %s, %u sources, %u destinations, %zu elements, finish %u, in place %d, "
                     "scaled %d: destination %d differs",
                     weft_op_name(trial->op), weft_dtype_name(trial->dtype), trial->sources,
                     trial->destinations, trial->count, trial->finish, trial->in_place, trial->scaled, d);
    }
    if (trial->in_place < 0)
        return;
    const unsigned char *result = bench->staging + room_of(trial->in_place) + offsets[trial->in_place];
    if (memcmp(result, expected + offsets[SOURCES], trial->count * element) != 0)
        fail_msg("WRONG: %s of %s in place of source %d of %u, scaled %d: the result differs",
                 weft_op_name(trial->op), weft_dtype_name(trial->dtype), trial->in_place, trial->sources,
                 trial->scaled);
}

static void every_type_and_operation(const struct device_row *row, int programmed)
{
    static const size_t counts[] = {1, 2, 7, 16, 33, COUNT_MAX};
    struct bench bench;
    bench_open(&bench, row);
    for (int t = 0; t < WEFT_DTYPE_COUNT; t++) {
        for (int o = 0; o < WEFT_OP_COUNT; o++) {
            struct trial trial = {
                .dtype = (weft_dtype)t, .op = (weft_op)o, .in_place = -1, .programmed = programmed};
            for (uint32_t s = 1; reference_pair(trial.dtype, trial.op) && s <= SOURCES; s++) {
                for (uint32_t d = 1; d <= DESTINATIONS; d++) {
                    if (test_is_sanitized() && ((uint32_t)(t + o) + s + d) % 7)
                        continue;
                    trial.sources = s;
                    trial.destinations = d;
                    trial.count = counts[(s + d + (uint32_t)o) % 6];
                    trial.finish = trial.op == WEFT_AVG && (s + d) % 2 ? s + 1 : 0;
                    int is_scalable =
                        !bench.world.row->scales_sums || trial.op == WEFT_SUM || trial.op == WEFT_AVG;
                    trial.scaled = is_scalable && trial.dtype != WEFT_BOOL && (s + d) % 3 == 0 && !programmed;
                    try_once(&bench, &trial);
                }
            }
        }
    }
    bench_close(&bench);
}

static void reductions_give_the_bits_of_the_reference(void **state)
{
    every_type_and_operation(device_row(state), 0);
}

static void collectives_give_the_bits_of_the_reference(void **state)
{
    every_type_and_operation(device_row(state), 1);
}

static void every_type_in_place(const struct device_row *row, int programmed)
{
    struct bench bench;
    bench_open(&bench, row);
    for (int t = 0; t < WEFT_DTYPE_COUNT; t++) {
        for (uint32_t s = 1; s <= 3; s++) {
            for (int in_place = 0; in_place < (int)s; in_place++) {
                for (int scaled = 0; scaled < 1 + (t != WEFT_BOOL && !programmed); scaled++) {
                    struct trial trial = {(weft_dtype)t, WEFT_SUM, s,      1 + s % 2, 0,
                                          COUNT_MAX,     in_place, scaled, programmed};
                    try_once(&bench, &trial);
                }
            }
        }
    }
    bench_close(&bench);
}

static void reductions_in_place(void **state)
{
    every_type_in_place(device_row(state), 0);
}

static void collectives_in_place(void **state)
{
    every_type_in_place(device_row(state), 1);
}

static void reductions_that_do_not_exist_are_refused(void **state)
{
    struct bench bench;
    bench_open(&bench, device_row(state));
    for (int t = 0; t <= WEFT_DTYPE_COUNT; t++) {
        for (int o = 0; o <= WEFT_OP_COUNT; o++) {
            const void *sources[] = {bench.memory};
            void *destinations[] = {bench.memory};
            struct weft_device_reduction reduction = {
                sizeof reduction, (weft_dtype)t, (weft_op)o, 1, 1, sources, destinations, 1, 0, 0, NULL};
            int is_pair = reference_pair((weft_dtype)t, (weft_op)o);
            assert_int_equal(bench.world.ops->reduce(bench.queue, &reduction),
                             is_pair ? WEFT_OK : WEFT_UNSUPPORTED);
            reduction.source_count = SOURCES + 1;
            assert_int_equal(bench.world.ops->reduce(bench.queue, &reduction), WEFT_INVALID);
            reduction.source_count = 1;
            reduction.destination_count = 0;
            assert_int_equal(bench.world.ops->reduce(bench.queue, &reduction), WEFT_INVALID);
        }
    }
    char one = 1;
    const void *sources[] = {bench.memory};
    void *destinations[] = {bench.memory};
    struct weft_device_reduction scaled = {sizeof scaled, WEFT_BOOL, WEFT_SUM, 1, 1,   sources,
                                           destinations,  1,         0,        0, &one};
    assert_int_equal(bench.world.ops->reduce(bench.queue, &scaled), WEFT_UNSUPPORTED);
    assert_int_equal(device_finish(&bench.world, bench.queue), 1);
    bench_close(&bench);
}

size_t device_reduce_tests(const struct device_row *row, struct CMUnitTest *tests)
{
    size_t used = 0;
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(reductions_give_the_bits_of_the_reference);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(reductions_in_place);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(reductions_that_do_not_exist_are_refused);
    if (row->collectives) {
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(collectives_give_the_bits_of_the_reference);
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(collectives_in_place);
    }
    return used;
}
