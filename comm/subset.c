/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator of some ranks, made by these alone (docs/bootstrap.md, section 12).
 *
 * By weft's own messages (comm/letter.h) with the caller's tag, between the first rank of the list, which leads, and each
 * other:
 *   JOIN     to the leader: a random number of this attempt, and the list.
 *   CALL     to each, as its JOIN is read, and HERE back: the member still waits. The leader compares the lists.
 *   ANSWER   to each: what is wrong; or the address where the leader listens, and a random number for the secret. Then
 *            all of them meet there, as for any communicator.
 *   DONE     to the leader: whether that has worked.
 *   VERDICT  to each: whether it has for all. If not, all drop what they made.
 *   GONE     to the leader: the member has heard no ANSWER in time, and its JOIN does not count any more. It comes before
 *            the member's next JOIN, so whoever asks about an old one hears of it.
 *
 * All carry the number of the member's JOIN, and each waits for what carries the right one. What attempts that failed
 * have left is found out by whoever calls next: of a tag with which no attempt runs at this rank only a JOIN can still
 * be wanted, and that only without its GONE. Such a look costs nothing where there are no letters.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fork.h"
#include "comm/group.h"
#include "comm/letter.h"
#include "comm/progress.h"
#include "comm/subset_letter.h"

#define PURPOSE   0x100u             /* others begin with a kind of call (comm/group.c) */
#define LEADER_NS INT64_C(300000000) /* that members wait longer, to hear from the leader why */
#define ANSWER_NS INT64_C(100000000) /* of these, to send it */

struct weft_subset {
    struct weft_comm *parent;
    const int *ranks;
    int count, rank; /* rank: this one's place */
    int64_t tag, deadline_ns;
    int listen_fd;
    struct weft_word word; /* how it stands: a status, and the address */
    unsigned char (
        *numbers)[WEFT_ATTEMPT_BYTES]; /* [count]; the leader's of each member that has come, zero else */
    unsigned char seed[WEFT_ATTEMPT_BYTES];
    struct weft_subset *next; /* of the parent's attempts */
};

/* The first failure counts. The text is the thread's error. */
static void note(struct weft_subset *subset, int status)
{
    if (status != WEFT_OK && subset->word.status == WEFT_OK)
        weft_word_set(&subset->word, status);
}

static int64_t later_ns(const struct weft_subset *subset, int64_t more_ns)
{
    return subset->deadline_ns > WEFT_NEVER_NS - more_ns ? subset->deadline_ns
                                                         : subset->deadline_ns + more_ns;
}

static int send_bytes(const struct weft_subset *subset, int place, const void *bytes, size_t size,
                      int64_t deadline_ns)
{
    int peer = subset->ranks[place];
    int status = weft_letter_send(subset->parent, bytes, size, peer, subset->tag, deadline_ns);
    if (status != WEFT_TIMEOUT || subset->parent->failed)
        return status;
    return weft_fail(WEFT_TIMEOUT,
                     "weft_comm_subset with tag %" PRId64 ": rank %d on host '%s' takes no messages",
                     subset->tag, peer, subset->parent->members[peer].host);
}

static int send_letter(const struct weft_subset *subset, int place, enum weft_subset_kind kind,
                       const unsigned char *number)
{
    struct weft_subset_letter letter = {.head = {.kind = kind}, .word = subset->word};
    memcpy(letter.head.number, number, WEFT_ATTEMPT_BYTES);
    memcpy(letter.seed, subset->seed, WEFT_ATTEMPT_BYTES);
    return send_bytes(subset, place, &letter, sizeof letter, later_ns(subset, ANSWER_NS));
}

static int send_head(const struct weft_subset *subset, int place, enum weft_subset_kind kind,
                     const unsigned char *number, int64_t deadline_ns)
{
    struct weft_subset_head head = {.kind = kind};
    memcpy(head.number, number, WEFT_ATTEMPT_BYTES);
    return send_bytes(subset, place, &head, sizeof head, deadline_ns);
}

