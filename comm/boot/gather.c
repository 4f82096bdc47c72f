/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers over the overlay (docs/bootstrap.md, section 5).
 *
 * Contributions travel up as they come, so interior ranks keep nothing and rank 0 knows exactly who is
 * missing. Rank 0's round moves on when it has all; a contribution for the next round cannot come before,
 * since its sender waits for this round's result. Results travel down as one body, shared between the queues
 * of the children and the caller, who copies it into the block it returns without the lock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "comm/boot/boot.h"

#define PREFIX 8 /* round and rank before a contribution's bytes */

static struct weft_boot_bytes *result_build(struct weft_bootstrap *b)
{
    struct weft_boot_writer writer = {0};
    weft_boot_put(&writer, b->slots_round, 4);
    weft_boot_put(&writer, b->arrived_bytes ? (uint64_t)b->ranks : 0, 4);
    for (int i = 0; i < b->ranks && b->arrived_bytes; i++)
        weft_boot_put(&writer, b->slots[i].size - PREFIX, 8);
    for (int i = 0; i < b->ranks && b->arrived_bytes; i++) {
        weft_boot_put_bytes(&writer, b->slots[i].body + PREFIX, b->slots[i].size - PREFIX);
        weft_boot_beat(b); /* a gigabyte takes longer than some heartbeats */
    }
    return weft_boot_bytes_of(&writer);
}

static void slots_clear(struct weft_bootstrap *b)
{
    for (int i = 0; b->slots && i < b->ranks; i++) {
        free(b->slots[i].body);
        b->slots[i] = (struct weft_boot_slot){0};
    }
    b->arrived_count = 0;
    b->arrived_bytes = 0;
}

void weft_boot_gather_clear(struct weft_bootstrap *b)
{
    slots_clear(b);
    weft_boot_bytes_drop(b->result);
    b->result = NULL;
}

static int send_down(struct weft_bootstrap *b, int type, struct weft_boot_bytes *body)
{
    int status = WEFT_OK;
    for (int i = b->rank == 0 ? 0 : 1; i < b->tree_count && status == WEFT_OK; i++)
        status = weft_boot_edge_queue(&b->edges[i], type, body);
    return status;
}

/* Takes over the bytes. */
static int send_up(struct weft_bootstrap *b, int type, unsigned char *body, size_t size)
{
    struct weft_boot_writer whole = {.data = body, .size = size};
    return weft_boot_edge_queue_writer(&b->edges[0], type, &whole);
}

/* The result of a round is here: hands it to the children and to this rank's caller. */
static void result_deliver(struct weft_bootstrap *b, struct weft_boot_bytes *result, uint32_t round)
{
    int status = send_down(b, WEFT_BOOT_RESULT, result);
    weft_boot_bytes_drop(b->result);
    b->result = result;
    b->result_round = round;
    if (status != WEFT_OK)
        weft_boot_revoke(b, WEFT_REVOKED, "no memory to pass on a gather");
    pthread_cond_broadcast(&b->changed);
}

/* Rank 0: takes over the body of one contribution. */
static void slot_fill(struct weft_bootstrap *b, int rank, unsigned char *body, size_t size)
{
    size_t head = 8 + (size_t)b->ranks * 8;
    if (size - PREFIX > WEFT_BOOT_RESULT_MAX - head - b->arrived_bytes) {
        free(body);
        weft_boot_revoke(b, WEFT_REVOKED, "the contributions to a gather are more than 1 GiB together");
        return;
    }
    b->slots[rank] = (struct weft_boot_slot){body, size};
    b->arrived_count++;
    b->arrived_bytes += size - PREFIX;
    if (b->arrived_count < b->ranks)
        return;
    struct weft_boot_bytes *result = result_build(b);
    uint32_t round = b->slots_round++;
    slots_clear(b);
    if (result)
        result_deliver(b, result, round);
    else
        weft_boot_revoke(b, WEFT_REVOKED, "no memory for the result of a gather");
}

