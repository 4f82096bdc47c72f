/* SPDX-License-Identifier: Apache-2.0 */
/* A crit-bit tree (D. J. Bernstein, "Crit-bit trees", 2004): each fork tests the first bit in which the names below it
 * differ, and leaves hold the names. A walk down passes bits in rising order, so it is no longer than the name has bits.
 * A hash table would be a little quicker on names of good will, and quadratic on those that a file was made of to
 * collide; this has no such names.
 *
 * References are indices, leaves marked by the top bit, so that the arrays may move. Behind a name's end there are zero
 * bits: no name has a zero byte, so one that is the beginning of another differs from it in the byte behind its end.
 */
#include "topo/files/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define LEAF      0x80000000u
#define NAMES_MAX (1u << 30)

struct weft_name_leaf {
    struct weft_span name;
    uint32_t value;
};

struct weft_name_fork {
    size_t bit; /* from the name's beginning, the highest of each byte first */
    uint32_t below[2];
};

/* The tree's root: the only leaf, or the fork at 0, which stays the topmost. */
static uint32_t top(const struct weft_names *names)
{
    return names->count == 1 ? LEAF : 0;
}

static int bit_of(struct weft_span name, size_t bit)
{
    size_t byte = bit / 8;
    return byte < name.size ? (unsigned char)name.data[byte] >> (7 - bit % 8) & 1 : 0;
}

/* The leaf that the name's tested bits lead to: the only one that can be equal to it. */
static uint32_t nearest(const struct weft_names *names, struct weft_span name)
{
    uint32_t at = top(names);
    while (!(at & LEAF))
        at = names->forks[at].below[bit_of(name, names->forks[at].bit)];
    return at & ~LEAF;
}

static int is_same(struct weft_span a, struct weft_span b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

int weft_names_find(const struct weft_names *names, struct weft_span name, uint32_t *value)
{
    if (!names->count)
        return 0;
    const struct weft_name_leaf *leaf = &names->leaves[nearest(names, name)];
    if (!is_same(leaf->name, name))
        return 0;
    *value = leaf->value;
    return 1;
}

void weft_names_change(struct weft_names *names, struct weft_span name, uint32_t value)
{
    names->leaves[nearest(names, name)].value = value;
}

/* The first bit in which two names differ, which they do. */
static size_t first_difference(struct weft_span a, struct weft_span b)
{
    size_t byte = 0;
    while (byte < a.size && byte < b.size && a.data[byte] == b.data[byte])
        byte++;
    unsigned char one = byte < a.size ? (unsigned char)a.data[byte] : 0;
    unsigned char other = byte < b.size ? (unsigned char)b.data[byte] : 0;
    size_t bit = 0;
    while (bit < 7 && !((one ^ other) >> (7 - bit) & 1))
        bit++;
    return byte * 8 + bit;
}

static int grow(struct weft_names *names)
{
    if (names->count < names->room)
        return 0;
    if (names->room >= NAMES_MAX)
        return weft_fail(WEFT_INVALID, "more than %u names", NAMES_MAX);
    uint32_t room = names->room ? names->room * 2 : 64;
    struct weft_name_leaf *leaves = realloc(names->leaves, room * sizeof *leaves);
    if (!leaves)
        return weft_fail(WEFT_NOMEM, "no memory for the names of a topology");
    names->leaves = leaves;
    struct weft_name_fork *forks = realloc(names->forks, room * sizeof *forks);
    if (!forks)
        return weft_fail(WEFT_NOMEM, "no memory for the names of a topology");
    names->forks = forks;
    names->room = room;
    return 0;
}

/* Puts a fork for `bit` above what the name's walk finds there: the first that tests a later bit. The fork at 0 stays
 * the topmost, so a fork that goes above it takes its place, and what was there moves. */
static void insert_fork(struct weft_names *names, struct weft_span name, size_t bit, uint32_t leaf)
{
    uint32_t made = names->count - 1, at = top(names), *from = NULL;
    while (!(at & LEAF) && names->forks[at].bit < bit) {
        from = &names->forks[at].below[bit_of(name, names->forks[at].bit)];
        at = *from;
    }
    if (!from && made > 0) {
        names->forks[made] = names->forks[0];
        at = made;
        made = 0;
    }
    int side = bit_of(name, bit);
    names->forks[made].bit = bit;
    names->forks[made].below[side] = leaf | LEAF;
    names->forks[made].below[!side] = at;
    if (from)
        *from = made;
}

int weft_names_put(struct weft_names *names, struct weft_span name, uint32_t value, uint32_t *has)
{
    if (weft_names_find(names, name, has))
        return 0;
    int status = grow(names);
    if (status)
        return status;
    uint32_t leaf = names->count;
    names->leaves[leaf] = (struct weft_name_leaf){name, value};
    if (leaf > 0)
        insert_fork(names, name, first_difference(names->leaves[nearest(names, name)].name, name), leaf);
    names->count++;
    *has = value;
    return 0;
}

void weft_names_free(struct weft_names *names)
{
    free(names->leaves);
    free(names->forks);
    *names = (struct weft_names){0};
}
