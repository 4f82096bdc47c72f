/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: steps that see what others wrote, queues and processes that talk to each other by words, stop, and what is refused. That
 * their reductions have the bits of reduce() is in device_suite_reduce.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weft/weft.h>

#include "tests/support/device_suite.h"
#include "tests/support/effort.h"

#define MOST      50 /* rounds */
#define ROUNDS    ((uint64_t)(test_is_sanitized() ? 12 : MOST))
#define BLOCK     65536 /* elements */
#define SHIFTS    21
#define FEW       1000
#define WORDS     8 /* in pinned memory; the first one is stop */
#define FAR_WORDS 64

/* A device's queue, with pinned words, all 0, for one test. */
struct desk {
    struct device_world world;
    struct weft_device_queue *queue;
    uint64_t *words;
};

static uint64_t *words_make(struct device_world *world)
{
    uint64_t *words = device_allocate(world, -1, WEFT_MEMORY_PINNED, WORDS * sizeof *words);
    memset(words, 0, WORDS * sizeof *words);
    return words;
}

static void desk_open(struct desk *desk, const struct device_row *row)
{
    device_open(&desk->world, row);
    desk->queue = device_queue(&desk->world, 0);
    desk->words = words_make(&desk->world);
}

static void desk_close(struct desk *desk)
{
    desk->world.ops->queue_close(desk->queue);
    DEVICE_OK(desk->world.ops->release(desk->world.device, desk->words));
    device_close(&desk->world);
}

/* count elements of device memory, each of this value. */
static int32_t *numbers_make(struct device_world *world, int ordinal, size_t count, int32_t value)
{
    int32_t *memory = device_allocate(world, ordinal, WEFT_MEMORY_DEVICE, count * sizeof *memory);
    int32_t *here = malloc(count * sizeof *here);
    assert_non_null(here);
    for (size_t i = 0; i < count; i++)
        here[i] = value;
    device_put(world, memory, here, count * sizeof *here);
    free(here);
    return memory;
}

/* Fails unless element i is first + i * each, for all of them. */
static void numbers_check(struct device_world *world, const int32_t *memory, size_t count, int32_t first,
                          int32_t each)
{
    int32_t *found = malloc(count * sizeof *found);
    assert_non_null(found);
    device_get(world, found, memory, count * sizeof *found);
    for (size_t i = 0; i < count; i++) {
        if (found[i] != first + (int32_t)i * each)
            fail_msg("WRONG: %s: element %zu of %zu is %d: expected %d", world->row->label, i, count,
                     (int)found[i], (int)(first + (int32_t)i * each));
    }
    free(found);
}

static struct weft_device_step copy_of(void *to, const void *from, uint64_t count)
{
    return (struct weft_device_step){.kind = WEFT_DEVICE_STEP_REDUCE,
                                     .source_count = 1,
                                     .destination_count = 1,
                                     .count = count,
                                     .sources = {from},
                                     .destinations = {to}};
}

static struct weft_device_step sum_of(void *to, const void *a, const void *b, uint64_t count)
{
    struct weft_device_step step = copy_of(to, a, count);
    step.source_count = 2;
    step.sources[1] = b;
    return step;
}

static struct weft_device_step word_of(enum weft_device_step_kind kind, uint64_t *word, uint64_t value)
{
    return (struct weft_device_step){.kind = kind, .word = word, .value = value};
}

#define SIGNAL(word, value) word_of(WEFT_DEVICE_STEP_SIGNAL, word, value)
#define AWAIT(word, value)  word_of(WEFT_DEVICE_STEP_AWAIT, word, value)

static int run(struct device_world *world, struct weft_device_queue *queue, struct weft_device_step *steps,
               uint32_t count, const uint64_t *stop)
{
    const struct weft_device_collective collective = {.size = sizeof collective,
                                                      .dtype = WEFT_INT32,
                                                      .op = WEFT_SUM,
                                                      .step_count = count,
                                                      .steps = steps,
                                                      .stop = stop};
    int status = world->ops->run(queue, &collective);
    memset(steps, 0xff, count * sizeof *steps); /* they may go */
    return status;
}