static unsigned char *keep(struct weft_boot_frame *frame)
{
    unsigned char *body = frame->body;
    frame->body = NULL;
    return body;
}

static int take_contribution(struct weft_bootstrap *b, struct weft_boot_edge *edge,
                             struct weft_boot_frame *frame)
{
    uint32_t round;
    int rank;
    int status = weft_boot_round_get(frame->body, frame->size, b->ranks, &round, &rank);
    if (status == WEFT_OK && !weft_boot_is_below(rank, edge->rank))
        status = weft_fail(WEFT_PROTOCOL, "contribution of rank %d, which is not in that subtree", rank);
    if (status == WEFT_OK && b->rank == 0 && (round != b->slots_round || b->slots[rank].body))
        status = weft_fail(WEFT_PROTOCOL, "contribution of rank %d to round %u, expected round %u", rank,
                           (unsigned)round, (unsigned)b->slots_round);
    if (status != WEFT_OK)
        return status;
    if (b->rank == 0)
        slot_fill(b, rank, keep(frame), frame->size);
    else if (send_up(b, WEFT_BOOT_CONTRIBUTION, keep(frame), frame->size) != WEFT_OK)
        weft_boot_revoke(b, WEFT_REVOKED, "no memory to pass on a contribution");
    return WEFT_OK;
}

static int take_result(struct weft_bootstrap *b, struct weft_boot_frame *frame)
{
    uint32_t round;
    const unsigned char *sizes, *data;
    int status = weft_boot_result_get(frame->body, frame->size, b->ranks, &round, &sizes, &data);
    if (status != WEFT_OK)
        return status;
    struct weft_boot_bytes *bytes = weft_boot_bytes_new(keep(frame), frame->size);
    if (bytes)
        result_deliver(b, bytes, round);
    else
        weft_boot_revoke(b, WEFT_REVOKED, "no memory for the result of a gather");
    return WEFT_OK;
}

static void note_late(struct weft_bootstrap *b, uint32_t round, const unsigned char *missing)
{
    b->late_count++;
    b->late_round = round;
    weft_boot_set_text(missing, b->ranks, b->late_text, sizeof b->late_text);
    pthread_cond_broadcast(&b->changed);
}

/* Rank 0: announces to everybody who is missing from the current round. */
static void late_send(struct weft_bootstrap *b)
{
    struct weft_boot_writer writer = {0};
    unsigned char *missing = calloc(weft_boot_set_bytes(b->ranks), 1);
    if (!missing)
        return;
    for (int i = 0; i < b->ranks; i++) {
        if (!b->slots[i].body)
            weft_boot_set_add(missing, i);
    }
    note_late(b, b->slots_round, missing);
    weft_boot_put(&writer, b->slots_round, 4);
    weft_boot_put_bytes(&writer, missing, weft_boot_set_bytes(b->ranks));
    free(missing);
    struct weft_boot_bytes *bytes = weft_boot_bytes_of(&writer);
    if (bytes)
        send_down(b, WEFT_BOOT_LATE, bytes);
    weft_boot_bytes_drop(bytes);
}

/* Somebody wants to know who is missing: rank 0 knows, the others pass it on. */
static int take_who(struct weft_bootstrap *b, struct weft_boot_frame *frame)
{
    uint32_t round;
    int rank;
    int status = weft_boot_round_get(frame->body, frame->size, b->ranks, &round, &rank);
    if (status == WEFT_OK && b->rank != 0)
        send_up(b, WEFT_BOOT_WHO, keep(frame), frame->size);
    else if (status == WEFT_OK && round == b->slots_round)
        late_send(b);
    return status;
}

