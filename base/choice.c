/* SPDX-License-Identifier: Apache-2.0 */
#include "base/choice.h"

#define TRIAL       3  /* messages: the first may find cold caches, or an owner that feeds in vain */
#define PERIOD      19 /* messages, of which the first WINDOW are timed; long ones all are */
#define WINDOW      4  /* timed messages in a row, of which the least is kept */
#define LONG_BYTES  ((size_t)128 << 10)
#define LARGE_BYTES ((size_t)512 << 10)
#define COST_MAX    2000000000
#define TRIALS_PART 50  /* of the messages' time is what trials of a slower way may cost */
#define CLEARLY     0.1 /* two ways' costs differ clearly, by more than this part of their sum */
#define GIVEN_UP    512 /* messages that a trial's are waited for */

/* Pauses between trials, in messages. */
#define FIRST_PAUSE   16 /* before the first one, */
#define LARGE_PAUSE   4  /* and of large messages */
#define PAUSE_MIN     32
#define PAUSE_SOON    128 /* up to here each is twice the one before, then an eighth longer */
#define PAUSE_MAX     512 /* longer ones only where the other way is many times slower */
#define PAUSE_LONGEST 2048

static void reset_pauses(struct weft_choice *choice)
{
    choice->pause = PAUSE_MIN;
    choice->least_pause = PAUSE_MIN;
    for (int way = 0; way < WEFT_CHOICE_WAYS; way++)
        choice->cheap[way] = choice->sure[way] = PAUSE_MIN;
}

void weft_choice_open(struct weft_choice *choice, uint8_t ways)
{
    *choice = (struct weft_choice){.ways = ways, .first_pause = FIRST_PAUSE, .had = 1};
    reset_pauses(choice);
    choice->pause = FIRST_PAUSE;
}

/* The way of the next trial: of three, those that are not taken have one in turn. */
static uint8_t next_tried(const struct weft_choice *choice)
{
    uint8_t way = choice->tried;
    do
        way = (uint8_t)((way + 1) % choice->ways);
    while (way == choice->taken);
    return way;
}

/* By a quarter since the last trial, and that is some time ago. */
static int has_moved(const struct weft_choice *choice)
{
    uint32_t now = choice->cost_ns[choice->taken], then = choice->mark_ns;
    return choice->messages >= choice->least_pause && then &&
           (now > then + then / 4 || now < then - then / 4);
}

static uint16_t between(uint16_t least, uint64_t value, uint16_t most)
{
    return (uint16_t)(value < least ? least : value < most ? value : most);
}

/* How soon there may be another trial after one that has found this. Costs that move all the time would have one each PAUSE_MIN messages. */
static uint16_t pause_after(uint64_t tried_ns, uint64_t known_ns)
{
    if (!known_ns || tried_ns <= known_ns)
        return PAUSE_MIN;
    uint64_t messages = TRIAL * TRIALS_PART * (tried_ns - known_ns) / known_ns;
    return between(PAUSE_MIN, messages, PAUSE_LONGEST);
}

/* The pause after a trial in vain. */
static uint16_t later(const struct weft_choice *choice)
{
    uint8_t next = next_tried(choice);
    uint16_t sure = choice->sure[next];
    if (!(choice->had & 1u << next))
        return choice->first_pause;
    uint16_t pause = choice->pause < PAUSE_SOON ? 2 * choice->pause : choice->pause / 8 * 9;
    return between(sure, pause, sure < PAUSE_MAX ? PAUSE_MAX : sure);
}

/* The pause with which a trial of any other way costs little enough. */
static uint16_t cheap_of_all(const struct weft_choice *choice)
{
    uint16_t most = PAUSE_MIN;
    for (int way = 0; way < choice->ways; way++) {
        if (way != choice->taken && choice->cheap[way] > most)
            most = choice->cheap[way];
    }
    return most;
}

uint8_t weft_choice_next(struct weft_choice *choice, int *is_timed)
{
    *is_timed = 1;
    if (choice->trial && choice->sent < TRIAL) {
        choice->sent++;
        return choice->tried;
    }
    choice->messages++;
    if (choice->trial && choice->messages < GIVEN_UP) {
        *is_timed = 0;
        return choice->taken;
    }
    int moved = has_moved(choice);
    if (!moved && choice->messages >= choice->least_pause) /* it was for a moment */
        choice->early = 0;
    if (!moved && choice->messages < choice->pause) {
        *is_timed = choice->is_long || choice->messages % PERIOD < WINDOW;
        return choice->taken;
    }
    choice->early = (uint8_t)(!moved ? 0 : choice->early ? choice->early : choice->ways - 1);
    choice->trial = TRIAL;
    choice->sent = 1;
    choice->messages = 0;
    choice->tried = next_tried(choice);
    choice->had |= (uint8_t)(1u << choice->tried);
    choice->cost_ns[choice->tried] = 0;
    return choice->tried;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a && (!b || a < b) ? a : b;
}

