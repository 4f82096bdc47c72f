/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* Operations as programs of a simulated device when a rank fails, leaves or lies. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>
#include <weft/weft.h>

#include "comm/exec/device/votes.h"
#include "tests/support/command_queue_stall.h"
#include "tests/support/exec_few.h"

static struct {
    int is_due;
    uint32_t votes;
} trouble;

/* Rank 1 ends when all have voted, and it has not seen all votes: the others run a program that will never end. */
static void end_rank_1(struct weft_wire_header *header, uint8_t *payload, size_t *size)
{
    (void)payload, (void)size;
    if (header->kind != WEFT_WIRE_VOTE || !trouble.is_due || ++trouble.votes < FEW_RANKS * (FEW_RANKS - 1))
        return;
    trouble.is_due = 0;
    weft_exec_fail(exec_world_rank(few.world, 1), WEFT_PEER_FAILED);
}

static void expect_untouched(uint32_t number, uint32_t rank, const int32_t *as)
{
    const struct few_work *work = &few.works[number][rank];
    assert_memory_equal(work->output, as, work->count * sizeof(int32_t));
}

/* The other ranks' programs run, and rank 1 has ended. */
static void lose_rank_1(void)
{
    few_open(3, 0, end_rank_1);
    few_one_by_one(0, 2);
    trouble.votes = 0;
    trouble.is_due = 1;
    for (uint32_t r = 0; r < FEW_RANKS; r++)
        few_start(2, r);
    few_turn(300);
    assert_int_equal(trouble.is_due, 0);
    int waiting = 0;
    for (uint32_t r = 0; r < FEW_RANKS; r++)
        waiting += few_status(2, r) == WEFT_AGAIN;
    assert_int_equal(waiting, 2);
    assert_int_equal(few_status(2, 1), WEFT_PEER_FAILED);
}

/* The ranks that are left hear of it; what they had on the device ends, and writes nothing later. */
static void test_peer_ends(void **state)
{
    (void)state;
    int32_t after[FEW_RANKS][2000];
    lose_rank_1();
    for (uint32_t r = 0; r < FEW_RANKS; r++) {
        weft_exec_fail(exec_world_rank(few.world, r), WEFT_PEER_FAILED);
        assert_int_equal(few_status(2, r), WEFT_PEER_FAILED);
        memcpy(after[r], few.works[2][r].output, few.works[2][r].count * sizeof(int32_t));
    }
    usleep(20000);
    for (uint32_t r = 0; r < FEW_RANKS; r++)
        expect_untouched(2, r, after[r]);
    few_close();
}

static void *end_the_others(void *is_reported)
{
    usleep(50000);
    atomic_store((atomic_int *)is_reported, 1);
    for (uint32_t r = 0; r < FEW_RANKS; r += 2)
        weft_exec_fail(exec_world_rank(few.world, r), WEFT_PEER_FAILED);
    return NULL;
}

/* Who leaves waits until programs of its process, which may write into its mailbox, have ended. */
static void test_leaving(void **state)
{
    (void)state;
    pthread_t others;
    atomic_int is_reported = 0;
    lose_rank_1();
    assert_int_equal(pthread_create(&others, NULL, end_the_others, &is_reported), 0);
    weft_device_collectives_free(exec_world_rank(few.world, 1));
    assert_int_equal(atomic_load(&is_reported), 1);
    assert_int_equal(pthread_join(others, NULL), 0);
    few_close();
}

struct channel {
    struct command_queue_stall stall;
    const uint64_t *stop;
};

/* A device serves one queue only when the program in another one has ended. */
static void *serve_after_collective(void *arg)
{
    struct channel *channel = arg;
    while (!__atomic_load_n(channel->stop, __ATOMIC_ACQUIRE))
        usleep(100);
    command_queue_stall_end(&channel->stall);
    return NULL;
}

/* Of an operation that ends before the one with the program all work is waited for, too. */
static void test_collective_is_reported_first(void **state)
{
    (void)state;
    struct channel channel;
    pthread_t thread;
    few_open(4, 1, end_rank_1);
    few_one_by_one(0, 2);
    struct weft_command_queue *commands = few.works[2][0].request.commands;
    command_queue_stall_open(&channel.stall, sim_scene.sim);
    assert_int_equal(command_queue_stall_put(&channel.stall, commands), 0);
    channel.stop = exec_world_rank(few.world, 0)->collectives->mailbox.pinned;
    for (uint32_t r = 0; r < FEW_RANKS; r++)
        few_start(2, r);
    few_turn(300);
    trouble.votes = 0;
    trouble.is_due = 1;
    for (uint32_t r = 0; r < FEW_RANKS; r++)
        few_start(3, r);
    few_turn(300);
    assert_int_equal(trouble.is_due, 0);
    assert_int_equal(few_status(2, 0), WEFT_AGAIN);
    assert_int_equal(few_status(3, 0), WEFT_AGAIN);
    assert_int_equal(pthread_create(&thread, NULL, serve_after_collective, &channel), 0);
    for (uint32_t r = 0; r < FEW_RANKS; r++)
        weft_exec_fail(exec_world_rank(few.world, r), WEFT_PEER_FAILED);
    assert_true(weft_command_queue_is_idle(commands)); /* all was done in the time that there is */
    assert_true(weft_command_queue_is_idle(few.works[3][0].request.commands));
    assert_int_equal(pthread_join(thread, NULL), 0);
    command_queue_stall_close(&channel.stall);
    few_close();
}

