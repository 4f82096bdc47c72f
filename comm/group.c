/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators from communicators: groups of a communicator's ranks meet (docs/bootstrap.md, section 12).
 *
 * Three rounds over the parent's overlay:
 *   1  everybody's colour and key: from then on each rank knows its group, in the order of key and rank;
 *   2  the first rank of each group has opened a listener, and sends its address;
 *      the ranks of each group meet there, as for any communicator;
 *   3  whether that has worked. A group in which it has not for one rank drops what it made, so that nobody waits in it.
 * A rank that cannot go on says so in the next round and still takes part: the other groups have nothing to do with it.
 *
 * No secret travels: the group's is derived from the parent's key (docs/security.md, section 2).
 */
#include "comm/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/fd.h"
#include "base/fork.h"
#include "comm/round.h"

/* To meet takes that at most, or three quarters of what is left of the deadline: should somebody not come, because he
 * cannot, all are to hear why. */
#define MEETING_NS INT64_C(30000000000)

struct group {
    struct weft_comm *parent;
    struct weft_round *round;
    int32_t colour;
    struct weft_group_member *members; /* [ranks] */
    int ranks, rank;                   /* of the group; rank is this one's place */
    int listen_fd;
    unsigned char secret[WEFT_KEY_BYTES];
    struct weft_word mine;   /* what this rank says in the next round */
    struct weft_word others; /* the first that failed, with its rank in the parent */
    int others_rank;
};

static int is_silent(const struct weft_word *word)
{
    return word->status == WEFT_OK && !*word->address;
}

static void give_up(struct group *group, int status)
{
    weft_word_set(&group->mine, status);
}

static int compare_members(const void *a, const void *b)
{
    const struct weft_group_member *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

int weft_group_choose(const struct weft_blob *choices, int ranks, int rank, struct weft_group_member *members,
                      int *wrong)
{
    int found = 0;
    for (int r = 0; r < ranks; r++) {
        *wrong = r;
        if (choices[r].size != sizeof(struct weft_group_choice))
            return WEFT_PROTOCOL;
    }
    const struct weft_group_choice *mine = choices[rank].data;
    for (int r = 0; r < ranks && mine->colour != WEFT_UNDEFINED; r++) {
        const struct weft_group_choice *theirs = choices[r].data;
        if (theirs->colour == mine->colour)
            members[found++] = (struct weft_group_member){theirs->key, r};
    }
    qsort(members, (size_t)found, sizeof *members, compare_members);
    return found;
}

/* Bytes that a rank of this version would not send: nothing of the communicator can be relied on. */
static int malformed(struct group *group, int rank)
{
    weft_fail(WEFT_PROTOCOL, "%s: rank %d sent what this weft does not understand",
              weft_call_name(&group->round->waiting.call), rank);
    return weft_round_fail(group->round, WEFT_PROTOCOL);
}

/* Round 1. */
static int find_members(struct group *group, int key)
{
    struct weft_comm *parent = group->parent;
    struct weft_group_choice choice = {group->colour, key};
    struct weft_blob *choices;
    int status = weft_round_gather(group->round, &choice, sizeof choice, &choices);
    if (status != WEFT_OK)
        return status;
    int wrong;
    if (group->members) /* else it takes part to say that it cannot go on */
        group->ranks = weft_group_choose(choices, parent->ranks, parent->rank, group->members, &wrong);
    free(choices);
    if (group->ranks < 0)
        return malformed(group, wrong);
    while (group->rank < group->ranks && group->members[group->rank].rank != parent->rank)
        group->rank++;
    return WEFT_OK;
}

/* The same at all members, and for no other group or call. */
static void derive_secret(struct group *group)
{
    const struct weft_call *call = &group->round->waiting.call;
    size_t count = 5 + (size_t)group->ranks;
    uint32_t *purpose = malloc(count * sizeof *purpose);
    if (!purpose) {
        give_up(group, weft_fail(WEFT_NOMEM, "no memory for a group of %d ranks", group->ranks));
        return;
    }
    purpose[0] = call->collective;
    purpose[1] = (uint32_t)group->colour;
    purpose[2] = (uint32_t)call->sequence;
    purpose[3] = (uint32_t)(call->sequence >> 32);
    purpose[4] = (uint32_t)group->ranks;
    for (int i = 0; i < group->ranks; i++)
        purpose[5 + i] = (uint32_t)group->members[i].rank;
    weft_bootstrap_derive(group->parent->bootstrap, purpose, count * sizeof *purpose, group->secret);
    free(purpose);
}

static void invite(struct group *group)
{
    int status = weft_bootstrap_listen(group->parent->bootstrap, &group->listen_fd, group->mine.address,
                                       sizeof group->mine.address);
    if (status != WEFT_OK)
        give_up(group, status);
}

/* Rounds 2 and 3: hears of the first member that has failed, and copies the first member's word. */
static int hear_words(struct group *group, struct weft_word *first)
{
    struct weft_blob *words;
    size_t size = is_silent(&group->mine) ? 0 : sizeof group->mine;
    int status = weft_round_gather(group->round, &group->mine, size, &words), wrong = -1;
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < group->ranks && wrong < 0; i++) {
        struct weft_word word;
        int rank = group->members[i].rank;
        if (weft_word_read(&words[rank], &word) != WEFT_OK)
            wrong = rank;
        if (i == 0)
            *first = word;
        if (word.status != WEFT_OK && group->others.status == WEFT_OK && rank != group->parent->rank) {
            group->others = word;
            group->others_rank = rank;
        }
    }
    free(words);
    return wrong < 0 ? WEFT_OK : malformed(group, wrong);
}

static int parent_has_failed(void *arg)
{
    const struct weft_meeting *meeting = arg;
    return weft_bootstrap_has_failed(meeting->parent->bootstrap);
}

