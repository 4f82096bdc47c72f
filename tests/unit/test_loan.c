/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* Loans: memory of a device that its owner wants back while another rank's lane may still read it. On the simulated device, whose lanes
 * can be kept from getting on. */
#include "devmem/loan.h"

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
#include "tests/support/lane_stall.h"
#include "tests/support/plugins.h"

#define SIZE   4096
#define END_MS 60000 /* much more than anything here takes */

/* The reader's side; the owner needs none. */
static struct {
    struct test_plugin plugin;
    struct weft_devices *devices;
    struct weft_lanes *lanes;
    const struct weft_device_kind *kind;
    struct lane_stall stall;
    void *lent, *own;
} scene;

static void *memory_get(void)
{
    void *memory;
    assert_int_equal(scene.kind->ops.allocate(scene.kind->device, 0, WEFT_MEMORY_DEVICE, SIZE, &memory), 0);
    return memory;
}

static void scene_open(const char *options)
{
    assert_int_equal(test_plugin_put("examples/device-sim/device-sim.so", &scene.plugin), 0);
    assert_int_equal(weft_devices_create("host,sim", scene.plugin.path, options, &scene.devices), 0);
    scene.kind = weft_devices_find(scene.devices, "sim");
    assert_non_null(scene.kind);
    assert_int_equal(weft_lanes_create(&scene.lanes), 0);
    lane_stall_open(&scene.stall, scene.kind);
    scene.lent = memory_get();
    scene.own = memory_get();
}

static void memory_close(void)
{
    assert_int_equal(scene.kind->ops.release(scene.kind->device, scene.lent), 0);
    assert_int_equal(scene.kind->ops.release(scene.kind->device, scene.own), 0);
    lane_stall_close(&scene.stall);
}

static void scene_close(void)
{
    weft_lanes_destroy(scene.lanes);
    memory_close();
    weft_devices_destroy(scene.devices);
    test_plugin_remove(&scene.plugin);
}

static struct weft_lane *lane_get(void)
{
    struct weft_lane *lane;
    assert_int_equal(weft_lane_get(scene.lanes, scene.kind, 0, &lane), 0);
    return lane;
}

static uint64_t loan_open(void)
{
    uint64_t loan = 0;
    assert_int_equal(weft_loan_open(&loan), 0);
    assert_true(loan > 0);
    return loan;
}

static int read_lent(struct weft_lane *lane)
{
    return weft_lane_copy(lane, scene.own, scene.lent, SIZE);
}

/* A lane with work that reads the memory, and that has not ended. */
static struct weft_lane *lane_reading(uint64_t loan)
{
    struct weft_lane *lane = lane_get();
    assert_int_equal(lane_stall_put(&scene.stall, lane), 0);
    assert_int_equal(weft_loan_borrow(loan, lane), 0);
    assert_int_equal(read_lent(lane), 0);
    return lane;
}

static void check_gone(uint64_t loan, struct weft_lane *lane)
{
    weft_error_set_detail("");
    assert_int_equal(weft_loan_borrow(loan, lane), WEFT_PEER_FAILED);
    assert_string_equal(weft_error_detail(), "a peer has taken back the device memory that it lent");
}

/* The lane works: for another operation, too. */
static void check_lane(struct weft_lane *lane)
{
    assert_int_equal(weft_lane_copy(lane, scene.own, scene.own, SIZE), 0);
    assert_int_equal(weft_lane_drain(lane, END_MS), 0);
}

static void test_life(void **state)
{
    (void)state;
    scene_open("sim:seed=1");
    uint64_t loans[200];
    struct weft_lane *lane = lane_get();
    for (int i = 0; i < 200; i++) {
        loans[i] = loan_open();
        assert_true(!i || loans[i] != loans[i - 1]);
    }
    check_gone(loans[199] + 1, lane);
    check_gone(0, lane);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(weft_loan_borrow(loans[i], lane), 0);
        check_gone(loans[i], lane); /* one reader at a time */
    }
    for (int i = 0; i < 200; i++)
        weft_loan_return(loans[i]);
    assert_int_equal(weft_loan_borrow(loans[7], lane), 0);
    weft_loan_close(loans[7]); /* the reader has said so by other ways */
    weft_loan_return(loans[7]);
    for (int i = 0; i < 200; i++)
        weft_loan_close(loans[i]);
    check_gone(loans[5], lane);
    weft_loan_close(0);
    weft_loan_return(0);
    check_lane(lane);
    weft_lane_put(lane);
    scene_close();
}

struct owner {
    uint64_t loan;
    int64_t timeout_ms;
    int status;
    atomic_int is_done;
    pthread_t thread;
};

static void *recall(void *arg)
{
    struct owner *owner = arg;
    owner->status = weft_loan_recall(owner->loan, owner->timeout_ms);
    atomic_store(&owner->is_done, 1);
    return NULL;
}

static void owner_start(struct owner *owner, uint64_t loan)
{
    *owner = (struct owner){.loan = loan, .timeout_ms = END_MS};
    assert_int_equal(pthread_create(&owner->thread, NULL, recall, owner), 0);
}

