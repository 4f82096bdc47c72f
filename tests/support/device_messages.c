/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/device_messages.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/job.h"
#include "tests/support/effort.h"

#define GUARD 64
#define MOST  (((size_t)5 << 20) + 3)
#define HOST  (-1)

struct rank {
    struct job job;
    struct device_seat seat;
    const struct device_messages *way;
    uint8_t *bytes; /* ordinary memory to compare with */
};

static int begin(struct rank *rank, const void *way)
{
    rank->way = way;
    device_seat_take(&rank->seat, rank->way->bench);
    rank->bytes = malloc(MOST + GUARD);
    CHECK(rank->bytes);
    CHECK_OK(job_open(&rank->job, rank->way->provider ? "ofi" : "shm", rank->way->provider));
    return 0;
}

static int end(struct rank *rank)
{
    CHECK_OK(job_close(&rank->job));
    device_seat_leave(&rank->seat);
    free(rank->bytes);
    return 0;
}

static uint8_t byte_of(uint32_t seed, size_t i)
{
    return (uint8_t)((seed * 2654435761u + (uint32_t)i * 40503u) >> 11);
}

/* Memory with a message in it, or with guard bytes. */
static uint8_t *get_filled(struct rank *rank, int where, uint32_t seed, size_t size)
{
    uint8_t *memory = device_seat_get(&rank->seat, where, size + GUARD);
    for (size_t i = 0; i < size; i++)
        rank->bytes[i] = byte_of(seed, i);
    device_seat_store(&rank->seat, where, memory, rank->bytes, size);
    return memory;
}

static uint8_t *get_empty(struct rank *rank, int where, size_t size)
{
    uint8_t *memory = device_seat_get(&rank->seat, where, size + GUARD);
    memset(rank->bytes, 0x77, size + GUARD);
    device_seat_store(&rank->seat, where, memory, rank->bytes, size + GUARD);
    return memory;
}

/* Counts bytes that are not as sent, and those behind them that have changed. */
static size_t wrong(struct rank *rank, int where, const uint8_t *memory, uint32_t seed, size_t size,
                    size_t room)
{
    size_t count = 0;
    device_seat_load(&rank->seat, where, rank->bytes, memory, room + GUARD);
    for (size_t i = 0; i < room + GUARD; i++)
        count += rank->bytes[i] != (i < size ? byte_of(seed, i) : 0x77);
    return count;
}

static const int places[][2] = {{0, 1}, {HOST, 0}, {1, HOST}, {HOST, HOST}};
#define PLACES (sizeof places / sizeof *places)

/* --- every pair of memories, every size */

static int pairs_body(int number, int ranks, void *arg)
{
    (void)ranks;
    static const size_t sizes[] = {0,    1,    64,    4096,  8191,  8192,    8279,
                                   8280, 8281, 16384, 16385, 65537, 1048577, MOST};
    struct rank rank;
    CHECK(begin(&rank, arg) == 0);
    for (uint32_t p = 0; p < PLACES; p++) {
        for (uint32_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int sends = (s + p) % 2 == (uint32_t)number, where = places[p][!sends];
            if (test_is_sanitized() && sizes[s] > 1000000 && (s + p) % 4)
                continue; /* byte by byte, that is costly */
            size_t size = sizes[s], roomy = test_is_sanitized() ? size + 100000 : MOST;
            size_t room = s % 3 ? size : roomy;
            uint8_t *memory = sends ? get_filled(&rank, where, s, size) : get_empty(&rank, where, room);
            if (sends) {
                CHECK_OK(weft_send(rank.job.comm, memory, size, WEFT_UINT8, 1 - number, s, NULL));
            } else {
                weft_message info = WEFT_MESSAGE_INIT;
                if (s % 4 == 0) {
                    CHECK_OK(weft_probe(rank.job.comm, WEFT_ANY_SOURCE, WEFT_ANY_TAG, -1, &info));
                    CHECK(info.bytes == size && info.tag == s);
                }
                CHECK_OK(weft_recv(rank.job.comm, memory, room, WEFT_UINT8,
                                   s % 2 ? WEFT_ANY_SOURCE : 1 - number, s, &info, NULL));
                CHECK(info.source == 1 - number && info.tag == s && info.bytes == size);
                CHECK_BITS(wrong(&rank, where, memory, s, size, room) == 0);
            }
            device_seat_put(&rank.seat, where, memory);
        }
    }
    return end(&rank);
}

