/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* run: elsewhere (tests/system/test_p2p) */
/* Messages of a rank to itself on memory of the simulated device and of the host, in a communicator of one rank: every pair of
 * memories, with the receive first and last, slow, failing and given up. Between ranks: tests/system/test_p2p_device.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "tests/support/bits.h"
#include "tests/support/effort.h"
#include "tests/support/sim_seat.h"

#define GUARD 64
#define MOST  (((size_t)3 << 20) + 5)
#define HOST  (-1)

static struct device_seat seat;
static weft_context *context;
static weft_comm *comm;
static uint8_t bytes[MOST + GUARD], got[MOST + GUARD];

static void open_all(const char *options, int64_t timeout_ms)
{
    weft_comm_options one = WEFT_COMM_OPTIONS_INIT;
    sim_seats_prepare(options);
    device_seat_take(&seat, &sim_bench);
    one.rank = 0;
    one.ranks = 1;
    one.timeout_ms = timeout_ms;
    assert_int_equal(weft_context_open(NULL, &context), 0);
    assert_int_equal(weft_comm_create(context, &one, &comm), 0);
}

static void close_all(void)
{
    assert_int_equal(weft_comm_destroy(comm), 0);
    assert_int_equal(weft_context_close(context), 0);
    assert_int_equal(sim_bench.left(&seat), 0);
    device_seat_leave(&seat);
    assert_int_equal(sim_seats_end(), 0);
}

struct pair {
    int from, to; /* where: a device, or HOST */
    uint8_t *source, *target;
    size_t size;
};

static void pair_make(struct pair *pair, int from, int to, size_t size, uint8_t seed)
{
    *pair = (struct pair){from, to, device_seat_get(&seat, from, size + GUARD),
                          device_seat_get(&seat, to, size + GUARD), size};
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251 + seed);
    device_seat_store(&seat, from, pair->source, bytes, size);
    memset(got, 0xa5, size + GUARD);
    device_seat_store(&seat, to, pair->target, got, size + GUARD);
}

/* How many bytes are not as sent, or not as they were behind the first `size`. */
static size_t pair_wrong(const struct pair *pair, size_t size)
{
    size_t wrong = 0;
    device_seat_load(&seat, pair->to, got, pair->target, pair->size + GUARD);
    for (size_t i = 0; i < pair->size + GUARD; i++)
        wrong += got[i] != (i < size ? bytes[i] : 0xa5);
    return wrong;
}

static void pair_free(struct pair *pair)
{
    device_seat_put(&seat, pair->from, pair->source);
    device_seat_put(&seat, pair->to, pair->target);
}

static const int places[][2] = {{0, 0}, {0, 1}, {HOST, 0}, {0, HOST}, {1, HOST}, {HOST, HOST}};
#define PLACES (sizeof places / sizeof *places)

/* The receive comes first or last, or both with one call. */
static void pass(struct pair *pair, int order, size_t room)
{
    weft_work *work;
    int too_long = room < pair->size;
    if (order == 0) {
        assert_int_equal(weft_recv(comm, pair->target, room, WEFT_UINT8, 0, 4, NULL, WEFT_START(&work)), 0);
        assert_int_equal(weft_send(comm, pair->source, pair->size, WEFT_UINT8, 0, 4, NULL), 0);
        assert_int_equal(weft_work_wait(work, -1), too_long ? WEFT_MISMATCH : 0);
        weft_work_free(work);
    } else if (order == 1) {
        assert_int_equal(weft_send(comm, pair->source, pair->size, WEFT_UINT8, 0, 4, WEFT_START(&work)), 0);
        weft_message info = WEFT_MESSAGE_INIT;
        assert_int_equal(weft_probe(comm, WEFT_ANY_SOURCE, 4, -1, &info), 0);
        assert_int_equal(info.bytes, pair->size);
        assert_int_equal(weft_recv(comm, pair->target, room, WEFT_UINT8, WEFT_ANY_SOURCE, 4, NULL, NULL),
                         too_long ? WEFT_MISMATCH : 0);
        assert_int_equal(weft_work_wait(work, -1), 0);
        assert_int_equal(weft_work_free(work), 0);
    } else {
        assert_int_equal(weft_sendrecv(comm, pair->source, pair->size, 0, 4, pair->target, room, 0, 4,
                                       WEFT_UINT8, NULL, NULL),
                         too_long ? WEFT_MISMATCH : 0);
    }
}