/* --- two that talk */

/* What two programs share. Each element of x goes to and fro between x and y, and grows by one on each way. */
struct table {
    uint64_t *words[2]; /* of the sides: each waits for its own */
    int32_t *x, *y;
};

/* Queues one side's program; ones has BLOCK ones. */
static int talk(struct device_world *world, struct weft_device_queue *queue, int side,
                const struct table *table, const int32_t *ones, const uint64_t *stop)
{
    struct weft_device_step steps[3 * MOST + 1];
    uint32_t used = 0;
    for (uint64_t r = 0; r < ROUNDS; r++) {
        if (side == 1 || r > 0)
            steps[used++] = AWAIT(table->words[side], side == 1 ? r + 1 : r);
        steps[used++] =
            side == 1 ? sum_of(table->x, table->y, ones, BLOCK) : sum_of(table->y, table->x, ones, BLOCK);
        steps[used++] = SIGNAL(table->words[!side], r + 1);
    }
    if (side == 0)
        steps[used++] = AWAIT(table->words[0], ROUNDS);
    return run(world, queue, steps, used, stop);
}

static void two_queues_talk(void **state)
{
    struct desk desk;
    desk_open(&desk, device_row(state));
    struct device_world *world = &desk.world;
    struct weft_device_queue *other = device_queue(world, 0);
    int32_t *ones = numbers_make(world, 0, BLOCK, 1);
    int32_t *word = numbers_make(world, 0, FAR_WORDS, 0); /* one in device memory, one in the host's */
    struct table table = {{(uint64_t *)(void *)word, desk.words + 1},
                          numbers_make(world, 0, BLOCK, 0),
                          numbers_make(world, 0, BLOCK, -1)};
    DEVICE_OK(talk(world, desk.queue, 0, &table, ones, desk.words));
    DEVICE_OK(talk(world, other, 1, &table, ones, desk.words));
    assert_int_equal(device_finish(world, desk.queue), 1);
    numbers_check(world, table.x, BLOCK, 2 * (int32_t)ROUNDS, 0);
    assert_int_equal(device_finish(world, other), 1);
    assert_int_equal(desk.words[1], ROUNDS);
    world->ops->queue_close(other);
    DEVICE_OK(world->ops->release(world->device, ones));
    DEVICE_OK(world->ops->release(world->device, word));
    DEVICE_OK(world->ops->release(world->device, table.x));
    DEVICE_OK(world->ops->release(world->device, table.y));
    desk_close(&desk);
}

/* Of what processes share: two words, x, y. */
static struct table table_at(void *shared)
{
    uint64_t *words = shared;
    int32_t *x = (int32_t *)(void *)(words + FAR_WORDS);
    return (struct table){{words, words + FAR_WORDS / 2}, x, x + BLOCK};
}

const size_t device_collective_shared_bytes =
    FAR_WORDS * sizeof(uint64_t) + 2 * (size_t)BLOCK * sizeof(int32_t);

void device_collective_share(struct device_world *world, int ordinal, void *shared, int side)
{
    struct table table = table_at(shared);
    struct weft_device_queue *queue = device_queue(world, ordinal);
    uint64_t *words = words_make(world);
    int32_t *ones = numbers_make(world, ordinal, BLOCK, 1);
    DEVICE_OK(talk(world, queue, side, &table, ones, words));
    assert_int_equal(device_finish(world, queue), 1);
    if (side == 0)
        numbers_check(world, table.x, BLOCK, 2 * (int32_t)ROUNDS, 0);
    world->ops->queue_close(queue);
    DEVICE_OK(world->ops->release(world->device, ones));
    DEVICE_OK(world->ops->release(world->device, words));
}

/* --- one program */

