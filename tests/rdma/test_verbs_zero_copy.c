/* SPDX-License-Identifier: Apache-2.0 */
/* Above the eager limit no byte passes memory of weft's own over verbs, on either side. Two witnesses: the counters, and
 * the memory itself. What a frame's header and a control message leave of every frame buffer is filled with a
 * pattern, and so are the pooled buffers of the context; after the transfers all of it is as it was. That the witness
 * sees what does pass is shown first, with a message of just the eager limit and with a reduction. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/rdma/zero_copy_watch.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/rdma_device.h"
#include "tests/support/skip.h"
#include "tests/support/read_only.h"

#define EAGER    8192
#define SLICE    65536
#define ROOM     200000 /* memory that messages lie in; a mapping of malloc()'s */
#define GUARD    64
#define MESSAGES 1000

/* --- messages */

/* No two bytes near each other, and no two messages, have the same. */
static uint8_t byte_of(uint32_t message, size_t i)
{
    return (uint8_t)(message * 89 + i * 7 + (i >> 8) * 3 + 1);
}

static void fill(uint8_t *memory, size_t size, uint32_t message)
{
    for (size_t i = 0; i < size; i++)
        memory[i] = byte_of(message, i);
}

static size_t count_wrong(const uint8_t *memory, size_t size, uint32_t message)
{
    size_t wrong = 0;
    for (size_t i = 0; i < size; i++)
        wrong += memory[i] != byte_of(message, i);
    return wrong;
}

/* Receives a message into the middle of memory that must stay as it is around it. */
static int receive(struct watch *watch, uint8_t *memory, size_t size, uint32_t message, int before)
{
    const struct job *job = watch->job;
    weft_work *work = NULL;
    memset(memory - GUARD, 0x3c, size + 2 * GUARD);
    if (before)
        CHECK_OK(weft_recv(job->comm, memory, size, WEFT_UINT8, 0, message, NULL, WEFT_START(&work)));
    CHECK(meet(watch) == 0);
    if (!before)
        CHECK_OK(weft_recv(job->comm, memory, size, WEFT_UINT8, 0, message, NULL, WEFT_START(&work)));
    CHECK_OK(weft_work_wait(work, -1));
    weft_work_free(work);
    CHECK_BITS(count_wrong(memory, size, message) == 0);
    CHECK_BITS(is_filled(memory - GUARD, GUARD, 0x3c) && is_filled(memory + size, GUARD, 0x3c));
    return 0;
}

static int send(struct watch *watch, const uint8_t *memory, size_t size, uint32_t message, int after)
{
    const struct job *job = watch->job;
    weft_work *work = NULL;
    if (!after)
        CHECK_OK(weft_send(job->comm, memory, size, WEFT_UINT8, 1, message, WEFT_START(&work)));
    CHECK(meet(watch) == 0);
    if (after)
        CHECK_OK(weft_send(job->comm, memory, size, WEFT_UINT8, 1, message, WEFT_START(&work)));
    CHECK_OK(weft_work_wait(work, -1));
    weft_work_free(work);
    return 0;
}

/* One message from rank 0 to rank 1; the receive is there before the send, or the other way round. */
static int pass(struct watch *watch, uint8_t *memory, size_t size, uint32_t message, int before)
{
    if (weft_comm_rank(watch->job->comm) == 1)
        return receive(watch, memory, size, message, before);
    fill(memory, size, message);
    return send(watch, memory, size, message, before);
}

static int is_receiver(const struct job *job)
{
    return weft_comm_rank(job->comm) == 1;
}

/* --- memory */

enum kind { ORDINARY, REGISTERED, ALLOCATED, KINDS };

static int memory_get(const struct job *job, enum kind kind, uint8_t **memory)
{
    if (kind == ALLOCATED) {
        void *block;
        CHECK_OK(weft_mem_alloc(job->context, ROOM, &block));
        *memory = block;
        return 0;
    }
    *memory = malloc(ROOM);
    CHECK(*memory);
    if (kind == REGISTERED)
        CHECK_OK(weft_mem_register(job->context, *memory, ROOM));
    return 0;
}

