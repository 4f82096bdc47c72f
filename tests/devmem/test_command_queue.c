/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* Command queues of work on a device: in which order work becomes due, what is given back when, and what a failure leaves behind. On the
 * kinds "host", where work is done at once, and "sim", in its own time and with failures. */
#include "devmem/command_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/error.h"
#include "devmem/command_queue_surplus.h"
#include "examples/device-sim/sim.h"
#include "tests/support/bits.h"
#include "tests/support/command_queue_stall.h"
#include "tests/support/sim_scene.h"

#define MANY   1000
#define SIZE   4096
#define END_MS 60000 /* much more than anything here takes */

static struct {
    const struct weft_device_kind *kind;
    const struct sim_api *sim;
} scene;

static void scene_open(const char *kind, const char *options)
{
    sim_scene_open(options);
    scene.kind = weft_devices_find(sim_scene.devices, kind);
    scene.sim = sim_scene_sim();
    assert_non_null(scene.kind);
}

static struct sim_counts counts(void)
{
    struct sim_counts now;
    scene.sim->counts(&now);
    return now;
}

static void *memory_get(enum weft_memory_kind kind)
{
    void *memory;
    int ordinal = kind == WEFT_MEMORY_DEVICE ? 0 : -1;
    assert_int_equal(scene.kind->ops.allocate(scene.kind->device, ordinal, kind, SIZE, &memory), 0);
    return memory;
}

static void memory_put(void *memory)
{
    assert_int_equal(scene.kind->ops.release(scene.kind->device, memory), 0);
}

static struct weft_command_queue *command_queue_get(void)
{
    struct weft_command_queue *commands;
    assert_int_equal(weft_command_queue_get(sim_scene.queues, scene.kind, 0, &commands), 0);
    return commands;
}

/* What poll() says once it says something. */
static int poll_until(struct weft_command_queue *commands, struct weft_command_queue_note *note)
{
    int due;
    while ((due = weft_command_queue_poll(commands, note)) == 0)
        usleep(20);
    return due;
}

static void note(struct weft_command_queue *commands, uint32_t what)
{
    const struct weft_command_queue_note made = {.what = what, .who = ~what, .amount = (uint64_t)what << 32};
    assert_int_equal(weft_command_queue_note(commands, &made), 0);
}

static void expect_note(struct weft_command_queue *commands, uint32_t what)
{
    struct weft_command_queue_note due;
    assert_int_equal(poll_until(commands, &due), 1);
    assert_int_equal(due.what, what);
    assert_int_equal(due.who, ~what);
    assert_true(due.amount == (uint64_t)what << 32);
}

static void check_order(const char *kind)
{
    scene_open(kind, "sim:seed=1,delay=5");
    struct weft_command_queue *commands = command_queue_get();
    struct weft_command_queue_note due;
    assert_ptr_equal(weft_command_queue_kind(commands), scene.kind);
    assert_int_equal(weft_command_queue_ordinal(commands), 0);
    assert_true(weft_command_queue_is_idle(commands));
    assert_int_equal(weft_command_queue_flush(commands), 0); /* of nothing */
    assert_true(weft_command_queue_is_idle(commands));
    assert_int_equal(weft_command_queue_poll(commands, &due), 0);
    uint8_t *pinned = memory_get(WEFT_MEMORY_PINNED);
    void *far = memory_get(WEFT_MEMORY_DEVICE);
    uint32_t next = 0, made = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 7 * round; i++) { /* some have no work, and some no mark of their own */
            if (i % 3 == 0)
                assert_int_equal(weft_command_queue_copy(commands, far, pinned, 64), 0);
            note(commands, made++);
            if (i % 5 == 0)
                assert_int_equal(weft_command_queue_flush(commands), 0);
        }
        assert_int_equal(weft_command_queue_flush(commands), 0);
        for (uint32_t until = made - made % 4; next < until; next++)
            expect_note(commands, next);
    }
    for (; next < made; next++)
        expect_note(commands, next);
    assert_true(weft_command_queue_is_idle(commands));
    /* what has happened is to be seen */
    memset(pinned, 5, SIZE);
    assert_int_equal(weft_command_queue_copy(commands, far, pinned, SIZE), 0);
    assert_false(weft_command_queue_is_idle(commands));
    assert_int_equal(weft_command_queue_drain(commands, END_MS), 0);
    memset(pinned, 6, SIZE);
    assert_int_equal(weft_command_queue_copy(commands, pinned, far, SIZE / 2), 0);
    note(commands, 1);
    assert_int_equal(weft_command_queue_poll(commands, &due), 0); /* not before it is flushed */
    assert_int_equal(weft_command_queue_flush(commands), 0);
    expect_note(commands, 1);
    assert_bits(pinned[SIZE / 2 - 1] == 5 && pinned[SIZE / 2] == 6);
    weft_command_queue_put(commands);
    memory_put(far);
    memory_put(pinned);
    sim_scene_close();
}

