/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators from communicators: groups of a communicator's ranks meet (docs/bootstrap.md, section 12).
 *
 * Three rounds over the parent's overlay: everybody's colour and key, from which each rank knows its group; and the two exchanges of a
 * meeting (comm/form/meeting.h), which all groups hold at the same time. A rank that cannot go on says so in the next round and still
 * takes part: the other groups have nothing to do with it.
 */
#include "comm/form/split.h"

#include <stdlib.h>

#include "base/fork.h"
#include "comm/form/making.h"
#include "comm/form/meeting.h"
#include "comm/form/round.h"

struct split {
    struct weft_making making; /* first, so that one is the other */
    int colour, key;
};

struct group {
    struct weft_meeting meeting; /* first, so that one is the other */
    struct weft_round round;
};

static int compare_members(const void *a, const void *b, void *arg)
{
    const struct weft_blob *choices = arg;
    int x = *(const int *)a, y = *(const int *)b;
    int32_t left = ((const struct weft_group_choice *)choices[x].data)->key;
    int32_t right = ((const struct weft_group_choice *)choices[y].data)->key;
    if (left != right)
        return left < right ? -1 : 1;
    return (x > y) - (x < y);
}

int weft_group_choose(const struct weft_blob *choices, int ranks, int rank, int *members, int *wrong)
{
    int found = 0;
    for (int r = 0; r < ranks; r++) {
        *wrong = r;
        if (choices[r].size != sizeof(struct weft_group_choice))
            return WEFT_PROTOCOL;
    }
    const struct weft_group_choice *mine = choices[rank].data;
    for (int r = 0; r < ranks && mine->colour != WEFT_UNDEFINED; r++) {
        if (((const struct weft_group_choice *)choices[r].data)->colour == mine->colour)
            members[found++] = r;
    }
    qsort_r(members, (size_t)found, sizeof *members, compare_members, (void *)(uintptr_t)choices);
    return found;
}

/* Round 1. */
static int find_members(struct group *group, int colour, int key)
{
    struct weft_meeting *meeting = &group->meeting;
    struct weft_group_choice choice = {colour, key};
    struct weft_blob *choices;
    int status = weft_round_gather(&group->round, &choice, sizeof choice, &choices);
    if (status != WEFT_OK)
        return status;
    int wrong, rank = meeting->parent->rank;
    if (meeting->members) /* else it takes part to say that it cannot go on */
        meeting->ranks = weft_group_choose(choices, meeting->parent->ranks, rank, meeting->members, &wrong);
    free(choices);
    if (meeting->ranks < 0)
        return weft_round_malformed(&group->round, wrong);
    while (meeting->rank < meeting->ranks && meeting->members[meeting->rank] != rank)
        meeting->rank++;
    meeting->leads = meeting->rank == 0 && meeting->ranks > 1;
    return WEFT_OK;
}

/* Rounds 2 and 3. */
static int exchange(struct weft_meeting *meeting, enum weft_meeting_step step, struct weft_word *heard)
{
    struct group *group = (struct group *)meeting;
    (void)step;
    return weft_round_words(&group->round, &meeting->mine, meeting->members, meeting->ranks, heard);
}

static int make(struct weft_making *making, struct weft_comm **made)
{
    const struct split *split = (const struct split *)making;
    struct weft_comm *parent = making->comm;
    struct group group = {
        .meeting = {.parent = parent, .deadline_ns = making->deadline_ns, .exchange = exchange}};
    struct weft_meeting *meeting = &group.meeting;
    meeting->members = calloc((size_t)parent->ranks, sizeof *meeting->members);
    if (!meeting->members)
        weft_word_set(&meeting->mine, weft_fail(WEFT_NOMEM, "no memory for %d ranks", parent->ranks));
    int status = weft_round_begin(&group.round, parent, WEFT_CALL_SPLIT, making->deadline_ns, making->label);
    if (status == WEFT_OK) {
        status = find_members(&group, split->colour, split->key);
        if (status == WEFT_OK)
            status = weft_meeting_hold(meeting, made);
        weft_round_end(&group.round);
    }
    free(meeting->members);
    return status;
}

int weft_comm_split(weft_comm *comm, int colour, int key, weft_comm **out, const weft_call_options *options)
{
    weft_work **work;
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !out)
        return weft_fail(WEFT_INVALID, "%s is NULL", comm ? "out" : "comm");
    if (colour < 0 && colour != WEFT_UNDEFINED)
        return weft_fail(WEFT_INVALID, "colour is %d: expected 0 or more, or WEFT_UNDEFINED", colour);
    struct split split = {{.comm = comm, .out = out, .is_collective = 1, .make = make}, colour, key};
    int status = weft_making_read(&split.making, options, &work);
    if (status == WEFT_OK)
        status = weft_making_begin(&split.making);
    return status == WEFT_OK ? weft_making_run(&split.making, sizeof split, work) : status;
}
