/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/topo/sketch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/topo_made.h"

#define GB UINT64_C(1000000000)

static struct weft_graph *begin(const char *source)
{
    struct weft_graph *graph = NULL;
    assert_int_equal(weft_graph_new(source, "sketch", &graph), 0);
    return graph;
}

static uint32_t add(struct weft_graph *graph, struct weft_node_given given)
{
    uint32_t node = WEFT_NODE_NONE;
    assert_int_equal(weft_graph_add_node(graph, &given, &node), 0);
    return node;
}

static void join(struct weft_graph *graph, struct weft_edge edge)
{
    uint32_t number;
    assert_int_equal(weft_graph_add_edge(graph, &edge, &number), 0);
}

static struct weft_graph *end(struct weft_graph *graph)
{
    assert_int_equal(weft_graph_finish(graph), 0);
    return graph;
}

static struct weft_node_given numa(uint32_t host, const char *name, int index)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_NUMA, host, name);
    given.index = index;
    return given;
}

static struct weft_node_given device(enum weft_node_kind kind, uint32_t parent, const char *name, int index)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(kind, parent, name);
    given.index = index;
    given.parent_pci = 1;
    given.parent_bytes_per_s = 32 * GB;
    return given;
}

static uint32_t find(const struct weft_graph *graph, const char *name)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (strcmp(graph->nodes[n].name, name) == 0)
            return n;
    }
    fail_msg("no %s", name);
    return 0;
}

struct weft_graph *sketch_machine(int gpus, const struct sketch_link *links, size_t count)
{
    struct weft_graph *graph = begin("sketch of a machine");
    uint32_t host = add(graph, WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, "machine"));
    uint32_t nodes[2] = {add(graph, numa(host, "numa0", 0)), add(graph, numa(host, "numa1", 1))};
    for (int i = 0; i < gpus; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpu%d", i);
        add(graph, device(WEFT_NODE_GPU, nodes[2 * i / gpus], name, i));
    }
    for (size_t i = 0; i < count; i++)
        join(graph, (struct weft_edge){.a = find(graph, links[i].a),
                                       .b = find(graph, links[i].b),
                                       .kind = WEFT_EDGE_GPU_LINK,
                                       .flags = WEFT_EDGE_NVLINK,
                                       .links = links[i].links,
                                       .bytes_per_s = 25 * GB,
                                       .port_a = -1,
                                       .port_b = -1});
    return end(graph);
}

static void add_port(struct weft_graph *graph, uint32_t nic, const char *name, int index,
                     enum weft_port_state state, uint64_t bytes_per_s)
{
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_PORT, nic, name);
    given.index = index;
    given.state = state;
    given.bytes_per_s = bytes_per_s;
    add(graph, given);
}

struct weft_graph *sketch_ports(void)
{
    struct weft_graph *graph = begin("sketch of ports");
    struct weft_node_given host = WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, "machine");
    host.flags = WEFT_HOST_VIRTUAL;
    uint32_t top = add(graph, host), node = add(graph, numa(top, "numa0", 0));
    uint32_t gpu = add(graph, device(WEFT_NODE_GPU, node, "gpu0", 0));
    uint32_t two = add(graph, device(WEFT_NODE_NIC, node, "mlx5_0", 0));
    uint32_t dead = add(graph, device(WEFT_NODE_NIC, node, "mlx5_1", 1));
    uint32_t dark = add(graph, device(WEFT_NODE_NIC, node, "mlx5_2", 2));
    add(graph, device(WEFT_NODE_DEVICE, node, "disk", -1));
    add_port(graph, two, "mlx5_0:2", 2, WEFT_PORT_DOWN, 25 * GB);
    add_port(graph, two, "mlx5_0:1", 1, WEFT_PORT_ACTIVE, 25 * GB);
    add_port(graph, dead, "mlx5_1:1", 1, WEFT_PORT_DOWN, 0);
    add_port(graph, dark, "mlx5_2:1", 1, WEFT_PORT_UNKNOWN, 0);
    struct weft_node_given rank = WEFT_NODE_GIVEN(WEFT_NODE_RANK, gpu, "rank5");
    rank.index = 5;
    add(graph, rank);
    join(graph, (struct weft_edge){.a = gpu,
                                   .b = node,
                                   .kind = WEFT_EDGE_GPU_LINK,
                                   .flags = WEFT_EDGE_C2C,
                                   .links = 1,
                                   .bytes_per_s = 450 * GB,
                                   .port_a = -1,
                                   .port_b = -1});
    return end(graph);
}

