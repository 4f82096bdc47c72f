/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for messages that must be kept: in classes of sizes, each a power of two, so that a short message does not
 * take what the longest one took. Of what is free each class keeps FREE_BYTES for the next. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/exec_internal.h"

#define SMALLEST_LOG 7
#define FREE_BYTES   (128u * 1024)

_Static_assert(1u << (SMALLEST_LOG + WEFT_EARLY_CLASSES - 1) <= FREE_BYTES, "one of each class can be kept");

/* WEFT_EARLY_CLASSES for what is larger than all of them. */
static uint32_t class_of(size_t size)
{
    uint32_t class = 0;
    while (class < WEFT_EARLY_CLASSES && size > (size_t)1 << (SMALLEST_LOG + class))
        class ++;
    return class;
}

static struct weft_early *early_get(struct weft_exec *exec, size_t size)
{
    uint32_t class = class_of(size);
    struct weft_early *early;
    if (class < WEFT_EARLY_CLASSES) {
        struct weft_early_pool *pool = &exec->early_pools[class];
        early = pool->free;
        if (early) {
            pool->free = early->next;
            pool->count--;
            return early;
        }
        size = (size_t)1 << (SMALLEST_LOG + class);
    }
    early = malloc(sizeof *early + size);
    if (early)
        early->class = class;
    return early;
}

struct weft_early *weft_early_copy(struct weft_exec *exec, const struct weft_wire_header *header,
                                   const void *payload)
{
    size_t size = sizeof *header + header->size;
    struct weft_early *early = early_get(exec, size);
    if (!early)
        return NULL;
    memcpy(early->data, header, sizeof *header);
    memcpy((uint8_t *)early->data + sizeof *header, payload, header->size);
    early->size = (uint32_t)size;
    early->next = NULL;
    return early;
}

void weft_early_free(struct weft_exec *exec, struct weft_early *early)
{
    uint32_t class = early->class;
    if (class == WEFT_EARLY_CLASSES ||
        exec->early_pools[class].count >= FREE_BYTES >> (SMALLEST_LOG + class)) {
        free(early);
        return;
    }
    struct weft_early_pool *pool = &exec->early_pools[class];
    early->next = pool->free;
    pool->free = early;
    pool->count++;
}

void weft_early_free_list(struct weft_exec *exec, struct weft_early *list)
{
    while (list) {
        struct weft_early *next = list->next;
        weft_early_free(exec, list);
        list = next;
    }
}

void weft_early_trim(struct weft_exec *exec)
{
    for (uint32_t class = 0; class < WEFT_EARLY_CLASSES; class ++) {
        struct weft_early_pool *pool = &exec->early_pools[class];
        while (pool->free) {
            struct weft_early *next = pool->free->next;
            free(pool->free);
            pool->free = next;
        }
        pool->count = 0;
    }
}
