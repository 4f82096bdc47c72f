/* SPDX-License-Identifier: Apache-2.0 */
/* The models of topograph (NVIDIA's topology generator for Slurm and Kubernetes, tests/models of its repository), in the
 * three spellings that its versions have had:
 *
 *     switches:                          switches:                     switches:
 *       sw3:                             - name: sw3                     sw3:
 *         labels: {region: west}           switches: [sw11]                nodes: [n1, n2]
 *         switches: [sw11]               - name: sw11                  nodes:
 *     blocks:                              capacity_blocks: [cb1]        n1: {type: H100, attributes: {nvlink: v1}}
 *     - switch: sw11                     capacity_blocks:              capacity_blocks:
 *       nodes: ["[1101-1102]"]           - name: cb1                     cb1:
 *       annotations: {domain: nvl1}        nvlink: nvl1                    nodes: ["n[1-2]"]
 *                                          nodes: [n1, n2]
 *
 * Every list of names may hold hostlists (hostlist.h). A switch that is only named below another or by a block is one
 * without more to tell. A block hangs all its nodes on one switch, or on none; what it says of itself (labels, annotations,
 * nvlink, type) becomes attributes of each of its nodes, and its name the attribute block. A node is in one block at most,
 * and hangs on one switch at most: a second one is an error, as in topograph. Top keys are read in the order switches,
 * blocks, nodes, wherever they stand. A list or mapping under a key that is not known is an error: it may hold names; one
 * word under such a key is kept as an attribute, at the top passed over.
 */
#include <string.h>

#include "base/error.h"
#include "topo/files/hostlist.h"
#include "topo/files/named.h"
#include "topo/files/yaml_tree.h"

#define ATTRIBUTES_MAX (1u << 20) /* that blocks may give to their nodes, in a text */

struct reader {
    struct weft_named named;
    struct weft_yaml yaml;
    struct weft_names blocks; /* those that switches name: to the switch's index */
    uint32_t attributes;      /* that blocks may still give */
    size_t line;              /* of the list that is read */
    uint32_t upper;           /* the switch it is of, WEFT_YAML_NONE without */
    uint32_t block;           /* the block's body, WEFT_YAML_NONE outside of blocks */
    struct weft_span block_name;
};

typedef int read_body(struct reader *r, uint32_t body, struct weft_span name, size_t line);

static const struct weft_yaml_node *at(const struct reader *r, uint32_t node)
{
    return &r->yaml.nodes[node];
}

/* Keys and values of a mapping: for (key = first; key != WEFT_YAML_NONE; key = after(value)). */
static uint32_t value_of(const struct reader *r, uint32_t key)
{
    return at(r, key)->next;
}

static int is_key(const struct reader *r, uint32_t key, const char *const *names)
{
    for (; *names; names++) {
        if (weft_span_is(weft_yaml_text(&r->yaml, key), *names))
            return 1;
    }
    return 0;
}

static const char *const block_keys[] = {"blocks", "capacity_blocks", "capacityBlocks", NULL};
static const char *const label_keys[] = {"labels", "annotations", "metadata", "attributes", NULL};
static const char *const switch_keys[] = {"switches", NULL};
static const char *const node_keys[] = {"nodes", NULL};
static const char *const upper_keys[] = {"switch", NULL};
static const char *const name_keys[] = {"name", NULL};

static int fail_kind(const struct reader *r, uint32_t node, const char *what, const char *expected)
{
    static const char *const kinds[] = {"text", "a list", "a mapping"};
    return weft_read_fail(r->named.text, at(r, node)->line, "%s is %s, expected %s", what,
                          kinds[at(r, node)->kind], expected);
}

static int fail_key(const struct reader *r, uint32_t key, const char *where, const char *expected)
{
    return weft_read_fail(r->named.text, at(r, key)->line, "the key \"%.*s\" in %s, expected %s",
                          WEFT_SPAN_SHOWN(weft_yaml_text(&r->yaml, key)), where, expected);
}

/* The value of a key in a mapping, WEFT_YAML_NONE without. */
static uint32_t find(const struct reader *r, uint32_t mapping, const char *const *names)
{
    for (uint32_t key = at(r, mapping)->first; key != WEFT_YAML_NONE; key = at(r, value_of(r, key))->next) {
        if (is_key(r, key, names))
            return value_of(r, key);
    }
    return WEFT_YAML_NONE;
}

static int is_empty(const struct reader *r, uint32_t node)
{
    return at(r, node)->kind == WEFT_YAML_SCALAR && !at(r, node)->size;
}

/* --- lists of names */

