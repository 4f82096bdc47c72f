/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's topology.yaml (topology.yaml(5), from Slurm 25.05 on; also what `scontrol show topoconf` prints): a list of topologies, of
 * which each partition uses one.
 *
 *     - topology: fabric                     - topology: racks
 *       cluster_default: true                  block:
 *       tree:                                    block_sizes: [18, 36]
 *         switches:                              blocks:
 *         - switch: s2                           - block: b0
 *           children: s[0-1]                       nodes: n[0-17]
 *         - switch: s0                       - topology: plain
 *           nodes: n[0-3]                      flat: true
 *
 * They may have the same nodes in different ways, with the same names for other switches, and so one of them is read: the
 * first one that says cluster_default: true, or where none does or that one says nothing of switches and blocks, the
 * first that does. topograph has written clusterDefault. A warning says which, where another is passed over that says something too. How Slurm plans with
 * blocks (block_sizes) is passed over as in topology.conf; so are kinds of topologies that are not known here.
 */
#include <string.h>

#include "topo/files/slurm_net.h"
#include "topo/files/yaml_tree.h"

#define NONE WEFT_YAML_NONE

/* What is known of a kind of topology: its list, the key of a name in it, the key of what is below. */
struct kind {
    const char *key, *list, *name, *switches, *attribute;
};
static const struct kind kinds[] = {{"tree", "switches", "switch", "children", NULL},
                                    {"block", "blocks", "block", NULL, "block"}};

struct reader {
    const struct weft_text *text;
    struct weft_yaml yaml;
    struct weft_named named;
    struct weft_slurm_net net;
    uint32_t chosen; /* the item of the list that is read: the first that says something, or the default */
    uint32_t first_default; /* whatever it says */
    uint32_t candidates;    /* how many say something of switches or blocks */
};

static const struct weft_yaml_node *at(const struct reader *r, uint32_t node)
{
    return &r->yaml.nodes[node];
}

/* Behind a key and its value; NONE at the end. */
static uint32_t after(const struct reader *r, uint32_t key)
{
    return at(r, at(r, key)->next)->next;
}

/* The value of a key in a mapping, NONE without. */
static uint32_t find(const struct reader *r, uint32_t mapping, const char *name)
{
    if (at(r, mapping)->kind != WEFT_YAML_MAPPING)
        return NONE;
    for (uint32_t key = at(r, mapping)->first; key != NONE; key = after(r, key)) {
        if (weft_span_is(weft_yaml_text(&r->yaml, key), name))
            return at(r, key)->next;
    }
    return NONE;
}

static int fail_kind(const struct reader *r, uint32_t node, const char *what, const char *expected)
{
    static const char *const names[] = {"text", "a list", "a mapping"};
    return weft_read_fail(r->text, at(r, node)->line, "%s is %s, expected %s", what, names[at(r, node)->kind],
                          expected);
}

static struct weft_span name_of(const struct reader *r, uint32_t topology)
{
    uint32_t name = find(r, topology, "topology");
    return name == NONE ? (struct weft_span){"", 0} : weft_yaml_text(&r->yaml, name);
}

/* --- switches and blocks */

/* A hostlist, or a list of them. */
static int read_names(struct reader *r, uint32_t names, int is_hosts)
{
    int status = 0;
    if (at(r, names)->kind == WEFT_YAML_MAPPING)
        return fail_kind(r, names, is_hosts ? "nodes" : "children", "a list of names like n[0-3,7]");
    uint32_t item = at(r, names)->kind == WEFT_YAML_SEQUENCE ? at(r, names)->first : names;
    while (item != NONE && !status) {
        if (at(r, item)->kind != WEFT_YAML_SCALAR)
            return fail_kind(r, item, "what should be a name", "text");
        status = weft_slurm_net_add(&r->net, weft_yaml_text(&r->yaml, item), is_hosts, at(r, item)->line);
        item = item == names ? NONE : at(r, item)->next;
    }
    return status;
}

/* What is below: of nodes and switches one, as in topology.conf. Other words are kept. */
static int read_setting(struct reader *r, const struct kind *kind, uint32_t key, int *lists)
{
    struct weft_span name = weft_yaml_text(&r->yaml, key);
    uint32_t value = at(r, key)->next;
    int is_hosts = weft_span_is(name, "nodes"), is_empty = at(r, value)->first == NONE && !at(r, value)->size;
    if (weft_span_is(name, kind->name))
        return 0;
    if (is_hosts || (kind->switches && weft_span_is(name, kind->switches))) {
        *lists += !is_empty;
        if (*lists > 1)
            return weft_read_fail(r->text, at(r, key)->line,
                                  "nodes and children of one switch, expected one of them");
        return read_names(r, value, is_hosts);
    }
    if (at(r, value)->kind != WEFT_YAML_SCALAR)
        return weft_read_fail(r->text, at(r, key)->line, "the key \"%.*s\" in a %s, expected %s, nodes%s",
                              WEFT_SPAN_SHOWN(name), kind->name, kind->name,
                              kind->switches ? " or children" : "");
    return weft_named_attribute(&r->named, r->net.upper, r->yaml.text + at(r, key)->text,
                                weft_yaml_text(&r->yaml, value));
}