static int memory_put(const struct job *job, enum kind kind, uint8_t *memory)
{
    if (kind == ALLOCATED) {
        CHECK_OK(weft_mem_free(job->context, memory));
        return 0;
    }
    if (kind == REGISTERED)
        CHECK_OK(weft_mem_deregister(job->context, memory));
    free(memory);
    return 0;
}

/* --- the tests; each body opens what it needs */

#define OFI "verbs;ofi_rxm"

/* In the processes of the ranks: libfabric's provider instead of weft's transport. */
static int over_ofi;

/* Each rank has a device of its own where there are two. */
static void choose_device(int rank)
{
    char list[128];
    snprintf(list, sizeof list, "%s", getenv("WEFT_RDMA_DEVICE"));
    char *second = strchr(list, ',');
    if (second)
        *second++ = 0;
    if (second && !test_rdma_absent(1)) {
        second[strcspn(second, ",")] = 0;
        setenv("WEFT_VERBS_DEVICE", rank ? second : list, 1);
    } else {
        setenv("WEFT_VERBS_DEVICE", list, 1);
    }
    setenv("WEFT_SLICE_VERBS", "65536", 1);
    setenv("WEFT_SLICE_OFI", "65536", 1);
    setenv("WEFT_EAGER_OFI", "8192", 1);
}

/* Links are up, and there are pooled buffers, those that slices arrive in before they are added up, and buffers that messages
 * are sent from. */
static int open_job(struct job *job, int rank)
{
    size_t count = 3 * SLICE / sizeof(float);
    float *sums = calloc(count, sizeof *sums);
    CHECK(sums);
    choose_device(rank);
    CHECK_OK(job_open(job, over_ofi ? "ofi" : "verbs", over_ofi ? OFI : NULL));
    CHECK_OK(weft_allreduce(job->comm, sums, sums, count, WEFT_FLOAT32, WEFT_SUM, NULL));
    CHECK_OK(weft_sendrecv(job->comm, sums, EAGER, 1 - rank, 0, sums + EAGER, EAGER, 1 - rank, 0, WEFT_UINT8,
                           NULL, NULL));
    CHECK(job->context->regions.buffers && (over_ofi || instance_of(job)->queues[0].sends_count));
    free(sums);
    return 0;
}

static int witness_body(int rank, int ranks, void *arg)
{
    struct job job;
    struct watch watch;
    struct touched touched;
    weft_comm_stats moved;
    (void)ranks, (void)arg;
    uint8_t *memory = malloc(ROOM);
    CHECK(memory && open_job(&job, rank) == 0);
    CHECK(watch_begin(&watch, &job) == 0);
    CHECK(pass(&watch, memory + GUARD, EAGER, 1, 1) == 0);
    CHECK(watch_end(&watch, &touched, &moved) == 0);
    CHECK(touched.frames == 1 && touched.pooled == 0);
    CHECK(moved.bytes_direct == 0);

    CHECK(watch_begin(&watch, &job) == 0);
    memset(memory, 0, ROOM);
    CHECK_OK(weft_allreduce(job.comm, memory, memory, ROOM / 8, WEFT_FLOAT64, WEFT_SUM, NULL));
    CHECK(watch_end(&watch, &touched, &moved) == 0);
    CHECK(touched.frames == 0 && touched.pooled > 0);
    CHECK(moved.bytes_direct > 0 && moved.bytes_staged == 0);
    CHECK_OK(job_close(&job));
    free(memory);
    return 0;
}

static void the_witness_sees_what_passes(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, witness_body, NULL), 0);
}

/* Sizes at which something changes, and primes. */
static const size_t sizes[] = {
    EAGER + 1, 8209,  3 * 4096 - 1, 3 * 4096,      3 * 4096 + 1, 40009,
    SLICE - 1, SLICE, SLICE + 1,    2 * SLICE - 1, 2 * SLICE,    2 * SLICE + 1,
};
#define SIZES (sizeof sizes / sizeof sizes[0])

/* Where messages begin, by kind and number: all ends of words, lines and pages. */
static const size_t starts[] = {GUARD, 4096, 65, 4095, 67, 4097, 71, 4099};