/* --- order, groups */

#define EACH 60 /* sanitized 21 */

/* Small and large messages of both memories under one tag: each receive gets the one that is its turn. */
static int order_body(int number, int ranks, void *arg)
{
    (void)ranks;
    static const size_t lengths[] = {8, 70000, 8, 8, 300000, 9000, 16};
    struct rank rank;
    uint8_t *parts[EACH];
    weft_work *works[EACH];
    const uint32_t each = test_is_sanitized() ? 21 : EACH;
    CHECK(begin(&rank, arg) == 0);
    for (int early = 0; early < 2; early++) {
        for (uint32_t n = 0; n < each; n++) {
            int where = (int)(n * 7 / 3 % 3) - 1;
            parts[n] = number ? get_empty(&rank, where, lengths[n % 7])
                              : get_filled(&rank, where, n, lengths[n % 7]);
        }
        if (number == early)
            CHECK_OK(weft_barrier(rank.job.comm, NULL));
        for (uint32_t n = 0; n < each; n++)
            CHECK_OK(number ? weft_recv(rank.job.comm, parts[n], lengths[n % 7], WEFT_UINT8, 0, 5, NULL,
                                        WEFT_START(&works[n]))
                            : weft_send(rank.job.comm, parts[n], lengths[n % 7], WEFT_UINT8, 1, 5,
                                        WEFT_START(&works[n])));
        if (number != early)
            CHECK_OK(weft_barrier(rank.job.comm, NULL));
        for (uint32_t n = 0; n < each; n++) {
            int where = (int)(n * 7 / 3 % 3) - 1;
            CHECK_OK(weft_work_wait(works[n], -1));
            CHECK_OK(weft_work_free(works[n]));
            CHECK_BITS(!number || wrong(&rank, where, parts[n], n, lengths[n % 7], lengths[n % 7]) == 0);
            device_seat_put(&rank.seat, where, parts[n]);
        }
    }
    return end(&rank);
}

static int groups_body(int number, int ranks, void *arg)
{
    (void)ranks;
    struct rank rank;
    CHECK(begin(&rank, arg) == 0);
    for (uint32_t s = 0; s < 3; s++) {
        static const size_t sizes[] = {100, 9000, 2000000};
        uint8_t *out = get_filled(&rank, number, s, sizes[s]), *in = get_empty(&rank, 0, sizes[s]);
        uint8_t *own = get_empty(&rank, HOST, sizes[s]);
        CHECK_OK(weft_group_start());
        CHECK_OK(weft_send(rank.job.comm, out, sizes[s], WEFT_UINT8, 1 - number, 1, NULL));
        CHECK_OK(weft_send(rank.job.comm, out, sizes[s], WEFT_UINT8, number, 2, NULL));
        CHECK_OK(weft_recv(rank.job.comm, own, sizes[s], WEFT_UINT8, number, 2, NULL, NULL));
        CHECK_OK(weft_recv(rank.job.comm, in, sizes[s], WEFT_UINT8, 1 - number, 1, NULL, NULL));
        CHECK_OK(weft_group_end());
        CHECK_BITS(wrong(&rank, 0, in, s, sizes[s], sizes[s]) == 0);
        CHECK_BITS(wrong(&rank, HOST, own, s, sizes[s], sizes[s]) == 0);
        device_seat_put(&rank.seat, number, out);
        device_seat_put(&rank.seat, 0, in);
        device_seat_put(&rank.seat, HOST, own);
    }
    return end(&rank);
}

/* --- too long, cancelled */

