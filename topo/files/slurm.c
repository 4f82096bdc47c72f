/* SPDX-License-Identifier: Apache-2.0 */
/* What Slurm knows of the network, in three spellings. topology.yaml is a fourth (slurm_yaml.c).
 *
 * topology.conf (topology.conf(5)): lines of KEY=VALUE words, keys in any case, '#' begins a comment, a backslash at the
 * end continues the line.
 *     SwitchName=s0 Nodes=n[0-3,7] LinkSpeed=...        SwitchName=s2 Switches=s[0-1]
 *     BlockName=b0 Nodes=n[0-17]                        BlockSizes=18,36
 * A block is a set of nodes that are near each other: a switch to us, with the attribute slurm=block. How blocks are
 * joined is not told. LinkSpeed has units of the site's own choice and steers nothing; it is kept as an attribute. As in
 * Slurm, every switch has a line of its own, with nodes or switches on it but not both; one with neither is a warning. Not
 * as in Slurm, a switch may have several above it.
 *
 * What `scontrol show topology` prints, a line each; --oneliner changes nothing:
 *     SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-3]    BlockName=b0 BlockIndex=0 Nodes=n[0-17] BlockSize=18
 *     SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[0-7] Switches=s[0-1]
 *     AggregatedBlock=b[0-1] BlockIndex=2 Nodes=n[0-35] BlockSize=36
 *     RingName=r0 Nodes=n[0-7] RingSize=8               TorusName=t0 Dims=4x4x4 Nodes=n[0-63]
 * Level is what topology.conf has not: the nodes of a switch with switches below it are those of these, and where a node or
 * a switch was asked for, lines are missing. A ring and a torus are sets of nodes like a block. How Slurm plans with blocks
 * (BlockSizes, AggregatedBlock) is passed over.
 *
 * Addresses (srun(1), SLURM_TOPOLOGY_ADDR and SLURM_TOPOLOGY_ADDR_PATTERN): the names from the top of the network
 * to the node, joined by dots, and in the same places what each is: "s0.s4.n3", "switch.switch.node". One address a line,
 * with the node's name before it or the pattern behind it or both; or as environment variables print, on one line or
 * two. Without a pattern the last name is the node and all others are switches. Slurm writes a level of which no switch
 * leads to the node as nothing, which leaves that level out, and one of which several do as a hostlist; all of a level
 * are then taken to stand above all of the next. As every task prints its node's address, the same one may come again; a
 * different one of the same node is an error.
 */
#include <string.h>

#include "base/error.h"
#include "topo/files/hostlist.h"
#include "topo/files/slurm_conf.h"

#define LEVELS_MAX    16
#define ABREAST_MAX   64         /* switches of one level in an address */
#define CROSSINGS_MAX (1u << 22) /* joins that levels of several switches may add, in a text */
#define VARIABLE      "SLURM_TOPOLOGY_ADDR="
#define PATTERN       "SLURM_TOPOLOGY_ADDR_PATTERN="

struct level {
    uint32_t count;
    uint32_t switches[ABREAST_MAX];
};

struct address {
    unsigned count;
    struct weft_span levels[LEVELS_MAX];
    const char *kinds[LEVELS_MAX]; /* the attribute slurm of its switches, NULL for none */
    struct weft_span node;
};

struct reader {
    struct weft_named named;
    size_t line;
    /* Of an address. */
    struct level above, level;
    uint32_t crossings;       /* that may still come */
    struct weft_span waiting; /* an address whose pattern may be in the next line, or the other way round */
    size_t waiting_line;
    int waiting_is_pattern;
    struct weft_slurm_conf conf; /* of lines of topology.conf */
};

static int fail(const struct reader *r, const char *what, struct weft_span span, const char *expected)
{
    return weft_read_fail(r->named.text, r->line, "%s \"%.*s\", expected %s", what, WEFT_SPAN_SHOWN(span),
                          expected);
}

/* --- addresses */

