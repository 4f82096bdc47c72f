/* SPDX-License-Identifier: Apache-2.0 */
/* Double binary tree allreduce.
 *
 * Two binary trees span all ranks; one carries chunk 0, the other chunk 1 (each half of the data). In each,
 * sums go up to the root and the result comes down. A tree alone would leave half of the bandwidth unused,
 * for its leaves only send half of the data once; so the second tree is chosen such that the inner nodes of
 * one are leaves of the other.
 *
 * The first tree is the in-order binary tree over the labels 1..n, label = rank + 1: a label's level is its
 * lowest set bit b, so odd labels are leaves and the root is the largest power of two. For any n:
 *     left child    v - b/2, when b > 1
 *     right child   v + h for the largest power of two h <= b/2 with v + h <= n
 *     parent        the one of v - b and v + b whose lowest set bit is 2b, if it is <= n; otherwise v - b,
 *                   and v is the root when that is 0
 * In the second tree the labels are mirrored (n - rank) for even n, and moved by one ((rank + 1) mod n + 1)
 * for odd n. Either way odd and even labels change places: every rank has children in at most one tree. (With
 * odd n the last rank is a leaf in both.)
 *
 * A node adds left subtree, itself, right subtree in this order, and the root finishes: one association for
 * all ranks. Steps are ordered by phase (up, up, down, down) identically on all ranks, so that they would not
 * even deadlock when executed one at a time.
 *
 * Cost, with a per message, b per byte and g per byte reduced, m bytes, d = floor(log2 n), and the executor
 * cutting the data into s slices that follow each other:
 *     2 (d + s - 1) (2 a + m b / s)  +  (d + s - 1) m g / s
 * which tends to 2 m b for large m, and grows with log n only: for large rank counts and middle sizes.
 *
 * Source: P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction
 * and scan", Parallel Computing 35 (2009).
 */
#include "algos/generators.h"

#define TREES 2
#define NONE  UINT32_MAX

/* A rank's neighbours in one tree, as ranks or NONE. */
struct place {
    uint32_t parent, left, right;
};

static uint32_t label_of(unsigned tree, uint32_t rank, uint32_t n)
{
    if (tree == 0)
        return rank + 1;
    return n % 2 == 0 ? n - rank : (rank + 1) % n + 1;
}

/* The inverse of label_of(); NONE for label 0. */
static uint32_t rank_of(unsigned tree, uint32_t label, uint32_t n)
{
    if (label == 0)
        return NONE;
    if (tree == 0)
        return label - 1;
    return n % 2 == 0 ? n - label : (label + n - 2) % n;
}

static struct place place_of(unsigned tree, uint32_t rank, uint32_t n)
{
    uint32_t v = label_of(tree, rank, n);
    uint32_t b = v & -v;
    uint32_t up = (v ^ b) | 2 * b;
    uint32_t h = b / 2;
    while (h > 0 && h > n - v)
        h /= 2;
    return (struct place){
        .parent = rank_of(tree, up <= n ? up : v - b, n),
        .left = b > 1 ? rank_of(tree, v - b / 2, n) : NONE,
        .right = h > 0 ? rank_of(tree, v + h, n) : NONE,
    };
}

static void generate_up(struct weft_builder *builder, const struct place *place, unsigned tree)
{
    struct weft_range range = weft_range(tree, 1, 0);
    struct weft_ref input = weft_in(WEFT_BUFFER_INPUT), output = weft_in(WEFT_BUFFER_OUTPUT);
    struct weft_ref left = weft_slot(2 * tree, 0), right = weft_slot(2 * tree + 1, 0);
    unsigned flags = place->parent == NONE ? WEFT_STEP_FINISH : 0;

    if (place->left != NONE)
        weft_builder_recv(builder, place->left, range, left);
    if (place->right != NONE)
        weft_builder_recv(builder, place->right, range, right);
    if (place->left != NONE && place->right != NONE)
        weft_builder_reduce3(builder, range, output, left, input, right, flags);
    else if (place->left != NONE)
        weft_builder_reduce(builder, range, output, left, input, flags);
    if (place->parent != NONE)
        weft_builder_send(builder, place->parent, range, place->left == NONE ? input : output);
}

static void generate_down(struct weft_builder *builder, const struct place *place, unsigned tree)
{
    struct weft_range range = weft_range(tree, 1, 0);
    struct weft_ref output = weft_in(WEFT_BUFFER_OUTPUT);

    if (place->parent != NONE)
        weft_builder_recv(builder, place->parent, range, output);
    if (place->left != NONE)
        weft_builder_send(builder, place->left, range, output);
    if (place->right != NONE)
        weft_builder_send(builder, place->right, range, output);
}

void weft_tree_generate(struct weft_builder *builder, const struct weft_plan_request *request)
{
    struct place places[TREES];
    for (unsigned tree = 0; tree < TREES; tree++)
        places[tree] = place_of(tree, request->rank, request->ranks);

    weft_builder_start(builder, request, TREES, 2 * TREES);
    for (unsigned tree = 0; tree < TREES; tree++)
        generate_up(builder, &places[tree], tree);
    for (unsigned tree = 0; tree < TREES; tree++)
        generate_down(builder, &places[tree], tree);
}