/* Each step moves everything by one element, so that whoever computes an element reads what another one wrote. */
static void steps_see_what_those_before_wrote(void **state)
{
    struct desk desk;
    desk_open(&desk, device_row(state));
    struct device_world *world = &desk.world;
    struct weft_device_step steps[SHIFTS];
    static int32_t first[BLOCK];
    int32_t *places[2] = {numbers_make(world, 0, BLOCK, 0), numbers_make(world, 0, BLOCK, 0)};
    for (int32_t i = 0; i < BLOCK; i++)
        first[i] = 5 * i;
    device_put(world, places[0], first, sizeof first);
    for (int s = 0; s < SHIFTS; s++)
        steps[s] = copy_of(places[!(s % 2)], places[s % 2] + 1, (uint64_t)(BLOCK - 1 - s));
    DEVICE_OK(run(world, desk.queue, steps, SHIFTS, desk.words));
    assert_int_equal(device_finish(world, desk.queue), 1);
    numbers_check(world, places[SHIFTS % 2], BLOCK - SHIFTS, 5 * SHIFTS, 5);
    DEVICE_OK(world->ops->release(world->device, places[0]));
    DEVICE_OK(world->ops->release(world->device, places[1]));
    desk_close(&desk);
}

static void a_collective_has_many_steps(void **state)
{
    struct desk desk;
    desk_open(&desk, device_row(state));
    struct device_world *world = &desk.world;
    static struct weft_device_step steps[WEFT_DEVICE_STEPS_MAX];
    int32_t *sum = numbers_make(world, 0, FEW, 7), *ones = numbers_make(world, 0, FEW, 1);
    const int rounds = test_is_sanitized() ? 1 : 3;
    for (int round = 0; round < rounds; round++) {
        for (int s = 0; s < WEFT_DEVICE_STEPS_MAX; s++)
            steps[s] = sum_of(sum, sum, ones, s % 2 ? FEW : 1); /* in place */
        DEVICE_OK(run(world, desk.queue, steps, WEFT_DEVICE_STEPS_MAX, desk.words));
    }
    assert_int_equal(device_finish(world, desk.queue), 1);
    numbers_check(world, sum, 1, 7 + rounds * WEFT_DEVICE_STEPS_MAX, 0);
    numbers_check(world, sum + 1, FEW - 1, 7 + rounds * WEFT_DEVICE_STEPS_MAX / 2, 0);
    DEVICE_OK(world->ops->release(world->device, sum));
    DEVICE_OK(world->ops->release(world->device, ones));
    desk_close(&desk);
}

/* The words of one test: the host, too, may write them. */
static void word_set(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* What is queued before a program is seen by it, what is queued behind waits for it, and other queues do not. */
static void collectives_are_run_in_the_queues_order(void **state)
{
    struct desk desk;
    struct weft_device_event *before, *behind;
    desk_open(&desk, device_row(state));
    struct device_world *world = &desk.world;
    struct weft_device_queue *beside = device_queue(world, 0);
    size_t bytes = FEW * sizeof(int32_t);
    int32_t *a = numbers_make(world, 0, FEW, 1), *b = numbers_make(world, 0, FEW, 2);
    int32_t *c = numbers_make(world, 0, FEW, 3), *d = numbers_make(world, 0, FEW, 4);
    struct weft_device_step steps[] = {AWAIT(desk.words + 1, 5), sum_of(c, b, a, FEW)};
    DEVICE_OK(world->ops->mark(desk.queue, &before));
    DEVICE_OK(world->ops->copy(desk.queue, b, a, bytes));
    DEVICE_OK(run(world, desk.queue, steps, 2, desk.words));
    DEVICE_OK(world->ops->copy(desk.queue, d, c, bytes));
    DEVICE_OK(world->ops->mark(desk.queue, &behind));
    assert_int_equal(device_wait(world, before), 1);
    int32_t *e = numbers_make(world, 0, FEW, 8);
    DEVICE_OK(world->ops->copy(beside, e, a, bytes));
    assert_int_equal(device_finish(world, beside), 1);
    numbers_check(world, e, FEW, 1, 0);
    assert_int_equal(world->ops->test(behind), 0);
    word_set(desk.words + 1, 4);
    usleep(2000);
    assert_int_equal(world->ops->test(behind), 0);
    numbers_check(world, d, FEW, 4, 0);
    word_set(desk.words + 1, 6);
    assert_int_equal(device_wait(world, behind), 1);
    numbers_check(world, d, FEW, 2, 0);
    world->ops->event_free(before);
    world->ops->event_free(behind);
    world->ops->queue_close(beside);
    int32_t *const all[] = {a, b, c, d, e};
    for (int i = 0; i < 5; i++)
        DEVICE_OK(world->ops->release(world->device, all[i]));
    desk_close(&desk);
}

/* A device that signals nothing fails the test. */
static void await_signal(const uint64_t *word)
{
    time_t until = time(NULL) + 20;
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) {
        assert_true(time(NULL) < until);
        usleep(20);
    }
}

