/* SPDX-License-Identifier: Apache-2.0 */
/* Ports that a setting leaves out: comm/form/ports.h. */
#include <string.h>

#include "comm/form/ports.h"
#include "topo/graph/graph.h"

#define DIGITS "0123456789"

/* Whether it is "mlx5_0" or "mlx5_0:1". What verbs might read in another way is none: it is left to verbs. */
static int is_word(const char *word, size_t length)
{
    size_t name = strcspn(word, ":,"), number = name + 1;
    if (name == 0 || name == length)
        return name != 0;
    return word[number] != '0' && number < length && number + strspn(word + number, DIGITS) == length;
}

/* The word is that of the name. */
static int is_same(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(word, name, length) == 0;
}

int weft_ports_leave_out(struct weft_graph *machine, const char *list)
{
    const char *word = list;
    for (size_t length = 0;; word += length + 1) {
        length = strcspn(word, ",");
        if (!is_word(word, length))
            return 0;
        if (!word[length])
            break;
    }
    for (uint32_t n = 0; n < machine->node_count; n++) {
        struct weft_node *node = &machine->nodes[n];
        for (word = node->kind == WEFT_NODE_PORT ? list : NULL; word;) {
            size_t length = strcspn(word, ",");
            if (is_same(word, length, machine->nodes[node->parent].name) || is_same(word, length, node->name))
                node->state = WEFT_PORT_DOWN;
            word = word[length] ? word + length + 1 : NULL;
        }
    }
    return 1;
}