static void test_order(void **state)
{
    (void)state;
    check_order("host");
    check_order("sim");
}

/* One mark serves all notes before it; the host asks for one event. */
static void test_one_mark(void **state)
{
    (void)state;
    scene_open("sim", "sim:seed=1");
    struct weft_command_queue *commands = command_queue_get();
    struct command_queue_stall stall;
    command_queue_stall_open(&stall, scene.kind);
    assert_int_equal(command_queue_stall_put(&stall, commands), 0);
    struct weft_command_queue_note due;
    int before = counts().events;
    for (uint32_t n = 0; n < MANY; n++)
        note(commands, n);
    for (int i = 0; i < 3; i++)
        assert_int_equal(weft_command_queue_flush(commands), 0);
    assert_int_equal(counts().events, before + 1);
    assert_int_equal(weft_command_queue_poll(commands, &due), 0);
    assert_false(weft_command_queue_is_idle(commands));
    command_queue_stall_end(&stall);
    for (uint32_t n = 0; n < MANY; n++)
        expect_note(commands, n);
    assert_true(weft_command_queue_is_idle(commands));
    assert_int_equal(counts().events, 0);
    for (uint32_t n = 0; n < MANY; n++) { /* and as many marks as there are notes */
        assert_int_equal(weft_command_queue_copy(commands, NULL, NULL, 0), 0);
        note(commands, n);
        assert_int_equal(weft_command_queue_flush(commands), 0);
    }
    for (uint32_t n = 0; n < MANY; n++)
        expect_note(commands, n);
    weft_command_queue_put(commands);
    command_queue_stall_close(&stall);
    sim_scene_close();
}

static void test_drain(void **state)
{
    (void)state;
    scene_open("sim", "sim:seed=1");
    struct weft_command_queue *commands = command_queue_get();
    struct command_queue_stall stall;
    struct weft_command_queue_note due;
    command_queue_stall_open(&stall, scene.kind);
    assert_int_equal(command_queue_stall_put(&stall, commands), 0);
    note(commands, 1);
    weft_error_set_detail("untouched");
    assert_int_equal(weft_command_queue_drain(commands, 0), WEFT_TIMEOUT);
    assert_int_equal(weft_command_queue_drain(commands, 5), WEFT_TIMEOUT);
    assert_string_equal(weft_error_detail(), "untouched");
    command_queue_stall_end(&stall);
    assert_int_equal(weft_command_queue_drain(commands, END_MS), 0);
    assert_true(weft_command_queue_is_idle(commands));
    assert_int_equal(weft_command_queue_poll(commands, &due), 0); /* the note is forgotten */
    weft_command_queue_put(commands);
    command_queue_stall_close(&stall);
    sim_scene_close();
}

