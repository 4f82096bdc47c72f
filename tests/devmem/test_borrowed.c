/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* Borrowed mappings: device memory that its owner wants back while another rank's command queue may still read it. On the simulated device,
 * whose command queues can be kept from getting on. */
#include "devmem/borrowed.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/error.h"
#include "tests/support/command_queue_stall.h"
#include "tests/support/sim_scene.h"

#define SIZE   4096
#define END_MS 60000 /* much more than anything here takes */

/* The reader's side; the owner needs none. */
static struct {
    const struct weft_device_kind *kind;
    struct command_queue_stall stall;
    void *shared, *own;
} scene;

static void *memory_get(void)
{
    void *memory;
    assert_int_equal(scene.kind->ops.allocate(scene.kind->device, 0, WEFT_MEMORY_DEVICE, SIZE, &memory), 0);
    return memory;
}

static void scene_open(const char *options)
{
    sim_scene_open(options);
    scene.kind = sim_scene.sim;
    command_queue_stall_open(&scene.stall, scene.kind);
    scene.shared = memory_get();
    scene.own = memory_get();
}

static void memory_close(void)
{
    assert_int_equal(scene.kind->ops.release(scene.kind->device, scene.shared), 0);
    assert_int_equal(scene.kind->ops.release(scene.kind->device, scene.own), 0);
    command_queue_stall_close(&scene.stall);
}

static void scene_close(void)
{
    weft_command_queues_destroy(sim_scene.queues);
    sim_scene.queues = NULL;
    memory_close();
    sim_scene_close();
}

static struct weft_command_queue *command_queue_get(void)
{
    struct weft_command_queue *commands;
    assert_int_equal(weft_command_queue_get(sim_scene.queues, scene.kind, 0, &commands), 0);
    return commands;
}

static uint64_t borrowed_open(void)
{
    uint64_t borrowed = 0;
    assert_int_equal(weft_borrowed_open(&borrowed), 0);
    assert_true(borrowed > 0);
    return borrowed;
}

static int read_shared(struct weft_command_queue *commands)
{
    return weft_command_queue_copy(commands, scene.own, scene.shared, SIZE);
}

/* A command queue with work that reads the memory, and that has not ended. */
static struct weft_command_queue *command_queue_reading(uint64_t borrowed)
{
    struct weft_command_queue *commands = command_queue_get();
    assert_int_equal(command_queue_stall_put(&scene.stall, commands), 0);
    assert_int_equal(weft_borrowed_take(borrowed, commands), 0);
    assert_int_equal(read_shared(commands), 0);
    return commands;
}

static void check_gone(uint64_t borrowed, struct weft_command_queue *commands)
{
    weft_error_set_detail("");
    assert_int_equal(weft_borrowed_take(borrowed, commands), WEFT_PEER_FAILED);
    assert_string_equal(weft_error_detail(), "a peer has taken back the device memory that it shared");
}

/* The command queue works: for another operation, too. */
static void check_command_queue(struct weft_command_queue *commands)
{
    assert_int_equal(weft_command_queue_copy(commands, scene.own, scene.own, SIZE), 0);
    assert_int_equal(weft_command_queue_drain(commands, END_MS), 0);
}

static void test_life(void **state)
{
    (void)state;
    scene_open("sim:seed=1");
    uint64_t borrowed[200];
    struct weft_command_queue *commands = command_queue_get();
    for (int i = 0; i < 200; i++) {
        borrowed[i] = borrowed_open();
        assert_true(!i || borrowed[i] != borrowed[i - 1]);
    }
    check_gone(borrowed[199] + 1, commands);
    check_gone(0, commands);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(weft_borrowed_take(borrowed[i], commands), 0);
        check_gone(borrowed[i], commands); /* one reader at a time */
    }
    for (int i = 0; i < 200; i++)
        weft_borrowed_return(borrowed[i]);
    assert_int_equal(weft_borrowed_take(borrowed[7], commands), 0);
    weft_borrowed_close(borrowed[7]); /* the reader has said so by other ways */
    weft_borrowed_return(borrowed[7]);
    for (int i = 0; i < 200; i++)
        weft_borrowed_close(borrowed[i]);
    check_gone(borrowed[5], commands);
    weft_borrowed_close(0);
    weft_borrowed_return(0);
    check_command_queue(commands);
    weft_command_queue_put(commands);
    scene_close();
}

struct owner {
    uint64_t borrowed;
    int64_t timeout_ms;
    int status;
    atomic_int is_done;
    pthread_t thread;
};

static void *recall(void *arg)
{
    struct owner *owner = arg;
    owner->status = weft_borrowed_recall(owner->borrowed, owner->timeout_ms);
    atomic_store(&owner->is_done, 1);
    return NULL;
}

static void owner_start(struct owner *owner, uint64_t borrowed)
{
    *owner = (struct owner){.borrowed = borrowed, .timeout_ms = END_MS};
    assert_int_equal(pthread_create(&owner->thread, NULL, recall, owner), 0);
}

static void owner_end(struct owner *owner, int status)
{
    assert_int_equal(pthread_join(owner->thread, NULL), 0);
    assert_int_equal(owner->status, status);
}