static int64_t meeting_until_ns(int64_t deadline_ns)
{
    int64_t now_ns = weft_clock_ns();
    if (deadline_ns == WEFT_NEVER_NS || (deadline_ns - now_ns) / 4 * 3 > MEETING_NS)
        return now_ns + MEETING_NS;
    return now_ns + (deadline_ns - now_ns) / 4 * 3;
}

int weft_meeting_hold(const struct weft_meeting *meeting, struct weft_comm **made)
{
    struct weft_comm *parent = meeting->parent;
    struct weft_bootstrap_options options = {
        .rank = meeting->rank,
        .ranks = meeting->ranks,
        .name = parent->name,
        .listen_fd = meeting->listen_fd,
        .address = meeting->address,
        .secret = meeting->secret,
        .secret_size = WEFT_KEY_BYTES,
        .cancelled = parent_has_failed,
        .cancelled_arg = (void *)(uintptr_t)meeting,
    };
    return weft_comm_open(parent->context, &options, parent->timeout_ms,
                          meeting_until_ns(meeting->deadline_ns), made);
}

void weft_meeting_drop(struct weft_comm *made)
{
    char reason[WEFT_DETAIL_MAX];
    snprintf(reason, sizeof reason, "%s", weft_error_detail());
    if (made && made->bootstrap)
        weft_bootstrap_revoke(made->bootstrap, reason);
    if (made)
        weft_comm_discard(made);
    weft_error_set_detail(reason);
}

static void meet(struct group *group, const char *address, struct weft_comm **made)
{
    const struct weft_meeting meeting = {.parent = group->parent,
                                         .rank = group->rank,
                                         .ranks = group->ranks,
                                         .listen_fd = group->listen_fd,
                                         .address = address,
                                         .secret = group->secret,
                                         .deadline_ns = group->round->deadline_ns};
    int status = weft_meeting_hold(&meeting, made);
    if (status != WEFT_OK)
        give_up(group, status);
}

/* The rounds. A status of its own only when the parent has failed; what is left to the group is in mine and others. */
static int run_rounds(struct group *group, int key, struct weft_comm **made)
{
    struct weft_word first = {0};
    int status = find_members(group, key);
    if (status != WEFT_OK)
        return status;
    if (group->ranks > 1)
        derive_secret(group);
    if (group->ranks > 1 && group->rank == 0 && group->mine.status == WEFT_OK)
        invite(group);
    status = hear_words(group, &first);
    if (status != WEFT_OK)
        return status;
    group->mine.address[0] = '\0';
    if (group->ranks > 0 && group->mine.status == WEFT_OK && group->others.status == WEFT_OK)
        meet(group, first.address, made);
    return hear_words(group, &first);
}

static int conclude(struct group *group, int status, struct weft_comm *made, struct weft_comm **out)
{
    if (status == WEFT_OK && group->mine.status != WEFT_OK)
        status = weft_fail(group->mine.status, "%s", group->mine.text);
    else if (status == WEFT_OK && group->others.status != WEFT_OK)
        status = weft_fail(group->others.status, "rank %d on host '%s': %s", group->others_rank,
                           group->parent->members[group->others_rank].host, group->others.text);
    if (status == WEFT_OK) {
        *out = made;
        return WEFT_OK;
    }
    weft_meeting_drop(made);
    return status;
}

/* Of several ranks. */
static int make_group(struct weft_comm *parent, uint8_t collective, int colour, int key,
                      struct weft_comm **out)
{
    struct weft_round round;
    struct weft_comm *made = NULL;
    struct group group = {.parent = parent, .round = &round, .colour = colour, .listen_fd = -1};
    group.members = calloc((size_t)parent->ranks, sizeof *group.members);
    if (!group.members)
        give_up(&group, weft_fail(WEFT_NOMEM, "no memory for %d ranks", parent->ranks));
    weft_round_begin(&round, parent, collective);
    int status = run_rounds(&group, key, &made);
    weft_round_end(&round);
    status = conclude(&group, status, made, out);
    if (group.listen_fd >= 0)
        weft_fd_close(group.listen_fd);
    weft_crypto_wipe(group.secret, sizeof group.secret);
    free(group.members);
    return status;
}

int weft_group_alone(struct weft_comm *comm, struct weft_comm **made)
{
    struct weft_bootstrap_options options = {.rank = 0, .ranks = 1, .name = comm->name, .listen_fd = -1};
    return weft_comm_open(comm->context, &options, comm->timeout_ms, weft_comm_deadline_ns(comm), made);
}

static int make(weft_comm *comm, uint8_t collective, int colour, int key, weft_comm **out)
{
    int status = weft_comm_begin(comm);
    if (status != WEFT_OK)
        return status;
    if (comm->ranks > 1)
        return make_group(comm, collective, colour, key, out);
    if (colour != WEFT_UNDEFINED)
        return weft_group_alone(comm, out);
    *out = NULL;
    return WEFT_OK;
}

int weft_comm_split(weft_comm *comm, int colour, int key, weft_comm **out)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !out)
        return weft_fail(WEFT_INVALID, "%s is NULL", comm ? "out" : "comm");
    if (colour < 0 && colour != WEFT_UNDEFINED)
        return weft_fail(WEFT_INVALID, "colour is %d: expected 0 or more, or WEFT_UNDEFINED", colour);
    return make(comm, WEFT_CALL_SPLIT, colour, key, out);
}

int weft_comm_dup(weft_comm *comm, weft_comm **out)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !out)
        return weft_fail(WEFT_INVALID, "%s is NULL", comm ? "out" : "comm");
    return make(comm, WEFT_CALL_DUP, 0, 0, out);
}
