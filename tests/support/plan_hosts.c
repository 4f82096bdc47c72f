#include "tests/support/plan_hosts.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* What tests cannot go on without. */
static void *must(void *made)
{
    if (!made)
        exit(99);
    return made;
}

static uint32_t *order_random(uint32_t ranks, uint64_t *state)
{
    uint32_t *order = must(calloc(ranks, sizeof *order));
    for (uint32_t i = 0; i < ranks; i++) {
        uint32_t other = (uint32_t)(draw(state) % (i + 1));
        order[i] = order[other];
        order[other] = i;
    }
    return order;
}

static struct weft_hosts *make(const uint32_t *sizes, uint32_t count, const uint32_t *order)
{
    struct weft_hosts *hosts = NULL;
    weft_hosts_make(sizes, count, order, &hosts);
    return must(hosts);
}

struct weft_hosts *plan_hosts_random(uint32_t ranks, uint64_t seed)
{
    uint64_t state = seed * 977 + ranks;
    uint32_t *sizes = must(calloc(ranks, sizeof *sizes)), count = 0, left = ranks;
    uint32_t *order = draw(&state) % 2 ? order_random(ranks, &state) : NULL;
    uint32_t limit = 1 + (uint32_t)(draw(&state) % ranks), even = (uint32_t)(draw(&state) % 3);
    while (left > 0) {
        uint32_t size = even == 0 ? limit : 1 + (uint32_t)(draw(&state) % limit);
        sizes[count] = size < left ? size : left;
        left -= sizes[count++];
    }
    struct weft_hosts *hosts = make(sizes, count, order);
    free(sizes);
    free(order);
    return hosts;
}

struct weft_hosts *plan_hosts_composition(uint32_t ranks, uint64_t number, const uint32_t *order)
{
    uint32_t sizes[64] = {1}, count = 1;
    for (uint32_t i = 1; i < ranks; i++) {
        count += number >> (i - 1) & 1;
        sizes[count - 1]++;
    }
    return make(sizes, count, order);
}

struct weft_hosts *plan_hosts_even(uint32_t count, uint32_t size, uint32_t last, int shuffled)
{
    uint32_t *sizes = must(calloc(count, sizeof *sizes)), *order = NULL;
    uint64_t state = count;
    for (uint32_t i = 0; i < count; i++)
        sizes[i] = i + 1 < count ? size : last;
    if (shuffled)
        order = order_random((count - 1) * size + last, &state);
    struct weft_hosts *hosts = make(sizes, count, order);
    free(sizes);
    free(order);
    return hosts;
}

const char *plan_hosts_name(const struct weft_hosts *hosts)
{
    static char text[512];
    size_t at = (size_t)snprintf(text, sizeof text, "hosts ");
    for (uint32_t i = 0; i < hosts->count && at < sizeof text - 64; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%u", i ? "," : "", weft_hosts_size(hosts, i));
    for (uint32_t i = 0; hosts->order && i < hosts->ranks && at < sizeof text - 64; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%u", i ? " " : ", order ", hosts->order[i]);
    return text;
}
