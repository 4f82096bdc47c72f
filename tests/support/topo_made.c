/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/topo_made.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

uint32_t made_random(uint64_t *state, uint32_t limit)
{
    *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) % limit);
}

uint32_t made_item(struct made *made, enum weft_node_kind kind, uint32_t parent, const char *name, ...)
{
    if (made->item_count == made->room_items) {
        made->room_items = 2 * made->room_items + 64;
        made->items = realloc(made->items, made->room_items * sizeof *made->items);
        assert_non_null(made->items);
    }
    struct made_item *item = &made->items[made->item_count];
    memset(item, 0, sizeof *item);
    item->given = WEFT_NODE_GIVEN(kind, parent, NULL);
    va_list arguments;
    va_start(arguments, name);
    vsnprintf(item->name, sizeof item->name, name, arguments);
    va_end(arguments);
    return made->item_count++;
}

uint32_t made_nic(struct made *made, uint32_t parent, const char *name, int rail)
{
    uint32_t nic = made_item(made, WEFT_NODE_NIC, parent, "%s", name);
    uint32_t port = made_item(made, WEFT_NODE_PORT, nic, "1");
    made->items[nic].given.rail = made->items[port].given.rail = rail;
    made->items[nic].given.parent_pci = 1;
    made->items[port].given.index = 1;
    made->items[port].given.state = WEFT_PORT_ACTIVE;
    made->items[port].given.bytes_per_s = 50000000000u;
    return port;
}

uint32_t made_cable(struct made *made, uint32_t a, uint32_t b, uint32_t links)
{
    if (made->cable_count == made->room_cables) {
        made->room_cables = 2 * made->room_cables + 64;
        made->cables = realloc(made->cables, made->room_cables * sizeof *made->cables);
        assert_non_null(made->cables);
    }
    struct weft_edge given = {
        .kind = WEFT_EDGE_FABRIC, .links = links, .bytes_per_s = 50000000000u, .port_a = -1, .port_b = -1};
    made->cables[made->cable_count] = (struct made_cable){a, b, given};
    return made->cable_count++;
}

static void shuffle(uint32_t *list, uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++)
        list[i] = i;
    for (uint32_t i = count; seed && i > 1; i--) {
        uint32_t other = made_random(&seed, i), kept = list[i - 1];
        list[i - 1] = list[other];
        list[other] = kept;
    }
}

static void item_add(struct made *made, uint32_t item)
{
    struct made_item *given = &made->items[item];
    if (made->nodes[item] != WEFT_NODE_NONE)
        return;
    struct weft_node_given node = given->given;
    if (node.parent != MADE_NONE) {
        item_add(made, node.parent);
        node.parent = made->nodes[node.parent];
    }
    node.name = given->name;
    node.pci = given->pci[0] ? given->pci : NULL;
    assert_int_equal(weft_graph_add_node(made->graph, &node, &made->nodes[item]), WEFT_OK);
}

void made_build(struct made *made, uint64_t seed)
{
    uint32_t most = made->item_count > made->cable_count ? made->item_count : made->cable_count;
    uint32_t *list = malloc((most + 1) * sizeof *list);
    weft_graph_free(made->graph);
    free(made->nodes);
    made->nodes = malloc((made->item_count + 1) * sizeof *made->nodes);
    assert_non_null(list);
    assert_non_null(made->nodes);
    assert_int_equal(weft_graph_new("made", "test", &made->graph), WEFT_OK);
    memset(made->nodes, 0xff, made->item_count * sizeof *made->nodes);
    shuffle(list, made->item_count, seed);
    for (uint32_t i = 0; i < made->item_count; i++)
        item_add(made, list[i]);
    shuffle(list, made->cable_count, seed);
    for (uint32_t i = 0; i < made->cable_count; i++) {
        const struct made_cable *cable = &made->cables[list[i]];
        struct weft_edge edge = cable->given;
        int turned = seed && made_random(&seed, 2);
        uint32_t at;
        edge.a = made->nodes[turned ? cable->b : cable->a];
        edge.b = made->nodes[turned ? cable->a : cable->b];
        assert_int_equal(weft_graph_add_edge(made->graph, &edge, &at), WEFT_OK);
    }
    free(list);
    assert_int_equal(weft_graph_finish(made->graph), WEFT_OK);
}

struct weft_place made_place(const struct made *made, uint32_t host, uint32_t near)
{
    return (struct weft_place){.host = made->nodes[host],
                               .near = near == MADE_NONE ? WEFT_NODE_NONE : made->nodes[near]};
}

void made_free(struct made *made)
{
    weft_graph_free(made->graph);
    free(made->nodes);
    free(made->items);
    free(made->cables);
    *made = (struct made){0};
}