struct weft_graph *sketch_names(const char *const *names, size_t count)
{
    struct weft_graph *graph = begin(names[0]);
    uint32_t host = add(graph, WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, names[count - 3]));
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_BRIDGE, host, "bridge");
    given.bridge = WEFT_BRIDGE_SWITCH;
    uint32_t bridge = add(graph, given);
    for (size_t i = 0; i < count; i++) {
        uint32_t gpus = host;
        add(graph, device(WEFT_NODE_GPU, gpus, names[i], -1));
        uint32_t nic = add(graph, device(WEFT_NODE_NIC, bridge, names[i], -1));
        add_port(graph, nic, names[i], 1, WEFT_PORT_ACTIVE, 25 * GB);
    }
    for (size_t i = 1; i < count; i++)
        join(graph, (struct weft_edge){.a = graph->nodes[bridge].sibling_next,
                                       .b = bridge + 3 * (uint32_t)i + 1,
                                       .kind = WEFT_EDGE_GPU_LINK,
                                       .links = 1,
                                       .port_a = -1,
                                       .port_b = -1});
    return end(graph);
}

/* Nodes are named by their own number in the sketch, as their indices in the graph differ from seed to seed. */
struct planned {
    enum weft_node_kind kind;
    int parent; /* -1: a root */
    const char *name;
    int index;
};

static const struct planned plan[] = {
    {WEFT_NODE_SWITCH, -1, "leaf1", -1},  {WEFT_NODE_SWITCH, -1, "leaf2", -1},
    {WEFT_NODE_HOST, -1, "a", -1},        {WEFT_NODE_HOST, -1, "b", -1},
    {WEFT_NODE_NUMA, 2, "numa0", 0},      {WEFT_NODE_NUMA, 2, "numa1", 1},
    {WEFT_NODE_NUMA, 3, "numa0", 0},      {WEFT_NODE_BRIDGE, 4, "0000:01", -1},
    {WEFT_NODE_BRIDGE, 4, "0000:0a", -1}, {WEFT_NODE_BRIDGE, 5, "0000:10", -1},
    {WEFT_NODE_GPU, 7, "gpu0", 0},        {WEFT_NODE_GPU, 7, "gpu1", 1},
    {WEFT_NODE_GPU, 8, "gpu2", 2},        {WEFT_NODE_GPU, 9, "gpu3", 3},
    {WEFT_NODE_NIC, 7, "mlx5_0", -1},     {WEFT_NODE_NIC, 8, "mlx5_10", -1},
    {WEFT_NODE_NIC, 9, "mlx5_2", -1},     {WEFT_NODE_NIC, 6, "mlx5_0", -1},
    {WEFT_NODE_PORT, 14, "mlx5_0:1", 1},  {WEFT_NODE_PORT, 14, "mlx5_0:2", 2},
    {WEFT_NODE_PORT, 15, "mlx5_10:1", 1}, {WEFT_NODE_PORT, 17, "mlx5_0:1", 1},
    {WEFT_NODE_CORE, 4, "core0", 0},      {WEFT_NODE_CORE, 4, "core1", 1},
    {WEFT_NODE_RANK, 10, "rank0", 0},     {WEFT_NODE_DEVICE, 5, "disk", -1},
    {WEFT_NODE_GPU, 6, "gpu0", 0},        {WEFT_NODE_GPU, 6, "gpu1", 1},
};
enum { PLANNED = sizeof plan / sizeof *plan };

static const struct {
    int a, b;
    enum weft_edge_kind kind;
    unsigned links;
} plan_edges[] = {
    {10, 11, WEFT_EDGE_GPU_LINK, 2}, {11, 12, WEFT_EDGE_GPU_LINK, 1}, {12, 13, WEFT_EDGE_GPU_LINK, 2},
    {10, 13, WEFT_EDGE_GPU_LINK, 1}, {4, 5, WEFT_EDGE_SOCKET, 1},     {18, 0, WEFT_EDGE_FABRIC, 1},
    {19, 1, WEFT_EDGE_FABRIC, 1},    {20, 0, WEFT_EDGE_FABRIC, 1},    {21, 1, WEFT_EDGE_FABRIC, 1},
    {0, 1, WEFT_EDGE_FABRIC, 4},     {26, 27, WEFT_EDGE_GPU_LINK, 4}, {26, 6, WEFT_EDGE_GPU_LINK, 1},
};
enum { PLANNED_EDGES = sizeof plan_edges / sizeof *plan_edges };

