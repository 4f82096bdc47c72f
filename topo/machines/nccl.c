/* SPDX-License-Identifier: Apache-2.0 */
/* Reading NCCL's XML (topo/machines/nccl.h says what it is): first the whole document as a tree, then what each element
 * is and which names and addresses appear twice, by sorting; then nodes in document order, then links. Every step is
 * linear in the document's size but for the sorting.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "base/error.h"
#include "topo/machines/nccl.h"

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

/* One warning for each kind, so that a file with a hundred of them can be read by people. */
static int warn(const struct weft_nccl_file *file)
{
    int status = WEFT_OK;
    for (int i = 0; i < WEFT_NCCL_ODD_COUNT && !status; i++) {
        char more[32] = "";
        uint32_t count = file->odd[i].count;
        if (count > 1)
            snprintf(more, sizeof more, " (%u more such)", count - 1);
        if (count)
            status =
                weft_read_warn(file->text, file->graph, file->odd[i].line, "%s%s", file->odd[i].first, more);
    }
    return status;
}

static int read_tree(struct weft_nccl_file *file)
{
    int status = weft_xml_tree_read(file->text, &file->tree);
    if (status)
        goto free_tree;
    if (file->tree.text_count) {
        weft_nccl_odd(file, WEFT_NCCL_ODD_TEXT, file->tree.text_line, "\"%s\" between elements, passed over",
                      file->tree.text_first);
        file->odd[WEFT_NCCL_ODD_TEXT].count = file->tree.text_count;
    }
    file->marks = calloc(file->tree.count, sizeof *file->marks);
    file->addresses = malloc(file->tree.count * sizeof *file->addresses);
    status = file->marks && file->addresses ? weft_nccl_survey(file)
                                            : weft_fail(WEFT_NOMEM, "%.300s: no memory for %u elements",
                                                        file->text->name, file->tree.count);
    if (!status)
        status = weft_nccl_nodes(file);
    if (!status)
        status = weft_nccl_links(file);
    if (!status)
        status = warn(file);
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
