/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator of some ranks, made by these alone (docs/bootstrap.md, section 12): a meeting (comm/form/meeting.h) whose exchanges are
 * oob messages (comm/core/oob.h) with the caller's tag, between the first rank of the list, which leads, and each other:
 *
 *   JOIN     to the leader, with the list, which it compares.
 *   ANSWER   to each: the leader's word at the beginning.
 *   DONE     to the leader: the member's word at the end.
 *   VERDICT  to each: whether it has worked for all.
 *   GONE     to the leader: the member has heard nothing in time.
 *
 * A call that fails uses up its tag at all members: so no message of one attempt can be taken for one of a later attempt with the same
 * tag. Where a member has not come the leader sends it the ANSWER all the same, and a leader that comes late finds GONE: from these they
 * learn that the tag is used up.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fork.h"
#include "comm/core/oob.h"
#include "comm/form/making.h"
#include "comm/form/meeting.h"
#include "comm/form/subset_oob.h"

#define LEADER_NS INT64_C(300000000) /* that members wait longer, to hear from the leader why */
#define ANSWER_NS INT64_C(100000000) /* of these, to send it */

struct weft_subset {
    struct weft_meeting meeting; /* first, so that one is the other */
    int64_t tag;
    struct weft_subset *next; /* of the parent's attempts */
};

/* --- tags */

/* What the call that used it up has failed with; WEFT_OK: none has. [lock] */
static int status_of(const struct weft_comm *comm, int64_t tag)
{
    for (size_t i = 0; i < comm->used_tag_count; i++) {
        if (comm->used_tags[i].tag == tag)
            return comm->used_tags[i].status;
    }
    return WEFT_OK;
}

static int is_of_an_attempt(const struct weft_comm *comm, int64_t tag)
{
    const struct weft_subset *subset = comm->subsets;
    while (subset && subset->tag != tag)
        subset = subset->next;
    return subset != NULL;
}

/* Without memory the tag is only forgotten: then whoever uses it again waits in vain. [lock] */
static void use_up(struct weft_comm *comm, int64_t tag, int status)
{
    struct weft_used_tag *tags;
    if (status_of(comm, tag) != WEFT_OK)
        return;
    tags = realloc(comm->used_tags, (comm->used_tag_count + 1) * sizeof *tags);
    if (!tags)
        return;
    tags[comm->used_tag_count++] = (struct weft_used_tag){tag, status};
    comm->used_tags = tags;
}

/* Of a tag with which no attempt runs here only a JOIN can still be wanted, until its tag is used up. Also while one waits: what comes
 * then may take the room of what it waits for. [lock] */
static void clear_away(struct weft_comm *comm)
{
    struct weft_arrived *at, *next;
    union weft_subset_message message;
    size_t size;
    for (at = weft_p2p_oob_next_of_all(comm->p2p, NULL); at; at = next) {
        const void *bytes = weft_p2p_oob_bytes(at, &size);
        uint32_t kind = weft_subset_message_read(bytes, size, &message);
        next = weft_p2p_oob_next_of_all(comm->p2p, at);
        if (is_of_an_attempt(comm, at->tag) || kind == WEFT_SUBSET_JOIN)
            continue;
        if (kind && message.report.word.status != WEFT_OK)
            use_up(comm, at->tag, message.report.word.status);
        weft_p2p_oob_drop(comm->p2p, at);
    }
    for (at = weft_p2p_oob_next_of_all(comm->p2p, NULL); at; at = next) {
        next = weft_p2p_oob_next_of_all(comm->p2p, at);
        if (status_of(comm, at->tag) != WEFT_OK)
            weft_p2p_oob_drop(comm->p2p, at);
    }
}

static int attempt_begin(struct weft_subset *subset)
{
    struct weft_comm *comm = subset->meeting.parent;
    weft_context_lock(comm->context);
    clear_away(comm);
    int status = status_of(comm, subset->tag);
    if (status == WEFT_OK) {
        subset->next = comm->subsets;
        comm->subsets = subset;
    }
    weft_context_unlock(comm->context);
    if (status == WEFT_OK)
        return WEFT_OK;
    return weft_fail(
        status, "weft_comm_subset with tag %" PRId64 ": the tag is used up by a call that has failed: %s",
        subset->tag, weft_strerror(status));
}

