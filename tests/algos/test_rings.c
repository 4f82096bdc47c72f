/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (plans are computed) */
/* Plans over several rings, one per rail: for every rank count, rings of real layouts and such as pass hosts at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "tests/support/plan_cases.h"
#include "tests/support/plan_hosts.h"
#include "tests/support/plan_proof.h"
#include "tests/support/effort.h"
#include "topo/order.h"

/* What goes along several rings, on these hosts, in the narrowest window and one more; of many ranks only a part. */
static void expect_rings(const struct weft_hosts *hosts, uint32_t window)
{
    struct plan_cases cases = plan_cases_on(hosts, hosts->ranks > 20 ? 1 : 2);
    while (plan_cases_next(&cases)) {
        const uint32_t windows[] = {2, window};
        int rings = cases.request.algorithm == WEFT_ALGO_RING || cases.request.algorithm == WEFT_ALGO_CHAIN;
        if (!rings || weft_collective_blocks(cases.request.collective))
            continue;
        if (hosts->ranks > 20 && cases.request.in_place != (int)(hosts->ranks / 4 % 2))
            continue;
        struct weft_plan **plans = plan_proof_make(cases.request);
        for (size_t i = 0; i < 2; i++) {
            if (hosts->ranks <= 20 || i == hosts->ranks % 2)
                plan_proof_expect(&cases.request, plans, &(struct weft_verify_options){.window = windows[i]});
        }
        if (hosts->ranks > 1)
            assert_int_equal(plans[0]->chunks % weft_hosts_rings(hosts), 0);
        weft_plans_free(plans, hosts->ranks);
    }
}

/* Rings of real layouts, of hosts that are alike and not, and rings that pass each host at random. */
static void test_rings(void **state)
{
    (void)state;
    uint32_t seen = 0, more = getenv("WEFT_LONG") != NULL;
    for (uint32_t ranks = 1, last = plan_proof_ranks(64, 20); ranks <= last; ranks++) {
        for (uint32_t rings = 2; rings <= 8; rings++) {
            uint32_t seed = ranks * 3 + rings, window = 3 + seed * 7 % 62;
            if (ranks > 9 && test_left_out(ranks + rings, 6, 6))
                continue;
            for (uint32_t i = 0; i < (more ? 8 : ranks > 20 ? 1 : 2); i++) {
                struct weft_hosts *hosts = plan_hosts_railed(ranks, rings, seed + i);
                seen |= 1u << weft_hosts_rings(hosts);
                expect_rings(hosts, window);
                weft_hosts_free(hosts);
            }
            struct weft_hosts *hosts = plan_hosts_rings(ranks, rings, seed);
            assert_int_equal(weft_hosts_rings(hosts), rings);
            expect_rings(hosts, window);
            weft_hosts_free(hosts);
        }
    }
    assert_int_equal(seen & 0x1fe, 0x1fe); /* 1 to 8 */
    struct weft_hosts *most = plan_hosts_rings(9, WEFT_HOSTS_RINGS_MAX, 1);
    expect_rings(most, 32);
    weft_hosts_free(most);
}

/* The record with one ring's numbers in place of the plan's; peers by their places. */
static struct weft_step in_ring(const struct weft_hosts *hosts, struct weft_step step, uint32_t ring)
{
    uint32_t rings = weft_hosts_rings(hosts);
    struct weft_ref *refs[] = {&step.destination, &step.sources[0], &step.sources[1], &step.sources[2]};
    step.chunk /= rings;
    step.chunk_stride /= (int32_t)rings;
    for (int i = 0; i < 4; i++) {
        refs[i]->slot = (uint16_t)(refs[i]->slot / rings);
        refs[i]->slot_stride = (int16_t)(refs[i]->slot_stride / (int)rings);
    }
    if (step.kind == WEFT_STEP_SEND || step.kind == WEFT_STEP_RECV)
        step.peer =
            (int32_t)weft_hosts_ring_place(hosts, ring, weft_hosts_position(hosts, (uint32_t)step.peer));
    return step;
}

/* Whether the rank's plan is, ring by ring, the plan of who has its place in a job of one ring. */
static int divides(const struct weft_hosts *hosts, const struct weft_plan *plan)
{
    uint32_t rings = weft_hosts_rings(hosts), position = weft_hosts_position(hosts, plan->rank);
    for (uint32_t ring = 0; ring < rings; ring++) {
        struct weft_plan_request request = {.collective = (enum weft_collective)plan->collective,
                                            .algorithm = (enum weft_algorithm)plan->algorithm,
                                            .ranks = plan->ranks,
                                            .rank = weft_hosts_ring_place(hosts, ring, position),
                                            .root = -1};
        struct weft_plan *one;
        uint32_t next = 0, same = 1;
        assert_int_equal(weft_plan_make(&request, &one), WEFT_OK);
        for (uint32_t i = 0; i < plan->step_count && same; i++) {
            struct weft_step step = plan->steps[i];
            if (step.kind == WEFT_STEP_LOOP)
                step.body /= rings;
            else if (step.chunk % rings != ring)
                continue;
            else
                step = in_ring(hosts, step, ring);
            same = next < one->step_count && memcmp(&step, &one->steps[next++], sizeof step) == 0;
        }
        same &= next == one->step_count && one->chunks * rings == plan->chunks;
        weft_plan_free(one);
        if (!same)
            return 0;
    }
    return 1;
}

/* Large jobs over 8 rings. An allreduce of 10,240 ranks by ring has 4 * 10^9 steps, so that smaller ones are run, and of the
 * large one it is shown that each ring has the plan for one ring (which is proven elsewhere), with the rings' records in the
 * same order on all ranks. */