/* The stream wait of a command queue that is given back ends: at once where there is no work, otherwise behind it. */
static void test_waits(void **state)
{
    (void)state;
    scene_open("sim", "sim:seed=1");
    struct command_queue_stall stall;
    void *stream;
    command_queue_stall_open(&stall, scene.kind);
    assert_int_equal(scene.sim->stream_open(0, &stream), 0);
    for (int has_work = 0; has_work < 2; has_work++) {
        struct weft_command_queue *commands = command_queue_get();
        assert_int_equal(weft_command_queue_close_wait(commands, stream), 0);
        assert_int_equal(scene.sim->stream_is_idle(stream), 0);
        if (has_work)
            assert_int_equal(command_queue_stall_put(&stall, commands), 0);
        weft_command_queue_put(commands);
        if (has_work) {
            usleep(2000);
            assert_int_equal(scene.sim->stream_is_idle(stream), 0);
            command_queue_stall_end(&stall);
        }
        assert_int_equal(scene.sim->stream_sync(stream), 0);
    }
    struct weft_command_queue *commands = command_queue_get(); /* opened once */
    assert_int_equal(weft_command_queue_open_wait(commands), 0);
    assert_int_equal(weft_command_queue_close_wait(commands, stream), 0);
    assert_int_equal(weft_command_queue_open_wait(commands), 0);
    assert_int_equal(weft_command_queue_open_wait(commands), 0);
    assert_int_equal(scene.sim->stream_sync(stream), 0);
    assert_int_equal(weft_command_queue_close_wait(commands, &stall),
                     WEFT_INVALID); /* no stream: the command queue goes on */
    assert_int_equal(weft_command_queue_drain(commands, END_MS), 0);
    weft_command_queue_put(commands);
    assert_int_equal(scene.sim->stream_close(stream), 0);
    command_queue_stall_close(&stall);
    sim_scene_close();
}

static int released;
static void *released_memory;

static void release(void *arg, uint32_t index, void *memory, size_t size)
{
    assert_ptr_equal(arg, &scene);
    assert_int_equal(index, 3);
    assert_int_equal(size, SIZE);
    released++;
    released_memory = memory;
}

static void keep(struct weft_command_queue *commands, void *memory)
{
    weft_command_queue_keep(commands, release, &scene, 3, memory, SIZE);
}

/* Everybody asks for the pool; that is when it looks at what was set aside. */
static void reap(void)
{
    weft_command_queue_put(command_queue_get());
}

static void test_kept_memory(void **state)
{
    (void)state;
    scene_open("sim", "sim:seed=1");
    struct command_queue_stall stall;
    int here = 0;
    released = 0;
    struct weft_command_queue *commands = command_queue_get();
    keep(commands, &here);
    assert_int_equal(released, 1); /* at once */
    assert_ptr_equal(released_memory, &here);
    command_queue_stall_open(&stall, scene.kind);
    assert_int_equal(command_queue_stall_put(&stall, commands), 0);
    keep(commands, &here);
    keep(commands, &here);
    weft_command_queue_put(commands);
    reap();
    assert_int_equal(released, 1);
    assert_int_equal(counts().queues, 2); /* the first is set aside */
    command_queue_stall_end(&stall);
    while (counts().events)
        reap();
    assert_int_equal(released, 3);
    reap();
    assert_int_equal(released, 3);
    assert_int_equal(counts().queues, 2);
    command_queue_stall_close(&stall);
    sim_scene_close();
    assert_int_equal(released, 3);
}

/* What a pool that is destroyed finds undone stays with its owner. */
static void test_never_done(void **state)
{
    (void)state;
    scene_open("sim", "sim:seed=1");
    struct command_queue_stall stall;
    command_queue_stall_open(&stall, scene.kind);
    released = 0;
    struct weft_command_queue *commands = command_queue_get();
    assert_int_equal(command_queue_stall_put(&stall, commands), 0);
    keep(commands, &stall);
    weft_command_queue_put(commands);
    weft_command_queues_destroy(sim_scene.queues);
    sim_scene.queues = NULL;
    assert_int_equal(released, 0);
    command_queue_stall_close(&stall);
    sim_scene_close();
    assert_int_equal(released, 0);
}