/* A copy is refused once the owner has the command queue stopped. */
static void await_stop(struct weft_command_queue *commands)
{
    int status = WEFT_OK;
    for (int tries = 0; tries < 50000 && (status = read_shared(commands)) == WEFT_OK; tries++)
        usleep(100);
    assert_int_equal(status, WEFT_PEER_FAILED);
    assert_string_equal(weft_error_detail(), "a peer has taken back the device memory that it shared");
}

/* Who recalls waits for what is queued, nothing more is, and the command queue is nobody's afterwards. */
static void test_recall(void **state)
{
    (void)state;
    scene_open("sim:seed=1");
    struct owner owner;
    uint64_t borrowed = borrowed_open();
    struct weft_command_queue *commands = command_queue_reading(borrowed);
    owner_start(&owner, borrowed);
    await_stop(commands);
    usleep(20000);
    assert_int_equal(atomic_load(&owner.is_done), 0);
    command_queue_stall_end(&scene.stall);
    owner_end(&owner, WEFT_OK);
    check_gone(borrowed, commands);
    assert_int_equal(weft_command_queue_drain(commands, END_MS), WEFT_PEER_FAILED);
    weft_command_queue_put(commands);
    commands = command_queue_get();
    check_command_queue(commands);
    weft_command_queue_put(commands);
    scene_close();
}

static void test_recall_in_time(void **state)
{
    (void)state;
    scene_open("sim:seed=1");
    uint64_t borrowed = borrowed_open(), other = borrowed_open();
    struct weft_command_queue *commands = command_queue_reading(borrowed);
    assert_int_equal(weft_borrowed_recall(other, END_MS), WEFT_OK); /* nobody reads it */
    assert_int_equal(weft_borrowed_recall(borrowed, 5), WEFT_TIMEOUT);
    assert_int_equal(weft_borrowed_recall(borrowed, END_MS), WEFT_OK); /* there is none any more */
    command_queue_stall_end(&scene.stall);
    weft_command_queue_put(commands);
    scene_close();
}

/* Command queues that are given back return what they have borrowed when their work is done, and not before. */
static void test_command_queue_ends(void **state)
{
    (void)state;
    scene_open("sim:seed=1");
    struct owner owner;
    uint64_t borrowed[2] = {borrowed_open(), borrowed_open()};
    weft_command_queue_put(command_queue_reading(borrowed[0]));
    owner_start(&owner, borrowed[0]);
    usleep(20000);
    assert_int_equal(atomic_load(&owner.is_done), 0);
    command_queue_stall_end(&scene.stall);
    owner_end(&owner, WEFT_OK);
    struct weft_command_queue *commands = command_queue_get(); /* one without work at its end: it is kept */
    assert_int_equal(weft_borrowed_take(borrowed[1], commands), 0);
    assert_int_equal(read_shared(commands), 0);
    assert_int_equal(weft_command_queue_drain(commands, END_MS), 0);
    weft_command_queue_put(commands);
    struct weft_command_queue *next = command_queue_get();
    assert_ptr_equal(commands, next);
    assert_int_equal(weft_borrowed_recall(borrowed[1], 0), WEFT_OK); /* the next operation does not notice */
    check_command_queue(next);
    weft_command_queue_put(next);
    scene_close();
}

/* The reader's pool, and its device, go while the owner waits for a command queue of it. */
static void test_pool_ends(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        scene_open("sim:seed=1");
        struct owner owner;
        uint64_t borrowed = borrowed_open();
        weft_command_queue_put(command_queue_reading(borrowed));
        owner_start(&owner, borrowed);
        usleep((useconds_t)i * 50);
        command_queue_stall_end(&scene.stall);
        scene_close();
        owner_end(&owner, WEFT_OK);
    }
}

/* The reader's pool leaves work to the driver that does not end: who asks does not hear that it had. */
static void test_left_to_the_driver(void **state)
{
    (void)state;
    scene_open("sim:seed=1");
    uint64_t borrowed[2] = {borrowed_open(), borrowed_open()};
    struct weft_command_queue *commands = command_queue_reading(borrowed[0]);
    assert_int_equal(weft_borrowed_take(borrowed[1], commands), 0);
    weft_command_queue_put(commands);
    weft_command_queues_destroy(sim_scene.queues);
    assert_int_equal(weft_borrowed_recall(borrowed[0], END_MS), WEFT_TRANSPORT);
    assert_non_null(strstr(weft_error_detail(), "left to the driver"));
    weft_borrowed_close(borrowed[1]);
    command_queue_stall_end(&scene.stall);
    assert_int_equal(weft_command_queues_create(&sim_scene.queues), 0);
    scene_close();
}

/* Work that fails reads nothing any more. */
static void test_failing(void **state)
{
    (void)state;
    scene_open("sim:seed=1,fail=1");
    uint64_t borrowed = borrowed_open();
    struct weft_command_queue *commands = command_queue_get();
    assert_int_equal(weft_borrowed_take(borrowed, commands), 0);
    assert_int_equal(read_shared(commands), 0);
    assert_int_equal(weft_borrowed_recall(borrowed, END_MS), WEFT_OK);
    weft_command_queue_put(commands);
    scene_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_recall),
        cmocka_unit_test(test_recall_in_time),
        cmocka_unit_test(test_command_queue_ends),
        cmocka_unit_test(test_pool_ends),
        cmocka_unit_test(test_failing),
        cmocka_unit_test(test_left_to_the_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