static void attempt_end(struct weft_subset *subset, int status)
{
    struct weft_comm *comm = subset->meeting.parent;
    weft_context_lock(comm->context);
    struct weft_subset **at = &comm->subsets;
    while (*at != subset)
        at = &(*at)->next;
    *at = subset->next;
    if (status != WEFT_OK)
        use_up(comm, subset->tag, status);
    clear_away(comm);
    weft_context_unlock(comm->context);
}

/* --- messages */

static int64_t later_ns(const struct weft_subset *subset, int64_t more_ns)
{
    int64_t deadline_ns = subset->meeting.deadline_ns;
    return deadline_ns > WEFT_NEVER_NS - more_ns ? deadline_ns : deadline_ns + more_ns;
}

static int send_bytes(const struct weft_subset *subset, int place, const void *bytes, size_t size,
                      int64_t deadline_ns)
{
    struct weft_comm *parent = subset->meeting.parent;
    int peer = subset->meeting.members[place];
    int status = weft_oob_send(parent, bytes, size, peer, subset->tag, deadline_ns);
    if (status != WEFT_TIMEOUT || parent->failure.status)
        return status;
    return weft_fail(WEFT_TIMEOUT,
                     "weft_comm_subset with tag %" PRId64 ": rank %d on host '%s' takes no messages",
                     subset->tag, peer, parent->members[peer].host);
}

static int send_word(const struct weft_subset *subset, int place, enum weft_subset_kind kind,
                     const struct weft_word *word)
{
    struct weft_subset_report report = {.kind = kind, .word = *word};
    int status = send_bytes(subset, place, &report, sizeof report, later_ns(subset, ANSWER_NS));
    weft_crypto_wipe(&report.word.seed, sizeof report.word.seed);
    return status;
}

struct awaited {
    const struct weft_subset *subset;
    int source;
    uint32_t kind, found;
    union weft_subset_message *message;
};

static int look_for(struct weft_comm *comm, void *arg)
{
    struct awaited *awaited = arg;
    int64_t tag = awaited->subset->tag;
    for (struct weft_arrived *at = weft_p2p_oob_next(comm->p2p, awaited->source, tag, NULL); at;
         at = weft_p2p_oob_next(comm->p2p, awaited->source, tag, at)) {
        size_t size;
        const void *bytes = weft_p2p_oob_bytes(at, &size);
        awaited->found = weft_subset_message_read(bytes, size, awaited->message);
        if (awaited->found != awaited->kind && awaited->found != WEFT_SUBSET_GONE)
            continue;
        weft_p2p_oob_drop(comm->p2p, at);
        return 1;
    }
    clear_away(comm);
    return 0;
}

/* Waits for a message of a kind. WEFT_TIMEOUT names who has not sent it. */
static int hear(const struct weft_subset *subset, int place, enum weft_subset_kind kind,
                union weft_subset_message *message, int64_t deadline_ns)
{
    struct weft_comm *parent = subset->meeting.parent;
    int peer = subset->meeting.members[place];
    struct awaited awaited = {.subset = subset, .source = peer, .kind = kind, .message = message};
    int status = weft_oob_await(parent, look_for, &awaited, deadline_ns);
    if (status == WEFT_OK && awaited.found != kind)
        return weft_fail(message->report.word.status,
                         "weft_comm_subset with tag %" PRId64 ": rank %d has given up: %s", subset->tag, peer,
                         message->report.word.text);
    if (status != WEFT_TIMEOUT || parent->failure.status)
        return status;
    return weft_fail(WEFT_TIMEOUT, "weft_comm_subset with tag %" PRId64 ": %srank %d%s within %lld ms",
                     subset->tag, kind == WEFT_SUBSET_JOIN ? "" : "no answer from ", peer,
                     kind == WEFT_SUBSET_JOIN ? " has not come" : "", (long long)subset->meeting.timeout_ms);
}