/* Every second work fails, and so does its command queue: with the device's text, as often as it is asked; the
 * stream wait ends all the same, what was kept is given back, and the next command queue is a new one. */
static void test_failing_work(void **state)
{
    (void)state;
    scene_open("sim", "sim:seed=9,fail=2");
    uint8_t *pinned = memory_get(WEFT_MEMORY_PINNED);
    void *far = memory_get(WEFT_MEMORY_DEVICE), *stream;
    assert_int_equal(scene.sim->stream_open(0, &stream), 0);
    int failures = 0;
    for (int i = 0; i < 20; i++) {
        struct weft_command_queue *commands = command_queue_get();
        struct weft_command_queue_note due;
        int status = 1;
        released = 0;
        assert_int_equal(weft_command_queue_close_wait(commands, stream), 0);
        for (uint32_t n = 0; n < 3 && status > 0; n++) {
            assert_int_equal(weft_command_queue_copy(commands, far, pinned, SIZE), 0);
            note(commands, n);
            assert_int_equal(weft_command_queue_flush(commands), 0);
            status = poll_until(commands, &due);
            assert_true(status < 0 || due.what == n);
        }
        keep(commands, pinned);
        assert_int_equal(released, status > 0);
        failures += status < 0;
        for (int again = 0; status < 0 && again < 6; again++) {
            weft_error_clear();
            int answer = again == 0   ? weft_command_queue_poll(commands, &due)
                         : again == 1 ? weft_command_queue_copy(commands, far, pinned, SIZE)
                         : again == 2 ? weft_command_queue_flush(commands)
                         : again == 3 ? weft_command_queue_run(commands, NULL)
                         : again == 4 ? weft_command_queue_drain(commands, END_MS)
                                      : weft_command_queue_poll(commands, &due);
            assert_int_equal(answer, WEFT_TRANSPORT);
            assert_string_equal(weft_error_detail(), "sim: work fails, as the options say");
        }
        assert_int_equal(released, status > 0);
        weft_command_queue_put(commands);
        assert_int_equal(released, 1);
        assert_int_equal(scene.sim->stream_sync(stream), 0);
        assert_int_equal(counts().queues, status > 0);
    }
    assert_true(failures > 5);
    assert_int_equal(scene.sim->stream_close(stream), 0);
    memory_put(far);
    memory_put(pinned);
    sim_scene_close();
}

/* What cannot be queued is the command queue's failure. What was queued before it runs, and drain() waits for it. */
static void test_failing_to_queue(void **state)
{
    (void)state;
    for (int is_noted = 0; is_noted < 2; is_noted++) {
        scene_open("sim", "sim:seed=4,delay=20000");
        uint8_t *pinned = memory_get(WEFT_MEMORY_PINNED);
        void *far = memory_get(WEFT_MEMORY_DEVICE), *stream;
        int unknown = 0;
        char text[WEFT_DETAIL_MAX];
        assert_int_equal(scene.sim->stream_open(0, &stream), 0);
        struct weft_command_queue *commands = command_queue_get();
        released = 0;
        memset(pinned, 1, SIZE);
        assert_int_equal(weft_command_queue_close_wait(commands, stream), 0);
        assert_int_equal(weft_command_queue_copy(commands, far, pinned, SIZE), 0);
        for (int i = 0; i < 5; i++)
            assert_int_equal(weft_command_queue_copy(commands, pinned + i * 64, far, 64), 0);
        if (is_noted) {
            note(commands, 1);
            assert_int_equal(weft_command_queue_flush(commands), 0);
        }
        assert_int_equal(weft_command_queue_copy(commands, pinned + 512, far, 64), 0);
        assert_int_equal(weft_command_queue_copy(commands, far, &unknown, 4), WEFT_INVALID);
        snprintf(text, sizeof text, "%s", weft_error_detail());
        assert_non_null(strstr(text, "is no memory that devices can reach"));
        keep(commands, pinned);
        assert_int_equal(weft_command_queue_drain(commands, END_MS), WEFT_INVALID);
        assert_string_equal(weft_error_detail(), text);
        memset(pinned, 2, SIZE); /* nothing writes there any more */
        assert_int_equal(released, 0);
        weft_command_queue_put(commands);
        assert_int_equal(released, 1);
        assert_int_equal(scene.sim->stream_sync(stream), 0);
        for (int i = 0; i < SIZE; i++)
            assert_bits(pinned[i] == 2);
        assert_int_equal(scene.sim->stream_close(stream), 0);
        memory_put(far);
        memory_put(pinned);
        sim_scene_close();
    }
}