static void every_pair(const char *options)
{
    static const size_t sizes[] = {0, 1, 4095, 8192, 8193, 70000, 1048577, MOST};
    open_all(options, 60000);
    for (size_t p = 0; p < PLACES; p++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            for (int order = 0; order < 3; order++) {
                struct pair pair;
                if (test_is_sanitized() && (size_t)order != (p + s) % 3)
                    continue;
                pair_make(&pair, places[p][0], places[p][1], sizes[s], (uint8_t)(s + p));
                pass(&pair, order, sizes[s]);
                assert_bits(pair_wrong(&pair, sizes[s]) == 0);
                if (sizes[s]) {
                    memset(got, 0xa5, sizes[s] + GUARD);
                    device_seat_store(&seat, pair.to, pair.target, got, sizes[s] + GUARD);
                    pass(&pair, order, sizes[s] - 1);
                    assert_int_equal(pair_wrong(&pair, 0), 0);
                }
                pair_free(&pair);
            }
        }
    }
    close_all();
}

static void test_every_pair(void **state)
{
    (void)state;
    every_pair("sim:seed=1");
}

static void test_slow(void **state)
{
    (void)state;
    every_pair("sim:seed=2,delay=300");
}

#define MANY 40

/* Many at a time: each gets its own, in the order in which they were sent. */
static void test_many(void **state)
{
    (void)state;
    struct pair pairs[MANY];
    weft_work *sends[MANY], *receives[MANY];
    open_all("sim:seed=3,delay=500", 60000);
    for (size_t i = 0; i < MANY; i++)
        pair_make(&pairs[i], places[i % PLACES][0], places[i % PLACES][1], 100 + i % 5 * 30000, (uint8_t)i);
    for (size_t i = 0; i < MANY; i++) {
        struct pair *pair = &pairs[i];
        if (i % 2)
            assert_int_equal(
                weft_recv(comm, pair->target, pair->size, WEFT_UINT8, 0, 9, NULL, WEFT_START(&receives[i])),
                0);
        assert_int_equal(weft_send(comm, pair->source, pair->size, WEFT_UINT8, 0, 9, WEFT_START(&sends[i])),
                         0);
        if (i % 2 == 0)
            assert_int_equal(
                weft_recv(comm, pair->target, pair->size, WEFT_UINT8, 0, 9, NULL, WEFT_START(&receives[i])),
                0);
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(weft_work_wait(receives[i], -1), 0);
        assert_int_equal(weft_work_wait(sends[i], -1), 0);
        assert_int_equal(weft_work_free(receives[i]), 0);
        assert_int_equal(weft_work_free(sends[i]), 0);
        for (size_t b = 0; b < pairs[i].size; b++)
            bytes[b] = (uint8_t)(b * 7 + b / 251 + (uint8_t)i);
        assert_bits(pair_wrong(&pairs[i], pairs[i].size) == 0);
        pair_free(&pairs[i]);
    }
    close_all();
}

/* Work fails now and then: what succeeded is right, the first failure ends the communicator with the device's own words, and
 * the rest is refused. */
static void fail_by_seed(int seed)
{
    char options[64];
    int failed = 0;
    snprintf(options, sizeof options, "sim:seed=%d,delay=50,fail=12", seed);
    open_all(options, 60000);
    for (size_t i = 0; i < 60; i++) {
        struct pair pair;
        size_t p = i % (PLACES - 1);
        int small = i % 3 || (failed && test_is_sanitized()); /* what is refused can as well be small */
        pair_make(&pair, places[p][0], places[p][1], small ? 70000 : 2097153, (uint8_t)i);
        int status = weft_sendrecv(comm, pair.source, pair.size, 0, 4, pair.target, pair.size, 0, 4,
                                   WEFT_UINT8, NULL, NULL);
        if (failed) {
            assert_int_equal(status, WEFT_REVOKED);
        } else if (status != 0) {
            failed = 1;
            assert_int_equal(status, WEFT_TRANSPORT);
        }
        if (status != 0)
            assert_non_null(strstr(weft_error_detail(), "sim: work fails"));
        else
            assert_int_equal(pair_wrong(&pair, pair.size), 0);
        pair_free(&pair);
    }
    assert_int_equal(failed, 1);
    close_all();
}

