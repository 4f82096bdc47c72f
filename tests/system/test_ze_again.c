/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze */
/* Two ranks that free device memory and allocate it again between messages, at the same addresses, of which the other one has mapped what was there before.
 * Each message is right, or fails by name, and none waits for ever. And the same with a driver that numbers memory by its address: so it is with
 * mappings that are kept by address, and then messages are wrong, which has to be found here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/effort.h"
#include "tests/support/job.h"
#include "tests/support/ze_bench.h"

#define BUFFERS 3
#define MOST    ((size_t)200000)

struct buffer {
    uint8_t *memory;
    size_t size;
    uintptr_t before; /* where it was last */
};

struct rank {
    struct device_seat seat;
    struct job job;
    uint8_t *bytes; /* of the host */
    uint32_t random;
    struct buffer buffers[BUFFERS];
    size_t repeated, wrong;
};

static uint32_t draw(struct rank *rank)
{
    rank->random = rank->random * 1664525u + 1013904223u;
    return rank->random >> 8;
}

/* Three times in four: other memory. */
static struct buffer *renew(struct rank *rank)
{
    struct buffer *buffer = &rank->buffers[draw(rank) % BUFFERS];
    if (buffer->memory && draw(rank) % 4 == 0)
        return buffer;
    if (buffer->memory)
        device_seat_put(&rank->seat, 0, buffer->memory);
    buffer->size = draw(rank) % 3 ? MOST : 40000;
    buffer->memory = device_seat_get(&rank->seat, 0, buffer->size);
    rank->repeated += (uintptr_t)buffer->memory == buffer->before;
    buffer->before = (uintptr_t)buffer->memory;
    return buffer;
}

static uint8_t byte_of(size_t round, size_t i)
{
    return (uint8_t)(round * 37 + i * 11 + (i >> 9));
}

static int send_one(struct rank *rank, int to, size_t round)
{
    const struct buffer *buffer = renew(rank);
    for (size_t i = 0; i < buffer->size; i++)
        rank->bytes[i] = byte_of(round, i);
    device_seat_store(&rank->seat, 0, buffer->memory, rank->bytes, buffer->size);
    CHECK_OK(weft_send(rank->job.comm, buffer->memory, buffer->size, WEFT_UINT8, to, (int)round, NULL));
    return 0;
}

static int receive_one(struct rank *rank, int from, size_t round)
{
    uint8_t *memory = device_seat_get(&rank->seat, 1, MOST);
    weft_message info = WEFT_MESSAGE_INIT;
    CHECK_OK(weft_recv(rank->job.comm, memory, MOST, WEFT_UINT8, from, (int)round, &info, NULL));
    device_seat_load(&rank->seat, 1, rank->bytes, memory, MOST);
    size_t wrong = 0;
    for (size_t i = 0; i < info.bytes; i++)
        wrong += rank->bytes[i] != byte_of(round, i);
    rank->wrong += wrong != 0;
    device_seat_put(&rank->seat, 1, memory);
    return 0;
}

struct way {
    const struct device_bench *bench;
    int is_wrong; /* is expected */
};

static int body(int number, int ranks, void *arg)
{
    const struct way *way = arg;
    struct rank rank = {.random = 7u + (uint32_t)number, .bytes = malloc(MOST)};
    size_t rounds = test_by_effort(100, 400, 10000);
    (void)ranks;
    CHECK(rank.bytes);
    device_seat_take(&rank.seat, way->bench);
    CHECK_OK(job_open(&rank.job, "shm", NULL));
    for (size_t round = 0; round < rounds; round++)
        CHECK((round % 2 == (size_t)number ? send_one : receive_one)(&rank, 1 - number, round) == 0);
    CHECK_OK(job_close(&rank.job));
    for (int b = 0; b < BUFFERS; b++) {
        if (rank.buffers[b].memory)
            device_seat_put(&rank.seat, 0, rank.buffers[b].memory);
    }
    device_seat_leave(&rank.seat);
    free(rank.bytes);
    printf("%zu rounds, %zu times the same address, %zu messages wrong\n", rounds, rank.repeated, rank.wrong);
    CHECK(rank.repeated > rounds / 8);
    CHECK((rank.wrong > 0) == way->is_wrong);
    return 0;
}

static void test_again(void **state)
{
    struct way way = {.bench = &ze_sharing_bench};
    (void)state;
    assert_int_equal(device_bench_run(way.bench, 2, 0, body, &way), 0);
}

static void test_by_address(void **state)
{
    struct way way = {.bench = &ze_addressed_bench, .is_wrong = 1};
    (void)state;
    assert_int_equal(device_bench_run(way.bench, 2, 0, body, &way), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_again), cmocka_unit_test(test_by_address)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