/* A message by the way that is taken. */
static void keep(struct weft_choice *choice, uint32_t seen_ns)
{
    choice->low_ns[1] = least(choice->low_ns[1], seen_ns);
    choice->cost_ns[choice->taken] = least(choice->low_ns[0], choice->low_ns[1]);
    if (++choice->timed < WINDOW)
        return;
    choice->timed = 0;
    choice->low_ns[0] = choice->low_ns[1];
    choice->low_ns[1] = 0;
}

/* The trial is over. */
static int compare(struct weft_choice *choice)
{
    uint8_t tried = choice->tried;
    uint64_t cost = choice->cost_ns[tried], known = choice->cost_ns[choice->taken];
    int is_faster = cost && known && cost * 100 < known * 95;
    int is_early = choice->early > 0, is_last = choice->early <= 1;
    choice->early = (uint8_t)(choice->early - is_early);
    if (is_faster) {
        choice->taken = tried;
        choice->early = 0;
        reset_pauses(choice);
        if (!(choice->had & 1u << next_tried(choice)))
            choice->pause = choice->first_pause;
        choice->low_ns[0] = choice->cost_ns[tried];
        choice->low_ns[1] = choice->timed = 0;
    } else {
        uint16_t cheap = pause_after(cost, known), before = choice->cheap[tried];
        choice->cheap[tried] = cheap;
        choice->sure[tried] =
            before < cheap ? before : cheap; /* all messages of one trial may have been late */
        choice->pause = later(choice);
        if (is_last)
            choice->least_pause =
                between(PAUSE_MIN, is_early ? 2 * choice->least_pause : choice->least_pause / 8 * 7,
                        cheap_of_all(choice));
    }
    if (is_last || is_faster) /* else another way has its trial for the same reason */
        choice->mark_ns = choice->cost_ns[choice->taken];
    return is_faster;
}

int weft_choice_observe(struct weft_choice *choice, uint8_t way, int64_t cost_ns)
{
    uint32_t seen_ns = cost_ns <= 0 ? 0 : cost_ns < COST_MAX ? (uint32_t)cost_ns : COST_MAX;
    if (way == choice->taken) {
        if (seen_ns)
            keep(choice, seen_ns);
        return 0;
    }
    if (way != choice->tried || !choice->trial)
        return 0;
    choice->cost_ns[way] = least(choice->cost_ns[way], seen_ns);
    return --choice->trial == 0 ? compare(choice) : 0;
}

/* --- by size */

static uint32_t index_of(size_t bytes, size_t *largest)
{
    uint32_t i = 0;
    *largest = WEFT_CHOICE_BYTES_MIN;
    for (; i < WEFT_CHOICE_SIZES - 1 && *largest < bytes; i++)
        *largest *= 2;
    return i;
}

void weft_choices_open(struct weft_choices *choices, uint8_t ways)
{
    for (int i = 0; i < WEFT_CHOICE_SIZES; i++) {
        weft_choice_open(&choices->sizes[i], ways);
        if ((size_t)WEFT_CHOICE_BYTES_MIN << i >= LARGE_BYTES)
            choices->sizes[i].pause = choices->sizes[i].first_pause = LARGE_PAUSE;
        choices->sizes[i].is_long = (size_t)WEFT_CHOICE_BYTES_MIN << i >= LONG_BYTES;
    }
}

uint8_t weft_choices_taken(const struct weft_choices *choices, size_t bytes)
{
    size_t largest;
    return choices->sizes[index_of(bytes, &largest)].taken;
}

uint8_t weft_choices_next(struct weft_choices *choices, size_t bytes, int *is_timed)
{
    size_t largest;
    return weft_choice_next(&choices->sizes[index_of(bytes, &largest)], is_timed);
}

uint8_t weft_choices_costs(const struct weft_choices *choices, size_t bytes,
                           uint64_t costs_ns[WEFT_CHOICE_WAYS], size_t *of_bytes)
{
    const struct weft_choice *choice = &choices->sizes[index_of(bytes, of_bytes)];
    for (int way = 0; way < WEFT_CHOICE_WAYS; way++)
        costs_ns[way] = choice->cost_ns[way];
    return choice->taken;
}

int weft_choices_compare(const struct weft_choices *choices, uint8_t first, uint8_t second)
{
    double balance = 0;
    int known = 0;
    for (int i = 0; i < WEFT_CHOICE_SIZES; i++) {
        const struct weft_choice *choice = &choices->sizes[i];
        double first_ns = choice->cost_ns[first], second_ns = choice->cost_ns[second];
        if (choice->trial || first_ns == 0 || second_ns == 0)
            continue;
        balance += (first_ns - second_ns) / (first_ns + second_ns);
        known++;
    }
    return balance > known * CLEARLY ? 1 : -balance > known * CLEARLY ? -1 : 0;
}

int weft_choices_observe(struct weft_choices *choices, size_t bytes, uint8_t way, int64_t cost_ns)
{
    size_t largest;
    struct weft_choice *choice = &choices->sizes[index_of(bytes, &largest)];
    double scaled = bytes ? (double)cost_ns * (double)largest / (double)bytes : 0;
    return weft_choice_observe(choice, way, scaled < COST_MAX ? (int64_t)scaled : COST_MAX);
}