/* --- what attempts that failed have left */

/* Whether a GONE of the same number has come after a JOIN. */
static int is_taken_back(const struct weft_p2p *p2p, const struct weft_arrived *join,
                         const unsigned char *number)
{
    struct weft_subset_head head;
    size_t size;
    for (const struct weft_arrived *at = weft_p2p_letter_next(p2p, join->source, join->tag, join); at;
         at = weft_p2p_letter_next(p2p, join->source, join->tag, at)) {
        const void *bytes = weft_p2p_letter_bytes(at, &size);
        if (weft_subset_head_read(bytes, size, &head) == WEFT_SUBSET_GONE &&
            weft_crypto_equal(head.number, number, sizeof head.number))
            return 1;
    }
    return 0;
}

static int is_of_an_attempt(const struct weft_comm *comm, int64_t tag)
{
    const struct weft_subset *subset = comm->subsets;
    while (subset && subset->tag != tag)
        subset = subset->next;
    return subset != NULL;
}

/* Drops what no attempt can want. Also while one waits: what comes then may take the room of what it waits for. [lock] */
static void clear_away(struct weft_comm *comm)
{
    struct weft_arrived *next;
    for (struct weft_arrived *at = weft_p2p_letter_next_of_all(comm->p2p, NULL); at; at = next) {
        struct weft_subset_head head;
        size_t size;
        const void *bytes = weft_p2p_letter_bytes(at, &size);
        uint32_t kind = weft_subset_head_read(bytes, size, &head);
        next = weft_p2p_letter_next_of_all(comm->p2p, at);
        if (!is_of_an_attempt(comm, at->tag) &&
            (kind != WEFT_SUBSET_JOIN || is_taken_back(comm->p2p, at, head.number)))
            weft_p2p_letter_drop(comm->p2p, at);
    }
}

static void attempt_begin(struct weft_subset *subset)
{
    struct weft_comm *comm = subset->parent;
    weft_context_lock(comm->context);
    if (comm->p2p)
        clear_away(comm);
    subset->next = comm->subsets;
    comm->subsets = subset;
    weft_context_unlock(comm->context);
}

static void attempt_end(struct weft_subset *subset)
{
    struct weft_comm *comm = subset->parent;
    weft_context_lock(comm->context);
    struct weft_subset **at = &comm->subsets;
    while (*at != subset)
        at = &(*at)->next;
    *at = subset->next;
    weft_context_unlock(comm->context);
}

/* --- hearing */

struct hearing {
    const struct weft_subset *subset;
    int place;
    uint32_t kind, other, heard; /* wanted, wanted as well, and which it was */
    const unsigned char *number;
    struct weft_subset_letter *letter;
    struct weft_subset_join *join;
};

static int look_for_letter(struct weft_comm *comm, void *arg)
{
    struct hearing *hearing = arg;
    const struct weft_subset *subset = hearing->subset;
    int source = subset->ranks[hearing->place];
    for (struct weft_arrived *at = weft_p2p_letter_next(comm->p2p, source, subset->tag, NULL); at;
         at = weft_p2p_letter_next(comm->p2p, source, subset->tag, at)) {
        struct weft_subset_head head;
        size_t size;
        const void *bytes = weft_p2p_letter_bytes(at, &size);
        hearing->heard = weft_subset_head_read(bytes, size, &head);
        if ((hearing->heard != hearing->kind && hearing->heard != hearing->other) ||
            !weft_crypto_equal(head.number, hearing->number, sizeof head.number))
            continue;
        if (hearing->heard >= WEFT_SUBSET_ANSWER && !weft_subset_letter_read(bytes, size, hearing->letter))
            continue;
        weft_p2p_letter_drop(comm->p2p, at);
        return 1;
    }
    clear_away(comm);
    return 0;
}