static int kinds_body(int rank, int ranks, void *arg)
{
    struct job job;
    struct watch watch;
    uint8_t *memory[KINDS];
    int pair_step = *(const int *)arg;
    (void)ranks;
    CHECK(open_job(&job, rank) == 0);
    for (int kind = 0; kind < KINDS; kind++)
        CHECK(memory_get(&job, (enum kind)kind, &memory[kind]) == 0);
    uint32_t message = 0;
    for (int pair = 0; pair < KINDS * KINDS; pair += pair_step) {
        int kind = rank == 0 ? pair / KINDS : pair % KINDS;
        uint64_t bytes = 0;
        CHECK(watch_begin(&watch, &job) == 0);
        for (size_t i = 0; i < 2 * SIZES; i++, message++) {
            size_t size = sizes[i % SIZES], start = starts[(message * (rank ? 3 : 1) + (uint32_t)pair) % 8];
            CHECK(pass(&watch, memory[kind] + start, size, message, i >= SIZES) == 0);
            bytes += size;
        }
        CHECK(watch_prove(&watch, is_receiver(&job) ? bytes : 0) == 0);
    }
    for (int kind = 0; kind < KINDS; kind++)
        CHECK(memory_put(&job, (enum kind)kind, memory[kind]) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void any_memory_and_size(void **state)
{
    int all = 1;
    (void)state;
    assert_int_equal(test_ranks_fork(2, kinds_body, &all), 0);
}

/* Large messages are cut over several queue pairs. */
static void cut_over_queue_pairs(void **state)
{
    int same_kinds = KINDS + 1;
    (void)state;
    setenv("WEFT_VERBS_QPS", "3", 1);
    setenv("WEFT_VERBS_STRIPE", "16384", 1);
    assert_int_equal(test_ranks_fork(2, kinds_body, &same_kinds), 0);
    unsetenv("WEFT_VERBS_QPS");
    unsetenv("WEFT_VERBS_STRIPE");
}

/* weft copies nothing either where libfabric's provider moves the bytes. */
static void over_libfabric(void **state)
{
    int same_kinds = KINDS + 1;
    char address[64];
    (void)state;
    const char *reason = test_rdma_address(0, address, sizeof address);
    if (reason)
        TEST_SKIP("%s", reason);
    setenv("FI_UNIVERSE_SIZE", "32", 0); /* docs/providers.md */
    if (!job_has_ofi(OFI))
        skip();
    over_ofi = 1;
    int failed = test_ranks_fork(2, kinds_body, &same_kinds);
    over_ofi = 0;
    assert_int_equal(failed, 0);
}

static size_t outstanding_size(int message)
{
    return EAGER + 1 + (size_t)message % 61;
}

/* Starts this rank's side of all of them; the receives in the other order. */
static int outstanding_start(const struct job *job, uint8_t *memory, size_t stride, weft_work **works)
{
    for (int m = 0; m < MESSAGES; m++) {
        int at = is_receiver(job) ? MESSAGES - 1 - m : m;
        uint8_t *own = memory + (size_t)at * stride;
        size_t size = outstanding_size(at);
        if (is_receiver(job)) {
            CHECK_OK(weft_recv(job->comm, own, size, WEFT_UINT8, 0, at, NULL, WEFT_START(&works[at])));
        } else {
            fill(own, size, (uint32_t)at);
            CHECK_OK(weft_send(job->comm, own, size, WEFT_UINT8, 1, at, WEFT_START(&works[at])));
        }
    }
    return 0;
}

/* All of one side are there, and none is done, before the first of the other is; the sends, or the receives. */
static int outstanding_side(struct watch *watch, uint8_t *memory, size_t stride, int first_receives)
{
    static weft_work *works[MESSAGES];
    const struct job *job = watch->job;
    int first = is_receiver(job) == first_receives;
    memset(memory, 0, MESSAGES * stride);
    if (first) {
        CHECK(outstanding_start(job, memory, stride, works) == 0);
        for (int m = 0; m < MESSAGES; m++)
            CHECK(weft_work_wait(works[m], 0) == WEFT_AGAIN);
    }
    CHECK(meet(watch) == 0);
    if (!first)
        CHECK(outstanding_start(job, memory, stride, works) == 0);
    for (int m = 0; m < MESSAGES; m++) {
        CHECK_OK(weft_work_wait(works[m], -1));
        weft_work_free(works[m]);
    }
    for (int m = 0; m < MESSAGES && is_receiver(job); m++)
        CHECK_BITS(count_wrong(memory + (size_t)m * stride, outstanding_size(m), (uint32_t)m) == 0);
    CHECK(meet(watch) == 0); /* what was sent is kept until then */
    return 0;
}

static int outstanding_body(int rank, int ranks, void *arg)
{
    struct job job;
    struct watch watch;
    uint64_t bytes = 0;
    size_t stride = EAGER + 64;
    (void)ranks, (void)arg;
    uint8_t *memory = malloc(MESSAGES * stride);
    CHECK(memory && open_job(&job, rank) == 0);
    CHECK(watch_begin(&watch, &job) == 0);
    for (int m = 0; m < MESSAGES; m++)
        bytes += 2 * outstanding_size(m);
    CHECK(outstanding_side(&watch, memory, stride, 0) == 0);
    CHECK(outstanding_side(&watch, memory, stride, 1) == 0);
    CHECK(watch_prove(&watch, is_receiver(&job) ? bytes : 0) == 0);
    free(memory);
    CHECK_OK(job_close(&job));
    return 0;
}

static void a_thousand_outstanding(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, outstanding_body, NULL), 0);
}

