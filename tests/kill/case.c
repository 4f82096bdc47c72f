/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kill/case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algos/plan.h"

struct field {
    const char *name;
    size_t offset;
};

#define AT(field) offsetof(struct kill_case, field)

static const struct field fields[] = {
    {"transport", AT(transport)},
    {"ranks", AT(ranks)},
    {"victim", AT(victim)},
    {"signal", AT(signal)},
    {"kind", AT(kind)},
    {"stage", AT(stage)},
    {"op", AT(op)},
    {"step", AT(step)},
    {"phase", AT(phase)},
    {"n", AT(n)},
    {"algorithm", AT(algorithm)},
    {"fast_path", AT(fast_path)},
    {"memory", AT(memory)},
    {"in_place", AT(in_place)},
    {"count", AT(count)},
};
#define FIELDS (sizeof fields / sizeof *fields)

void kill_case_print(const struct kill_case *c, char *text, size_t capacity)
{
    size_t used = 0;
    for (size_t i = 0; i < FIELDS && used < capacity; i++) {
        int value = *(const int *)(const void *)((const char *)c + fields[i].offset);
        used +=
            (size_t)snprintf(text + used, capacity - used, "%s%s=%d", i ? " " : "", fields[i].name, value);
    }
}

int kill_case_parse(const char *text, struct kill_case *c)
{
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < FIELDS; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s=", fields[i].name);
        const char *found = strstr(text, key);
        while (found && found != text && found[-1] != ' ')
            found = strstr(found + 1, key);
        if (!found)
            return 0;
        *(int *)(void *)((char *)c + fields[i].offset) = atoi(found + strlen(key));
    }
    return c->ranks >= 2 && c->ranks <= KILL_RANKS_MAX && c->victim >= 0 && c->victim < c->ranks &&
           c->transport >= 0 && c->transport < KILL_TRANSPORTS && c->count > 0;
}

/* A step of a plan. */
struct spot {
    uint8_t algorithm, ranks, rank, in_place;
    uint16_t step;
};

struct kill_deck {
    uint64_t random;
    int transport, signal;
    struct spot *spots;
    size_t spot_count, next_spot, dealt_spots;
};