/* A list of names, or one name; nothing at all is an empty list. */
static int read_names(struct reader *r, uint32_t list, weft_hostlist_take *take)
{
    int status = 0;
    uint32_t item = at(r, list)->kind == WEFT_YAML_SEQUENCE ? at(r, list)->first : list;
    if (at(r, list)->kind == WEFT_YAML_MAPPING)
        return fail_kind(r, list, "what should be names", "a list of them");
    if (is_empty(r, list))
        return 0;
    while (item != WEFT_YAML_NONE && !status) {
        r->line = at(r, item)->line;
        if (at(r, item)->kind != WEFT_YAML_SCALAR)
            return fail_kind(r, item, "what should be a name", "text");
        status = weft_hostlist_expand(r->named.text, r->line, weft_yaml_text(&r->yaml, item),
                                      &r->named.budget, take, r);
        item = item == list ? WEFT_YAML_NONE : at(r, item)->next;
    }
    return status;
}

static int take_switch(void *arg, struct weft_span name)
{
    struct reader *r = arg;
    uint32_t lower;
    int status = weft_named_find(&r->named, name, 0, r->line, &lower);
    return status ? status : weft_named_join(&r->named, r->upper, lower, r->line);
}

/* Notes that a switch names the block. */
static int take_block(void *arg, struct weft_span name)
{
    struct reader *r = arg;
    char text[WEFT_NAME_SIZE_MAX];
    uint32_t upper;
    memcpy(text, name.data, name.size);
    text[name.size] = '\0';
    const char *copy = weft_graph_string(r->named.graph, text);
    if (!copy)
        return weft_fail(WEFT_NOMEM, "no memory for the names of a topology");
    int status = weft_names_put(&r->blocks, (struct weft_span){copy, name.size}, r->upper, &upper);
    if (!status && upper != r->upper)
        return weft_read_fail(r->named.text, r->line, "block \"%.*s\" is of two switches, \"%s\" and \"%s\"",
                              WEFT_SPAN_SHOWN(name), r->named.graph->nodes[r->named.nodes[upper].node].name,
                              r->named.graph->nodes[r->named.nodes[r->upper].node].name);
    return status;
}

/* --- attributes */

static int set_attribute(struct reader *r, uint32_t which, uint32_t key)
{
    return weft_named_attribute(&r->named, which, r->yaml.text + at(r, key)->text,
                                weft_yaml_text(&r->yaml, value_of(r, key)));
}

static int is_word(const struct reader *r, uint32_t key)
{
    const struct weft_yaml_node *value = at(r, value_of(r, key));
    return at(r, key)->size && value->kind == WEFT_YAML_SCALAR && value->size;
}

static int set_labels(struct reader *r, uint32_t which, uint32_t labels)
{
    int status = 0;
    for (uint32_t key = at(r, labels)->first; key != WEFT_YAML_NONE && !status;
         key = at(r, value_of(r, key))->next) {
        if (is_word(r, key))
            status = set_attribute(r, which, key);
    }
    return status;
}

/* What a body says besides names: words, and mappings of words under the keys for labels. */
static int set_attributes(struct reader *r, uint32_t which, uint32_t body)
{
    static const char *const *const names[] = {name_keys, upper_keys, node_keys, switch_keys, block_keys};
    int status = 0;
    for (uint32_t key = at(r, body)->first; key != WEFT_YAML_NONE && !status;
         key = at(r, value_of(r, key))->next) {
        uint32_t value = value_of(r, key);
        int says_names = 0;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            says_names |= is_key(r, key, names[i]);
        if (at(r, value)->kind == WEFT_YAML_MAPPING && is_key(r, key, label_keys))
            status = set_labels(r, which, value);
        else if (!says_names && is_word(r, key))
            status = set_attribute(r, which, key);
    }
    return status;
}

/* How many attributes set_attributes() sets at most. Labels are words: what is nested in them is an error. */
static int check_attributes(const struct reader *r, uint32_t body, const char *where, uint32_t *count)
{
    for (uint32_t key = at(r, body)->first; key != WEFT_YAML_NONE; key = at(r, value_of(r, key))->next) {
        uint32_t value = value_of(r, key);
        ++*count;
        if (at(r, value)->kind != WEFT_YAML_MAPPING || !is_key(r, key, label_keys))
            continue;
        for (uint32_t label = at(r, value)->first; label != WEFT_YAML_NONE;
             label = at(r, value_of(r, label))->next) {
            ++*count;
            if (at(r, value_of(r, label))->kind != WEFT_YAML_SCALAR)
                return fail_key(r, label, where, "text behind it");
        }
    }
    return 0;
}

/* --- nodes */

