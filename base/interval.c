/* SPDX-License-Identifier: Apache-2.0 */
/* A treap (Seidel and Aragon, Randomized Search Trees, 1996): a search tree by begin that is a heap by a random
 * weight, so that its depth is O(log n) whatever the order in which intervals come. As in an interval tree (Cormen et
 * al., Introduction to Algorithms, 14.3) every node knows the largest end below it.
 *
 * All questions are one: is there an interval with begin <= last and end >= first? Those with begin <= last are the
 * tree's left part. On the way to its border each node and its left subtree belong to it as a whole, so the
 * subtree's `reach` says whether what is wanted is in there, and if so every step down can see where: two paths of O(log n).
 * [first, last + 1) covered means begin <= first and end >= last + 1; touched means begin <= last and end >= first + 1.
 */
#include "base/interval.h"

#include <stddef.h>

static int before(const struct weft_interval *a, const struct weft_interval *b)
{
    return a->begin != b->begin ? a->begin < b->begin : (uintptr_t)a < (uintptr_t)b;
}

static void update(struct weft_interval *node)
{
    node->reach = node->end;
    if (node->left && node->left->reach > node->reach)
        node->reach = node->left->reach;
    if (node->right && node->right->reach > node->reach)
        node->reach = node->right->reach;
}

/* Takes the tree apart: what comes before key, and the rest. */
static void split(struct weft_interval *node, const struct weft_interval *key, struct weft_interval **left,
                  struct weft_interval **right)
{
    if (!node) {
        *left = *right = NULL;
        return;
    }
    if (before(node, key)) {
        split(node->right, key, &node->right, right);
        *left = node;
    } else {
        split(node->left, key, left, &node->left);
        *right = node;
    }
    update(node);
}

/* Everything in left comes before everything in right. */
static struct weft_interval *join(struct weft_interval *left, struct weft_interval *right)
{
    if (!left || !right)
        return left ? left : right;
    struct weft_interval *top = left->weight >= right->weight ? left : right;
    if (top == left)
        left->right = join(left->right, right);
    else
        right->left = join(left, right->left);
    update(top);
    return top;
}

static void insert(struct weft_interval **at, struct weft_interval *interval)
{
    struct weft_interval *node = *at;
    if (!node || node->weight < interval->weight) {
        split(node, interval, &interval->left, &interval->right);
        *at = interval;
    } else {
        insert(before(node, interval) ? &node->right : &node->left, interval);
    }
    update(*at);
}

static void take_out(struct weft_interval **at, struct weft_interval *interval)
{
    struct weft_interval *node = *at;
    if (node == interval) {
        *at = join(node->left, node->right);
        return;
    }
    take_out(before(node, interval) ? &node->right : &node->left, interval);
    update(node);
}

void weft_intervals_add(struct weft_intervals *tree, struct weft_interval *interval)
{
    /* Any sequence that looks random: Numerical Recipes' 32-bit congruential one, whose upper bits are the better ones. */
    tree->seed = tree->seed * 1664525u + 1013904223u;
    interval->weight = tree->seed >> 8;
    insert(&tree->root, interval);
}

void weft_intervals_remove(struct weft_intervals *tree, struct weft_interval *interval)
{
    take_out(&tree->root, interval);
}

/* An interval with begin <= last and end >= first. */
static struct weft_interval *find(struct weft_interval *node, uintptr_t last, uintptr_t first)
{
    while (node) {
        if (node->begin > last)
            node = node->left;
        else if (node->end >= first)
            return node;
        else if (node->left && node->left->reach >= first)
            node = node->left;
        else
            node = node->right;
    }
    return NULL;
}

struct weft_interval *weft_intervals_cover(const struct weft_intervals *tree, uintptr_t begin, uintptr_t end)
{
    return find(tree->root, begin, end);
}

struct weft_interval *weft_intervals_touch(const struct weft_intervals *tree, uintptr_t begin, uintptr_t end)
{
    return find(tree->root, end - 1, begin + 1);
}

/* The tree's order among equal begins is that of the structs' addresses. */
struct weft_interval *weft_intervals_at(const struct weft_intervals *tree, uintptr_t begin,
                                        const struct weft_interval *after)
{
    struct weft_interval *first = NULL;
    for (struct weft_interval *node = tree->root; node;) {
        if (node->begin < begin || (node->begin == begin && (uintptr_t)node <= (uintptr_t)after)) {
            node = node->right;
        } else {
            first = node->begin == begin ? node : first;
            node = node->left;
        }
    }
    return first;
}

int weft_intervals_gap(const struct weft_intervals *tree, uintptr_t begin, uintptr_t end,
                       uintptr_t *gap_begin, uintptr_t *gap_end)
{
    const struct weft_interval *here;
    while (begin < end && (here = find(tree->root, begin, begin + 1)))
        begin = here->end;
    if (begin >= end)
        return 0;
    for (const struct weft_interval *node = tree->root; node;) {
        if (node->begin > begin) {
            if (node->begin < end)
                end = node->begin;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    *gap_begin = begin;
    *gap_end = end;
    return 1;
}
