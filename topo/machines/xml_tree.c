/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/machines/xml_tree.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"

#define CHUNK_BYTES ((size_t)64 << 10)

/* Strings lie in chunks that do not move. */
struct chunk {
    struct chunk *next;
    size_t used, size;
    char bytes[];
};

struct weft_xml_tree_room {
    struct chunk *chunks; /* the first has room */
    uint32_t node_room;
    size_t word_room;
    uint32_t open; /* the element begun last that has not ended */
};

static int no_memory(const struct weft_xml_tree *tree)
{
    return weft_fail(WEFT_NOMEM, "%.300s: no memory for the elements of its XML", tree->text->name);
}

static const char *string_keep(struct weft_xml_tree_room *room, const char *text)
{
    size_t size = strlen(text) + 1;
    if (!room->chunks || room->chunks->size - room->chunks->used < size) {
        size_t bytes = size > CHUNK_BYTES ? size : CHUNK_BYTES;
        struct chunk *chunk = malloc(sizeof *chunk + bytes);
        if (!chunk)
            return NULL;
        *chunk = (struct chunk){.next = room->chunks, .size = bytes};
        room->chunks = chunk;
    }
    char *kept = room->chunks->bytes + room->chunks->used;
    room->chunks->used += size;
    return memcpy(kept, text, size);
}

static int word_add(struct weft_xml_tree *tree, const char *text)
{
    struct weft_xml_tree_room *room = tree->room;
    if (tree->word_count == room->word_room) {
        size_t more = room->word_room ? room->word_room * 2 : 256;
        const char **grown = realloc(tree->words, more * sizeof *grown);
        if (!grown)
            return no_memory(tree);
        tree->words = grown;
        room->word_room = more;
    }
    const char *kept = text ? string_keep(room, text) : NULL;
    if (text && !kept)
        return no_memory(tree);
    tree->words[tree->word_count++] = kept;
    return WEFT_OK;
}

static int nodes_grow(struct weft_xml_tree *tree, const struct weft_xml_element *element)
{
    struct weft_xml_tree_room *room = tree->room;
    if (tree->count < room->node_room)
        return WEFT_OK;
    if (tree->count >= WEFT_NODES_MAX)
        return weft_xml_fail(element, "more than %u elements", WEFT_NODES_MAX);
    uint32_t more = room->node_room ? room->node_room * 2 : 64;
    struct weft_xml_node *grown = realloc(tree->nodes, more * sizeof *grown);
    if (!grown)
        return no_memory(tree);
    tree->nodes = grown;
    room->node_room = more;
    return WEFT_OK;
}

static int on_start(void *user, const struct weft_xml_element *element)
{
    struct weft_xml_tree *tree = user;
    int status = nodes_grow(tree, element);
    if (status)
        return status;
    const char *name = string_keep(tree->room, element->name);
    if (!name)
        return no_memory(tree);
    uint32_t made = tree->count, parent = tree->room->open;
    tree->nodes[made] = (struct weft_xml_node){.name = name,
                                               .attributes = tree->word_count,
                                               .line = (uint32_t)element->line,
                                               .depth = element->depth,
                                               .parent = parent,
                                               .child_first = WEFT_XML_NONE,
                                               .child_last = WEFT_XML_NONE,
                                               .next = WEFT_XML_NONE};
    for (const char *const *word = element->attributes; *word && !status; word++)
        status = word_add(tree, *word);
    if (!status)
        status = word_add(tree, NULL);
    if (status)
        return status;
    tree->count++;
    if (parent != WEFT_XML_NONE && tree->nodes[parent].child_first == WEFT_XML_NONE)
        tree->nodes[parent].child_first = made;
    else if (parent != WEFT_XML_NONE)
        tree->nodes[tree->nodes[parent].child_last].next = made;
    if (parent != WEFT_XML_NONE)
        tree->nodes[parent].child_last = made;
    tree->room->open = made;
    return WEFT_OK;
}

static int on_end(void *user, const struct weft_xml_element *element)
{
    struct weft_xml_tree *tree = user;
    (void)element;
    tree->room->open = tree->nodes[tree->room->open].parent;
    return WEFT_OK;
}

static int on_characters(void *user, const struct weft_xml_element *place, const char *data, size_t size)
{
    struct weft_xml_tree *tree = user;
    size_t at = 0, length = 0;
    while (at < size && strchr(" \t\r\n", data[at]))
        at++;
    while (at + length < size && length + 1 < sizeof tree->text_first && !strchr("\r\n", data[at + length]))
        length++;
    if (length && tree->text_count++ == 0) {
        memcpy(tree->text_first, data + at, length);
        tree->text_line = (uint32_t)place->line;
    }
    return WEFT_OK;
}

int weft_xml_tree_read(const struct weft_text *text, struct weft_xml_tree *tree)
{
    static const struct weft_xml_reader reader = {on_start, on_end, on_characters};
    *tree = (struct weft_xml_tree){.text = text};
    tree->room = calloc(1, sizeof *tree->room);
    if (!tree->room)
        return no_memory(tree);
    tree->room->open = WEFT_XML_NONE;
    return weft_xml_parse(text, &reader, tree);
}

void weft_xml_tree_free(struct weft_xml_tree *tree)
{
    struct chunk *chunk = tree->room ? tree->room->chunks : NULL;
    while (chunk) {
        struct chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    free(tree->room);
    free(tree->words);
    free(tree->nodes);
    *tree = (struct weft_xml_tree){0};
}

struct weft_xml_element weft_xml_tree_element(const struct weft_xml_tree *tree, uint32_t node)
{
    const struct weft_xml_node *at = &tree->nodes[node];
    return (struct weft_xml_element){.text = tree->text,
                                     .name = at->name,
                                     .attributes = (const char *const *)tree->words + at->attributes,
                                     .line = at->line,
                                     .depth = at->depth};
}