/* Waits for a letter of a kind or of *other, and says which in *other. WEFT_TIMEOUT names who has not sent it. */
static int hear(const struct weft_subset *subset, int place, enum weft_subset_kind kind, uint32_t *other,
                const unsigned char *number, int64_t deadline_ns, struct weft_subset_letter *letter)
{
    struct hearing hearing = {
        .subset = subset, .place = place, .kind = kind, .other = *other, .number = number, .letter = letter};
    struct weft_comm *parent = subset->parent;
    int status = weft_letter_await(parent, look_for_letter, &hearing, deadline_ns);
    *other = hearing.heard;
    if (status != WEFT_TIMEOUT || parent->failed)
        return status;
    return weft_fail(WEFT_TIMEOUT,
                     "weft_comm_subset with tag %" PRId64 ": no answer from rank %d within %lld ms",
                     subset->tag, subset->ranks[place], (long long)parent->timeout_ms);
}

/* The newest JOIN that has not been taken back; those before it, and what took them back, go. */
static int look_for_join(struct weft_comm *comm, void *arg)
{
    struct hearing *hearing = arg;
    const struct weft_subset *subset = hearing->subset;
    int source = subset->ranks[hearing->place], found = 0;
    struct weft_arrived *next;
    for (struct weft_arrived *at = weft_p2p_letter_next(comm->p2p, source, subset->tag, NULL); at;
         at = next) {
        struct weft_subset_head head;
        size_t size;
        const void *bytes = weft_p2p_letter_bytes(at, &size);
        uint32_t kind = weft_subset_head_read(bytes, size, &head);
        next = weft_p2p_letter_next(comm->p2p, source, subset->tag, at);
        if (kind == WEFT_SUBSET_JOIN && !is_taken_back(comm->p2p, at, head.number)) {
            memcpy(hearing->join, bytes, sizeof *hearing->join);
            found = 1;
        }
        if (kind == WEFT_SUBSET_JOIN || kind == WEFT_SUBSET_GONE)
            weft_p2p_letter_drop(comm->p2p, at);
    }
    if (!found)
        clear_away(comm);
    return found;
}

static int await_join(struct weft_subset *subset, int place, struct weft_subset_join *join)
{
    struct weft_comm *parent = subset->parent;
    struct hearing hearing = {.subset = subset, .place = place, .join = join};
    int status = weft_letter_await(parent, look_for_join, &hearing, subset->deadline_ns);
    if (status == WEFT_TIMEOUT && !parent->failed)
        return weft_fail(WEFT_TIMEOUT,
                         "weft_comm_subset with tag %" PRId64 ": rank %d has not come within %lld ms",
                         subset->tag, subset->ranks[place], (long long)parent->timeout_ms);
    if (status == WEFT_OK)
        memcpy(subset->numbers[place], join->head.number, WEFT_ATTEMPT_BYTES);
    return status;
}

/* Leader: hears one member. What takes its JOIN back may still be on its way, so it is asked. */
static int hear_join(struct weft_subset *subset, int place)
{
    struct weft_subset_join join;
    uint32_t heard = 0;
    while (heard != WEFT_SUBSET_HERE) {
        int status = await_join(subset, place, &join);
        if (status != WEFT_OK || subset->word.status != WEFT_OK) /* then it is only told */
            return status;
        status = send_head(subset, place, WEFT_SUBSET_CALL, join.head.number, subset->deadline_ns);
        heard = WEFT_SUBSET_GONE;
        if (status == WEFT_OK)
            status =
                hear(subset, place, WEFT_SUBSET_HERE, &heard, join.head.number, subset->deadline_ns, NULL);
        if (status != WEFT_OK)
            return status;
    }
    return weft_subset_join_compare(&join, subset->ranks[place], subset->ranks, subset->count, subset->tag);
}

static void hear_all(struct weft_subset *subset)
{
    for (int place = 1; place < subset->count && !subset->parent->failed; place++)
        note(subset, hear_join(subset, place));
}