static int take_late(struct weft_bootstrap *b, struct weft_boot_frame *frame)
{
    uint32_t round;
    const unsigned char *missing;
    int status = weft_boot_late_get(frame->body, frame->size, b->ranks, &round, &missing);
    if (status != WEFT_OK)
        return status;
    note_late(b, round, missing);
    struct weft_boot_bytes *bytes = weft_boot_bytes_new(keep(frame), frame->size);
    if (bytes)
        send_down(b, WEFT_BOOT_LATE, bytes);
    weft_boot_bytes_drop(bytes);
    return WEFT_OK;
}

int weft_boot_gather_frame(struct weft_bootstrap *b, struct weft_boot_edge *edge,
                           struct weft_boot_frame *frame)
{
    switch (frame->type) {
    case WEFT_BOOT_CONTRIBUTION:
        return take_contribution(b, edge, frame);
    case WEFT_BOOT_RESULT:
        return take_result(b, frame);
    case WEFT_BOOT_WHO:
        return take_who(b, frame);
    default:
        return take_late(b, frame);
    }
}

static int timed_out(struct weft_bootstrap *b, uint32_t round, const char *what)
{
    b->timed_out = 1;
    if (!b->late_count || b->late_round != round)
        return weft_fail(
            WEFT_TIMEOUT,
            "%s: deadline passed, and rank 0 on host '%s' (or a rank between) does not answer who "
            "is missing",
            what, b->members[0].host);
    return weft_fail(WEFT_TIMEOUT, "%s: deadline passed, %s of %d did not come", what, b->late_text,
                     b->ranks);
}

static void ask_who(struct weft_bootstrap *b, uint32_t round)
{
    struct weft_boot_writer writer = {0};
    weft_boot_put(&writer, round, 4);
    weft_boot_put(&writer, (uint32_t)b->rank, 4);
    weft_boot_edge_queue_writer(&b->edges[0], WEFT_BOOT_WHO, &writer);
}

/* While ranks meet. Without the lock, since who answers may need others. */
static int ask_cancelled(struct weft_bootstrap *b)
{
    if (!b->cancelled)
        return WEFT_OK;
    pthread_mutex_unlock(&b->lock);
    int status = weft_boot_check_cancelled(b);
    pthread_mutex_lock(&b->lock);
    return status;
}

/* Waits for the result of this round. When the deadline passes, rank 0 looks who is missing and announces it to
 * everybody; the others ask it, and make do with what it said before when no answer comes. */
static int await(struct weft_bootstrap *b, uint32_t round, int64_t deadline_ns, const char *what)
{
    int64_t until_ns = deadline_ns;
    unsigned late_count = 0;
    for (int asked = 0;;) {
        int status = ask_cancelled(b);
        if (status != WEFT_OK)
            return status;
        if (b->result && b->result_round == round)
            return WEFT_OK;
        if (b->failure_status != WEFT_OK)
            return weft_boot_report_failure(b);
        if (weft_bootstrap_gone(b))
            return weft_boot_report_gone(b, what);
        int past = weft_clock_ns() >= until_ns;
        if (b->rank == 0) {
            if (past) {
                late_send(b);
                return timed_out(b, round, what);
            }
        } else if (b->edges[0].link.fd < 0) {
            if (b->late_count && b->late_round == round)
                return timed_out(b, round, what);
            return weft_fail(WEFT_PEER_FAILED, "%s: rank %d on host '%s' has left the communicator", what,
                             b->edges[0].rank, b->members[b->edges[0].rank].host);
        } else if (asked && (past || b->late_count != late_count)) {
            return timed_out(b, round, what);
        } else if (past) {
            asked = 1;
            late_count = b->late_count;
            ask_who(b, round);
            until_ns = weft_clock_ns() + WEFT_BOOT_GRACE_NS;
        }
        int64_t nap_ns = b->cancelled ? weft_clock_ns() + weft_boot_nap_ms(b) * INT64_C(1000000) : until_ns;
        weft_clock_wait(&b->changed, &b->lock, nap_ns < until_ns ? nap_ns : until_ns);
    }
}

