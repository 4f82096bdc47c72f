/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/files/slurm_conf.h"

#include <string.h>

static int fail(const struct weft_slurm_conf *conf, const char *what, struct weft_span span,
                const char *expected)
{
    return weft_read_fail(conf->net.named->text, conf->line, "%s \"%.*s\", expected %s", what,
                          WEFT_SPAN_SHOWN(span), expected);
}

/* --- words */

/* A word KEY=VALUE; quotes around the value are taken off. */
static int take_setting(struct weft_slurm_conf *conf, struct weft_cursor *cursor, struct weft_span *key,
                        struct weft_span *value)
{
    struct weft_span word;
    weft_line_take_word(cursor, &word);
    size_t size = 0;
    while (size < word.size && word.data[size] != '=')
        size++;
    if (size == word.size || size == 0)
        return fail(conf, "found", word, "SwitchName=..., BlockName=... or an address");
    *key = (struct weft_span){word.data, size};
    *value = (struct weft_span){word.data + size + 1, word.size - size - 1};
    if (value->size >= 2 && value->data[0] == '"' && value->data[value->size - 1] == '"')
        *value = (struct weft_span){value->data + 1, value->size - 2};
    return 0;
}

/* What begins a record: *kind is what sort of group, NULL for a switch. */
static int is_name(struct weft_span key, const char **kind)
{
    static const struct {
        const char *key, *kind;
    } names[] = {{"switchname", NULL}, {"blockname", "block"}, {"ringname", "ring"}, {"torusname", "torus"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (weft_span_is_any_case(key, names[i].key)) {
            *kind = names[i].kind;
            return 1;
        }
    }
    return 0;
}

static int read_list(struct weft_slurm_conf *conf, struct weft_span key, struct weft_span value, int is_nodes)
{
    int is_second = is_nodes ? conf->has_nodes : conf->has_switches;
    /* scontrol prints the nodes of every switch, also of one that has switches below it: the record's end knows. */
    if (is_second)
        return fail(conf, "a second list of what is below a switch in", key,
                    "either Nodes= or Switches=, once");
    *(is_nodes ? &conf->has_nodes : &conf->has_switches) = 1;
    *(is_nodes ? &conf->nodes : &conf->switches) = value;
    *(is_nodes ? &conf->nodes_line : &conf->switches_line) = conf->line;
    return 0;
}

static int read_level(struct weft_slurm_conf *conf, struct weft_span value)
{
    struct weft_cursor digits = {value.data, value.data + value.size, conf->line};
    conf->is_shown = 1;
    if (!weft_line_take_number(&digits, UINT16_MAX, &conf->level) || digits.at != digits.end)
        return fail(conf, "the level", value, "a number up to 65535, as scontrol prints");
    return 0;
}

/* KEY=VALUE behind the first of a record. */
static int read_setting(struct weft_slurm_conf *conf, struct weft_span key, struct weft_span value)
{
    static const char *const shown[] = {"blockindex", "blocksize", "ringsize", "dims", "anchors"};
    int is_nodes = weft_span_is_any_case(key, "nodes");
    if (is_nodes || weft_span_is_any_case(key, "switches"))
        return read_list(conf, key, value, is_nodes);
    if (weft_span_is_any_case(key, "level"))
        return read_level(conf, value);
    if (weft_span_is_any_case(key, "linkspeed")) {
        conf->link_speed = value;
        return 0;
    }
    for (size_t i = 0; conf->kind && i < sizeof shown / sizeof *shown; i++) {
        if (weft_span_is_any_case(key, shown[i]))
            return 0;
    }
    if (conf->kind && weft_span_is_any_case(key, "placementdims")) {
        conf->is_placement = 1; /* of a torus that has been read */
        return 0;
    }
    return fail(conf, "an unknown setting", key, "Nodes, Switches or LinkSpeed");
}

/* --- records */

static int end_switch(struct weft_slurm_conf *conf)
{
    struct weft_slurm_net *net = &conf->net;
    int has_both = conf->nodes.size && conf->switches.size;
    net->is_shown |= conf->is_shown;
    if (has_both && !conf->is_shown)
        return weft_read_fail(net->named->text,
                              conf->nodes_line > conf->switches_line ? conf->nodes_line : conf->switches_line,
                              "a second list of what is below a switch in \"%s\", expected either Nodes= or "
                              "Switches=, once",
                              conf->nodes.data > conf->switches.data ? "Nodes" : "Switches");
    int status = weft_slurm_net_begin(net, conf->name, conf->kind, conf->name_line);
    if (!status && conf->link_speed.data)
        status = weft_named_attribute(net->named, net->upper, "LinkSpeed", conf->link_speed);
    if (!status && has_both)
        status = weft_slurm_net_note(net, conf->nodes, conf->level, conf->nodes_line);
    if (!status && !has_both)
        status = weft_slurm_net_add(net, conf->nodes, 1, conf->nodes_line);
    if (!status)
        status = weft_slurm_net_add(net, conf->switches, 0, conf->switches_line);
    return status ? status : weft_slurm_net_end(net, conf->line);
}

static int end_record(struct weft_slurm_conf *conf)
{
    int says_switch = conf->record == WEFT_SLURM_SWITCH && !conf->is_placement;
    conf->record = WEFT_SLURM_NONE;
    return says_switch ? end_switch(conf) : 0;
}

static int begin_record(struct weft_slurm_conf *conf, struct weft_span key, struct weft_span value)
{
    *conf = (struct weft_slurm_conf){.net = conf->net, .line = conf->line, .name = value};
    conf->name_line = conf->line;
    if (is_name(key, &conf->kind))
        conf->record = WEFT_SLURM_SWITCH;
    else if (weft_span_is_any_case(key, "blocksizes") || weft_span_is_any_case(key, "aggregatedblock"))
        conf->record = WEFT_SLURM_IGNORED; /* how Slurm plans with blocks, which have lines of their own */
    else
        return fail(conf, "a line begins with", key, "SwitchName=, BlockName=, BlockSizes= or an address");
    return 0;
}

int weft_slurm_conf_line(struct weft_slurm_conf *conf, struct weft_cursor *cursor, int goes_on)
{
    int status = 0;
    conf->line = cursor->line;
    for (; cursor->at < cursor->end && !status && conf->record != WEFT_SLURM_IGNORED;
         weft_line_skip_blanks(cursor)) {
        struct weft_span key = {"", 0}, value = key;
        status = take_setting(conf, cursor, &key, &value);
        if (!status)
            status = conf->record ? read_setting(conf, key, value) : begin_record(conf, key, value);
    }
    return status || goes_on ? status : end_record(conf);
}

int weft_slurm_conf_finish(struct weft_slurm_conf *conf)
{
    int status = end_record(conf);
    return status ? status : weft_slurm_net_finish(&conf->net);
}
