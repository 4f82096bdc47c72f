/* SPDX-License-Identifier: Apache-2.0 */
/* A larger communicator: its old ranks, and new ones behind them (docs/bootstrap.md, section 12).
 *
 * A meeting (comm/form/meeting.h) of the old ranks, at the place that the program gives and where the new ones come by
 * weft_comm_create(). First the old ranks compare over their overlay what they pass: a rank that would wait elsewhere is named at
 * once, and not at the deadline, and so is one that cannot take part. In the end they say to each other whether they have met the others. The new ones hear of a failure then
 * because what was made is revoked.
 */
#include "comm/form/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/majority.h"
#include "comm/form/create.h"
#include "comm/form/making.h"
#include "comm/form/meeting.h"
#include "comm/form/round.h"

struct growth {
    struct weft_making making; /* first, so that one is the other */
    weft_comm_options place;
    void *kept;
};

struct growing {
    struct weft_meeting meeting; /* first, so that one is the other */
    struct weft_round round;
    struct weft_proposal *all; /* [ranks of the parent] */
};

/* --- what ranks compare */

/* An address without the scope that a link-local one has: each host has its own. */
static const char *without_scope(const char *address, char *bare, size_t capacity)
{
    const char *scope = address ? strchr(address, '%') : NULL;
    if (!scope)
        return address;
    snprintf(bare, capacity, "%.*s%s", (int)(scope - address), address, scope + strcspn(scope, "]"));
    return bare;
}

void weft_proposal_set(const struct weft_bootstrap_options *place, struct weft_proposal *proposal)
{
    static const char label[] = "weft 1 place";
    static const struct weft_key key; /* no secret */
    char bare[WEFT_DETAIL_MAX];
    const char *where = place->file    ? place->file
                        : place->store ? ""
                                       : without_scope(place->address, bare, sizeof bare);
    where = where ? where : "";
    memset(proposal, 0, sizeof *proposal);
    proposal->ranks = place->ranks;
    proposal->source = place->store ? WEFT_PLACE_STORE : place->file ? WEFT_PLACE_FILE : WEFT_PLACE_ADDRESS;
    snprintf(proposal->name, sizeof proposal->name, "%s", place->name ? place->name : "");
    snprintf(proposal->where, sizeof proposal->where, "%.255s", where);
    const struct weft_crypto_part parts[] = {{label, sizeof label},
                                             {place->name, place->name ? strlen(place->name) + 1 : 0},
                                             {where, strlen(where) + 1}};
    weft_crypto_hmac(&key, parts, 3, proposal->hash);
}

void weft_proposal_refuse(const struct weft_word *why, struct weft_proposal *proposal)
{
    *proposal = (struct weft_proposal){.status = why->status};
    snprintf(proposal->where, sizeof proposal->where, "%.255s", why->text);
}

int weft_proposal_read(const struct weft_blob *blob, struct weft_proposal *proposal)
{
    if (blob->size != sizeof *proposal)
        return WEFT_PROTOCOL;
    memcpy(proposal, blob->data, sizeof *proposal);
    int is_place = proposal->source >= WEFT_PLACE_STORE && proposal->source <= WEFT_PLACE_ADDRESS,
        is_refusal = proposal->status < WEFT_OK && proposal->status >= WEFT_INTERNAL;
    if (!memchr(proposal->name, 0, sizeof proposal->name) ||
        !memchr(proposal->where, 0, sizeof proposal->where) ||
        !(proposal->status == WEFT_OK ? is_place : is_refusal))
        return WEFT_PROTOCOL;
    for (char *c = proposal->name; c < proposal->where + sizeof proposal->where; c++)
        *c = *c && ((unsigned char)*c < ' ' || *c == 0x7f) ? '?' : *c;
    return WEFT_OK;
}

static int alike(const void *arg, int a, int b)
{
    const struct weft_proposal *proposals = arg;
    return memcmp(&proposals[a], &proposals[b], sizeof *proposals) == 0;
}

static const char *place_text(const struct weft_proposal *proposal, char *text, size_t capacity)
{
    static const char *const sources[] = {
        [WEFT_PLACE_STORE] = "a store", [WEFT_PLACE_FILE] = "file", [WEFT_PLACE_ADDRESS] = "address"};
    int has_text = proposal->source != WEFT_PLACE_STORE;
    snprintf(text, capacity, "%s%s%s%s as '%s'", sources[proposal->source], has_text ? " '" : "",
             has_text ? proposal->where : "", has_text ? "'" : "", proposal->name);
    return text;
}

int weft_proposals_compare(const struct weft_proposal *proposals, int ranks,
                           const struct weft_member *members)
{
    char theirs[400], expected[400];
    for (int r = 0; r < ranks; r++) {
        if (proposals[r].status != WEFT_OK)
            return weft_fail(proposals[r].status, "weft_comm_grow: rank %d on host '%s': %s", r,
                             members[r].host, proposals[r].where);
    }
    int right = weft_majority(ranks, alike, proposals), wrong = 0;
    while (wrong < ranks && alike(proposals, wrong, right))
        wrong++;
    if (wrong == ranks)
        return WEFT_OK;
    const struct weft_proposal *x = &proposals[wrong], *y = &proposals[right];
    if (x->ranks != y->ranks)
        return weft_fail(WEFT_MISMATCH,
                         "weft_comm_grow: rank %d on host '%s' passes %d ranks, rank %d passes %d", wrong,
                         members[wrong].host, x->ranks, right, y->ranks);
    return weft_fail(WEFT_MISMATCH, "weft_comm_grow: rank %d on host '%s' meets at %s, rank %d at %s", wrong,
                     members[wrong].host, place_text(x, theirs, sizeof theirs), right,
                     place_text(y, expected, sizeof expected));
}

