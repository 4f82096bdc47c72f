/* SPDX-License-Identifier: Apache-2.0 */
/* Reading NCCL's XML (topo/files/nccl.h says what it is): first the whole document as a tree, then what each element
 * is and which names and addresses appear twice, by sorting; then nodes in document order, then links. Every step is
 * linear in the document's size but for the sorting.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "base/error.h"
#include "topo/files/nccl.h"

/* NCCL's own parser ends a comment at "-->" only, and files of RCCL's have comments with "--" inside, which XML does
 * not allow: they become spaces. */
static void comments_blank(char *data, size_t size)
{
    char *at = data, *end = data + size;
    while ((at = memmem(at, (size_t)(end - at), "<!--", 4)) != NULL) {
        char *close = memmem(at + 4, (size_t)(end - at) - 4, "-->", 3);
        if (!close)
            return; /* the parser says where it began */
        for (close += 3; at < close; at++) {
            if (*at != '\n')
                *at = ' ';
        }
    }
}

int weft_nccl_failed(const struct weft_nccl_file *file, uint32_t element, int status)
{
    char reason[WEFT_DETAIL_MAX];
    if (status != WEFT_INVALID)
        return status;
    snprintf(reason, sizeof reason, "%s", weft_error_detail());
    return weft_read_fail(file->text, file->tree.nodes[element].line, "%s", reason);
}

const char *weft_nccl_value(const struct weft_nccl_file *file, uint32_t element, const char *name)
{
    struct weft_xml_element view = weft_xml_tree_element(&file->tree, element);
    return weft_xml_attribute(&view, name);
}

static int read_tree(struct weft_nccl_file *file)
{
    int status = weft_xml_tree_read(file->text, &file->tree);
    if (status)
        goto free_tree;
    file->marks = calloc(file->tree.count, sizeof *file->marks);
    file->addresses = malloc(file->tree.count * sizeof *file->addresses);
    status = file->marks && file->addresses ? weft_nccl_survey(file)
                                            : weft_fail(WEFT_NOMEM, "%.300s: no memory for %u elements",
                                                        file->text->name, file->tree.count);
    if (!status)
        status = weft_nccl_nodes(file);
    if (!status)
        status = weft_nccl_links(file);
    free(file->addresses);
    free(file->marks);
free_tree:
    weft_xml_tree_free(&file->tree);
    return status;
}

int weft_read_nccl(const struct weft_text *text, struct weft_graph *graph)
{
    if (text->size > WEFT_READ_SIZE_MAX)
        return weft_read_fail(text, 0, "%zu bytes of XML, at most %u are read", text->size,
                              WEFT_READ_SIZE_MAX);
    char *copy = malloc(text->size + 1);
    if (!copy)
        return weft_fail(WEFT_NOMEM, "%.300s: no memory for a copy of its %zu bytes", text->name, text->size);
    if (text->size)
        memcpy(copy, text->data, text->size);
    comments_blank(copy, text->size);
    struct weft_text blanked = {text->name, copy, text->size};
    struct weft_nccl_file file = {.text = &blanked, .graph = graph};
    int status = read_tree(&file);
    free(copy);
    return status;
}
