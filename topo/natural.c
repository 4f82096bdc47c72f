/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/natural.h"

#include <string.h>

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Compares the numbers that both texts start with and moves past them. */
static int numbers_compare(const char **a, const char **b)
{
    const char *ends[2], *starts[2] = {*a, *b};
    for (int i = 0; i < 2; i++) {
        while (*starts[i] == '0') {
            starts[i]++;
        }
        ends[i] = starts[i];
        while (is_digit(*ends[i])) {
            ends[i]++;
        }
    }
    *a = ends[0];
    *b = ends[1];
    size_t digits[2] = {(size_t)(ends[0] - starts[0]), (size_t)(ends[1] - starts[1])};
    if (digits[0] != digits[1]) {
        return digits[0] < digits[1] ? -1 : 1;
    }
    return memcmp(starts[0], starts[1], digits[0]);
}

int weft_natural_compare(const char *a, const char *b)
{
    const char *first = a, *second = b;
    while (*a && *b) {
        if (is_digit(*a) && is_digit(*b)) {
            int different = numbers_compare(&a, &b);
            if (different) {
                return different;
            }
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    if (*a || *b) {
        return *a ? 1 : -1;
    }
    return strcmp(first, second);
}

/* --- nodes */

static int hex_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* "c:0.0" before "0000:10:00.0": its parts are hexadecimal numbers of any length. */
static int pci_compare(const char *a, const char *b)
{
    while (*a && *b) {
        size_t digits[2];
        const char *parts[2] = {a, b};
        for (int i = 0; i < 2; i++) {
            while (*parts[i] == '0' && hex_digit(parts[i][1])) {
                parts[i]++;
            }
            for (digits[i] = 0; hex_digit(parts[i][digits[i]]);) {
                digits[i]++;
            }
        }
        if (digits[0] != digits[1]) {
            return digits[0] < digits[1] ? -1 : 1;
        }
        int different = strncasecmp(parts[0], parts[1], digits[0]);
        if (different) {
            return different;
        }
        a = parts[0] + digits[0];
        b = parts[1] + digits[1];
        if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        }
        if (*a) {
            a++;
            b++;
        }
    }
    return (*a != 0) - (*b != 0);
}

static int siblings_compare(const struct weft_node *a, const struct weft_node *b)
{
    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    /* Those without an address come last: compared by name with those that have one, three could go in a circle. */
    if (!a->pci != !b->pci) {
        return a->pci ? -1 : 1;
    }
    if (a->pci) {
        int different = pci_compare(a->pci, b->pci);
        if (different) {
            return different;
        }
    }
    if (a->index != b->index) {
        return a->index < b->index ? -1 : 1;
    }
    int different = weft_natural_compare(a->name, b->name);
    if (different) {
        return different;
    }
    return (a->guid > b->guid) - (a->guid < b->guid);
}

int weft_order_nodes(const struct weft_graph *graph, uint32_t a, uint32_t b)
{
    const struct weft_node *nodes = graph->nodes;
    uint32_t depth_a = weft_graph_depth(graph, a), depth_b = weft_graph_depth(graph, b);
    int deeper = (depth_a > depth_b) - (depth_a < depth_b);
    for (; depth_a > depth_b; depth_a--) {
        a = nodes[a].parent;
    }
    for (; depth_b > depth_a; depth_b--) {
        b = nodes[b].parent;
    }
    if (a == b) {
        return deeper;
    }
    while (nodes[a].parent != nodes[b].parent) {
        a = nodes[a].parent;
        b = nodes[b].parent;
    }
    return siblings_compare(&nodes[a], &nodes[b]);
}