static int take_switch(void *arg, struct weft_span name)
{
    struct reader *r = arg;
    if (r->level.count == ABREAST_MAX)
        return weft_read_fail(r->named.text, r->line, "an address has more than %d switches side by side",
                              ABREAST_MAX);
    return weft_named_find(&r->named, name, 0, r->line, &r->level.switches[r->level.count++]);
}

/* Joins everything in the level to everything above, and makes it what is above. */
static int descend(struct reader *r)
{
    const struct level *above = &r->above, *level = &r->level;
    uint32_t pairs = above->count * level->count;
    if (pairs > 1 && pairs > r->crossings)
        return weft_read_fail(r->named.text, r->line,
                              "levels of several switches make more than %u joins, the most that is read",
                              CROSSINGS_MAX);
    r->crossings -= pairs > 1 ? pairs : 0;
    for (uint32_t i = 0; i < above->count; i++) {
        for (uint32_t j = 0; j < level->count; j++) {
            int status = weft_named_join(&r->named, above->switches[i], level->switches[j], r->line);
            if (status)
                return status;
        }
    }
    r->above = r->level;
    return 0;
}

static int read_level(struct reader *r, struct weft_span names, const char *kind)
{
    uint32_t budget = ABREAST_MAX + 1;
    r->level.count = 0;
    if (!names.size)
        return 0;
    int status = weft_hostlist_expand(r->named.text, r->line, names, &budget, take_switch, r);
    for (uint32_t i = 0; i < r->level.count && kind && !status; i++) {
        struct weft_named_node *node = &r->named.nodes[r->level.switches[i]];
        if (!node->given)
            status = weft_named_attribute(&r->named, r->level.switches[i], "slurm",
                                          (struct weft_span){kind, strlen(kind)});
        node->given = (uint32_t)r->line;
    }
    return status ? status : descend(r);
}

/* Takes what is before the next dot, and the dot; without one, everything. */
static struct weft_span take_part(struct weft_span *rest)
{
    size_t size = 0;
    while (size < rest->size && rest->data[size] != '.')
        size++;
    struct weft_span part = {rest->data, size};
    size_t taken = size < rest->size ? size + 1 : size;
    *rest = (struct weft_span){rest->data + taken, rest->size - taken};
    return part;
}

static size_t count_dots(struct weft_span span)
{
    size_t dots = 0;
    for (size_t i = 0; i < span.size; i++)
        dots += span.data[i] == '.';
    return dots;
}

/* Where in the address the node's name begins, which may have dots itself: told by the name, or by the pattern's number of
 * parts, or behind the last dot. */
static int find_node(const struct reader *r, struct weft_span name, struct weft_span address,
                     struct weft_span pattern, size_t *at)
{
    struct weft_span rest = address;
    if (name.size) {
        size_t before = address.size - name.size;
        if (name.size > address.size || memcmp(address.data + before, name.data, name.size) != 0 ||
            (before && address.data[before - 1] != '.'))
            return fail(r, "the address", address, "one that ends in the name of the node before it");
        *at = before;
        return 0;
    }
    size_t dots = count_dots(address), levels = pattern.size ? count_dots(pattern) : dots;
    if (dots < levels)
        return fail(r, "the address", address, "a name for each part of its pattern");
    for (; levels; levels--)
        take_part(&rest);
    *at = (size_t)(rest.data - address.data);
    return 0;
}

/* What a part of a pattern says of the level in the same place: NULL for a switch, else the attribute slurm. A ring and a torus
 * put the node's place in them behind their name, and that is taken off it. */
static int read_kind(struct weft_span part, struct weft_span *level, const char **kind)
{
    static const struct {
        const char *part, *kind;
        int has_place;
    } kinds[] = {{"switch", NULL, 0},
                 {"block", "block", 0},
                 {"ring:position", "ring", 1},
                 {"torus:x:y:z", "torus", 1}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!weft_span_is(part, kinds[i].part))
            continue;
        *kind = kinds[i].kind;
        const char *place = kinds[i].has_place ? memchr(level->data, ':', level->size) : NULL;
        if (place)
            level->size = (size_t)(place - level->data);
        return 1;
    }
    return 0;
}