/* What is behind the wait is not done; what is behind the program is. */
static void stop_ends_a_collective(void **state)
{
    struct desk desk;
    struct weft_device_event *behind;
    desk_open(&desk, device_row(state));
    struct device_world *world = &desk.world;
    int32_t *a = numbers_make(world, 0, FEW, 1), *b = numbers_make(world, 0, FEW, 2);
    int32_t *c = numbers_make(world, 0, FEW, 3);
    struct weft_device_step steps[] = {copy_of(b, a, FEW), SIGNAL(desk.words + 2, 1),
                                       AWAIT(desk.words + 1, 1), copy_of(c, a, FEW),
                                       SIGNAL(desk.words + 2, 2)};
    DEVICE_OK(run(world, desk.queue, steps, 5, desk.words));
    DEVICE_OK(world->ops->mark(desk.queue, &behind));
    await_signal(desk.words + 2);
    numbers_check(world, b, FEW, 1, 0); /* what a signal announces is there while the program goes on */
    assert_int_equal(world->ops->test(behind), 0);
    word_set(desk.words, 1);
    assert_int_equal(device_wait(world, behind), 1);
    world->ops->event_free(behind);
    assert_int_equal(desk.words[2], 1);
    numbers_check(world, c, FEW, 3, 0);

    /* One that is queued behind it with the same stop ends as well. */
    struct weft_device_step more[] = {copy_of(c, a, FEW)};
    DEVICE_OK(run(world, desk.queue, more, 1, desk.words));
    assert_int_equal(device_finish(world, desk.queue), 1);
    numbers_check(world, c, FEW, 3, 0);
    word_set(desk.words, 0);
    more[0] = copy_of(c, a, FEW);
    DEVICE_OK(run(world, desk.queue, more, 1, desk.words));
    assert_int_equal(device_finish(world, desk.queue), 1);
    numbers_check(world, c, FEW, 1, 0);
    int32_t *const all[] = {a, b, c};
    for (int i = 0; i < 3; i++)
        DEVICE_OK(world->ops->release(world->device, all[i]));
    desk_close(&desk);
}

static void closing_does_not_wait_for_words(void **state)
{
    struct desk desk;
    struct weft_device_event *behind;
    desk_open(&desk, device_row(state));
    struct device_world *world = &desk.world;
    struct weft_device_queue *stuck = device_queue(world, 0);
    struct weft_device_step steps[] = {AWAIT(desk.words + 1, 1), SIGNAL(desk.words + 2, 1)};
    DEVICE_OK(run(world, stuck, steps, 2, desk.words));
    DEVICE_OK(world->ops->mark(stuck, &behind));
    world->ops->queue_close(stuck);
    word_set(desk.words, 1);
    assert_int_not_equal(device_wait(world, behind), 0); /* happened, or dropped */
    assert_int_equal(desk.words[2], 0);
    world->ops->event_free(behind);
    desk_close(&desk);
}

/* --- what is refused */

/* A program of two steps, the second one bad. The text has its number. */
static void refuse(struct desk *desk, struct weft_device_step bad, int status, const char *part)
{
    struct weft_device_step steps[] = {SIGNAL(desk->words + 1, 1), bad};
    assert_int_equal(run(&desk->world, desk->queue, steps, 2, desk->words), status);
    if (!strstr(weft_error_detail(), "step 1") || !strstr(weft_error_detail(), part))
        fail_msg("'%s' tells neither step 1 nor '%s'", weft_error_detail(), part);
}

