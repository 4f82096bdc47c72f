/* SPDX-License-Identifier: Apache-2.0 */
/* Plans priced over a fabric whose links they share: by hand where that can be done. */
#include "algos/proof/contend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "algos/builder.h"
#include "algos/hosts.h"
#include "base/error.h"
#include "tests/support/plan_hosts.h"
#include "topo/read.h"

#define GB 1000000000u

/* Leaves of so many hosts each under one spine; every cable carries 1 GB/s. One leaf: no spine. */
struct fabric {
    struct weft_graph *graph;
    struct weft_place places[64];
    uint32_t nic[64];
    uint32_t hosts;
};

static uint32_t add(struct weft_graph *graph, enum weft_node_kind kind, uint32_t parent, const char *name)
{
    uint32_t node;
    struct weft_node_given given = WEFT_NODE_GIVEN(kind, parent, name);
    assert_int_equal(weft_graph_add_node(graph, &given, &node), WEFT_OK);
    return node;
}

static void cable(struct weft_graph *graph, uint32_t a, uint32_t b)
{
    uint32_t edge;
    struct weft_edge given = {
        .a = a, .b = b, .kind = WEFT_EDGE_FABRIC, .bytes_per_s = GB, .port_a = -1, .port_b = -1};
    assert_int_equal(weft_graph_add_edge(graph, &given, &edge), WEFT_OK);
}

static void make_fabric(struct fabric *fabric, uint32_t leaves, uint32_t hosts_per_leaf)
{
    *fabric = (struct fabric){.hosts = leaves * hosts_per_leaf};
    assert_int_equal(weft_graph_new("test", "test", &fabric->graph), WEFT_OK);
    uint32_t spine = leaves > 1 ? add(fabric->graph, WEFT_NODE_SWITCH, WEFT_NODE_NONE, "spine") : 0;
    for (uint32_t l = 0; l < leaves; l++) {
        char name[16];
        snprintf(name, sizeof name, "leaf%u", l);
        uint32_t leaf = add(fabric->graph, WEFT_NODE_SWITCH, WEFT_NODE_NONE, name);
        if (leaves > 1)
            cable(fabric->graph, leaf, spine);
        for (uint32_t h = 0; h < hosts_per_leaf; h++) {
            uint32_t number = l * hosts_per_leaf + h;
            snprintf(name, sizeof name, "host%02u", number);
            uint32_t host = add(fabric->graph, WEFT_NODE_HOST, WEFT_NODE_NONE, name);
            uint32_t nic = add(fabric->graph, WEFT_NODE_NIC, host, "nic0");
            fabric->nic[number] = add(fabric->graph, WEFT_NODE_PORT, nic, "port1");
            cable(fabric->graph, fabric->nic[number], leaf);
            fabric->places[number] = (struct weft_place){.host = host, .near = WEFT_NODE_NONE};
        }
    }
    assert_int_equal(weft_graph_finish(fabric->graph), WEFT_OK);
}

/* order: the rank at each position, NULL as numbered. */
static void price(const struct fabric *fabric, enum weft_algorithm algorithm, const uint32_t *order,
                  uint64_t bytes, struct weft_contention *contention)
{
    struct weft_hosts *hosts;
    struct weft_plan *plans[64];
    uint32_t sizes[64];
    for (uint32_t h = 0; h < fabric->hosts; h++)
        sizes[h] = 1;
    assert_int_equal(weft_hosts_make(sizes, fabric->hosts, order, &hosts), WEFT_OK);
    for (uint32_t r = 0; r < fabric->hosts; r++) {
        struct weft_plan_request request = {.collective = WEFT_ALLREDUCE,
                                            .algorithm = algorithm,
                                            .ranks = fabric->hosts,
                                            .rank = r,
                                            .root = -1,
                                            .hosts = hosts};
        assert_int_equal(weft_plan_make(&request, &plans[r]), WEFT_OK);
    }
    struct weft_contention_request request = {.plans = (const struct weft_plan *const *)plans,
                                              .ranks = fabric->hosts,
                                              .bytes = bytes,
                                              .graph = fabric->graph,
                                              .places = fabric->places,
                                              .nic = fabric->nic,
                                              .latency_ns = 1000};
    int status = weft_plans_contend(&request, contention);
    if (status != WEFT_OK)
        fail_msg("%s", weft_error_detail());
    for (uint32_t r = 0; r < fabric->hosts; r++)
        weft_plan_free(plans[r]);
    weft_hosts_free(hosts);
}

static void assert_near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-9 * fabs(b));
}

/* 2 (n - 1) rounds of a chunk each, nothing shared. */
static void test_ring_on_one_switch(void **state)
{
    (void)state;
    struct fabric fabric;
    struct weft_contention contention;
    make_fabric(&fabric, 1, 4);
    price(&fabric, WEFT_ALGO_RING, NULL, 4000000, &contention);
    assert_int_equal(contention.rounds, 6);
    assert_near(contention.time_ns, 6 * (1000 + 1e6));
    assert_near(contention.fabric_ns, 6e6);
    weft_graph_free(fabric.graph);
}