static int refused_body(int number, int ranks, void *arg)
{
    (void)ranks;
    static const size_t lengths[] = {100, 200000};
    struct rank rank;
    CHECK(begin(&rank, arg) == 0);
    for (uint32_t i = 0; i < 2 * PLACES; i++) {
        size_t length = lengths[i % 2];
        int where = places[i / 2][number];
        uint8_t *memory = number ? get_empty(&rank, where, length) : get_filled(&rank, where, i, length);
        if (number == 0) {
            CHECK_OK(weft_send(rank.job.comm, memory, length, WEFT_UINT8, 1, 6, NULL));
            CHECK_OK(weft_send(rank.job.comm, memory, length, WEFT_UINT8, 1, 6, NULL));
        } else {
            weft_work *work;
            CHECK_OK(weft_recv(rank.job.comm, memory, length, WEFT_UINT8, 0, 7, NULL, WEFT_START(&work)));
            CHECK(weft_recv(rank.job.comm, memory, 50, WEFT_UINT8, 0, 6, NULL, NULL) == WEFT_MISMATCH);
            CHECK(strstr(weft_error_detail(), "longer than the 50 bytes"));
            CHECK_OK(weft_work_cancel(work));
            weft_work_free(work);
            CHECK_BITS(wrong(&rank, where, memory, 0, 0, length) == 0);
            CHECK_OK(weft_recv(rank.job.comm, memory, length, WEFT_UINT8, 0, 6, NULL, NULL));
            CHECK_BITS(wrong(&rank, where, memory, i, length, length) == 0);
        }
        device_seat_put(&rank.seat, where, memory);
    }
    return end(&rank);
}

/* --- failures */

/* Rank 0's memory is a device's, and its device fails, as sender or as receiver: it says so, the other one hears of it, and
 * nothing is left. */
static int failing_body(int number, int ranks, void *arg)
{
    (void)ranks;
    struct rank rank;
    CHECK(begin(&rank, arg) == 0);
    size_t size = rank.way->is_long ? 500000 : 500;
    int sends = rank.way->sends == (number == 0), where = number ? HOST : 0;
    uint8_t *memory = get_filled(&rank, where, 1, size);
    int status = sends ? weft_send(rank.job.comm, memory, size, WEFT_UINT8, 1 - number, 1, NULL)
                       : weft_recv(rank.job.comm, memory, size, WEFT_UINT8, 1 - number, 1, NULL, NULL);
    if (number && status == 0) /* a short message may have left before */
        status = weft_recv(rank.job.comm, memory, size, WEFT_UINT8, 0, 2, NULL, NULL);
    CHECK(status == (number ? WEFT_REVOKED : WEFT_TRANSPORT));
    CHECK(strstr(weft_error_detail(), "work fails"));
    CHECK(weft_send(rank.job.comm, memory, size, WEFT_UINT8, 1 - number, 1, NULL) == WEFT_REVOKED);
    device_seat_put(&rank.seat, where, memory);
    return end(&rank);
}

/* The program aborts while transfers run on slow devices: when the works have ended its memory is its own. */
static int abort_body(int number, int ranks, void *arg)
{
    (void)ranks;
    struct rank rank;
    weft_work *works[4];
    uint8_t *parts[4];
    CHECK(begin(&rank, arg) == 0);
    for (int i = 0; i < 4; i++) {
        parts[i] = get_filled(&rank, number, 1, 3000000);
        CHECK_OK(
            number
                ? weft_recv(rank.job.comm, parts[i], 3000000, WEFT_UINT8, 0, i, NULL, WEFT_START(&works[i]))
                : weft_send(rank.job.comm, parts[i], 3000000, WEFT_UINT8, 1, i, WEFT_START(&works[i])));
    }
    int met = weft_barrier(rank.job.comm, NULL); /* all have started theirs; one may have aborted since */
    CHECK(number || met == 0);
    if (number == 0)
        CHECK_OK(weft_comm_abort(rank.job.comm, "the test says so"));
    for (int i = 0; i < 4; i++) {
        weft_work_wait(works[i], -1); /* a fast one has ended well */
        weft_work_free(works[i]);
        device_seat_put(&rank.seat, number, parts[i]);
    }
    CHECK(weft_barrier(rank.job.comm, NULL) != 0);
    return end(&rank);
}

int device_messages_run(const struct device_messages *way, enum device_messages_case which)
{
    static test_rank_function *const bodies[] = {pairs_body,   order_body,   groups_body,
                                                 refused_body, failing_body, abort_body};
    return device_bench_run(way->bench, 2, way->in_threads, bodies[which], (void *)(uintptr_t)way);
}
