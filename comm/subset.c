/* A communicator of some ranks, made by these alone (docs/bootstrap.md, section 12).
 *
 * Over messages that the program's receives do not meet, between the first rank of the list, which leads, and each other:
 *   JOIN     to the leader: a random number of this attempt, and the list. The leader compares.
 *   ANSWER   to each: what is wrong; or the address where the leader listens, and a random number for the secret. Then
 *            all of them meet there, as for any communicator.
 *   DONE     to the leader: whether that has worked.
 *   VERDICT  to each: whether it has for all. If not, all drop what they made.
 * A rank that waits for the leader takes only what carries its own number: the rest is of an attempt that failed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/fork.h"
#include "comm/group.h"
#include "comm/message.h"
#include "comm/progress.h"
#include "comm/round.h"

#define NUMBER_BYTES 16
#define PURPOSE      0x100u             /* others begin with a kind of call (comm/group.c) */
#define LEADER_NS    INT64_C(300000000) /* that members wait longer, to hear from the leader why */

enum letter_kind { ANSWER = 1, DONE, VERDICT };

struct letter {
    uint32_t kind, unused;
    unsigned char number[NUMBER_BYTES]; /* of the member's JOIN */
    unsigned char seed[NUMBER_BYTES];   /* ANSWER */
    struct weft_word word;
};

struct join {
    unsigned char number[NUMBER_BYTES];
    uint32_t ranks[];
};

struct subset {
    struct weft_comm *parent;
    const int *ranks;
    int count, rank; /* rank: this one's place */
    int64_t tag, deadline_ns;
    int listen_fd;
    struct weft_word word; /* how it stands: a status, and the address */
    unsigned char (
        *numbers)[NUMBER_BYTES]; /* [count]; the leader's of each member that has come, zero else */
    unsigned char seed[NUMBER_BYTES];
};

static size_t join_bytes(const struct subset *subset)
{
    return sizeof(struct join) + (size_t)subset->count * sizeof(uint32_t);
}

/* The first failure counts. The text is the thread's error. */
static void note(struct subset *subset, int status)
{
    if (status != WEFT_OK && subset->word.status == WEFT_OK)
        weft_word_set(&subset->word, status);
}

static int send_bytes(const struct subset *subset, int place, const void *bytes, size_t size)
{
    return weft_p2p_send_internal(subset->parent, bytes, size, subset->ranks[place], subset->tag,
                                  subset->deadline_ns);
}

static int send_letter(const struct subset *subset, int place, enum letter_kind kind,
                       const unsigned char *number)
{
    struct letter letter = {.kind = kind, .word = subset->word};
    memcpy(letter.number, number, NUMBER_BYTES);
    memcpy(letter.seed, subset->seed, NUMBER_BYTES);
    return send_bytes(subset, place, &letter, sizeof letter);
}

/* Takes letters until one is of this kind and number. WEFT_TIMEOUT names who has not sent it. */
static int hear(const struct subset *subset, int place, enum letter_kind kind, const unsigned char *number,
                int64_t deadline_ns, struct letter *letter)
{
    for (;;) {
        size_t size = 0;
        int status = weft_p2p_recv_internal(subset->parent, letter, sizeof *letter, subset->ranks[place],
                                            subset->tag, deadline_ns, &size);
        if (status == WEFT_TIMEOUT && !subset->parent->failed)
            return weft_fail(WEFT_TIMEOUT,
                             "weft_comm_subset with tag %" PRId64 ": no answer from rank %d within %lld ms",
                             subset->tag, subset->ranks[place], (long long)subset->parent->timeout_ms);
        if (status != WEFT_OK && status != WEFT_MISMATCH)
            return status;
        const struct weft_blob blob = {&letter->word, sizeof letter->word};
        struct weft_word word;
        if (status == WEFT_OK && size == sizeof *letter && letter->kind == kind &&
            weft_crypto_equal(letter->number, number, NUMBER_BYTES) &&
            weft_word_read(&blob, &word) == WEFT_OK) {
            letter->word = word;
            return WEFT_OK;
        }
    }
}

static int compare_lists(const struct subset *subset, int place, const struct join *join, size_t size)
{
    int from = subset->ranks[place], mine = subset->ranks[0];
    int theirs = size < sizeof *join ? 0 : (int)((size - sizeof *join) / sizeof join->ranks[0]);
    if (theirs != subset->count)
        return weft_fail(WEFT_MISMATCH,
                         "weft_comm_subset with tag %" PRId64 ": rank %d passes %d ranks, rank %d passes %d",
                         subset->tag, from, theirs, mine, subset->count);
    for (int i = 0; i < subset->count; i++) {
        if (join->ranks[i] != (uint32_t)subset->ranks[i])
            return weft_fail(WEFT_MISMATCH,
                             "weft_comm_subset with tag %" PRId64
                             ": rank %d passes rank %u at place %d, rank %d passes %d",
                             subset->tag, from, join->ranks[i], i, mine, subset->ranks[i]);
    }
    return WEFT_OK;
}

/* Leader: hears one member. */
static int hear_join(struct subset *subset, int place, struct join *join, size_t capacity)
{
    struct weft_comm *parent = subset->parent;
    size_t size = 0;
    int status = weft_p2p_recv_internal(parent, join, capacity, subset->ranks[place], subset->tag,
                                        subset->deadline_ns, &size);
    if (status == WEFT_TIMEOUT && !parent->failed)
        return weft_fail(WEFT_TIMEOUT,
                         "weft_comm_subset with tag %" PRId64 ": rank %d has not come within %lld ms",
                         subset->tag, subset->ranks[place], (long long)parent->timeout_ms);
    if (status != WEFT_OK)
        return status;
    if (size >= sizeof *join)
        memcpy(subset->numbers[place], join->number, NUMBER_BYTES);
    return compare_lists(subset, place, join, size);
}