/* Whether a member has given up: its GONE may come when the leader has taken its JOIN. */
static int is_vain(struct weft_meeting *meeting)
{
    const struct weft_subset *subset = (const struct weft_subset *)meeting;
    struct weft_comm *parent = meeting->parent;
    union weft_subset_message message;
    int found = weft_bootstrap_has_failed(parent->bootstrap);
    weft_context_lock(parent->context);
    for (int place = 1; place < meeting->ranks && !found; place++) {
        const struct weft_arrived *at = NULL;
        while (!found && (at = weft_p2p_oob_next(parent->p2p, meeting->members[place], subset->tag, at))) {
            size_t size;
            const void *bytes = weft_p2p_oob_bytes(at, &size);
            found = weft_subset_message_read(bytes, size, &message) == WEFT_SUBSET_GONE;
        }
    }
    weft_context_unlock(parent->context);
    return found;
}

/* --- exchanges */

/* What the leader hears from one member. */
static int hear_member(struct weft_subset *subset, int place, enum weft_meeting_step step)
{
    const struct weft_meeting *meeting = &subset->meeting;
    union weft_subset_message message;
    enum weft_subset_kind kind = step == WEFT_MEETING_BEGIN ? WEFT_SUBSET_JOIN : WEFT_SUBSET_DONE;
    struct weft_word said;
    int peer = meeting->members[place];
    int status = hear(subset, place, kind, &message, meeting->deadline_ns);
    if (status != WEFT_OK)
        return status;
    if (kind == WEFT_SUBSET_JOIN)
        return weft_subset_join_compare(&message.join, peer, meeting->members, meeting->ranks, subset->tag);
    if (message.report.word.status == WEFT_OK)
        return WEFT_OK;
    weft_word_quote(meeting->parent, peer, &message.report.word, &said);
    return weft_fail(said.status, "%s", said.text);
}

/* The first failure counts, the leader's own before others'. Those that have not come hear it as well. */
static void lead(struct weft_subset *subset, enum weft_meeting_step step, struct weft_word *heard)
{
    const struct weft_meeting *meeting = &subset->meeting;
    struct weft_comm *parent = meeting->parent;
    for (int place = 1; place < meeting->ranks && !parent->failure.status; place++) {
        int status = hear_member(subset, place, step);
        if (status != WEFT_OK && heard->status == WEFT_OK)
            weft_word_set(heard, status);
    }
    struct weft_word answer = *heard;
    if (weft_word_choose(&meeting->mine, heard) == &meeting->mine)
        weft_word_quote(parent, parent->rank, &meeting->mine, &answer);
    else if (heard->status == WEFT_OK)
        answer = *heard = meeting->mine;
    for (int place = 1; place < meeting->ranks && !parent->failure.status; place++) {
        int status = send_word(
            subset, place, step == WEFT_MEETING_BEGIN ? WEFT_SUBSET_ANSWER : WEFT_SUBSET_VERDICT, &answer);
        if (status != WEFT_OK && heard->status == WEFT_OK)
            weft_word_set(heard, status);
    }
    weft_crypto_wipe(answer.seed, sizeof answer.seed);
}

static int follow(struct weft_subset *subset, enum weft_meeting_step step, struct weft_word *heard)
{
    const struct weft_meeting *meeting = &subset->meeting;
    union weft_subset_message message;
    int status, begins = step == WEFT_MEETING_BEGIN;
    if (begins) {
        weft_subset_join_make(meeting->members, meeting->ranks, &message.join);
        status = send_bytes(subset, 0, &message.join, sizeof message.join, meeting->deadline_ns);
    } else {
        status = send_word(subset, 0, WEFT_SUBSET_DONE, &meeting->mine);
    }
    if (status == WEFT_OK)
        status = hear(subset, 0, begins ? WEFT_SUBSET_ANSWER : WEFT_SUBSET_VERDICT, &message,
                      later_ns(subset, LEADER_NS));
    if (status == WEFT_OK) {
        *heard = message.report.word;
        return WEFT_OK;
    }
    weft_word_set(heard, status);
    if (status == WEFT_TIMEOUT && !meeting->parent->failure.status)
        send_word(subset, 0, WEFT_SUBSET_GONE, heard);
    return weft_fail(status, "%s", heard->text);
}