static void test_failing(void **state)
{
    (void)state;
    for (int seed = 1; seed < 8; seed++)
        fail_by_seed(seed);
}

/* No staging memory can be had. */
static void test_no_staging(void **state)
{
    (void)state;
    struct pair pair;
    open_all("sim:seed=4,refuse=1", 60000);
    pair_make(&pair, HOST, 0, 100, 1);
    assert_int_equal(
        weft_sendrecv(comm, pair.source, 100, 0, 4, pair.target, 100, 0, 4, WEFT_UINT8, NULL, NULL),
        WEFT_NOMEM);
    assert_non_null(strstr(weft_error_detail(), "no staging memory of 100 bytes for sim device 0"));
    assert_int_equal(pair_wrong(&pair, 0), 0);
    pair_free(&pair);
    close_all();
}

/* The program aborts while copies run: when its call returns, its memory is its own again. */
static void test_abort(void **state)
{
    (void)state;
    struct pair pairs[PLACES - 1];
    weft_work *sends[PLACES - 1], *receives[PLACES - 1];
    open_all("sim:seed=5,delay=200000", 60000);
    for (size_t p = 0; p < PLACES - 1; p++) {
        pair_make(&pairs[p], places[p][0], places[p][1], 2097153, (uint8_t)p);
        assert_int_equal(
            weft_recv(comm, pairs[p].target, pairs[p].size, WEFT_UINT8, 0, 4, NULL, WEFT_START(&receives[p])),
            0);
        assert_int_equal(
            weft_send(comm, pairs[p].source, pairs[p].size, WEFT_UINT8, 0, 4, WEFT_START(&sends[p])), 0);
    }
    assert_int_equal(weft_work_cancel(receives[0]), WEFT_BUSY); /* it has its message */
    assert_int_equal(weft_comm_abort(comm, "the test says so"), 0);
    for (size_t p = 0; p < PLACES - 1; p++) {
        int status = weft_work_wait(receives[p], -1);
        assert_int_equal(weft_work_wait(sends[p], -1) != 0, status != 0);
        device_seat_load(&seat, pairs[p].to, bytes, pairs[p].target, pairs[p].size);
        pair_free(&pairs[p]);
        weft_work_free(receives[p]);
        weft_work_free(sends[p]);
    }
    close_all();
}

/* Nobody receives, nobody sends: given up at the deadline, or cancelled, and the memory is free. */
static void test_alone(void **state)
{
    (void)state;
    struct pair pair;
    weft_work *work;
    open_all("sim:seed=6", 100);
    pair_make(&pair, 0, 0, 100, 1);
    assert_int_equal(weft_send(comm, pair.source, 100, WEFT_UINT8, 0, 4, NULL), WEFT_TIMEOUT);
    assert_int_equal(weft_recv(comm, pair.target, 100, WEFT_UINT8, 0, 4, NULL, NULL), WEFT_TIMEOUT);
    assert_int_equal(weft_recv(comm, pair.target, 100, WEFT_UINT8, 0, 4, NULL, WEFT_START(&work)), 0);
    assert_int_equal(weft_work_cancel(work), 0);
    weft_work_free(work);
    assert_int_equal(pair_wrong(&pair, 0), 0);
    pair_free(&pair);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair), cmocka_unit_test(test_slow),       cmocka_unit_test(test_many),
        cmocka_unit_test(test_failing),    cmocka_unit_test(test_no_staging), cmocka_unit_test(test_abort),
        cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