static void test_large_rings(void **state)
{
    (void)state;
    uint32_t large = plan_proof_ranks(10240, 160);
    struct weft_hosts *hosts = plan_hosts_railed(plan_proof_ranks(160, 80), 8, 4);
    assert_int_equal(weft_hosts_rings(hosts), 8);
    plan_proof_expect_large(hosts, WEFT_ALLREDUCE, WEFT_ALGO_RING, -1);
    weft_hosts_free(hosts);
    hosts = plan_hosts_railed(large, 8, 6);
    assert_int_equal(weft_hosts_rings(hosts), 8);
    plan_proof_expect_large(hosts, WEFT_BROADCAST, WEFT_ALGO_CHAIN, (int)large / 3);
    plan_proof_expect_large(hosts, WEFT_REDUCE, WEFT_ALGO_CHAIN, (int)large - 1);
    struct weft_plan_request request = {WEFT_ALLREDUCE, WEFT_ALGO_RING, large, 0, 0, -1, 0, 0, hosts};
    struct weft_plan **plans = plan_proof_make(request);
    assert_in_range(plans[0]->step_count, 8, 8 * 13);
    for (uint32_t rank = 0; rank < large; rank++) {
        assert_true(divides(hosts, plans[rank]));
        assert_int_equal(plans[rank]->step_count, plans[0]->step_count);
        for (uint32_t i = 0; i < plans[0]->step_count; i++)
            assert_int_equal(plans[rank]->steps[i].chunk % 8, plans[0]->steps[i].chunk % 8);
    }
    weft_plans_free(plans, large);
    weft_hosts_free(hosts);
}

/* A layout's rings, by position and back, and how many NICs a host's ranks use. */
static void test_layouts_with_rings(void **state)
{
    (void)state;
    uint32_t rings[] = {4, 1, 0, 3, 2, 5, 1, 4, 0, 2, 5, 3}, host_of[] = {1, 0, 2, 2, 0, 2};
    uint32_t nic[] = {7, 8, 9, 6, 7, 9};
    struct weft_layout layout = {.ranks = 6,
                                 .ring_count = 2,
                                 .host_count = 3,
                                 .order = rings,
                                 .rings = rings,
                                 .host_of = host_of,
                                 .nic = nic};
    struct weft_hosts *hosts;
    assert_int_equal(weft_hosts_of_layout(&layout, &hosts), WEFT_OK);
    assert_int_equal(weft_hosts_rings(hosts), 2);
    assert_int_equal(hosts->ports, 1); /* the host of rank 0 alone */
    for (uint32_t r = 0; r < 2; r++) {
        for (uint32_t i = 0; i < 6; i++) {
            uint32_t position = weft_hosts_ring_at(hosts, r, i);
            assert_int_equal(weft_hosts_rank(hosts, position), rings[6 * r + i]);
            assert_int_equal(weft_hosts_ring_place(hosts, r, position), i);
            assert_int_equal(weft_hosts_at(hosts, position), weft_hosts_at(hosts, i));
        }
    }
    size_t bytes = weft_hosts_bytes(hosts);
    weft_hosts_free(hosts);
    host_of[0] = 0; /* ranks 4, 1, 0 on one host with NICs 7 and 8; 3, 2, 5 on the other with 6 and 9 */
    host_of[2] = host_of[3] = host_of[5] = 1;
    layout.host_count = 2;
    assert_int_equal(weft_hosts_of_layout(&layout, &hosts), WEFT_OK);
    assert_int_equal(hosts->ports, 2);
    assert_int_equal(weft_hosts_bytes(hosts), bytes - sizeof(uint32_t));
    weft_hosts_free(hosts);
    nic[2] = nic[3] = nic[5] = WEFT_NODE_NONE;
    assert_int_equal(weft_hosts_of_layout(&layout, &hosts), WEFT_OK);
    assert_int_equal(hosts->ports, 0);
    weft_hosts_free(hosts);
    memset(host_of, 0, sizeof host_of); /* one host: nothing goes between hosts */
    layout.host_count = 1;
    assert_int_equal(weft_hosts_of_layout(&layout, &hosts), WEFT_OK);
    assert_int_equal(weft_hosts_rings(hosts), 1);
    assert_int_equal(weft_hosts_ring_at(hosts, 0, 3), 3);
    weft_hosts_free(hosts);
}

/* Ranks of one number in their hosts are on one rail, where hosts are alike: rings go on from each to the next. */
static void test_numbers_by_rail(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct weft_hosts *hosts = plan_hosts_railed(48, 6, seed);
        int alike = seed % 2 == 0;
        for (uint32_t h = 0; h < hosts->count && weft_hosts_rings(hosts) > 1; h++) {
            for (uint32_t i = hosts->first[h]; i < hosts->first[h + 1]; i++) {
                uint32_t rank = hosts->by_rail[i];
                assert_int_equal(hosts->railed[rank], i);
                assert_int_equal(weft_hosts_at(hosts, weft_hosts_position(hosts, rank)), h);
            }
            for (uint32_t r = 0; h > 0 && alike && r < 6; r++) {
                uint32_t place = hosts->first[h];
                uint32_t left = weft_hosts_rank(hosts, weft_hosts_ring_at(hosts, r, place - 1));
                uint32_t entered = weft_hosts_rank(hosts, weft_hosts_ring_at(hosts, r, place));
                assert_int_equal(hosts->railed[left] + 6, hosts->railed[entered]);
            }
        }
        assert_true(!alike || weft_hosts_rings(hosts) == 6);
        weft_hosts_free(hosts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rings),
        cmocka_unit_test(test_large_rings),
        cmocka_unit_test(test_layouts_with_rings),
        cmocka_unit_test(test_numbers_by_rail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