/* Locked. Takes over the body of the CONTRIBUTION. On success *result holds a reference. */
static int gather(struct weft_bootstrap *b, struct weft_boot_writer body, int64_t deadline_ns,
                  const char *what, struct weft_boot_bytes **result)
{
    int status = WEFT_OK;
    if (b->failure_status != WEFT_OK)
        status = weft_boot_report_failure(b);
    else if (b->timed_out)
        status = weft_fail(WEFT_TIMEOUT, "%s: an earlier one ran into its deadline", what);
    if (status != WEFT_OK) {
        free(body.data);
        return status;
    }
    uint32_t round = b->round++;
    weft_boot_bytes_drop(b->result);
    b->result = NULL;
    if (b->rank == 0)
        slot_fill(b, 0, body.data, body.size);
    else
        status = send_up(b, WEFT_BOOT_CONTRIBUTION, body.data, body.size);
    if (status == WEFT_OK)
        status = await(b, round, deadline_ns, what);
    if (status == WEFT_OK) {
        *result = b->result;
        b->result = NULL;
    }
    return status;
}

/* Copies the result into one block: the blobs, then their bytes, each aligned for any type. */
static int unpack(const struct weft_boot_bytes *result, int ranks, const char *what, struct weft_blob **blobs)
{
    uint32_t round;
    const unsigned char *sizes, *data;
    int status = weft_boot_result_get(result->data, result->size, ranks, &round, &sizes, &data);
    if (status != WEFT_OK)
        return status;
    const size_t align = sizeof(max_align_t);
    size_t head = ((size_t)ranks * sizeof(struct weft_blob) + align - 1) / align * align;
    unsigned char *block = malloc(head + result->size + (size_t)ranks * align);
    if (!block)
        return weft_fail(WEFT_NOMEM, "%s: no memory for %zu bytes", what, result->size);
    struct weft_blob *made = (struct weft_blob *)(void *)block;
    struct weft_boot_cursor cursor = {.at = sizes, .left = sizes ? (size_t)ranks * 8 : 0};
    unsigned char *at = block + head;
    for (int i = 0; i < ranks; i++) {
        size_t size = sizes ? (size_t)weft_boot_get(&cursor, 8) : 0;
        if (size)
            memcpy(at, data, size);
        made[i] = (struct weft_blob){at, size};
        data += size;
        at += (size + align - 1) / align * align;
    }
    *blobs = made;
    return WEFT_OK;
}

int weft_bootstrap_allgather(struct weft_bootstrap *b, const char *what, const void *mine, size_t size,
                             struct weft_blob **blobs, int64_t deadline_ns)
{
    if (size > WEFT_BOOT_BLOB_MAX)
        return weft_fail(WEFT_INVALID, "%s: %zu bytes, at most %zu are allowed", what, size,
                         WEFT_BOOT_BLOB_MAX);
    struct weft_boot_bytes *result = NULL;
    struct weft_boot_writer body = {0};
    weft_boot_put(&body, b->round, 4); /* which only gathers change, of which there is one at a time */
    weft_boot_put(&body, (uint32_t)b->rank, 4);
    weft_boot_put_bytes(&body, mine, size);
    if (body.failed) {
        free(body.data);
        return weft_fail(WEFT_NOMEM, "%s: no memory for %zu bytes", what, size);
    }
    pthread_mutex_lock(&b->lock);
    int status = gather(b, body, deadline_ns, what, &result);
    pthread_mutex_unlock(&b->lock);
    if (status != WEFT_OK)
        return status;
    status = unpack(result, b->ranks, what, blobs);
    pthread_mutex_lock(&b->lock);
    weft_boot_bytes_drop(result);
    pthread_mutex_unlock(&b->lock);
    return status;
}

int weft_bootstrap_barrier(struct weft_bootstrap *b, const char *what, int64_t deadline_ns)
{
    struct weft_blob *blobs;
    int status = weft_bootstrap_allgather(b, what, NULL, 0, &blobs, deadline_ns);
    if (status == WEFT_OK)
        free(blobs);
    return status;
}