static void hear_all(struct subset *subset)
{
    /* No list is longer than the parent: it names nobody twice. */
    size_t capacity = sizeof(struct join) + (size_t)subset->parent->ranks * sizeof(uint32_t);
    struct join *join = malloc(capacity);
    if (!join) {
        note(subset, weft_fail(WEFT_NOMEM, "no memory for a list of %d ranks", subset->parent->ranks));
        return;
    }
    for (int place = 1; place < subset->count && !subset->parent->failed; place++)
        note(subset, hear_join(subset, place, join, capacity));
    free(join);
}

static void tell_all(struct subset *subset, enum letter_kind kind)
{
    static const unsigned char none[NUMBER_BYTES];
    for (int place = 1; place < subset->count && !subset->parent->failed; place++) {
        if (memcmp(subset->numbers[place], none, sizeof none) != 0)
            note(subset, send_letter(subset, place, kind, subset->numbers[place]));
    }
}

static int derive_secret(const struct subset *subset, unsigned char secret[WEFT_KEY_BYTES])
{
    size_t head = 4 + NUMBER_BYTES / 4, count = head + (size_t)subset->count;
    uint32_t *purpose = malloc(count * sizeof *purpose);
    if (!purpose)
        return weft_fail(WEFT_NOMEM, "no memory for a group of %d ranks", subset->count);
    purpose[0] = PURPOSE;
    purpose[1] = (uint32_t)subset->tag;
    purpose[2] = (uint32_t)(subset->tag >> 32);
    purpose[3] = (uint32_t)subset->count;
    memcpy(purpose + 4, subset->seed, NUMBER_BYTES);
    for (int i = 0; i < subset->count; i++)
        purpose[head + (size_t)i] = (uint32_t)subset->ranks[i];
    weft_bootstrap_derive(subset->parent->bootstrap, purpose, count * sizeof *purpose, secret);
    free(purpose);
    return WEFT_OK;
}

static void meet(struct subset *subset, struct weft_comm **made)
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

static void lead(struct subset *subset, struct weft_comm **made)
{
    struct letter letter;
    hear_all(subset);
    if (subset->word.status == WEFT_OK) {
        weft_crypto_random(subset->seed, sizeof subset->seed);
        note(subset, weft_bootstrap_listen(subset->parent->bootstrap, &subset->listen_fd,
                                           subset->word.address, sizeof subset->word.address));
    }
    tell_all(subset, ANSWER);
    if (subset->word.status != WEFT_OK)
        return;
    meet(subset, made);
    for (int place = 1; place < subset->count && !subset->parent->failed; place++) {
        int status = hear(subset, place, DONE, subset->numbers[place], subset->deadline_ns, &letter);
        if (status == WEFT_OK && letter.word.status != WEFT_OK)
            status = weft_fail(letter.word.status, "rank %d on host '%s': %.200s", subset->ranks[place],
                               subset->parent->members[subset->ranks[place]].host, letter.word.text);
        note(subset, status);
    }
    tell_all(subset, VERDICT);
}

static int send_join(const struct subset *subset, unsigned char *number)
{
    struct join *join = malloc(join_bytes(subset));
    if (!join)
        return weft_fail(WEFT_NOMEM, "no memory for a list of %d ranks", subset->count);
    weft_crypto_random(number, NUMBER_BYTES);
    memcpy(join->number, number, NUMBER_BYTES);
    for (int i = 0; i < subset->count; i++)
        join->ranks[i] = (uint32_t)subset->ranks[i];
    int status = send_bytes(subset, 0, join, join_bytes(subset));
    free(join);
    return status;
}

/* The leader's word replaces this rank's unless this one has failed. */
static int hear_leader(struct subset *subset, enum letter_kind kind, const unsigned char *number)
{
    struct letter letter;
    int64_t until_ns = subset->deadline_ns;
    until_ns = until_ns > WEFT_NEVER_NS - LEADER_NS ? until_ns : until_ns + LEADER_NS;
    int status = hear(subset, 0, kind, number, until_ns, &letter);
    note(subset, status);
    if (subset->word.status != WEFT_OK)
        return subset->word.status;
    subset->word = letter.word;
    memcpy(subset->seed, letter.seed, NUMBER_BYTES);
    return subset->word.status;
}

static void follow(struct subset *subset, struct weft_comm **made)
{
    unsigned char number[NUMBER_BYTES];
    note(subset, send_join(subset, number));
    if (subset->word.status != WEFT_OK || hear_leader(subset, ANSWER, number) != WEFT_OK)
        return;
    meet(subset, made);
    subset->word.address[0] = '\0';
    note(subset, send_letter(subset, 0, DONE, number));
    hear_leader(subset, VERDICT, number);
}

static int make(weft_comm *comm, const int *ranks, int count, int64_t tag, int place, weft_comm **out)
{
    struct weft_comm *made = NULL;
    struct subset subset = {.parent = comm,
                            .ranks = ranks,
                            .count = count,
                            .rank = place,
                            .tag = tag,
                            .deadline_ns = weft_comm_deadline_ns(comm),
                            .listen_fd = -1};
    subset.numbers = calloc((size_t)count, sizeof *subset.numbers);
    if (!subset.numbers)
        return weft_fail(WEFT_NOMEM, "no memory for %d ranks", count);
    if (place == 0)
        lead(&subset, &made);
    else
        follow(&subset, &made);
    if (subset.listen_fd >= 0)
        weft_fork_fd_close(subset.listen_fd);
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