/* The levels of an address, each a part of it, and the node's name. An empty pattern stands for switches and a node. */
static int split(const struct reader *r, struct weft_span name, struct weft_span address,
                 struct weft_span pattern, struct address *parts)
{
    size_t node_at = 0;
    int status = find_node(r, name, address, pattern, &node_at);
    if (status)
        return status;
    struct weft_span above = {address.data, node_at ? node_at - 1 : 0}, kinds = pattern;
    size_t count = node_at ? count_dots(above) + 1 : 0;
    if (pattern.size && count_dots(pattern) != count)
        return fail(r, "the pattern", pattern, "as many parts as the address has");
    if (count > LEVELS_MAX)
        return fail(r, "the address", address, "at most 16 levels");
    for (size_t i = 0; i < count; i++) {
        struct weft_span kind = pattern.size ? take_part(&kinds) : (struct weft_span){"switch", 6};
        parts->levels[i] = take_part(&above);
        if (!read_kind(kind, &parts->levels[i], &parts->kinds[i]))
            return fail(r, "the pattern", pattern, "switch or block for each level and node at the end");
    }
    if (pattern.size && !weft_span_is(kinds, "node"))
        return fail(r, "the pattern", pattern, "switch or block for each level and node at the end");
    parts->count = (unsigned)count;
    parts->node = (struct weft_span){address.data + node_at, address.size - node_at};
    return 0;
}

/* What was read once needs no second reading; what differs is an error. Sets *known. */
static int is_known(struct reader *r, uint32_t host, struct weft_span address, int *known)
{
    struct weft_named_node *node = &r->named.nodes[host];
    *known = node->given != 0;
    if (!node->given) {
        node->given = (uint32_t)r->line;
        node->words = address;
        return 0;
    }
    int same = node->words.size == address.size;
    for (size_t i = 0; same && i < address.size; i++)
        same = node->words.data[i] == address.data[i];
    return same ? 0
                : weft_read_fail(r->named.text, r->line,
                                 "the address \"%.*s\" is of the node that line %u says "
                                 "has \"%.*s\"",
                                 WEFT_SPAN_SHOWN(address), node->given, WEFT_SPAN_SHOWN(node->words));
}

static int read_address(struct reader *r, struct weft_span name, struct weft_span address,
                        struct weft_span pattern)
{
    struct address parts = {0};
    int known = 0;
    uint32_t host;
    int status = split(r, name, address, pattern, &parts);
    if (!status)
        status = weft_named_find(&r->named, parts.node, 1, r->line, &host);
    if (!status)
        status = is_known(r, host, address, &known);
    r->above.count = 0;
    for (unsigned i = 0; i < parts.count && !status && !known; i++)
        status = read_level(r, parts.levels[i], parts.kinds[i]);
    if (status || known)
        return status;
    r->level.count = 1;
    r->level.switches[0] = host;
    return descend(r);
}

static int is_pattern(struct weft_span word)
{
    while (word.size) {
        struct weft_span part = take_part(&word);
        const char *kind;
        struct weft_span level = {"", 0};
        if (!weft_span_is(part, "node") && !read_kind(part, &level, &kind))
            return 0;
    }
    return 1;
}

static int read_address_line(struct reader *r, struct weft_cursor *cursor)
{
    struct weft_span words[4], none = {"", 0};
    unsigned count = 0;
    while (count < 4 && weft_line_take_word(cursor, &words[count])) {
        count++;
        weft_line_skip_blanks(cursor);
    }
    if (count == 1)
        return read_address(r, none, words[0], none);
    if (count == 2 && is_pattern(words[1]))
        return read_address(r, none, words[0], words[1]);
    if (count == 2)
        return read_address(r, words[0], words[1], none);
    if (count == 3)
        return read_address(r, words[0], words[1], words[2]);
    return fail(r, "too many words behind", words[2], "\"NODE ADDRESS PATTERN\" and nothing else");
}