static void bad_steps_are_refused(void **state)
{
    struct desk desk;
    desk_open(&desk, device_row(state));
    struct device_world *world = &desk.world;
    int32_t *memory = numbers_make(world, 0, FEW, 1), here[4] = {0};
    struct weft_device_step good = sum_of(memory, memory, memory, 4), bad = good;
    bad.kind = 3;
    refuse(&desk, bad, WEFT_INVALID, "kind 3");
    bad = good;
    bad.source_count = 0;
    refuse(&desk, bad, WEFT_INVALID, "0 sources (1 to 8)");
    bad.source_count = WEFT_DEVICE_SOURCES_MAX + 1;
    refuse(&desk, bad, WEFT_INVALID, "9 sources (1 to 8)");
    bad = good;
    bad.destination_count = 0;
    refuse(&desk, bad, WEFT_INVALID, "0 destinations (1 to 2)");
    bad.destination_count = WEFT_DEVICE_DESTINATIONS_MAX + 1;
    refuse(&desk, bad, WEFT_INVALID, "3 destinations (1 to 2)");
    bad = good;
    bad.count = UINT64_MAX / 2;
    refuse(&desk, bad, WEFT_INVALID, "");
    refuse(&desk, AWAIT((uint64_t *)(void *)((char *)desk.words + 12), 1), WEFT_INVALID, "multiple of 8");
    refuse(&desk, SIGNAL((uint64_t *)(void *)((char *)desk.words + 1), 1), WEFT_INVALID, "multiple of 8");
    if (world->row->owns) {
        bad = good;
        bad.sources[1] = here;
        refuse(&desk, bad, WEFT_INVALID, "");
        bad = good;
        bad.destinations[0] = here;
        refuse(&desk, bad, WEFT_INVALID, "");
        uint64_t word = 0;
        refuse(&desk, AWAIT(&word, 1), WEFT_INVALID, "");
        refuse(&desk, SIGNAL(NULL, 1), WEFT_INVALID, "");
        /* Nothing is computed there. */
        bad.count = 0;
        struct weft_device_step steps[] = {bad};
        DEVICE_OK(run(world, desk.queue, steps, 1, desk.words));
    }
    int32_t *far = numbers_make(world, world->count - 1, FEW, 1);
    if (!world->ops->reaches(world->device, 0, far, 1)) {
        bad = good;
        bad.sources[0] = far;
        refuse(&desk, bad, WEFT_UNSUPPORTED, "reach");
    }
    DEVICE_OK(world->ops->release(world->device, far));
    assert_int_equal(device_finish(world, desk.queue), 1);
    assert_int_equal(desk.words[1], 0); /* no step of them was done */
    DEVICE_OK(world->ops->release(world->device, memory));
    desk_close(&desk);
}

static void bad_collectives_are_refused(void **state)
{
    struct desk desk;
    desk_open(&desk, device_row(state));
    const struct weft_device_ops *ops = desk.world.ops;
    struct weft_device_step step = SIGNAL(desk.words + 1, 1);
    const struct weft_device_collective good = {sizeof good, WEFT_FLOAT32, WEFT_SUM, 1, 0, &step, desk.words};
    struct weft_device_collective bad = good;
    uint64_t no_stop = 0;
    bad.size -= 1;
    assert_int_equal(ops->run(desk.queue, &bad), WEFT_INVALID);
    bad = good;
    bad.step_count = 0;
    assert_int_equal(ops->run(desk.queue, &bad), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "0 steps: expected 1 to 4096"));
    bad.step_count = WEFT_DEVICE_STEPS_MAX + 1;
    assert_int_equal(ops->run(desk.queue, &bad), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "4097 steps: expected 1 to 4096"));
    bad = good;
    bad.op = WEFT_XOR;
    assert_int_equal(ops->run(desk.queue, &bad), WEFT_UNSUPPORTED);
    bad.op = WEFT_OP_COUNT;
    assert_int_equal(ops->run(desk.queue, &bad), WEFT_UNSUPPORTED);
    bad = good;
    bad.stop = NULL;
    assert_int_equal(ops->run(desk.queue, &bad), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "stop"));
    bad.stop = (const uint64_t *)(const void *)((const char *)desk.words + 4);
    assert_int_equal(ops->run(desk.queue, &bad), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "multiple of 8"));
    bad.stop = &no_stop;
    if (desk.world.row->owns)
        assert_int_equal(ops->run(desk.queue, &bad), WEFT_INVALID);
    assert_int_equal(device_finish(&desk.world, desk.queue), 1);
    assert_int_equal(desk.words[1], 0);
    DEVICE_OK(ops->run(desk.queue, &good));
    assert_int_equal(device_finish(&desk.world, desk.queue), 1);
    assert_int_equal(desk.words[1], 1);
    desk_close(&desk);
}