static int hang_on_switch(struct reader *r, struct weft_span name, uint32_t which)
{
    struct weft_named_node *node = &r->named.nodes[which];
    if (r->upper == WEFT_YAML_NONE)
        return 0;
    if (node->place && node->place != r->upper + 1)
        return weft_read_fail(r->named.text, r->line,
                              "node \"%.*s\" hangs on two switches, \"%s\" and \"%s\"", WEFT_SPAN_SHOWN(name),
                              r->named.graph->nodes[r->named.nodes[node->place - 1].node].name,
                              r->named.graph->nodes[r->named.nodes[r->upper].node].name);
    node->place = r->upper + 1;
    return weft_named_join(&r->named, r->upper, which, r->line);
}

static int put_in_block(struct reader *r, struct weft_span name, uint32_t which)
{
    struct weft_named_node *node = &r->named.nodes[which];
    uint32_t attributes = 1;
    if (node->given)
        return weft_read_fail(r->named.text, r->line, "node \"%.*s\" is in two blocks, the first in line %u",
                              WEFT_SPAN_SHOWN(name), node->given);
    node->given = (uint32_t)r->line;
    int status = check_attributes(r, r->block, "a block's labels", &attributes);
    if (status)
        return status;
    if (attributes > r->attributes)
        return weft_read_fail(r->named.text, r->line,
                              "blocks give more than %u labels to their nodes, the most that is read",
                              ATTRIBUTES_MAX);
    r->attributes -= attributes;
    status = set_attributes(r, which, r->block);
    if (!status && r->block_name.size)
        status = weft_named_attribute(&r->named, which, "block", r->block_name);
    return status;
}

static int take_node(void *arg, struct weft_span name)
{
    struct reader *r = arg;
    uint32_t which;
    int status = weft_named_find(&r->named, name, 1, r->line, &which);
    if (!status)
        status = hang_on_switch(r, name, which);
    return status || r->block == WEFT_YAML_NONE ? status : put_in_block(r, name, which);
}

/* --- bodies */

/* One word under a key is an attribute; a list or mapping must be known. */
static int check_rest(const struct reader *r, uint32_t key, const char *where, const char *expected)
{
    int known = at(r, value_of(r, key))->kind == WEFT_YAML_SCALAR ||
                (at(r, value_of(r, key))->kind == WEFT_YAML_MAPPING && is_key(r, key, label_keys));
    return known ? 0 : fail_key(r, key, where, expected);
}

static int read_switch(struct reader *r, uint32_t body, struct weft_span name, size_t line)
{
    uint32_t ignored = 0, upper;
    int status = weft_named_find(&r->named, name, 0, line, &upper);
    if (status)
        return status;
    r->upper = upper;
    r->block = WEFT_YAML_NONE;
    if (r->named.nodes[upper].given)
        return weft_read_fail(r->named.text, line, "switch \"%.*s\" is in line %u already",
                              WEFT_SPAN_SHOWN(name), r->named.nodes[upper].given);
    r->named.nodes[upper].given = (uint32_t)line;
    if (is_empty(r, body))
        return 0;
    for (uint32_t key = at(r, body)->first; key != WEFT_YAML_NONE && !status;
         key = at(r, value_of(r, key))->next) {
        uint32_t value = value_of(r, key);
        if (is_key(r, key, switch_keys))
            status = read_names(r, value, take_switch);
        else if (is_key(r, key, node_keys))
            status = read_names(r, value, take_node);
        else if (is_key(r, key, block_keys))
            status = read_names(r, value, take_block);
        else
            status = check_rest(r, key, "a switch", "name, switches, nodes, capacity_blocks or labels");
    }
    if (!status)
        status = check_attributes(r, body, "a switch's labels", &ignored);
    return status ? status : set_attributes(r, upper, body);
}

static int read_block(struct reader *r, uint32_t body, struct weft_span name, size_t line)
{
    uint32_t upper_key = is_empty(r, body) ? WEFT_YAML_NONE : find(r, body, upper_keys);
    int status = 0;
    r->block = body;
    r->block_name = name;
    if (!name.size || !weft_names_find(&r->blocks, name, &r->upper))
        r->upper = WEFT_YAML_NONE;
    if (is_empty(r, body))
        return 0;
    if (upper_key != WEFT_YAML_NONE && at(r, upper_key)->kind != WEFT_YAML_SCALAR)
        return fail_kind(r, upper_key, "a block's switch", "its name");
    if (upper_key != WEFT_YAML_NONE && at(r, upper_key)->size) {
        uint32_t named_by = r->upper;
        status = weft_named_find(&r->named, weft_yaml_text(&r->yaml, upper_key), 0, at(r, upper_key)->line,
                                 &r->upper);
        if (!status && named_by != WEFT_YAML_NONE && named_by != r->upper)
            return weft_read_fail(r->named.text, line, "block \"%.*s\" is of two switches, \"%s\" and \"%s\"",
                                  WEFT_SPAN_SHOWN(name),
                                  r->named.graph->nodes[r->named.nodes[named_by].node].name,
                                  r->named.graph->nodes[r->named.nodes[r->upper].node].name);
    }
    for (uint32_t key = at(r, body)->first; key != WEFT_YAML_NONE && !status;
         key = at(r, value_of(r, key))->next) {
        if (is_key(r, key, node_keys))
            status = read_names(r, value_of(r, key), take_node);
        else
            status = check_rest(r, key, "a block", "name, switch, nodes or labels");
    }
    return status;
}