static void owner_end(struct owner *owner, int status)
{
    assert_int_equal(pthread_join(owner->thread, NULL), 0);
    assert_int_equal(owner->status, status);
}

/* A copy is refused once the owner has the lane stopped. */
static void await_stop(struct weft_lane *lane)
{
    int status = WEFT_OK;
    for (int tries = 0; tries < 50000 && (status = read_lent(lane)) == WEFT_OK; tries++)
        usleep(100);
    assert_int_equal(status, WEFT_PEER_FAILED);
    assert_string_equal(weft_error_detail(), "a peer has taken back the device memory that it lent");
}

/* Who recalls waits for what is queued, nothing more is, and the lane is nobody's afterwards. */
static void test_recall(void **state)
{
    (void)state;
    scene_open("sim:seed=1");
    struct owner owner;
    uint64_t loan = loan_open();
    struct weft_lane *lane = lane_reading(loan);
    owner_start(&owner, loan);
    await_stop(lane);
    usleep(20000);
    assert_int_equal(atomic_load(&owner.is_done), 0);
    lane_stall_end(&scene.stall);
    owner_end(&owner, WEFT_OK);
    check_gone(loan, lane);
    assert_int_equal(weft_lane_drain(lane, END_MS), WEFT_PEER_FAILED);
    weft_lane_put(lane);
    lane = lane_get();
    check_lane(lane);
    weft_lane_put(lane);
    scene_close();
}

static void test_recall_in_time(void **state)
{
    (void)state;
    scene_open("sim:seed=1");
    uint64_t loan = loan_open(), other = loan_open();
    struct weft_lane *lane = lane_reading(loan);
    assert_int_equal(weft_loan_recall(other, END_MS), WEFT_OK); /* nobody reads it */
    assert_int_equal(weft_loan_recall(loan, 5), WEFT_TIMEOUT);
    assert_int_equal(weft_loan_recall(loan, END_MS), WEFT_OK); /* there is none any more */
    lane_stall_end(&scene.stall);
    weft_lane_put(lane);
    scene_close();
}

/* Lanes that are given back return what they have borrowed when their work is done, and not before. */
static void test_lane_ends(void **state)
{
    (void)state;
    scene_open("sim:seed=1");
    struct owner owner;
    uint64_t loans[2] = {loan_open(), loan_open()};
    weft_lane_put(lane_reading(loans[0]));
    owner_start(&owner, loans[0]);
    usleep(20000);
    assert_int_equal(atomic_load(&owner.is_done), 0);
    lane_stall_end(&scene.stall);
    owner_end(&owner, WEFT_OK);
    struct weft_lane *lane = lane_get(); /* one without work at its end: it is kept */
    assert_int_equal(weft_loan_borrow(loans[1], lane), 0);
    assert_int_equal(read_lent(lane), 0);
    assert_int_equal(weft_lane_drain(lane, END_MS), 0);
    weft_lane_put(lane);
    struct weft_lane *next = lane_get();
    assert_ptr_equal(lane, next);
    assert_int_equal(weft_loan_recall(loans[1], 0), WEFT_OK); /* the next operation does not notice */
    check_lane(next);
    weft_lane_put(next);
    scene_close();
}

/* The reader's pool, and its device, go while the owner waits for a lane of it. */
static void test_pool_ends(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        scene_open("sim:seed=1");
        struct owner owner;
        uint64_t loan = loan_open();
        weft_lane_put(lane_reading(loan));
        owner_start(&owner, loan);
        usleep((useconds_t)i * 50);
        lane_stall_end(&scene.stall);
        scene_close();
        owner_end(&owner, WEFT_OK);
    }
}

/* The reader's pool leaves work to the driver that does not end: who asks is not told that it had. */
static void test_left_to_the_driver(void **state)
{
    (void)state;
    scene_open("sim:seed=1");
    uint64_t loans[2] = {loan_open(), loan_open()};
    struct weft_lane *lane = lane_reading(loans[0]);
    assert_int_equal(weft_loan_borrow(loans[1], lane), 0);
    weft_lane_put(lane);
    weft_lanes_destroy(scene.lanes);
    assert_int_equal(weft_loan_recall(loans[0], END_MS), WEFT_TRANSPORT);
    assert_non_null(strstr(weft_error_detail(), "left to the driver"));
    weft_loan_close(loans[1]);
    lane_stall_end(&scene.stall);
    assert_int_equal(weft_lanes_create(&scene.lanes), 0);
    scene_close();
}

/* Work that fails reads nothing any more. */
static void test_failing(void **state)
{
    (void)state;
    scene_open("sim:seed=1,fail=1");
    uint64_t loan = loan_open();
    struct weft_lane *lane = lane_get();
    assert_int_equal(weft_loan_borrow(loan, lane), 0);
    assert_int_equal(read_lent(lane), 0);
    assert_int_equal(weft_loan_recall(loan, END_MS), WEFT_OK);
    weft_lane_put(lane);
    scene_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_recall),
        cmocka_unit_test(test_recall_in_time),
        cmocka_unit_test(test_lane_ends),
        cmocka_unit_test(test_pool_ends),
        cmocka_unit_test(test_failing),
        cmocka_unit_test(test_left_to_the_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
