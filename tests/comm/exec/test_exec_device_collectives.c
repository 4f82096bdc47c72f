/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* Operations as programs of a simulated device: what ranks agree on when some vote late, or not at all. That the results are right:
 * test_exec_device.c. When ranks fail or lie: test_exec_device_collective_fails.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>
#include <weft/weft.h>

#include "comm/exec/device/votes.h"
#include "devmem/claim.h"
#include "tests/support/exec_few.h"

/* Back to back, of all sizes: all but the first are programs, and where a rank is on the host none. */
static void test_one_by_one(void **state)
{
    (void)state;
    few_open(12, 0, NULL);
    few_one_by_one(0, 12);
    few_expect_sums(12);
    assert_in_range(few_collectives(), 10, 11);
    few_close();
    few_open(12, 2, NULL);
    few_one_by_one(0, 12);
    few_expect_sums(12);
    assert_in_range(few_collectives(), 6, 7);
    few_close();
}

/* Ranks begin them at different times, up to all of them apart. */
static void many_at_a_time(uint32_t hosts, uint32_t lag)
{
    few_open(FEW_OPS, hosts, NULL);
    few_one_by_one(0, 2);
    for (uint32_t n = 2; n < FEW_OPS + lag * (FEW_RANKS - 1); n++) {
        for (uint32_t r = 0; r < FEW_RANKS; r++) {
            uint32_t behind = (r + n / 7) % FEW_RANKS * lag;
            while (n >= behind && few.works[n - behind < FEW_OPS ? n - behind : FEW_OPS - 1][r].op == NULL) {
                uint32_t next = 2;
                while (few.works[next][r].op)
                    next++;
                few_start(next, r);
            }
        }
        few_turn(n % 3);
    }
    assert_int_equal(few_turn_until(FEW_OPS), 0);
    few_expect_sums(FEW_OPS);
    few_collectives();
    few_close();
}

static void test_many(void **state)
{
    (void)state;
    many_at_a_time(0, 0);
    many_at_a_time(0, 5);
    many_at_a_time(1, 3);
    many_at_a_time(6, FEW_OPS);
}

/* A rank comes late to the call; the others have voted. It is said whom they wait for. */
static void test_late_rank(void **state)
{
    (void)state;
    char text[300];
    few_open(3, 0, NULL);
    few_one_by_one(0, 2);
    uint64_t before = few_collectives();
    for (uint32_t r = 0; r < FEW_RANKS; r++) {
        if (r != 1)
            few_start(2, r);
    }
    few_turn(200);
    weft_exec_describe(few.works[2][0].op, text, sizeof text);
    assert_non_null(strstr(text, "waits for rank 1 to begin it"));
    few_start(2, 1);
    assert_int_equal(few_turn_until(3), 0);
    few_expect_sums(3);
    assert_int_equal(few_collectives(), before + 1);
    few_close();
}

/* --- a device on which programs of one process do not get on beside each other */

static int describe_alone(struct weft_device *device, int ordinal, struct weft_device_info *info)
{
    int status = sim_scene.sim->ops.describe(device, ordinal, info);
    info->flags &= ~(uint32_t)WEFT_DEVICE_COLLECTIVES_BESIDE;
    return status;
}

/* Each rank on the device of that number, or all on one. */
static void place_alone(struct weft_device_kind *alone, uint32_t ops, int on_one)
{
    *alone = *sim_scene.sim;
    alone->ops.describe = describe_alone;
    for (uint32_t n = 0; n < ops; n++) {
        for (uint32_t r = 0; r < FEW_RANKS; r++) {
            struct weft_exec_request *request = &few.works[n][r].request;
            weft_command_queue_put(request->commands);
            assert_int_equal(
                weft_command_queue_get(sim_scene.queues, alone, on_one ? 0 : (int)r, &request->commands), 0);
        }
    }
}

/* Ranks that share a device have none; and while another communicator has a device's collectives, nobody votes for more. */
static void test_alone(void **state)
{
    (void)state;
    struct weft_device_kind alone;
    few_open_on("sim:seed=7,devices=3", 6, 0, NULL);
    place_alone(&alone, 6, 0);
    few_one_by_one(0, 2);
    uint64_t before = few_collectives();
    assert_in_range(before, 0, 1);
    assert_int_equal(weft_claim_take("sim", 1), 1);
    assert_int_equal(weft_claim_take("sim", 1), 0);
    few_one_by_one(2, 4);
    assert_int_equal(few_collectives(), before);
    weft_claim_give("sim", 1);
    few_one_by_one(4, 6);
    few_expect_sums(6);
    assert_int_equal(few_collectives(), before + 2);
    for (int ordinal = 0; ordinal < FEW_RANKS; ordinal++) {
        assert_int_equal(weft_claim_take("sim", ordinal), 1);
        weft_claim_give("sim", ordinal);
    }
    few_close();
    few_open(6, 0, NULL);
    place_alone(&alone, 6, 1);
    few_one_by_one(0, 6);
    few_expect_sums(6);
    assert_int_equal(few_collectives(), 0);
    few_close();
}

