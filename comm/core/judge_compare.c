/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison itself: who passes what, and who is wrong. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algos/plan.h"
#include "base/majority.h"
#include "comm/boot/boot.h"
#include "comm/core/judge.h"

/* In the order in which a difference is looked for: what comes later follows from what comes first. */
enum field { COLLECTIVE, TYPE, REDUCTION, COUNT, ROOT, ALGORITHM, FIELDS };

static uint64_t value_of(const struct weft_call *call, enum field field)
{
    switch (field) {
    case COLLECTIVE:
        return call->collective | (uint64_t)call->unequal << 8;
    case TYPE:
        return call->dtype;
    case REDUCTION:
        return call->op;
    case COUNT:
        return call->count;
    case ROOT:
        return (uint64_t)(int64_t)call->root;
    default:
        return call->algorithm;
    }
}

/* An algorithm that is not chosen yet says nothing; calls that move nothing have only their name. */
static int says(const struct weft_call *call, enum field field)
{
    if (field == COLLECTIVE)
        return 1;
    if (!weft_call_moves(call) || (field == REDUCTION && !weft_call_reduces(call)))
        return 0;
    return field != ALGORITHM || call->algorithm != 0;
}

struct vote {
    const struct weft_judge_entry *entries;
    enum field field;
};

static int same_value(const void *arg, int a, int b)
{
    const struct vote *vote = arg;
    const struct weft_call *one = &vote->entries[a].call, *other = &vote->entries[b].call;
    return says(one, vote->field) && says(other, vote->field) &&
           value_of(one, vote->field) == value_of(other, vote->field);
}

static void print_value(const struct weft_call *call, enum field field, char *text, size_t capacity)
{
    const char *algorithm = weft_algorithm_name(call->algorithm);
    switch (field) {
    case COLLECTIVE:
        snprintf(text, capacity, "%s", weft_call_name(call));
        break;
    case TYPE:
        snprintf(text, capacity, "%s", weft_dtype_name((weft_dtype)call->dtype));
        break;
    case REDUCTION:
        weft_call_op_name(call, text, capacity);
        break;
    case COUNT:
        weft_call_count_text(call, text, capacity);
        break;
    case ROOT:
        snprintf(text, capacity, "%" PRId32, call->root);
        break;
    default:
        snprintf(text, capacity, "%s", algorithm ? algorithm : "unknown");
    }
}

/* "rank 2 on host 'a'", or "ranks 2, 5-7" when several are wrong in the same way. Returns how many. */
static int print_wrong(const struct weft_judge_entry *entries, int count, const struct weft_member *members,
                       int ranks, enum field field, const struct weft_judge_entry *first, char *text,
                       size_t capacity)
{
    unsigned char *set = calloc(weft_boot_set_bytes(ranks), 1);
    int wrong = 1;
    for (int i = 0; set && i < count; i++) {
        if (says(&entries[i].call, field) &&
            value_of(&entries[i].call, field) == value_of(&first->call, field))
            weft_boot_set_add(set, entries[i].rank);
    }
    if (set)
        wrong = weft_boot_set_text(set, ranks, text, capacity);
    if (wrong == 1)
        snprintf(text, capacity, "rank %d on host '%s'", first->rank, members[first->rank].host);
    free(set);
    return wrong;
}

static void word(const struct weft_judge_entry *entries, int count, const struct weft_member *members,
                 int ranks, enum field field, const struct weft_judge_entry *wrong,
                 const struct weft_judge_entry *right, char *text, size_t capacity)
{
    static const char *const names[FIELDS] = {"", "type ", "reduction ", "count ", "root ", "algorithm "};
    char who[300], theirs[64], ours[64], title[WEFT_CALL_TITLE];
    int hashed = field == COUNT && (right->call.unequal || weft_call_is_list(&right->call));
    int several = print_wrong(entries, count, members, ranks, field, wrong, who, sizeof who) > 1;
    print_value(&wrong->call, field, theirs, sizeof theirs);
    print_value(&right->call, field, ours, sizeof ours);
    const char *verb = field == COLLECTIVE ? "call" : "pass";
    const char *ending = field == COLLECTIVE ? "s" : "es";
    if (field == COLLECTIVE)
        snprintf(title, sizeof title, "call #%" PRIu64, right->call.sequence);
    else
        weft_call_title(&right->call, title, sizeof title);
    snprintf(text, capacity, "%s: %s %s%s %s%s, rank %d %s%s %s", title, who, verb, several ? "" : ending,
             hashed ? "counts " : names[field], theirs, right->rank, verb, ending, ours);
}

int weft_judge_compare(const struct weft_judge_entry *entries, int count, const struct weft_member *members,
                       int ranks, char *text, size_t capacity)
{
    for (enum field field = 0; field < FIELDS; field++) {
        const struct vote vote = {entries, field};
        int first = weft_majority(count, same_value, &vote);
        const struct weft_judge_entry *wrong = NULL, *right = first < 0 ? NULL : &entries[first];
        for (int i = 0; i < count && !wrong; i++)
            wrong = says(&entries[i].call, field) && !same_value(&vote, i, first) ? &entries[i] : NULL;
        if (!wrong || !right)
            continue;
        word(entries, count, members, ranks, field, wrong, right, text, capacity);
        return 1;
    }
    return 0;
}