struct weft_graph *sketch_shuffled(unsigned seed)
{
    struct made made = {0};
    for (int i = 0; i < PLANNED; i++) {
        uint32_t parent = plan[i].parent < 0 ? MADE_NONE : (uint32_t)plan[i].parent;
        uint32_t item = made_item(&made, plan[i].kind, parent, "%s", plan[i].name);
        struct weft_node_given *given = &made.items[item].given;
        given->index = plan[i].index;
        given->parent_pci = plan[i].kind == WEFT_NODE_GPU || plan[i].kind == WEFT_NODE_NIC;
        given->parent_bytes_per_s = given->parent_pci ? 32 * GB : 0;
    }
    for (int e = 0; e < PLANNED_EDGES; e++) {
        uint32_t cable =
            made_cable(&made, (uint32_t)plan_edges[e].a, (uint32_t)plan_edges[e].b, plan_edges[e].links);
        made.cables[cable].given.kind = plan_edges[e].kind;
        made.cables[cable].given.bytes_per_s = 25 * GB;
    }
    made_build(&made, seed + 1);
    struct weft_graph *graph = made.graph;
    made.graph = NULL;
    made_free(&made);
    return graph;
}

static uint32_t draw_lot(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % below);
}

static const char *random_name(uint64_t *state, const char *stem, int number, char name[64])
{
    static const char tail[] = "-with.a-name_that/goes on and on, and on and on";
    snprintf(name, 64, "%s%d%.*s", stem, number, draw_lot(state, 4) ? 0 : (int)draw_lot(state, sizeof tail),
             tail);
    return name;
}

struct weft_graph *sketch_random(unsigned seed)
{
    enum { PLACES_MAX = 24, GPUS_MAX = 20 };
    struct weft_graph *graph = begin("sketch of anything");
    uint64_t state = seed * 2654435761u + 1;
    char name[64];
    uint32_t places[PLACES_MAX], gpus[GPUS_MAX], count = 0, gpu_count = 0;
    places[count++] =
        add(graph, WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, random_name(&state, "host", 0, name)));
    uint32_t numas = draw_lot(&state, 6), bridges = draw_lot(&state, 16), devices = draw_lot(&state, 40);
    for (uint32_t i = 0; i < numas; i++) {
        snprintf(name, sizeof name, "numa%u", i);
        places[count++] = add(graph, numa(places[0], name, (int)i));
        if (i > 0 && draw_lot(&state, 3))
            join(graph, (struct weft_edge){.a = places[count - 1],
                                           .b = places[1 + draw_lot(&state, i)],
                                           .kind = WEFT_EDGE_SOCKET,
                                           .port_a = -1,
                                           .port_b = -1});
    }
    for (uint32_t i = 0; i < bridges && count < PLACES_MAX; i++) {
        uint32_t parent = places[draw_lot(&state, count)];
        struct weft_node_given given =
            device(WEFT_NODE_BRIDGE, parent, random_name(&state, "bridge", (int)i, name), -1);
        given.bridge = (enum weft_bridge)draw_lot(&state, 4);
        places[count++] = add(graph, given);
    }
    for (uint32_t i = 0; i < devices; i++) {
        int is_gpu = draw_lot(&state, 2) && gpu_count < GPUS_MAX;
        uint32_t place = places[draw_lot(&state, count)];
        uint32_t node =
            add(graph, device(is_gpu ? WEFT_NODE_GPU : WEFT_NODE_NIC, place,
                              random_name(&state, is_gpu ? "gpu" : "mlx5_", (int)i, name), (int)i));
        if (is_gpu)
            gpus[gpu_count++] = node;
        else if (draw_lot(&state, 2))
            add_port(graph, node, "port", 1, (enum weft_port_state)draw_lot(&state, 5),
                     draw_lot(&state, 2) * 50 * GB);
    }
    uint32_t links = gpu_count > 1 ? draw_lot(&state, 3) * draw_lot(&state, 24) : 0;
    for (uint32_t i = 0; i < links; i++) {
        uint32_t a = gpus[draw_lot(&state, gpu_count)], b = gpus[draw_lot(&state, gpu_count)];
        if (a != b)
            join(graph, (struct weft_edge){.a = a,
                                           .b = b,
                                           .kind = WEFT_EDGE_GPU_LINK,
                                           .flags = WEFT_EDGE_NVLINK,
                                           .links = 1 + draw_lot(&state, 3) / 2,
                                           .bytes_per_s = 25 * GB,
                                           .port_a = -1,
                                           .port_b = -1});
    }
    return end(graph);
}

struct weft_graph *sketch_kinds(void)
{
    static const int gpus[] = {4, 1, 2, 3, 3, 3, 5, 6};
    struct weft_graph *graph = begin("sketch of kinds");
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "node%d", i + 5);
        uint32_t host = add(graph, WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, name));
        uint32_t node = add(graph, numa(host, "numa0", 0));
        for (int g = 0; g < gpus[i]; g++) {
            snprintf(name, sizeof name, "gpu%d", g);
            add(graph, device(WEFT_NODE_GPU, node, name, g));
        }
    }
    return end(graph);
}