static int read_switch(struct reader *r, const struct kind *kind, uint32_t body)
{
    uint32_t name = find(r, body, kind->name), line = at(r, body)->line;
    int lists = 0;
    if (at(r, body)->kind != WEFT_YAML_MAPPING)
        return fail_kind(r, body, kind->list, "a mapping for each");
    if (name == NONE || !weft_yaml_text(&r->yaml, name).size)
        return weft_read_fail(r->text, line, "%s: one without its name, expected \"%s: NAME\"", kind->list,
                              kind->name);
    int status =
        weft_slurm_net_begin(&r->net, weft_yaml_text(&r->yaml, name), kind->attribute, at(r, name)->line);
    for (uint32_t key = at(r, body)->first; key != NONE && !status; key = after(r, key))
        status = read_setting(r, kind, key, &lists);
    return status ? status : weft_slurm_net_end(&r->net, line);
}

static int read_kind(struct reader *r, const struct kind *kind, uint32_t topology)
{
    uint32_t body = find(r, topology, kind->key), list = body == NONE ? NONE : find(r, body, kind->list);
    int status = 0;
    if (body == NONE)
        return 0;
    if (at(r, body)->kind != WEFT_YAML_MAPPING)
        return fail_kind(r, body, kind->key, "a mapping");
    if (list == NONE)
        return weft_read_fail(r->text, at(r, body)->line, "%s without a list of its %s", kind->key,
                              kind->list);
    if (at(r, list)->kind != WEFT_YAML_SEQUENCE)
        return fail_kind(r, list, kind->list, "a list");
    for (uint32_t item = at(r, list)->first; item != NONE && !status; item = at(r, item)->next)
        status = read_switch(r, kind, item);
    return status;
}

/* --- topologies */

static int is_true(struct weft_span word)
{
    return weft_span_is_any_case(word, "true") || weft_span_is_any_case(word, "yes") ||
           weft_span_is_any_case(word, "on") || weft_span_is(word, "1");
}

/* Notes an item of the list, and whether it says anything of switches or blocks. */
static int survey(struct reader *r, uint32_t topology)
{
    if (at(r, topology)->kind != WEFT_YAML_MAPPING)
        return fail_kind(r, topology, "a topology", "a mapping that begins with \"topology: NAME\"");
    if (!name_of(r, topology).size)
        return weft_read_fail(r->text, at(r, topology)->line,
                              "a topology without its name, expected \"topology: NAME\"");
    uint32_t word = find(r, topology, "cluster_default");
    if (word == NONE)
        word = find(r, topology, "clusterDefault");
    int is_default = word != NONE && is_true(weft_yaml_text(&r->yaml, word)), has_any = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        has_any |= find(r, topology, kinds[i].key) != NONE;
    if (is_default && r->first_default == NONE)
        r->first_default = topology;
    if (!has_any)
        return 0;
    r->candidates++;
    if (r->chosen == NONE)
        r->chosen = topology;
    if (r->first_default == topology)
        r->chosen = topology;
    return 0;
}

static int warn_of_choice(struct reader *r)
{
    struct weft_span name = name_of(r, r->chosen), other = name;
    size_t line = at(r, r->chosen)->line;
    int is_default = r->first_default == r->chosen;
    if (r->first_default != NONE && !is_default) {
        other = name_of(r, r->first_default);
        return weft_read_warn(r->text, r->named.graph, line,
                              "topology \"%.*s\" is read, as \"%.*s\", the cluster's default, has no switch "
                              "and no block",
                              WEFT_SPAN_SHOWN(name), WEFT_SPAN_SHOWN(other));
    }
    if (r->candidates == 1)
        return 0;
    return weft_read_warn(r->text, r->named.graph, line, "of %u topologies \"%.*s\" is read, as it is %s",
                          r->candidates, WEFT_SPAN_SHOWN(name),
                          is_default ? "the cluster's default" : "the first");
}

static int read_list(struct reader *r)
{
    int status = 0;
    if (!r->yaml.count || at(r, 0)->kind != WEFT_YAML_SEQUENCE)
        return weft_read_fail(r->text, r->yaml.count ? at(r, 0)->line : 0,
                              "no list at the top, expected topologies like \"- topology: NAME\"");
    for (uint32_t item = at(r, 0)->first; item != NONE && !status; item = at(r, item)->next)
        status = survey(r, item);
    if (status)
        return status;
    if (r->chosen == NONE)
        return weft_read_fail(r->text, at(r, 0)->line,
                              "no topology in it has switches or blocks, expected tree: or block:");
    status = warn_of_choice(r);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !status; i++)
        status = read_kind(r, &kinds[i], r->chosen);
    if (!status)
        status = weft_slurm_net_finish(&r->net);
    return status ? status : weft_named_finish(&r->named);
}

int weft_read_slurm_yaml(const struct weft_text *text, struct weft_graph *graph)
{
    struct reader r = {.text = text, .chosen = NONE, .first_default = NONE};
    int status = weft_yaml_parse(text, &r.yaml);
    if (status)
        return status;
    weft_named_open(text, graph, &r.named);
    r.net.named = &r.named;
    r.net.entry = "\"- switch:\"";
    status = read_list(&r);
    weft_slurm_net_close(&r.net);
    weft_named_close(&r.named);
    weft_yaml_free(&r.yaml);
    return status;
}