/* --- the choice */

static struct weft_device_collective_class *class_of(uint32_t rank)
{
    return weft_device_collective_class_of(few.works[0][rank].op);
}

/* All ranks come to the same; what one rank has measured counts for all. */
static void expect_choice(uint32_t slow, enum weft_device_collective_way slow_way)
{
    uint32_t done = 1;
    few.mode = WEFT_DEVICE_COLLECTIVE_AUTO;
    few.count = 700;
    few_open(FEW_OPS, 0, NULL);
    few_one_by_one(0, 1);
    for (; class_of(0)->decided < 6 && done < 12; done++)
        few_one_by_one(done, done + 1);
    uint64_t before = few_collectives();
    assert_int_equal(before, 3); /* tried */
    for (uint32_t r = 0; r < FEW_RANKS; r++) {
        assert_int_equal(class_of(r)->decided, 6);
        assert_true(class_of(r)->cost_ns[WEFT_WAY_PLAN] > 0 && class_of(r)->cost_ns[WEFT_WAY_COLLECTIVE] > 0);
        class_of(r)->cost_ns[slow_way] = r == slow ? 2000000000 : 1;
    }
    few_one_by_one(done, FEW_OPS);
    few_expect_sums(FEW_OPS);
    for (uint32_t r = 0; r < FEW_RANKS; r++) {
        assert_int_equal(class_of(r)->is_settled, 1);
        assert_int_equal(class_of(r)->way, 1 - slow_way);
    }
    assert_int_equal(few_collectives(), slow_way == WEFT_WAY_PLAN ? before + FEW_OPS - done : before);
    few_close();
    few.mode = WEFT_DEVICE_COLLECTIVE_ALWAYS;
    few.count = 0;
}

static void test_choice(void **state)
{
    (void)state;
    expect_choice(1, WEFT_WAY_COLLECTIVE);
    expect_choice(2, WEFT_WAY_PLAN);
}

/* Every second operation is rank 1's on the host, among them every sixteenth: votes for them come to nothing. Those for the others of the
 * same size do not go with them. */
static void test_turns(void **state)
{
    (void)state;
    few.mode = WEFT_DEVICE_COLLECTIVE_AUTO;
    few.count = 700;
    few_open(FEW_OPS, 0, NULL);
    for (uint32_t n = 0; n < FEW_OPS; n += 2)
        few.works[n][1].request.on_host = WEFT_SHADOW_NONE;
    few_one_by_one(0, FEW_OPS);
    few_expect_sums(FEW_OPS);
    assert_in_range(few_collectives(), 3, FEW_OPS / 2);
    few_close();
    few.mode = WEFT_DEVICE_COLLECTIVE_ALWAYS;
    few.count = 0;
}

/* Whether two ranks vote for the first operation of a round; the size is the same in all. */
static void expect_votes(uint32_t round, int one, int other)
{
    for (uint32_t r = 0; r < 2; r++) {
        few.works[0][r].op->sequence = 16 * round;
        assert_int_equal(weft_device_collective_class_votes(few.works[0][r].op), r ? other : one);
    }
}

static void refuse(uint32_t rank, uint32_t round)
{
    few.works[0][rank].op->sequence = 16 * round + 5;
    weft_device_collective_refused(few.works[0][rank].op);
}

/* Rounds without votes: fewer at a rank that has had fewer votes in vain. A size that occurs in few rounds, and none whose number is a
 * multiple, is voted for again, too. */
static void test_rounds(void **state)
{
    static const uint32_t firsts[] = {0, UINT32_C(0x0fffffc0)}; /* the latter end where numbers begin again */
    (void)state;
    few.mode = WEFT_DEVICE_COLLECTIVE_AUTO;
    few.count = 700;
    for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++) {
        uint32_t first = firsts[f];
        few_open(1, 0, NULL);
        few_one_by_one(0, 1);
        expect_votes(first, 1, 1);
        refuse(0, first + 1);
        expect_votes(first + 1, 1, 1); /* to its end */
        expect_votes(first + 2, 1, 1);
        expect_votes(first + 3, 1, 1);
        refuse(0, first + 3);
        expect_votes(first + 5, 1, 1);
        refuse(0, first + 5);
        refuse(0, first + 5);
        refuse(1, first + 5);
        expect_votes(first + 6, 0, 1);
        expect_votes(first + 7, 0, 1);
        expect_votes(first + 8, 1, 1);
        for (uint32_t round = 8; round < 40; round += 8)
            refuse(0, first + round);
        refuse(1, first + 62);
        expect_votes(first + 63, 0, 0);
        expect_votes(first + 64, 1, 1);
        expect_votes(first + 65, 1, 1);
        few_close();
    }
    few.mode = WEFT_DEVICE_COLLECTIVE_ALWAYS;
    few.count = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_by_one), cmocka_unit_test(test_many),   cmocka_unit_test(test_late_rank),
        cmocka_unit_test(test_alone),      cmocka_unit_test(test_choice), cmocka_unit_test(test_turns),
        cmocka_unit_test(test_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