static char log_path[] = "/tmp/weft-test-queue-XXXXXX";

static void expect_log(const char *expected)
{
    char text[8192];
    FILE *file = fopen(log_path, "r");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    assert_non_null(strstr(text, expected));
}

static int refuse_to_mark(struct weft_device_queue *queue, struct weft_device_event **event)
{
    (void)queue, (void)event;
    return weft_fail(WEFT_SYSTEM, "the test refuses marks");
}

/* A command queue that still has work when it is given back, and cannot know when that is done, says so. What the work uses is kept until its
 * queue is closed. */
static void test_unmarked(void **state)
{
    (void)state;
    scene_open("sim", "sim:seed=4,delay=2000");
    uint8_t *pinned = memory_get(WEFT_MEMORY_PINNED);
    void *far = memory_get(WEFT_MEMORY_DEVICE);
    struct weft_device_kind unmarked = *scene.kind;
    const struct weft_device_kind *kind = scene.kind;
    unmarked.ops.mark = refuse_to_mark;
    scene.kind = &unmarked;
    released = 0;
    struct weft_command_queue *commands = command_queue_get();
    assert_int_equal(weft_command_queue_copy(commands, far, pinned, SIZE), 0);
    keep(commands, pinned);
    assert_int_equal(released, 0);
    weft_command_queue_put(commands);
    assert_int_equal(released, 1);
    assert_int_equal(counts().queues, 0);
    expect_log("sim device 0 may still work on an operation that has ended");
    expect_log("the test refuses marks");
    scene.kind = kind;
    memory_put(far);
    memory_put(pinned);
    sim_scene_close();
}

static int copy_again(struct weft_device_queue *queue, void *destination, const void *source, size_t size)
{
    (void)queue, (void)destination, (void)source, (void)size;
    return weft_fail(WEFT_AGAIN, "the test asks to try again");
}

/* A kind that answers what means "runs still" of operations: its work has failed. */
static void test_again(void **state)
{
    (void)state;
    scene_open("sim", "sim:seed=1");
    struct weft_device_kind asking = *scene.kind;
    const struct weft_device_kind *kind = scene.kind;
    struct weft_command_queue_note due;
    asking.ops.copy = copy_again;
    scene.kind = &asking;
    struct weft_command_queue *commands = command_queue_get();
    assert_int_equal(weft_command_queue_copy(commands, NULL, NULL, 0), WEFT_SYSTEM);
    assert_int_equal(weft_command_queue_poll(commands, &due), WEFT_SYSTEM);
    assert_string_equal(weft_error_detail(), "the test asks to try again");
    weft_command_queue_put(commands);
    scene.kind = kind;
    sim_scene_close();
}