/* --- memory that cannot be written */

/* ROOM bytes that hold a message. */
static int read_only_get(const struct job *job, int kind, uint32_t message, uint8_t **memory)
{
    uint8_t *bytes = malloc(ROOM);
    CHECK(bytes);
    fill(bytes, ROOM, message);
    *memory = read_only_make(kind < READ_ONLY_KINDS ? (enum read_only_kind)kind : READ_ONLY_OWN, bytes, ROOM);
    free(bytes);
    CHECK(*memory);
    if (kind == READ_ONLY_KINDS)
        CHECK_OK(weft_mem_register(job->context, *memory, ROOM));
    return 0;
}

/* Sent from in several ways; then it can be written again, and is received into. */
static int read_only_kind(struct job *job, int kind)
{
    struct watch watch;
    uint8_t *memory;
    uint32_t message = (uint32_t)kind;
    uint64_t bytes = 0;
    int receives = is_receiver(job);
    if (receives)
        CHECK(memory_get(job, ORDINARY, &memory) == 0);
    else
        CHECK(read_only_get(job, kind, message, &memory) == 0);
    CHECK(watch_begin(&watch, job) == 0);
    for (size_t i = 0; i < SIZES; i += 3) {
        size_t size = sizes[i];
        bytes += size;
        if (receives)
            CHECK(receive(&watch, memory + starts[i % 8], size, message, i % 2) == 0);
        else
            CHECK(send(&watch, memory, size, message, i % 2) == 0);
    }
    CHECK(watch_prove(&watch, receives ? bytes : 0) == 0);
    if (receives) {
        fill(memory, ROOM, 77);
        CHECK_OK(weft_send(job->comm, memory, ROOM, WEFT_UINT8, 0, 5, NULL));
        return memory_put(job, ORDINARY, memory);
    }
    if (kind == READ_ONLY_KINDS) /* what it was when it was registered holds until then */
        CHECK_OK(weft_mem_deregister(job->context, memory));
    CHECK(mprotect(memory, ROOM, PROT_READ | PROT_WRITE) == 0);
    CHECK_OK(weft_recv(job->comm, memory, ROOM, WEFT_UINT8, 1, 5, NULL, NULL));
    CHECK_BITS(count_wrong(memory, ROOM, 77) == 0);
    munmap(memory, ROOM);
    return 0;
}

static int read_only_body(int rank, int ranks, void *arg)
{
    struct job job;
    uint8_t *memory;
    (void)ranks, (void)arg;
    CHECK(open_job(&job, rank) == 0);
    for (int kind = 0; kind <= READ_ONLY_KINDS; kind++)
        CHECK(read_only_kind(&job, kind) == 0);
    CHECK(read_only_get(&job, READ_ONLY_OWN, 9, &memory) == 0);
    if (rank == 0) {
        CHECK(weft_send(job.comm, memory, ROOM, WEFT_UINT8, 1, 6, NULL) != WEFT_OK);
    } else {
        int status = weft_recv(job.comm, memory, ROOM, WEFT_UINT8, 0, 6, NULL, NULL);
        CHECK(status == WEFT_INVALID && strstr(weft_error_detail(), "it was read-only"));
        CHECK_BITS(count_wrong(memory, ROOM, 9) == 0);
    }
    job_close(&job);
    munmap(memory, ROOM);
    return 0;
}