/* --- addresses as environment variables */

static int end_waiting(struct reader *r)
{
    struct weft_span none = {"", 0}, address = r->waiting;
    size_t line = r->line;
    int status = 0;
    r->waiting = none;
    if (!address.size)
        return 0;
    r->line = r->waiting_line;
    if (r->waiting_is_pattern)
        status = fail(r, "no address has the pattern", address, VARIABLE "... next to it");
    else
        status = read_address(r, none, address, none);
    r->line = line;
    return status;
}

static int read_variable(struct reader *r, struct weft_span value, int pattern)
{
    struct weft_span none = {"", 0}, other = r->waiting;
    if (!value.size)
        return fail(r, "no value behind", (struct weft_span){VARIABLE, sizeof VARIABLE - 1}, "an address");
    if (other.size && r->waiting_is_pattern != pattern) {
        r->waiting = none;
        return pattern ? read_address(r, none, other, value) : read_address(r, none, value, other);
    }
    int status = end_waiting(r);
    r->waiting = value;
    r->waiting_line = r->line;
    r->waiting_is_pattern = pattern;
    return status;
}

/* --- the text */

/* Leaves of the line what is no comment, no blank around it, and no backslash at its end. */
static int trim(const struct reader *r, struct weft_cursor *cursor, int *goes_on)
{
    if (memchr(cursor->at, '\0', (size_t)(cursor->end - cursor->at)))
        return weft_read_fail(r->named.text, r->line, "a zero byte, expected text");
    const char *comment = memchr(cursor->at, '#', (size_t)(cursor->end - cursor->at));
    if (comment)
        cursor->end = comment;
    *goes_on = 0;
    for (weft_line_skip_blanks(cursor); cursor->end > cursor->at; cursor->end--) {
        char last = cursor->end[-1];
        if (last == '\\' && !*goes_on)
            *goes_on = 1;
        else if (last != ' ' && last != '\t')
            break;
    }
    return 0;
}

static int read_line(struct reader *r, struct weft_cursor *cursor)
{
    int goes_on = 0, status = trim(r, cursor, &goes_on);
    if (status || r->conf.record)
        return status ? status : weft_slurm_conf_line(&r->conf, cursor, goes_on);
    while (cursor->at < cursor->end) {
        struct weft_cursor word = *cursor;
        struct weft_span span;
        int pattern = weft_line_take(&word, PATTERN);
        if (!pattern && !weft_line_take(&word, VARIABLE))
            break;
        weft_line_take_word(&word, &span);
        status = read_variable(r, span, pattern);
        if (status)
            return status;
        *cursor = word;
        weft_line_skip_blanks(cursor);
    }
    if (cursor->at == cursor->end)
        return 0;
    struct weft_cursor first = *cursor;
    struct weft_span word;
    weft_line_take_word(&first, &word);
    return memchr(word.data, '=', word.size) ? weft_slurm_conf_line(&r->conf, cursor, goes_on)
                                             : read_address_line(r, cursor);
}

int weft_read_slurm(const struct weft_text *text, struct weft_graph *graph)
{
    struct reader r = {.crossings = CROSSINGS_MAX};
    struct weft_cursor cursor = {0};
    size_t at = 0;
    int status = 0;
    weft_named_open(text, graph, &r.named);
    r.conf.net.named = &r.named;
    r.conf.net.entry = "line SwitchName=";
    while (!status && weft_line_next(text, &at, &cursor)) {
        struct weft_cursor line = cursor;
        r.line = cursor.line;
        status = read_line(&r, &line);
    }
    if (!status)
        status = end_waiting(&r);
    if (!status)
        status = weft_slurm_conf_finish(&r.conf);
    if (!status)
        status = weft_named_finish(&r.named);
    weft_slurm_net_close(&r.conf.net);
    weft_named_close(&r.named);
    return status;
}