static void tell_all(struct weft_subset *subset, enum weft_subset_kind kind)
{
    static const unsigned char none[WEFT_ATTEMPT_BYTES];
    for (int place = 1; place < subset->count && !subset->parent->failed; place++) {
        if (memcmp(subset->numbers[place], none, sizeof none) != 0)
            note(subset, send_letter(subset, place, kind, subset->numbers[place]));
    }
}

static int derive_secret(const struct weft_subset *subset, unsigned char secret[WEFT_KEY_BYTES])
{
    size_t head = 4 + WEFT_ATTEMPT_BYTES / 4, count = head + (size_t)subset->count;
    uint32_t *purpose = malloc(count * sizeof *purpose);
    if (!purpose)
        return weft_fail(WEFT_NOMEM, "no memory for a group of %d ranks", subset->count);
    purpose[0] = PURPOSE;
    purpose[1] = (uint32_t)subset->tag;
    purpose[2] = (uint32_t)(subset->tag >> 32);
    purpose[3] = (uint32_t)subset->count;
    memcpy(purpose + 4, subset->seed, WEFT_ATTEMPT_BYTES);
    for (int i = 0; i < subset->count; i++)
        purpose[head + (size_t)i] = (uint32_t)subset->ranks[i];
    weft_bootstrap_derive(subset->parent->bootstrap, purpose, count * sizeof *purpose, secret);
    free(purpose);
    return WEFT_OK;
}

static void meet(struct weft_subset *subset, struct weft_comm **made)
{
    unsigned char secret[WEFT_KEY_BYTES];
    const struct weft_meeting meeting = {.parent = subset->parent,
                                         .rank = subset->rank,
                                         .ranks = subset->count,
                                         .listen_fd = subset->listen_fd,
                                         .address = subset->word.address,
                                         .secret = secret,
                                         .deadline_ns = subset->deadline_ns};
    int status = derive_secret(subset, secret);
    weft_progress_background(subset->parent->context, 1); /* as in comm/round.c */
    if (status == WEFT_OK)
        status = weft_meeting_hold(&meeting, made);
    weft_progress_background(subset->parent->context, -1);
    weft_crypto_wipe(secret, sizeof secret);
    note(subset, status);
}

static void lead(struct weft_subset *subset, struct weft_comm **made)
{
    struct weft_subset_letter letter;
    hear_all(subset);
    if (subset->word.status == WEFT_OK) {
        weft_crypto_random(subset->seed, sizeof subset->seed);
        note(subset, weft_bootstrap_listen(subset->parent->bootstrap, &subset->listen_fd,
                                           subset->word.address, sizeof subset->word.address));
    }
    tell_all(subset, WEFT_SUBSET_ANSWER);
    if (subset->word.status != WEFT_OK)
        return;
    meet(subset, made);
    for (int place = 1; place < subset->count && !subset->parent->failed; place++) {
        uint32_t heard = 0;
        int status = hear(subset, place, WEFT_SUBSET_DONE, &heard, subset->numbers[place],
                          subset->deadline_ns, &letter);
        if (status == WEFT_OK && letter.word.status != WEFT_OK)
            status = weft_fail(letter.word.status, "rank %d on host '%s': %s", subset->ranks[place],
                               subset->parent->members[subset->ranks[place]].host, letter.word.text);
        note(subset, status);
    }
    tell_all(subset, WEFT_SUBSET_VERDICT);
}

static int send_join(const struct weft_subset *subset, unsigned char *number)
{
    struct weft_subset_join join;
    weft_crypto_random(number, WEFT_ATTEMPT_BYTES);
    weft_subset_join_make(number, subset->ranks, subset->count, &join);
    return send_bytes(subset, 0, &join, sizeof join, subset->deadline_ns);
}

