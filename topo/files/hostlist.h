/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's hostlists: "n[0-3,7],login1" stands for n0 n1 n2 n3 n7 login1.
 *
 * Threads: any. Nothing is allocated.
 */
#ifndef WEFT_TOPO_FILES_HOSTLIST_H
#define WEFT_TOPO_FILES_HOSTLIST_H

#include "topo/files/lines.h"

/* Names that all hostlists of a text may stand for: a short text must not ask for the memory of a large cluster's. */
#define WEFT_HOSTLIST_NAMES_MAX (1u << 18)

/* Gets one name, which is gone when it returns; anything but 0 ends the expansion with that status. */
typedef int weft_hostlist_take(void *arg, struct weft_span name);

/* Calls take() for each name in the order of the list. *budget is how many names may still come; those that came are
 * taken off. What is no hostlist ends in WEFT_INVALID with the text's name and the line, some names may have been taken. */
int weft_hostlist_expand(const struct weft_text *text, size_t line, struct weft_span list, uint32_t *budget,
                         weft_hostlist_take *take, void *arg);

/* The error of too many names. */
int weft_hostlist_refuse(const struct weft_text *text, size_t line);

#endif
