/* SPDX-License-Identifier: Apache-2.0 */
/* libyaml's parser gives events, one for each scalar and for each beginning and end; the tree is made of them without
 * recursion: a stack holds, for every node that is open, its index, its last child and how many there are.
 *
 * Directives (%TAG) are looked for before parsing, as libyaml compares each %TAG with all before it. %YAML, of which libyaml
 * refuses a second one, may stand in front: Slurm's tools print it. Line breaks are
 * those of YAML 1.1: LF, CR, NEL, LS and PS. */
#include "topo/files/yaml_tree.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/error.h"
#include "topo/files/names.h"

struct open_node {
    uint32_t node, last, children;
};

struct builder {
    struct weft_yaml *yaml;
    unsigned depth;
    struct open_node open[WEFT_YAML_DEPTH_MAX];
};

static int no_memory(void)
{
    return weft_fail(WEFT_NOMEM, "no memory for the tree of a YAML text");
}

static int ends_line(const char *text, size_t at)
{
    char last = at ? text[at - 1] : '\n';
    if (last == '\n' || last == '\r')
        return 1;
    if (at >= 2 && memcmp(text + at - 2, "\xc2\x85", 2) == 0)
        return 1;
    return at >= 3 &&
           (memcmp(text + at - 3, "\xe2\x80\xa8", 3) == 0 || memcmp(text + at - 3, "\xe2\x80\xa9", 3) == 0 ||
            memcmp(text + at - 3, "\xef\xbb\xbf", 3) == 0);
}

static int check_directives(const struct weft_text *source)
{
    size_t line = 1, counted = 0;
    for (size_t at = 0; at < source->size; at++) {
        const char *found = memchr(source->data + at, '%', source->size - at);
        if (!found)
            break;
        at = (size_t)(found - source->data);
        if (!ends_line(source->data, at) ||
            (source->size - at > 6 && memcmp(source->data + at, "%YAML ", 6) == 0))
            continue;
        for (; counted < at; counted++)
            line += source->data[counted] == '\n';
        return weft_read_fail(source, line, "a line that begins with %%, expected YAML without directives");
    }
    return 0;
}

/* --- the tree */

static int add_node(struct builder *b, enum weft_yaml_kind kind, size_t line, uint32_t *made)
{
    struct weft_yaml *yaml = b->yaml;
    if (yaml->count == WEFT_YAML_NODES_MAX)
        return weft_read_fail(yaml->source, line, "more than %u values and keys, the most that is read",
                              WEFT_YAML_NODES_MAX);
    if (yaml->count == yaml->room) {
        uint32_t room = yaml->room ? yaml->room * 2 : 64;
        struct weft_yaml_node *nodes = realloc(yaml->nodes, room * sizeof *nodes);
        if (!nodes)
            return no_memory();
        yaml->nodes = nodes;
        yaml->room = room;
    }
    *made = yaml->count++;
    yaml->nodes[*made] = (struct weft_yaml_node){
        .kind = (uint8_t)kind, .line = (uint32_t)line, .first = WEFT_YAML_NONE, .next = WEFT_YAML_NONE};
    if (!b->depth)
        return 0;
    struct open_node *open = &b->open[b->depth - 1];
    if (yaml->nodes[open->node].kind == WEFT_YAML_MAPPING && open->children % 2 == 0 &&
        kind != WEFT_YAML_SCALAR)
        return weft_read_fail(yaml->source, line, "a key that is a list or mapping, expected text");
    if (open->children++)
        yaml->nodes[open->last].next = *made;
    else
        yaml->nodes[open->node].first = *made;
    open->last = *made;
    return 0;
}

static int add_text(struct weft_yaml *yaml, const char *text, size_t size)
{
    if (yaml->text_room - yaml->text_used <= size) {
        size_t room = yaml->text_room * 2 + size + 1024;
        char *grown = realloc(yaml->text, room);
        if (!grown)
            return no_memory();
        yaml->text = grown;
        yaml->text_room = room;
    }
    if (size)
        memcpy(yaml->text + yaml->text_used, text, size);
    yaml->text[yaml->text_used + size] = '\0';
    yaml->text_used += size + 1;
    return 0;
}

static int add_scalar(struct builder *b, const yaml_event_t *event, size_t line)
{
    struct weft_yaml *yaml = b->yaml;
    const char *text = (const char *)event->data.scalar.value;
    size_t size = event->data.scalar.length, at = yaml->text_used;
    uint32_t made;
    if (memchr(text, '\0', size))
        return weft_read_fail(yaml->source, line, "a zero byte, expected text");
    int status = add_node(b, WEFT_YAML_SCALAR, line, &made);
    if (!status)
        status = add_text(yaml, text, size);
    if (status)
        return status;
    yaml->nodes[made].text = (uint32_t)at;
    yaml->nodes[made].size = (uint32_t)size;
    return 0;
}