/* --- streams, and failures */

static void collectives_follow_streams(void **state)
{
    struct desk desk;
    struct weft_device_wait *wait;
    int flag = 0;
    void *stream;
    desk_open(&desk, device_row(state));
    struct device_world *world = &desk.world;
    device_prepare(world, FEW * sizeof(int32_t));
    int32_t *a = numbers_make(world, 0, FEW, 1), *b = numbers_make(world, 0, FEW, 2);
    struct weft_device_step steps[] = {copy_of(b, a, FEW), SIGNAL(desk.words + 1, 1),
                                       AWAIT(desk.words + 2, 1)};
    DEVICE_OK(world->streams.open(0, &stream));
    DEVICE_OK(world->streams.wait(stream, &flag));
    DEVICE_OK(world->streams.fill(stream, a, 0, FEW * sizeof *a));
    device_follow(world, desk.queue, 0, stream);
    DEVICE_OK(world->ops->wait_stream(world->device, 0, stream, &wait));
    DEVICE_OK(run(world, desk.queue, steps, 3, desk.words));
    DEVICE_OK(world->ops->wait_open(wait, desk.queue));
    usleep(2000);
    assert_int_equal(__atomic_load_n(desk.words + 1, __ATOMIC_ACQUIRE), 0);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    await_signal(desk.words + 1);
    assert_int_equal(world->streams.is_idle(stream), 0);
    word_set(desk.words + 2, 1);
    DEVICE_OK(world->streams.sync(stream));
    assert_int_equal(device_finish(world, desk.queue), 1);
    numbers_check(world, b, FEW, 0, 0);
    world->ops->wait_free(wait);
    DEVICE_OK(world->streams.close(stream));
    DEVICE_OK(world->ops->release(world->device, a));
    DEVICE_OK(world->ops->release(world->device, b));
    desk_close(&desk);
}

size_t device_collective_tests(const struct device_row *row, struct CMUnitTest *tests)
{
    size_t used = 0;
    if (!row->collectives || row->no_reductions)
        return 0;
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(two_queues_talk);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(steps_see_what_those_before_wrote);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(a_collective_has_many_steps);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(collectives_are_run_in_the_queues_order);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(stop_ends_a_collective);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(closing_does_not_wait_for_words);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(bad_steps_are_refused);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(bad_collectives_are_refused);
    if (row->streams)
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(collectives_follow_streams);
    return used;
}

/* Work that fails: as copies do, in device_suite_work.c. */
static void failed_collectives_are_reported(void **state)
{
    struct desk desk;
    desk_open(&desk, device_row(state));
    struct weft_device_step steps[] = {SIGNAL(desk.words + 1, 1)};
    DEVICE_OK(run(&desk.world, desk.queue, steps, 1, desk.words));
    assert_true(device_finish(&desk.world, desk.queue) < 0);
    assert_int_equal(desk.words[1], 0);
    desk_close(&desk);
}

size_t device_collective_failure_tests(const struct device_row *row, struct CMUnitTest *tests)
{
    if (!row->collectives)
        return 0;
    tests[0] = (struct CMUnitTest)cmocka_unit_test(failed_collectives_are_reported);
    return 1;
}