/* Of calls into the kernel, those in a job that nobody killed. */
static unsigned calls_of[KILL_TRANSPORTS][KILL_RANKS_MAX + 1][KILL_RANKS_MAX][KILL_STAGES];

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t draw(struct kill_deck *deck)
{
    uint64_t z = deck->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int below(struct kill_deck *deck, size_t limit)
{
    return (int)(draw(deck) % limit);
}

static void add_steps(struct kill_deck *deck, const struct weft_plan_request *request)
{
    struct weft_plan *plan;
    if (weft_plan_make(request, &plan))
        abort();
    struct weft_cursor cursor;
    struct weft_step step;
    weft_cursor_start(&cursor, plan);
    for (uint16_t i = 0; weft_cursor_next(&cursor, &step); i++) {
        if (deck->spot_count % 1024 == 0)
            deck->spots = realloc(deck->spots, (deck->spot_count + 1024) * sizeof *deck->spots);
        if (!deck->spots)
            abort();
        deck->spots[deck->spot_count++] =
            (struct spot){(uint8_t)request->algorithm, (uint8_t)request->ranks, (uint8_t)request->rank,
                          (uint8_t)request->in_place, i};
    }
    weft_plan_free(plan);
}

static void shuffle(struct kill_deck *deck)
{
    for (size_t i = deck->spot_count; i > 1; i--) {
        size_t other = (size_t)below(deck, i);
        struct spot spot = deck->spots[other];
        deck->spots[other] = deck->spots[i - 1];
        deck->spots[i - 1] = spot;
    }
}

struct kill_deck *kill_deck_new(uint64_t seed, int transport, int signal)
{
    struct kill_deck *deck = calloc(1, sizeof *deck);
    if (!deck)
        abort();
    deck->random = seed * 1009 + (uint64_t)(transport + 8 * signal);
    deck->transport = transport;
    deck->signal = signal;
    for (int algorithm = WEFT_ALGO_RING; algorithm <= WEFT_ALGO_RAB; algorithm++) {
        for (uint32_t ranks = 2; ranks <= KILL_RANKS_MAX; ranks++) {
            for (uint32_t rank = 0; rank < ranks; rank++) {
                for (int in_place = 0; in_place < 2; in_place++) {
                    struct weft_plan_request request = {.collective = WEFT_ALLREDUCE,
                                                        .algorithm = (enum weft_algorithm)algorithm,
                                                        .ranks = ranks,
                                                        .rank = rank,
                                                        .in_place = in_place,
                                                        .root = -1};
                    add_steps(deck, &request);
                }
            }
        }
    }
    shuffle(deck);
    return deck;
}

void kill_deck_free(struct kill_deck *deck)
{
    if (deck)
        free(deck->spots);
    free(deck);
}

void kill_case_calls(int transport, int ranks, int rank, int stage, unsigned calls)
{
    calls_of[transport][ranks][rank][stage] = calls;
}

size_t kill_deck_steps(const struct kill_deck *deck, size_t *dealt)
{
    *dealt = deck->dealt_spots;
    return deck->spot_count;
}

static void deal_step(struct kill_deck *deck, struct kill_case *c)
{
    const struct spot *spot = &deck->spots[deck->next_spot];
    deck->next_spot = (deck->next_spot + 1) % deck->spot_count;
    deck->dealt_spots += deck->dealt_spots < deck->spot_count;
    c->algorithm = spot->algorithm;
    c->ranks = spot->ranks;
    c->victim = spot->rank;
    c->in_place = spot->in_place;
    c->step = spot->step;
    c->stage = KILL_OPERATION;
    c->phase = below(deck, KILL_PHASES);
    c->n = 1 + below(deck, 4);
    /* The cache-line path stands for small recursive doublings, and goes ahead of the others with a
     * comparison of counts. */
    c->fast_path = c->algorithm == WEFT_ALGO_RD || below(deck, 2) ? 0 : 16384;
}

static void deal_fast(struct kill_deck *deck, struct kill_case *c)
{
    static const int counts[] = {1, 12, 500};
    c->stage = KILL_OPERATION;
    c->algorithm = below(deck, 2) ? WEFT_ALGO_AUTO : WEFT_ALGO_RD;
    c->phase = below(deck, KILL_PHASES);
    c->n = 1 + below(deck, (size_t)c->ranks - 1);
    c->fast_path = 16384;
    c->count = counts[below(deck, 3)];
}

static void deal_call(struct kill_deck *deck, struct kill_case *c)
{
    static const int stages[] = {KILL_OPEN, KILL_OPEN, KILL_AGREE, KILL_AGREE, KILL_OPERATION, KILL_DESTROY};
    c->stage = stages[below(deck, sizeof stages / sizeof *stages)];
    unsigned calls = calls_of[c->transport][c->ranks][c->victim][c->stage];
    c->n = 1 + below(deck, calls ? calls + calls / 8 : 40);
    c->op = 0; /* the first operation: links are made in it */
}

static void deal_kind(struct kill_deck *deck, struct kill_case *c)
{
    int dice = below(deck, 100);
    if (dice < 60) {
        c->kind = KILL_STEP;
        deal_step(deck, c);
    } else if (dice < 70 && deck->transport == KILL_SHM) {
        c->kind = KILL_FAST;
        deal_fast(deck, c);
    } else if (dice < 75) {
        c->kind = KILL_MOVE;
        c->stage = KILL_OPERATION;
        c->n = 1 + below(deck, 40);
        c->phase = below(deck, 2) ? KILL_ENTER : KILL_DONE;
    } else if (dice < 95) {
        c->kind = KILL_CALL;
        deal_call(deck, c);
    } else {
        c->kind = KILL_TIME;
        c->stage = KILL_OPERATION;
        c->n = below(deck, 3000);
    }
}

void kill_deck_deal(struct kill_deck *deck, struct kill_case *c)
{
    /* Inside one message; a few slices of it; many. */
    static const int counts[] = {64, 3000, 24000};
    memset(c, 0, sizeof *c);
    c->transport = deck->transport;
    c->signal = deck->signal;
    c->ranks = 2 + below(deck, KILL_RANKS_MAX - 1);
    c->victim = below(deck, (size_t)c->ranks);
    c->op = below(deck, 3);
    c->algorithm = below(deck, WEFT_ALGO_RAB + 1);
    c->fast_path = below(deck, 2) ? 16384 : 0;
    c->memory = deck->transport == KILL_SHM ? below(deck, KILL_MEMORIES) : KILL_HEAP;
    c->in_place = below(deck, 2);
    c->count = counts[below(deck, 3)];
    deal_kind(deck, c);
}