static void read_only_memory_is_sent_from(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, read_only_body, NULL), 0);
}

/* --- collectives */

enum { COLLECTIVES = 4, BLOCK = 100003 };

/* Collectives that add nothing up: every byte goes from the sender's memory into the receiver's. */
static int copy_around(const struct job *job, int which, int in_place, uint8_t *send, uint8_t *recv)
{
    int rank = weft_comm_rank(job->comm);
    uint8_t *own = in_place ? recv + (size_t)rank * BLOCK : send;
    memset(recv, 0xcc, 2 * BLOCK);
    fill(own, BLOCK, (uint32_t)rank);
    if (which == 0) {
        CHECK_OK(weft_allgather(job->comm, own, recv, BLOCK, WEFT_UINT8, NULL));
        CHECK_BITS(count_wrong(recv, BLOCK, 0) == 0 && count_wrong(recv + BLOCK, BLOCK, 1) == 0);
    } else {
        uint8_t *to = in_place ? own : recv;
        CHECK_OK(weft_broadcast(job->comm, own, to, BLOCK, WEFT_UINT8, 1, NULL));
        CHECK_BITS(count_wrong(to, BLOCK, 1) == 0);
    }
    return 0;
}

static int add_up(const struct job *job, int which, int in_place, uint8_t *send, uint8_t *recv)
{
    int rank = weft_comm_rank(job->comm);
    size_t count = BLOCK / 4 * 2;
    uint8_t *from = in_place && which == 2 ? recv : send;
    job_fill(from, WEFT_FLOAT32, rank, count);
    if (which == 2) {
        CHECK_OK(weft_allreduce(job->comm, from, recv, count, WEFT_FLOAT32, WEFT_SUM, NULL));
        CHECK_BITS(job_wrong(recv, WEFT_FLOAT32, WEFT_SUM, 2, count) == 0);
        return 0;
    }
    uint8_t *to = in_place ? send + (size_t)rank * (count / 2) * 4 : recv;
    uint8_t *whole = malloc(count * 4);
    CHECK(whole);
    CHECK_OK(weft_reduce_scatter(job->comm, from, to, count / 2, WEFT_FLOAT32, WEFT_SUM, NULL));
    CHECK_OK(weft_allgather(job->comm, to, whole, count / 2, WEFT_FLOAT32, NULL));
    CHECK_BITS(job_wrong(whole, WEFT_FLOAT32, WEFT_SUM, 2, count) == 0);
    free(whole);
    return 0;
}

static int collectives_body(int rank, int ranks, void *arg)
{
    struct job job;
    struct watch watch;
    struct touched touched;
    weft_comm_stats moved;
    (void)ranks, (void)arg;
    uint8_t *send = malloc(2 * BLOCK), *recv = malloc(2 * BLOCK);
    CHECK(send && recv && open_job(&job, rank) == 0);
    for (int which = 0; which < COLLECTIVES; which++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            CHECK(watch_begin(&watch, &job) == 0);
            CHECK((which < 2 ? copy_around : add_up)(&job, which, in_place, send, recv) == 0);
            CHECK(watch_end(&watch, &touched, &moved) == 0);
            CHECK(moved.bytes_staged == 0 && moved.bytes_eager == 0 && touched.frames == 0);
            CHECK(moved.bytes_direct >= BLOCK - 3 || (which == 1 && rank == 1)); /* the root gets nothing */
            CHECK(which > 1 || touched.pooled == 0);
        }
    }
    free(send);
    free(recv);
    CHECK_OK(job_close(&job));
    return 0;
}

static void collectives_stage_nothing(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(2, collectives_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_witness_sees_what_passes), cmocka_unit_test(any_memory_and_size),
        cmocka_unit_test(cut_over_queue_pairs),         cmocka_unit_test(over_libfabric),
        cmocka_unit_test(a_thousand_outstanding),       cmocka_unit_test(read_only_memory_is_sent_from),
        cmocka_unit_test(collectives_stage_nothing),
    };
    const char *reason = test_rdma_absent(0);
    if (reason) {
        printf("SKIP: %s\n", reason);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