/* Where it cannot be sent the JOIN still gives way to the next one. */
static void send_gone(const struct weft_subset *subset, const unsigned char *number)
{
    char reason[WEFT_DETAIL_MAX];
    snprintf(reason, sizeof reason, "%s", weft_error_detail());
    send_head(subset, 0, WEFT_SUBSET_GONE, number, later_ns(subset, LEADER_NS + ANSWER_NS));
    weft_error_set_detail(reason);
}

/* The leader's word replaces this rank's unless this one has failed. */
static int hear_leader(struct weft_subset *subset, enum weft_subset_kind kind, const unsigned char *number)
{
    struct weft_subset_letter letter;
    uint32_t heard = WEFT_SUBSET_CALL;
    int status = WEFT_OK;
    while (status == WEFT_OK && heard == WEFT_SUBSET_CALL) {
        status = hear(subset, 0, kind, &heard, number, later_ns(subset, LEADER_NS), &letter);
        if (status == WEFT_OK && heard == WEFT_SUBSET_CALL)
            status = send_head(subset, 0, WEFT_SUBSET_HERE, number, subset->deadline_ns);
    }
    note(subset, status);
    if (status == WEFT_TIMEOUT && kind == WEFT_SUBSET_ANSWER && !subset->parent->failed)
        send_gone(subset, number);
    if (subset->word.status != WEFT_OK)
        return subset->word.status;
    subset->word = letter.word;
    memcpy(subset->seed, letter.seed, WEFT_ATTEMPT_BYTES);
    return subset->word.status;
}

static void follow(struct weft_subset *subset, struct weft_comm **made)
{
    unsigned char number[WEFT_ATTEMPT_BYTES];
    note(subset, send_join(subset, number));
    if (subset->word.status != WEFT_OK || hear_leader(subset, WEFT_SUBSET_ANSWER, number) != WEFT_OK)
        return;
    meet(subset, made);
    subset->word.address[0] = '\0';
    note(subset, send_letter(subset, 0, WEFT_SUBSET_DONE, number));
    hear_leader(subset, WEFT_SUBSET_VERDICT, number);
}

static int make(weft_comm *comm, const int *ranks, int count, int64_t tag, int place, weft_comm **out)
{
    struct weft_comm *made = NULL;
    struct weft_subset subset = {.parent = comm,
                                 .ranks = ranks,
                                 .count = count,
                                 .rank = place,
                                 .tag = tag,
                                 .deadline_ns = weft_comm_deadline_ns(comm),
                                 .listen_fd = -1};
    subset.numbers = calloc((size_t)count, sizeof *subset.numbers);
    if (!subset.numbers)
        return weft_fail(WEFT_NOMEM, "no memory for %d ranks", count);
    attempt_begin(&subset);
    if (place == 0)
        lead(&subset, &made);
    else
        follow(&subset, &made);
    attempt_end(&subset);
    if (subset.listen_fd >= 0)
        weft_fd_close(subset.listen_fd);
    free(subset.numbers);
    int status = comm->failed ? weft_comm_report(comm) : subset.word.status;
    if (status == WEFT_OK) {
        *out = made;
        return WEFT_OK;
    }
    if (!comm->failed)
        weft_fail(status, "%s", subset.word.text);
    weft_meeting_drop(made);
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

int weft_comm_subset(weft_comm *comm, const int *ranks, int count, int64_t tag, weft_comm **out)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !ranks || !out)
        return weft_fail(WEFT_INVALID, "%s is NULL", !comm ? "comm" : !ranks ? "ranks" : "out");
    if (tag < 0)
        return weft_fail(WEFT_INVALID, "tag is %" PRId64 ": expected 0 or more", tag);
    int place = -1, status = check_list(comm, ranks, count, &place);
    if (status == WEFT_OK)
        status = weft_comm_begin(comm);
    if (status != WEFT_OK)
        return status;
    return count == 1 ? weft_group_alone(comm, out) : make(comm, ranks, count, tag, place, out);
}
