/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/p2p/match.h"

#include <stdlib.h>

#include "base/error.h"

#define BUCKETS_MIN 16

/* Entries of one key, oldest first. Exists while it has any. */
struct weft_match_queue {
    struct weft_match_queue *next; /* in the bucket, or among the spare ones */
    struct weft_match_node *head, *tail;
    int32_t space, source;
    int64_t tag;
};

/* Mixes all bits of a key (the finaliser of splitmix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
 * Generators", OOPSLA 2014). */
static uint64_t hash(int32_t space, int32_t source, int64_t tag)
{
    uint64_t x = (uint64_t)tag * 0x9e3779b97f4a7c15u + ((uint64_t)(uint32_t)source << 1 | (uint64_t)space);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static struct weft_match_queue **find(const struct weft_match_table *table, int32_t space, int32_t source,
                                      int64_t tag)
{
    struct weft_match_queue **at = &table->buckets[hash(space, source, tag) & (table->capacity - 1)];
    while (*at && ((*at)->tag != tag || (*at)->source != source || (*at)->space != space))
        at = &(*at)->next;
    return at;
}

/* The oldest entry of a key, or NULL. */
static struct weft_match_node *first(const struct weft_match_table *table, int32_t space, int32_t source,
                                     int64_t tag)
{
    if (!table->count)
        return NULL;
    struct weft_match_queue *queue = *find(table, space, source, tag);
    return queue ? queue->head : NULL;
}

/* Twice the buckets. Without memory the old ones do, if there are any. */
static int grow(struct weft_match_table *table)
{
    size_t capacity = table->capacity ? 2 * table->capacity : BUCKETS_MIN;
    struct weft_match_queue **buckets = calloc(capacity, sizeof *buckets);
    if (!buckets)
        return table->capacity ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory to match messages");
    struct weft_match_table grown = {buckets, capacity, table->count};
    for (size_t i = 0; i < table->capacity; i++) {
        for (struct weft_match_queue *queue = table->buckets[i], *next; queue; queue = next) {
            next = queue->next;
            struct weft_match_queue **at = find(&grown, queue->space, queue->source, queue->tag);
            queue->next = NULL;
            *at = queue;
        }
    }
    free(table->buckets);
    *table = grown;
    return WEFT_OK;
}

static int append(struct weft_match *match, struct weft_match_table *table, struct weft_match_node *node,
                  int32_t space, int32_t source, int64_t tag)
{
    if (table->count == table->capacity) {
        int status = grow(table);
        if (status != WEFT_OK)
            return status;
    }
    struct weft_match_queue **at = find(table, space, source, tag), *queue = *at;
    if (!queue) {
        queue = match->spare;
        if (queue)
            match->spare = queue->next;
        else
            queue = malloc(sizeof *queue);
        if (!queue)
            return weft_fail(WEFT_NOMEM, "no memory to match messages");
        *queue = (struct weft_match_queue){.space = space, .source = source, .tag = tag};
        *at = queue;
        table->count++;
    }
    node->queue = queue;
    node->next = NULL;
    node->previous = queue->tail;
    node->stamp = match->stamp;
    *(queue->tail ? &queue->tail->next : &queue->head) = node;
    queue->tail = node;
    return WEFT_OK;
}

static void detach(struct weft_match *match, struct weft_match_table *table, struct weft_match_node *node)
{
    struct weft_match_queue *queue = node->queue;
    if (!queue)
        return;
    *(node->previous ? &node->previous->next : &queue->head) = node->next;
    *(node->next ? &node->next->previous : &queue->tail) = node->previous;
    node->queue = NULL;
    if (queue->head)
        return;
    struct weft_match_queue **at = find(table, queue->space, queue->source, queue->tag);
    *at = queue->next;
    table->count--;
    queue->next = match->spare;
    match->spare = queue;
}

void weft_match_close(struct weft_match *match)
{
    while (match->spare) {
        struct weft_match_queue *next = match->spare->next;
        free(match->spare);
        match->spare = next;
    }
    free(match->posted.buckets);
    free(match->arrived.buckets);
    *match = (struct weft_match){0};
}

static int kind_of(int32_t source, int64_t tag)
{
    return (source == WEFT_MATCH_ANY) + 2 * (tag == WEFT_MATCH_ANY);
}

static int enter(struct weft_match *match, struct weft_posted *posted)
{
    match->stamp++;
    int status = append(match, &match->posted, &posted->node, posted->space, posted->source, posted->tag);
    if (status == WEFT_OK) {
        match->posted_like[kind_of(posted->source, posted->tag)]++;
        match->posted_count++;
    }
    return status;
}

int weft_match_post(struct weft_match *match, struct weft_posted *posted)
{
    posted->node.queue = NULL;
    if (!match->lone && !match->posted_count) {
        match->lone = posted;
        return WEFT_OK;
    }
    int status = match->lone ? enter(match, match->lone) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    match->lone = NULL;
    return enter(match, posted);
}

void weft_match_withdraw(struct weft_match *match, struct weft_posted *posted)
{
    if (match->lone == posted)
        match->lone = NULL;
    if (!posted->node.queue)
        return;
    detach(match, &match->posted, &posted->node);
    match->posted_like[kind_of(posted->source, posted->tag)]--;
    match->posted_count--;
}

/* Takes out the only receive there is, if the message is for it. */
static struct weft_posted *claim_lone(struct weft_match *match, int32_t space, int32_t source, int64_t tag)
{
    struct weft_posted *lone = match->lone;
    if (lone->space != space || (lone->source != source && lone->source != WEFT_MATCH_ANY) ||
        (lone->tag != tag && lone->tag != WEFT_MATCH_ANY))
        return NULL;
    match->lone = NULL;
    return lone;
}

struct weft_posted *weft_match_claim(struct weft_match *match, int32_t space, int32_t source, int64_t tag)
{
    struct weft_match_node *oldest = NULL;
    if (match->lone)
        return claim_lone(match, space, source, tag);
    for (int kind = 0; kind < 4; kind++) {
        if (!match->posted_like[kind])
            continue;
        struct weft_match_node *node =
            first(&match->posted, space, kind & 1 ? WEFT_MATCH_ANY : source, kind & 2 ? WEFT_MATCH_ANY : tag);
        if (node && (!oldest || node->stamp < oldest->stamp))
            oldest = node;
    }
    if (!oldest)
        return NULL;
    struct weft_posted *posted = (struct weft_posted *)((char *)oldest - offsetof(struct weft_posted, node));
    weft_match_withdraw(match, posted);
    return posted;
}

int weft_match_keep(struct weft_match *match, struct weft_arrived *arrived)
{
    match->stamp++;
    for (int kind = 0; kind < 4; kind++)
        arrived->nodes[kind].queue = NULL;
    for (int kind = 0; kind < 4; kind++) {
        int status =
            append(match, &match->arrived, &arrived->nodes[kind], arrived->space,
                   kind & 1 ? WEFT_MATCH_ANY : arrived->source, kind & 2 ? WEFT_MATCH_ANY : arrived->tag);
        if (status != WEFT_OK) {
            while (kind-- > 0)
                detach(match, &match->arrived, &arrived->nodes[kind]);
            return status;
        }
    }
    match->arrived_count++;
    return WEFT_OK;
}

void weft_match_remove(struct weft_match *match, struct weft_arrived *arrived)
{
    for (int kind = 0; kind < 4; kind++)
        detach(match, &match->arrived, &arrived->nodes[kind]);
    match->arrived_count--;
}

static struct weft_arrived *arrived_of(struct weft_match_node *node, int kind)
{
    if (!node)
        return NULL;
    return (struct weft_arrived *)((char *)(node - kind) - offsetof(struct weft_arrived, nodes));
}

struct weft_arrived *weft_match_find(const struct weft_match *match, int32_t space, int32_t source,
                                     int64_t tag)
{
    return arrived_of(first(&match->arrived, space, source, tag), kind_of(source, tag));
}

struct weft_arrived *weft_match_next(const struct weft_match *match, int32_t space,
                                     const struct weft_arrived *after)
{
    if (after)
        return arrived_of(after->nodes[3].next, 3);
    return weft_match_find(match, space, WEFT_MATCH_ANY, WEFT_MATCH_ANY);
}

struct weft_arrived *weft_match_next_alike(const struct weft_arrived *after)
{
    return arrived_of(after->nodes[0].next, 0);
}