static int open_collection(struct builder *b, enum weft_yaml_kind kind, size_t line)
{
    uint32_t made;
    if (b->depth == WEFT_YAML_DEPTH_MAX)
        return weft_read_fail(b->yaml->source, line, "nested more than %d deep", WEFT_YAML_DEPTH_MAX);
    int status = add_node(b, kind, line, &made);
    if (!status)
        b->open[b->depth++] = (struct open_node){.node = made};
    return status;
}

/* Of the mapping that has just ended. */
static int check_keys(const struct weft_yaml *yaml, uint32_t mapping)
{
    struct weft_names keys = {0};
    int status = 0;
    for (uint32_t key = yaml->nodes[mapping].first; key != WEFT_YAML_NONE && !status;) {
        uint32_t line = yaml->nodes[key].line, before = line;
        struct weft_span text = weft_yaml_text(yaml, key);
        if (weft_names_find(&keys, text, &before))
            status = weft_read_fail(yaml->source, line, "the key \"%.*s\" is in line %u already",
                                    WEFT_SPAN_SHOWN(text), before);
        else
            status = weft_names_put(&keys, text, line, &before);
        key = yaml->nodes[yaml->nodes[key].next].next;
    }
    weft_names_free(&keys);
    return status;
}

static int take_event(struct builder *b, const yaml_event_t *event)
{
    size_t line = event->start_mark.line + 1;
    struct weft_yaml *yaml = b->yaml;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return yaml->count ? weft_read_fail(yaml->source, line, "a second document, expected one") : 0;
    case YAML_ALIAS_EVENT:
        return weft_read_fail(yaml->source, line, "an alias (*%.40s), expected YAML without",
                              (const char *)event->data.alias.anchor);
    case YAML_SCALAR_EVENT:
        return add_scalar(b, event, line);
    case YAML_SEQUENCE_START_EVENT:
        return open_collection(b, WEFT_YAML_SEQUENCE, line);
    case YAML_MAPPING_START_EVENT:
        return open_collection(b, WEFT_YAML_MAPPING, line);
    case YAML_SEQUENCE_END_EVENT:
        b->depth--;
        return 0;
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return check_keys(yaml, b->open[b->depth].node);
    default:
        return 0;
    }
}

static int fail_parser(const struct weft_text *source, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return no_memory();
    size_t line = parser->problem_mark.line + 1;
    if (parser->error == YAML_READER_ERROR) { /* bytes that are no UTF-8: only their place is told */
        line = 1;
        for (size_t at = 0; at < source->size && at < parser->problem_offset; at++)
            line += source->data[at] == '\n';
    }
    return weft_read_fail(source, line, "no YAML: %s", parser->problem ? parser->problem : "unknown error");
}

static int parse_events(const struct weft_text *source, yaml_parser_t *parser, struct builder *b)
{
    for (int ended = 0; !ended;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return fail_parser(source, parser);
        ended = event.type == YAML_STREAM_END_EVENT;
        int status = take_event(b, &event);
        yaml_event_delete(&event);
        if (status)
            return status;
    }
    return 0;
}

int weft_yaml_parse(const struct weft_text *source, struct weft_yaml *yaml)
{
    struct builder b = {.yaml = yaml};
    yaml_parser_t parser;
    *yaml = (struct weft_yaml){.source = source};
    if (source->size > WEFT_YAML_SIZE_MAX)
        return weft_read_fail(source, 0, "more than %u MiB of YAML, the most that is read",
                              WEFT_YAML_SIZE_MAX >> 20);
    int status = check_directives(source);
    if (status)
        return status;
    if (!yaml_parser_initialize(&parser))
        return no_memory();
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)source->data, source->size);
    status = parse_events(source, &parser, &b);
    yaml_parser_delete(&parser);
    if (status)
        weft_yaml_free(yaml);
    return status;
}

void weft_yaml_free(struct weft_yaml *yaml)
{
    free(yaml->nodes);
    free(yaml->text);
    *yaml = (struct weft_yaml){0};
}

struct weft_span weft_yaml_text(const struct weft_yaml *yaml, uint32_t node)
{
    const struct weft_yaml_node *at = &yaml->nodes[node];
    return at->kind == WEFT_YAML_SCALAR ? (struct weft_span){yaml->text + at->text, at->size}
                                        : (struct weft_span){"", 0};
}