/* Operations that are freed while they wait for votes. */
static void test_freed_early(void **state)
{
    (void)state;
    few_open(3, 0, NULL);
    few_one_by_one(0, 2);
    few_start(2, 0);
    few_turn(50);
    few_close();
}

/* --- what a rank may announce */

static enum lie {
    LIE_UNALIGNED,
    LIE_OUTSIDE,
    LIE_OVER_WORDS,
    LIE_BYTES,
    LIE_LONG,
    LIE_MAILBOX_LONG,
    LIE_MAILBOX_EMPTY,
    LIE_MAILBOX_LARGE,
    LIE_MAILBOX_TWICE,
    LIE_SHARE,
} lie;

/* Rank 2 lies. */
static void mangle(struct weft_wire_header *header, uint8_t *payload, size_t *size)
{
    struct weft_wire_vote vote;
    struct weft_wire_mailbox mailbox;
    if (header->source != 2)
        return;
    if (header->kind == WEFT_WIRE_VOTE && header->size) {
        memcpy(&vote, payload, sizeof vote);
        vote.offset = lie == LIE_UNALIGNED    ? vote.offset + 8
                      : lie == LIE_OUTSIDE    ? UINT64_MAX - 63
                      : lie == LIE_OVER_WORDS ? 64
                                              : vote.offset;
        vote.bytes += lie == LIE_BYTES ? 64 : 0;
        memcpy(payload, &vote, sizeof vote);
        *size += lie == LIE_LONG;
        if (lie == LIE_MAILBOX_TWICE) {
            header->kind = WEFT_WIRE_MAILBOX;
            header->size = 0;
            *size = 0;
        }
    }
    if (header->kind == WEFT_WIRE_MAILBOX && header->size) {
        memcpy(&mailbox, payload, sizeof mailbox);
        mailbox.bytes = lie == LIE_MAILBOX_EMPTY   ? 0
                        : lie == LIE_MAILBOX_LARGE ? mailbox.bytes << 1
                                                   : mailbox.bytes;
        mailbox.share.bytes[0] ^= lie == LIE_SHARE ? 0x80 : 0;
        memcpy(payload, &mailbox, sizeof mailbox);
        *size += lie == LIE_MAILBOX_LONG;
    }
}

static void test_lies(void **state)
{
    (void)state;
    static const struct {
        enum lie lie;
        const char *part;
    } lies[] = {
        {LIE_UNALIGNED, "of its mailbox of"},
        {LIE_OUTSIDE, "of its mailbox of"},
        {LIE_OVER_WORDS, "of its mailbox of"},
        {LIE_BYTES, "rank 2 expects"},
        {LIE_LONG, "a vote of rank 2 for operation"},
        {LIE_MAILBOX_LONG, "rank 2 announces a mailbox, in 281 bytes"},
        {LIE_MAILBOX_EMPTY, "rank 2 announces a mailbox of 0 bytes: expected at least 192"},
        {LIE_MAILBOX_LARGE, "bytes of device memory: expected"},
        {LIE_MAILBOX_TWICE, "rank 2 announces a mailbox, in 0 bytes"},
        {LIE_SHARE, "a description of device memory has version"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        int status = WEFT_OK;
        const char *why = NULL;
        lie = lies[i].lie;
        few_open(4, 0, mangle);
        for (uint32_t n = 0; n < 4 && status == WEFT_OK; n++) {
            for (uint32_t r = 0; r < FEW_RANKS; r++)
                few_start(n, r);
            status = few_turn_until(n + 1);
        }
        assert_int_equal(status, WEFT_PROTOCOL);
        for (uint32_t r = 0; r < FEW_RANKS && !why; r++)
            why = exec_world_failure(few.world, r, &status);
        if (!why || !strstr(why, lies[i].part))
            fail_msg("lie %zu: %s: expected %s", i, why ? why : "nothing", lies[i].part);
        few_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peer_ends),   cmocka_unit_test(test_collective_is_reported_first),
        cmocka_unit_test(test_freed_early), cmocka_unit_test(test_leaving),
        cmocka_unit_test(test_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