/* The same memory until the command queue is given back, more when more is asked for, and none that is too large is kept. */
static void test_memory(void **state)
{
    (void)state;
    scene_open("sim", "sim:seed=1");
    struct weft_command_queue *commands = command_queue_get();
    void *first, *again, *more;
    assert_int_equal(weft_command_queue_memory(commands, WEFT_COMMAND_QUEUE_PLAN, 1000, &first), 0);
    assert_int_equal(weft_command_queue_memory(commands, WEFT_COMMAND_QUEUE_PLAN, 10, &again), 0);
    assert_ptr_equal(first, again);
    assert_int_equal((uintptr_t)first % 64, 0);
    assert_int_equal(weft_command_queue_memory(commands, WEFT_COMMAND_QUEUE_PLAN, 100000, &more), 0);
    assert_int_equal(counts().spans, 2); /* the other one is surplus, */
    assert_int_equal(weft_command_queue_memory(commands, WEFT_COMMAND_QUEUE_LIST, 900, &again), 0);
    assert_ptr_equal(first, again); /* for whoever needs about as much */
    assert_int_equal(weft_command_queue_copy(commands, (char *)more + 50000, more, 50000), 0);
    assert_int_equal(weft_command_queue_drain(commands, END_MS), 0);
    weft_command_queue_put(commands);
    assert_int_equal(counts().spans, 2); /* for the next */
    commands = command_queue_get();
    assert_int_equal(weft_command_queue_memory(commands, WEFT_COMMAND_QUEUE_PLAN, 100000, &again), 0);
    assert_ptr_equal(more, again);
    assert_int_equal(
        weft_command_queue_memory(commands, WEFT_COMMAND_QUEUE_PLAN, ((size_t)256 << 20) + 1, &again), 0);
    assert_int_equal(counts().spans, 3);
    weft_command_queue_put(commands);
    assert_int_equal(counts().spans, 3); /* all of it is surplus, and goes back elsewhere */
    weft_command_queue_surplus_release(weft_command_queues_surplus(sim_scene.queues, 0));
    assert_int_equal(counts().spans, 0);
    assert_null(*weft_command_queues_surplus(sim_scene.queues, 0));
    sim_scene_close();
}

static void test_refused_memory(void **state)
{
    (void)state;
    scene_open("sim", "sim:seed=1,refuse=1");
    struct weft_command_queue *commands = command_queue_get();
    void *memory = &scene;
    assert_int_equal(weft_command_queue_memory(commands, WEFT_COMMAND_QUEUE_PLAN, 1000, &memory), WEFT_NOMEM);
    assert_string_equal(weft_error_detail(), "sim: an allocation is refused, as the options say");
    assert_ptr_equal(memory, &scene);
    weft_command_queue_put(commands);
    sim_scene_close();
}

/* Command queues are kept for the next operation on the same device, some of them. */
static void test_pool(void **state)
{
    (void)state;
    scene_open("sim", "sim:seed=1");
    enum { COMMAND_QUEUES = 40 };
    struct weft_command_queue *queues[COMMAND_QUEUES], *other;
    for (int i = 0; i < COMMAND_QUEUES; i++)
        queues[i] = command_queue_get();
    assert_int_equal(counts().queues, COMMAND_QUEUES);
    for (int i = 0; i < COMMAND_QUEUES; i++)
        weft_command_queue_put(queues[i]);
    int kept = counts().queues;
    assert_true(kept > 0 && kept < COMMAND_QUEUES);
    for (int i = 0; i < kept; i++)
        queues[i] = command_queue_get();
    assert_int_equal(counts().queues, kept);
    assert_int_equal(weft_command_queue_get(sim_scene.queues, scene.kind, 1, &other), 0);
    assert_int_equal(weft_command_queue_ordinal(other), 1);
    assert_int_equal(counts().queues, kept + 1);
    weft_command_queue_put(other);
    for (int i = 0; i < kept; i++)
        weft_command_queue_put(queues[i]);
    assert_int_equal(weft_command_queue_get(sim_scene.queues, scene.kind, 7, &other), WEFT_INVALID);
    weft_command_queue_put(NULL);
    weft_command_queues_destroy(NULL);
    sim_scene_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),        cmocka_unit_test(test_one_mark),
        cmocka_unit_test(test_drain),        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_kept_memory),  cmocka_unit_test(test_never_done),
        cmocka_unit_test(test_failing_work), cmocka_unit_test(test_failing_to_queue),
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_refused_memory),
        cmocka_unit_test(test_pool),         cmocka_unit_test(test_unmarked),
        cmocka_unit_test(test_again),
    };
    int log = mkstemp(log_path);
    if (log < 0 || close(log) || setenv("WEFT_LOG_FILE", log_path, 1))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(log_path);
    return failed;
}