static int read_node(struct reader *r, uint32_t body, struct weft_span name, size_t line)
{
    uint32_t which, ignored = 0;
    int status = weft_named_find(&r->named, name, 1, line, &which);
    if (status || is_empty(r, body))
        return status;
    for (uint32_t key = at(r, body)->first; key != WEFT_YAML_NONE && !status;
         key = at(r, value_of(r, key))->next)
        status = check_rest(r, key, "a node", "words or labels");
    if (!status)
        status = check_attributes(r, body, "a node's labels", &ignored);
    return status ? status : set_attributes(r, which, body);
}

/* A mapping of names to bodies, or a list of bodies that have names in them. */
static int read_bodies(struct reader *r, uint32_t list, const char *what, int name_needed, read_body *read)
{
    int status = 0, is_mapping = at(r, list)->kind == WEFT_YAML_MAPPING;
    if (is_empty(r, list))
        return 0;
    if (at(r, list)->kind == WEFT_YAML_SCALAR)
        return fail_kind(r, list, what, "a mapping or a list");
    for (uint32_t item = at(r, list)->first; item != WEFT_YAML_NONE && !status;) {
        uint32_t body = is_mapping ? value_of(r, item) : item, name = item;
        if (at(r, body)->kind != WEFT_YAML_MAPPING && !(is_mapping && is_empty(r, body)))
            return fail_kind(r, body, what, "a mapping for each");
        if (!is_mapping)
            name = find(r, body, name_keys);
        if (name_needed && (name == WEFT_YAML_NONE || !weft_yaml_text(&r->yaml, name).size))
            return weft_read_fail(r->named.text, at(r, body)->line, "%s: one without a name", what);
        struct weft_span text =
            name == WEFT_YAML_NONE ? (struct weft_span){"", 0} : weft_yaml_text(&r->yaml, name);
        status = read(r, body, text, at(r, name == WEFT_YAML_NONE ? body : name)->line);
        item = at(r, body)->next;
    }
    return status;
}

static int check_top(const struct reader *r)
{
    if (!r->yaml.count || at(r, 0)->kind != WEFT_YAML_MAPPING)
        return weft_read_fail(r->named.text, 0, "no mapping at the top, expected switches: or blocks:");
    for (uint32_t key = at(r, 0)->first; key != WEFT_YAML_NONE; key = at(r, value_of(r, key))->next) {
        int known = is_key(r, key, switch_keys) || is_key(r, key, block_keys) || is_key(r, key, node_keys) ||
                    at(r, value_of(r, key))->kind == WEFT_YAML_SCALAR;
        if (!known)
            return fail_key(r, key, "the topology", "switches, blocks, capacity_blocks or nodes");
    }
    return 0;
}

static int read_model(struct reader *r)
{
    static const struct {
        const char *const *keys;
        const char *what;
        int name_needed;
        read_body *read;
    } parts[] = {{switch_keys, "switches", 1, read_switch},
                 {block_keys, "blocks", 0, read_block},
                 {node_keys, "nodes", 1, read_node}};
    int status = check_top(r);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !status; i++) {
        for (uint32_t key = at(r, 0)->first; key != WEFT_YAML_NONE && !status;
             key = at(r, value_of(r, key))->next) {
            if (is_key(r, key, parts[i].keys))
                status = read_bodies(r, value_of(r, key), parts[i].what, parts[i].name_needed, parts[i].read);
        }
    }
    return status ? status : weft_named_finish(&r->named);
}

int weft_read_topograph(const struct weft_text *text, struct weft_graph *graph)
{
    struct reader r = {.attributes = ATTRIBUTES_MAX};
    int status = weft_yaml_parse(text, &r.yaml);
    if (status)
        return status;
    weft_named_open(text, graph, &r.named);
    status = read_model(&r);
    weft_named_close(&r.named);
    weft_names_free(&r.blocks);
    weft_yaml_free(&r.yaml);
    return status;
}
