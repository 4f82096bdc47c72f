/* SPDX-License-Identifier: Apache-2.0 */
/* libc's balanced tree (tsearch(3)). A hash table would be a little quicker on names of good will, and quadratic on those that
 * a file was made of to collide. */
#include "topo/files/names.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct known {
    struct weft_span name;
    uint32_t value;
};

static int compare(const void *left, const void *right)
{
    const struct weft_span *a = &((const struct known *)left)->name,
                           *b = &((const struct known *)right)->name;
    size_t size = a->size < b->size ? a->size : b->size;
    int order = size ? memcmp(a->data, b->data, size) : 0;
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static struct known *find(const struct weft_names *names, struct weft_span name)
{
    const struct known wanted = {.name = name};
    struct known **found = tfind(&wanted, &names->root, compare);
    return found ? *found : NULL;
}

int weft_names_find(const struct weft_names *names, struct weft_span name, uint32_t *value)
{
    const struct known *found = find(names, name);
    if (!found)
        return 0;
    *value = found->value;
    return 1;
}

void weft_names_change(struct weft_names *names, struct weft_span name, uint32_t value)
{
    find(names, name)->value = value;
}

int weft_names_put(struct weft_names *names, struct weft_span name, uint32_t value, uint32_t *has)
{
    if (weft_names_find(names, name, has))
        return 0;
    struct known *made = malloc(sizeof *made);
    if (!made)
        goto no_memory;
    *made = (struct known){name, value};
    if (!tsearch(made, &names->root, compare))
        goto free_made;
    *has = value;
    return 0;
free_made:
    free(made);
no_memory:
    return weft_fail(WEFT_NOMEM, "no memory for the names of a topology");
}

void weft_names_free(struct weft_names *names)
{
    tdestroy(names->root, free);
    *names = (struct weft_names){0};
}