static int exchange(struct weft_meeting *meeting, enum weft_meeting_step step, struct weft_word *heard)
{
    struct weft_subset *subset = (struct weft_subset *)meeting;
    int status = WEFT_OK;
    if (meeting->rank == 0)
        lead(subset, step, heard);
    else
        status = follow(subset, step, heard);
    if (meeting->parent->failure.status)
        return heard->status == WEFT_OK ? weft_comm_report(meeting->parent)
                                        : weft_fail(heard->status, "%s", heard->text);
    if (status != WEFT_OK || step == WEFT_MEETING_END)
        return status;
    const struct weft_word *failed = weft_word_choose(&meeting->mine, heard);
    return failed->status == WEFT_OK ? WEFT_OK : weft_fail(failed->status, "%s", failed->text);
}

/* What the call is given. */
struct wish {
    struct weft_making making; /* first, so that one is the other */
    int *ranks;                /* the call's own */
    int count, place;
    int64_t tag;
};

static void release(struct weft_making *making)
{
    free(((struct wish *)making)->ranks);
}

static int make(struct weft_making *making, struct weft_comm **made)
{
    const struct wish *wish = (const struct wish *)making;
    struct weft_subset subset = {.meeting = {.parent = making->comm,
                                             .members = wish->ranks,
                                             .rank = wish->place,
                                             .ranks = wish->count,
                                             .leads = wish->place == 0 && wish->count > 1,
                                             .timeout_ms = making->timeout_ms,
                                             .deadline_ns = making->deadline_ns,
                                             .exchange = exchange,
                                             .is_vain = wish->place == 0 ? is_vain : NULL},
                                 .tag = wish->tag};
    int status = attempt_begin(&subset);
    if (status == WEFT_OK) {
        status = weft_meeting_hold(&subset.meeting, made);
        attempt_end(&subset, status);
    }
    return status;
}

/* *place is the caller's. */
static int check_list(const weft_comm *comm, const int *ranks, int count, int *place)
{
    if (count < 1 || count > comm->ranks)
        return weft_fail(WEFT_INVALID, "count is %d: expected 1 to %d", count, comm->ranks);
    int *places = malloc((size_t)comm->ranks * sizeof *places), status = WEFT_OK;
    if (!places)
        return weft_fail(WEFT_NOMEM, "no memory for %d ranks", comm->ranks);
    memset(places, 0xff, (size_t)comm->ranks * sizeof *places); /* -1 */
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        if (ranks[i] < 0 || ranks[i] >= comm->ranks)
            status =
                weft_fail(WEFT_INVALID, "ranks[%d] is %d: expected 0 to %d", i, ranks[i], comm->ranks - 1);
        else if (places[ranks[i]] >= 0)
            status =
                weft_fail(WEFT_INVALID, "ranks[%d] and ranks[%d] are both %d", places[ranks[i]], i, ranks[i]);
        else
            places[ranks[i]] = i;
    }
    *place = places[comm->rank];
    free(places);
    if (status == WEFT_OK && *place < 0)
        status = weft_fail(WEFT_INVALID, "the list of %d ranks does not hold this one, rank %d", count,
                           comm->rank);
    return status;
}

int weft_comm_subset(weft_comm *comm, const int *ranks, int count, int64_t tag, weft_comm **out,
                     const weft_call_options *options)
{
    weft_work **work;
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !ranks || !out)
        return weft_fail(WEFT_INVALID, "%s is NULL", !comm ? "comm" : !ranks ? "ranks" : "out");
    if (tag < 0)
        return weft_fail(WEFT_INVALID, "tag is %" PRId64 ": expected 0 or more", tag);
    struct wish wish = {
        .making = {.comm = comm, .out = out, .make = make, .release = release}, .count = count, .tag = tag};
    int status = check_list(comm, ranks, count, &wish.place);
    if (status == WEFT_OK)
        status = weft_making_read(&wish.making, options, &work);
    if (status == WEFT_OK)
        status = weft_comm_begin(comm);
    if (status != WEFT_OK)
        return status;
    wish.ranks = malloc((size_t)count * sizeof *ranks);
    if (!wish.ranks)
        return weft_fail(WEFT_NOMEM, "no memory for %d ranks", count);
    memcpy(wish.ranks, ranks, (size_t)count * sizeof *ranks);
    return weft_making_run(&wish.making, sizeof wish, work);
}