/* A ring that changes the leaf at every step has all its streams on the two uplinks. */
static void test_order_decides(void **state)
{
    (void)state;
    struct fabric fabric;
    struct weft_contention in_order, to_and_fro;
    static const uint32_t crossing[] = {0, 4, 1, 5, 2, 6, 3, 7};
    make_fabric(&fabric, 2, 4);
    price(&fabric, WEFT_ALGO_RING, NULL, 8000000, &in_order);
    price(&fabric, WEFT_ALGO_RING, crossing, 8000000, &to_and_fro);
    assert_int_equal(in_order.rounds, 14);
    assert_near(in_order.time_ns, 14 * (1000 + 1e6));
    assert_int_equal(to_and_fro.rounds, 14);
    assert_near(to_and_fro.time_ns, 14 * (1000 + 4e6));
    const struct weft_edge *narrowest = &fabric.graph->edges[to_and_fro.narrowest];
    assert_int_equal(fabric.graph->nodes[narrowest->a].kind, WEFT_NODE_SWITCH);
    assert_int_equal(fabric.graph->nodes[narrowest->b].kind, WEFT_NODE_SWITCH);
    weft_graph_free(fabric.graph);
}

/* The rounds of a loop are multiplied, which must not change what comes out: recursive doubling has no loop, a ring of many
 * ranks has little else. */
static void test_repeated_rounds(void **state)
{
    (void)state;
    struct fabric fabric;
    struct weft_contention contention;
    make_fabric(&fabric, 8, 8);
    price(&fabric, WEFT_ALGO_RING, NULL, 64000000, &contention);
    assert_int_equal(contention.rounds, 126);
    assert_true(contention.rounds_priced <= 4);
    assert_near(contention.time_ns, 126 * (1000 + 1e6));
    /* Three rounds within leaves, then three in which every leaf sends all it has through its one uplink. */
    price(&fabric, WEFT_ALGO_RD, NULL, 1000000, &contention);
    assert_int_equal(contention.rounds, 6);
    assert_near(contention.time_ns, 6 * 1000 + 3 * 1e6 + 3 * 8e6);
    weft_graph_free(fabric.graph);
}

/* Messages within a host take the processor of who receives them, not the fabric. */
static void test_within_hosts(void **state)
{
    (void)state;
    struct fabric fabric;
    struct weft_plan *plans[4];
    make_fabric(&fabric, 1, 1);
    for (uint32_t r = 1; r < 4; r++) {
        fabric.places[r] = fabric.places[0];
        fabric.nic[r] = fabric.nic[0];
    }
    for (uint32_t r = 0; r < 4; r++) {
        struct weft_plan_request request = {
            .collective = WEFT_ALLREDUCE, .algorithm = WEFT_ALGO_RING, .ranks = 4, .rank = r, .root = -1};
        assert_int_equal(weft_plan_make(&request, &plans[r]), WEFT_OK);
    }
    struct weft_contention_request request = {.plans = (const struct weft_plan *const *)plans,
                                              .ranks = 4,
                                              .bytes = 4000,
                                              .graph = fabric.graph,
                                              .places = fabric.places,
                                              .nic = fabric.nic,
                                              .latency_ns = 1000,
                                              .local_latency_ns = 100,
                                              .local_byte_ns = 0.5};
    struct weft_contention contention;
    assert_int_equal(weft_plans_contend(&request, &contention), WEFT_OK);
    assert_near(contention.time_ns, 6 * (100 + 500));
    assert_int_equal(contention.narrowest, WEFT_NODE_NONE);
    request.plans = (const struct weft_plan *const[]){plans[0], plans[1], plans[1], plans[3]};
    assert_int_equal(weft_plans_contend(&request, &contention), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "plan 2 is for rank 1 of 4: expected rank 2 of 4"));
    request.plans = (const struct weft_plan *const *)plans;
    plans[3]->step_count = 2;
    assert_int_equal(weft_plans_contend(&request, &contention), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "waits for ever"));
    plans[3]->chunks = 3;
    assert_int_equal(weft_plans_contend(&request, &contention), WEFT_INVALID);
    plans[0]->chunks = 0; /* looked at before anything is made of it */
    assert_int_equal(weft_plans_contend(&request, &contention), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "no chunks"));
    request.ranks = 0;
    assert_int_equal(weft_plans_contend(&request, &contention), WEFT_INVALID);
    for (uint32_t r = 0; r < 4; r++)
        weft_plan_free(plans[r]);
    weft_graph_free(fabric.graph);
}

/* One loop: as many iterations of a SEND to each of the peers and a RECV from one. More: RECVs from another in a loop of
 * their own. */
