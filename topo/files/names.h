/* SPDX-License-Identifier: Apache-2.0 */
/* Which number stands behind a name: for readers that meet the same name in several places.
 *
 * Finding and adding compare the name with at most some dozens of others, whatever names a file was made of: see names.c.
 * Ownership: the map keeps pointers to the names, not copies; they must last as long as it. Threads: one.
 */
#ifndef WEFT_TOPO_FILES_NAMES_H
#define WEFT_TOPO_FILES_NAMES_H

#include "topo/files/lines.h"

struct weft_names {
    void *root;
};

/* 1 and *value when the name is there. */
int weft_names_find(const struct weft_names *names, struct weft_span name, uint32_t *value);

/* The name's value: the one it had, else `value`. WEFT_NOMEM changes nothing. */
int weft_names_put(struct weft_names *names, struct weft_span name, uint32_t value, uint32_t *has);

/* Replaces the value of a name that is there. */
void weft_names_change(struct weft_names *names, struct weft_span name, uint32_t value);

/* A map of all zero bytes is empty and needs no freeing. */
void weft_names_free(struct weft_names *names);

#endif