/* --- the meeting */

/* Not before the ranks have compared what they pass: one that alone is wrong here would leave the others to wait for it. */
static int check_number(const struct weft_meeting *meeting)
{
    int ranks = meeting->place->ranks, least = meeting->parent->ranks;
    return ranks > least ? WEFT_OK
                         : weft_fail(WEFT_INVALID,
                                     "the number of ranks is %d: expected more than the %d that there are",
                                     ranks, least);
}

/* What this rank cannot do the others are to hear now. */
static int compare(struct growing *growing)
{
    struct weft_comm *comm = growing->meeting.parent;
    const struct weft_word *refusal = &growing->meeting.mine;
    struct weft_proposal mine, *all = growing->all;
    struct weft_blob *blobs;
    int wrong = -1;
    if (refusal->status == WEFT_OK)
        weft_proposal_set(growing->meeting.place, &mine);
    else
        weft_proposal_refuse(refusal, &mine);
    int status = weft_round_gather(&growing->round, &mine, sizeof mine, &blobs);
    if (status != WEFT_OK)
        return status;
    for (int r = 0; r < comm->ranks && wrong < 0 && refusal->status == WEFT_OK; r++)
        wrong = weft_proposal_read(&blobs[r], &all[r]) == WEFT_OK ? -1 : r;
    free(blobs);
    if (refusal->status != WEFT_OK)
        return weft_fail(refusal->status, "%s", refusal->text);
    if (wrong >= 0)
        return weft_round_malformed(&growing->round, wrong);
    status = weft_proposals_compare(all, comm->ranks, comm->members);
    return status == WEFT_OK ? check_number(&growing->meeting) : status;
}

static int exchange(struct weft_meeting *meeting, enum weft_meeting_step step, struct weft_word *heard)
{
    struct growing *growing = (struct growing *)meeting;
    if (step == WEFT_MEETING_BEGIN)
        return compare(growing);
    return weft_round_words(&growing->round, &meeting->mine, meeting->members, meeting->parent->ranks, heard);
}

/* All that can fail here alone, before the ranks compare. */
static int prepare(const struct growth *growth, struct weft_bootstrap_options *place, char *buffer,
                   struct growing *growing)
{
    const struct weft_comm *comm = growth->making.comm;
    struct weft_meeting *meeting = &growing->meeting;
    weft_comm_options options = growth->place;
    /* With a number of ranks that has no place for this one the others are to hear of it: check_number(). */
    int is_small = options.ranks > 0 && options.ranks <= comm->rank;
    options.rank = is_small ? 0 : comm->rank;
    int status = weft_bootstrap_resolve(&options, place, buffer, WEFT_BOOTSTRAP_BUFFER);
    meeting->ranks = place->ranks;
    meeting->members = malloc((size_t)comm->ranks * sizeof *meeting->members);
    growing->all = malloc((size_t)comm->ranks * sizeof *growing->all);
    for (int r = 0; r < comm->ranks && meeting->members; r++)
        meeting->members[r] = r;
    if (status == WEFT_OK && (!meeting->members || !growing->all))
        status = weft_fail(WEFT_NOMEM, "no memory for %d ranks", comm->ranks);
    return status;
}

static int make(struct weft_making *making, struct weft_comm **larger)
{
    char buffer[WEFT_BOOTSTRAP_BUFFER];
    struct weft_bootstrap_options place = {.pmix = NULL}; /* which knows of no rank that comes later */
    struct growing growing = {.meeting = {.parent = making->comm,
                                          .rank = making->comm->rank,
                                          .deadline_ns = making->deadline_ns,
                                          .place = &place,
                                          .exchange = exchange}};
    int status = prepare((const struct growth *)making, &place, buffer, &growing);
    if (status != WEFT_OK)
        weft_word_set(&growing.meeting.mine, status);
    status =
        weft_round_begin(&growing.round, making->comm, WEFT_CALL_GROW, making->deadline_ns, making->label);
    if (status == WEFT_OK) {
        status = weft_meeting_hold(&growing.meeting, larger);
        weft_round_end(&growing.round);
    }
    free(growing.meeting.members);
    free(growing.all);
    return status;
}

static int keep(struct weft_making *making)
{
    struct growth *growth = (struct growth *)making;
    return weft_comm_options_keep(&growth->place, &growth->kept);
}

static void release(struct weft_making *making)
{
    struct growth *growth = (struct growth *)making;
    weft_comm_options_release(&growth->place, growth->kept);
}

int weft_comm_grow(weft_comm *comm, const weft_comm_options *place, weft_comm **larger,
                   const weft_call_options *options)
{
    weft_work **work;
    weft_error_clear();
    struct growth growth = {
        .making = {
            .comm = comm, .out = larger, .is_collective = 1, .make = make, .keep = keep, .release = release}};
    int status = weft_comm_options_read(place, &growth.place);
    if (status == WEFT_OK && (!comm || !place || !larger))
        status = weft_fail(WEFT_INVALID, "%s is NULL", !comm ? "comm" : !place ? "place" : "larger");
    if (status == WEFT_OK)
        status = weft_making_read(&growth.making, options, &work);
    if (status == WEFT_OK)
        status = weft_making_begin(&growth.making);
    if (status == WEFT_OK)
        return weft_making_run(&growth.making, sizeof growth, work);
    release(&growth.making);
    return status;
}