static struct weft_plan *make_plan(uint32_t rank, const uint32_t peers[2], uint32_t from, uint32_t more)
{
    struct weft_plan_request made = {
        .collective = WEFT_ALLREDUCE, .algorithm = WEFT_ALGO_RING, .ranks = 3, .rank = rank, .root = -1};
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);
    struct weft_range chunk = weft_range(0, 1, 0);
    struct weft_builder builder;
    struct weft_plan *plan;
    weft_builder_start(&builder, &made, 1, 0);
    weft_builder_loop(&builder, 20);
    weft_builder_send(&builder, peers[0], chunk, output);
    if (peers[1] != peers[0])
        weft_builder_send(&builder, peers[1], chunk, output);
    weft_builder_recv(&builder, from, chunk, output);
    weft_builder_loop_end(&builder);
    if (more != from) {
        weft_builder_loop(&builder, 20);
        weft_builder_recv(&builder, more, chunk, output);
        weft_builder_loop_end(&builder);
    }
    assert_int_equal(weft_builder_finish(&builder, &plan), WEFT_OK);
    return plan;
}

/* Messages that pile up at their receiver: its rounds look alike, but what it leaves behind grows. */
static void test_messages_left(void **state)
{
    (void)state;
    static const uint32_t peers[3][2] = {{1, 2}, {0, 0}, {1, 1}}, from[3] = {1, 0, 0}, more[3] = {1, 2, 0};
    struct fabric fabric;
    struct weft_plan *plans[3];
    struct weft_contention contention;
    make_fabric(&fabric, 1, 3);
    for (uint32_t r = 0; r < 3; r++)
        plans[r] = make_plan(r, peers[r], from[r], more[r]);
    struct weft_contention_request request = {.plans = (const struct weft_plan *const *)plans,
                                              .ranks = 3,
                                              .bytes = 1000000,
                                              .graph = fabric.graph,
                                              .places = fabric.places,
                                              .nic = fabric.nic,
                                              .latency_ns = 1000};
    if (weft_plans_contend(&request, &contention) != WEFT_OK)
        fail_msg("%s", weft_error_detail());
    assert_int_equal(contention.rounds, 20);
    assert_near(contention.time_ns, 20 * (1000 + 2e6));
    for (uint32_t r = 0; r < 3; r++)
        weft_plan_free(plans[r]);
    weft_graph_free(fabric.graph);
}

/* Rings on rails of their own share no link, so that each has its part of the data in the time of that part; over one rail they
 * share it. */
static void test_rings_on_rails(void **state)
{
    (void)state;
    double times[2];
    struct weft_hosts *railed = plan_hosts_railed(16, 4, 0);
    assert_int_equal(weft_hosts_rings(railed), 4);
    for (uint32_t rails = 1; rails <= 4; rails += 3) {
        struct weft_graph *graph;
        struct weft_place places[16];
        struct weft_plan *plans[16];
        struct weft_contention contention;
        char text[96];
        uint32_t nic[16], host = WEFT_NODE_NONE, near = WEFT_NODE_NONE;
        snprintf(text, sizeof text, "fat-tree:leaves=1,nodes-per-leaf=4,gpus=4,rails=%u,link=8G", rails);
        assert_int_equal(weft_topo_read(text, &graph), WEFT_OK);
        for (uint32_t r = 0; r < 16; r++) {
            if (r % 4 == 0)
                host = weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST, host);
            near = weft_graph_next_below(graph, host, WEFT_NODE_GPU, r % 4 ? near : WEFT_NODE_NONE);
            places[r] = (struct weft_place){.host = host, .near = near};
            struct weft_plan_request request = {.collective = WEFT_ALLREDUCE,
                                                .algorithm = WEFT_ALGO_RING,
                                                .ranks = 16,
                                                .rank = r,
                                                .root = -1,
                                                .hosts = railed};
            assert_int_equal(weft_plan_make(&request, &plans[r]), WEFT_OK);
        }
        assert_int_equal(weft_order_nics(graph, places, 16, nic, NULL), WEFT_OK);
        struct weft_contention_request request = {.plans = (const struct weft_plan *const *)plans,
                                                  .ranks = 16,
                                                  .bytes = 64000000,
                                                  .graph = graph,
                                                  .places = places,
                                                  .nic = nic,
                                                  .latency_ns = 1000};
        assert_int_equal(weft_plans_contend(&request, &contention), WEFT_OK);
        assert_int_equal(contention.rounds, 30);
        assert_true(contention.rounds_priced <= 4);
        times[rails > 1] = contention.time_ns;
        for (uint32_t r = 0; r < 16; r++)
            weft_plan_free(plans[r]);
        weft_graph_free(graph);
    }
    assert_near(times[1], 30 * (1000 + 1e6)); /* a chunk of 1 MB on each rail at 1 GB/s */
    assert_near(times[0], 30 * (1000 + 4e6));
    weft_hosts_free(railed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_on_one_switch), cmocka_unit_test(test_order_decides),
        cmocka_unit_test(test_repeated_rounds),    cmocka_unit_test(test_within_hosts),
        cmocka_unit_test(test_messages_left),      cmocka_unit_test(test_rings_on_rails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
