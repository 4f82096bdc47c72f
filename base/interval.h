/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses that may overlap: which of them covers a span, touches it or begins there, and
 * what none covers.
 *
 * The links are inside the caller's own structs, so nothing is allocated or freed here and nothing fails. Threads: the
 * caller serialises.
 */
#ifndef WEFT_BASE_INTERVAL_H
#define WEFT_BASE_INTERVAL_H

#include <stdint.h>

struct weft_interval {
    uintptr_t begin, end; /* the caller's, [begin, end), not empty; unchanged while in a tree */
    /* The tree's. */
    uintptr_t reach; /* largest end in this subtree */
    uint32_t weight;
    struct weft_interval *left, *right;
};

struct weft_intervals { /* zeroed: empty */
    struct weft_interval *root;
    uint32_t seed;
};

void weft_intervals_add(struct weft_intervals *tree, struct weft_interval *interval);
/* interval is in the tree. */
void weft_intervals_remove(struct weft_intervals *tree, struct weft_interval *interval);

/* One that covers [begin, end), NULL when there is none. */
struct weft_interval *weft_intervals_cover(const struct weft_intervals *tree, uintptr_t begin, uintptr_t end);
/* One that has an address in [begin, end), NULL when there is none. */
struct weft_interval *weft_intervals_touch(const struct weft_intervals *tree, uintptr_t begin, uintptr_t end);
/* Those that begin exactly there, one by one: the one after `after` (NULL: the first), NULL when there is none left. */
struct weft_interval *weft_intervals_at(const struct weft_intervals *tree, uintptr_t begin,
                                        const struct weft_interval *after);
/* The first part of [begin, end) that no interval has: 1, or 0 when all of it is covered. */
int weft_intervals_gap(const struct weft_intervals *tree, uintptr_t begin, uintptr_t end,
                       uintptr_t *gap_begin, uintptr_t *gap_end);

#endif
