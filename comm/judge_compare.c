/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison itself: who passes what, and who is wrong. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algos/plan.h"
#include "comm/boot.h"
#include "comm/judge.h"

/* In the order in which a difference is looked for: what comes later follows from what comes first. */
enum field { COLLECTIVE, FORM, TYPE, REDUCTION, COUNT, ROOT, ALGORITHM, FIELDS };

static uint64_t value_of(const struct weft_call *call, enum field field)
{
    switch (field) {
    case COLLECTIVE:
        return call->collective | (uint64_t)call->unequal << 8;
    case FORM:
        return call->started != 0;
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

/* The value that more than half have (Boyer and Moore's majority vote, then counted), else the first one's. */
static uint64_t right_value(const struct weft_judge_entry *entries, int count, enum field field)
{
    uint64_t candidate = 0, first = 0;
    int lead = 0, voters = 0, votes = 0;
    for (int i = 0; i < count; i++) {
        if (!says(&entries[i].call, field))
            continue;
        uint64_t value = value_of(&entries[i].call, field);
        if (voters++ == 0)
            first = value;
        if (lead == 0)
            candidate = value;
        lead += value == candidate ? 1 : -1;
    }
    for (int i = 0; i < count; i++)
        votes += says(&entries[i].call, field) && value_of(&entries[i].call, field) == candidate;
    return 2 * votes > voters ? candidate : first;
}

static void print_value(const struct weft_call *call, enum field field, char *text, size_t capacity)
{
    const char *algorithm = weft_algorithm_name(call->algorithm);
    switch (field) {
    case COLLECTIVE:
        snprintf(text, capacity, "%s", weft_call_name(call));
        break;
    case FORM:
        snprintf(text, capacity, "%s", call->started ? "started" : "blocking");
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
    unsigned char *right = malloc((size_t)ranks);
    int wrong = 1;
    if (right) {
        wrong = 0;
        memset(right, 1, (size_t)ranks);
        for (int i = 0; i < count; i++) {
            if (says(&entries[i].call, field) &&
                value_of(&entries[i].call, field) == value_of(&first->call, field)) {
                right[entries[i].rank] = 0;
                wrong++;
            }
        }
    }
    if (wrong == 1) {
        snprintf(text, capacity, "rank %d on host '%s'", first->rank, members[first->rank].host);
    } else {
        struct weft_boot_late late;
        weft_boot_late_collect(right, ranks, &late);
        weft_boot_late_text(&late, text, capacity);
    }
    free(right);
    return wrong;
}

static void word(const struct weft_judge_entry *entries, int count, const struct weft_member *members,
                 int ranks, enum field field, const struct weft_judge_entry *wrong,
                 const struct weft_judge_entry *right, char *text, size_t capacity)
{
    static const char *const names[FIELDS] = {"",       "form ", "type ",     "reduction ",
                                              "count ", "root ", "algorithm "};
    char who[300], theirs[64], ours[64];
    int hashed = field == COUNT && (right->call.unequal || weft_call_is_list(&right->call));
    int several = print_wrong(entries, count, members, ranks, field, wrong, who, sizeof who) > 1;
    print_value(&wrong->call, field, theirs, sizeof theirs);
    print_value(&right->call, field, ours, sizeof ours);
    const char *verb = field == COLLECTIVE ? "call" : field == FORM ? "use" : "pass";
    const char *ending = field == COLLECTIVE || field == FORM ? "s" : "es";
    snprintf(text, capacity, "%s #%" PRIu64 ": %s %s%s %s%s, rank %d %s%s %s",
             field == COLLECTIVE ? "call" : weft_call_name(&right->call), right->call.sequence, who, verb,
             several ? "" : ending, hashed ? "counts " : names[field], theirs, right->rank, verb, ending,
             ours);
}

int weft_judge_compare(const struct weft_judge_entry *entries, int count, const struct weft_member *members,
                       int ranks, char *text, size_t capacity)
{
    for (enum field field = 0; field < FIELDS; field++) {
        uint64_t value = right_value(entries, count, field);
        const struct weft_judge_entry *wrong = NULL, *right = NULL;
        for (int i = 0; i < count; i++) {
            if (!says(&entries[i].call, field))
                continue;
            int is_right = value_of(&entries[i].call, field) == value;
            if (is_right && !right)
                right = &entries[i];
            if (!is_right && !wrong)
                wrong = &entries[i];
        }
        if (!wrong || !right)
            continue;
        word(entries, count, members, ranks, field, wrong, right, text, capacity);
        return 1;
    }
    return 0;
}
