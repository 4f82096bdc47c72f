/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/ways.h"

#define SMALLEST_BYTES 8192
#define TRIAL          3 /* messages: the first of them may find cold caches and a pipe that is not made yet */
#define TIMED          4  /* of so many messages one is timed, */
#define WINDOW         4  /* and of so many timed ones the least is kept */
#define FIRST_PAUSE    16 /* messages between trials, */
#define PAUSE_MIN      32 /* and where they have shown something new */
#define PAUSE_MAX      512
#define COST_MAX       2000000000

void weft_way_open(struct weft_way_size *size)
{
    *size = (struct weft_way_size){.pause = FIRST_PAUSE};
}

/* By a quarter since the last trial, and that is some time ago. */
static int has_moved(const struct weft_way_size *size)
{
    uint32_t now = size->cost_ns[size->taken], then = size->mark_ns;
    return size->messages >= PAUSE_MIN && then && (now > then + then / 4 || now < then - then / 4);
}

uint8_t weft_way_choose(struct weft_way_size *size, int *is_timed)
{
    uint8_t other = !size->taken;
    *is_timed = 1;
    if (size->trial)
        return other;
    size->messages++;
    int moved = has_moved(size);
    if (!moved && size->messages < size->pause) {
        *is_timed = size->messages % TIMED == 0;
        return size->taken;
    }
    if (moved)
        size->pause = PAUSE_MIN;
    size->trial = TRIAL;
    size->messages = 0;
    size->cost_ns[other] = 0;
    return other;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a && (!b || a < b) ? a : b;
}

/* A message by the way that is taken. */
static void keep(struct weft_way_size *size, uint32_t seen_ns)
{
    size->low_ns[1] = least(size->low_ns[1], seen_ns);
    size->cost_ns[size->taken] = least(size->low_ns[0], size->low_ns[1]);
    if (++size->timed < WINDOW)
        return;
    size->timed = 0;
    size->low_ns[0] = size->low_ns[1];
    size->low_ns[1] = 0;
}

/* The trial is over. */
static int compare(struct weft_way_size *size)
{
    uint8_t tried = !size->taken;
    uint64_t cost = size->cost_ns[tried], known = size->cost_ns[size->taken];
    int is_faster = known && cost * 100 < known * 95;
    if (is_faster) {
        size->taken = tried;
        size->pause = PAUSE_MIN;
        size->low_ns[0] = size->cost_ns[tried];
        size->low_ns[1] = size->timed = 0;
    } else if (size->pause < PAUSE_MAX) {
        size->pause *= 2;
    }
    size->mark_ns = size->cost_ns[size->taken];
    return is_faster;
}

int weft_way_observe(struct weft_way_size *size, uint8_t way, int64_t cost_ns)
{
    if (cost_ns <= 0)
        return 0;
    uint32_t seen_ns = cost_ns < COST_MAX ? (uint32_t)cost_ns : COST_MAX;
    if (way == size->taken) {
        keep(size, seen_ns);
        return 0;
    }
    size->cost_ns[way] = least(size->cost_ns[way], seen_ns);
    return size->trial && --size->trial == 0 ? compare(size) : 0;
}

/* --- by size */

static uint32_t index_of(size_t bytes, size_t *largest)
{
    uint32_t i = 0;
    *largest = SMALLEST_BYTES;
    for (; i < WEFT_WAY_SIZES - 1 && *largest < bytes; i++)
        *largest *= 2;
    return i;
}

void weft_ways_open(struct weft_ways *ways)
{
    for (int i = 0; i < WEFT_WAY_SIZES; i++)
        weft_way_open(&ways->sizes[i]);
}

enum weft_way weft_ways_taken(const struct weft_ways *ways, size_t bytes)
{
    size_t largest;
    return (enum weft_way)ways->sizes[index_of(bytes, &largest)].taken;
}

enum weft_way weft_ways_choose(struct weft_ways *ways, size_t bytes, int *is_timed)
{
    size_t largest;
    return (enum weft_way)weft_way_choose(&ways->sizes[index_of(bytes, &largest)], is_timed);
}

int weft_ways_observe(struct weft_ways *ways, size_t bytes, enum weft_way way, int64_t cost_ns)
{
    size_t largest;
    struct weft_way_size *size = &ways->sizes[index_of(bytes, &largest)];
    double scaled = bytes ? (double)cost_ns * (double)largest / (double)bytes : 0;
    return weft_way_observe(size, (uint8_t)way, scaled < COST_MAX ? (int64_t)scaled : COST_MAX);
}
