/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/form/round.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/core/queue.h"
#include "comm/drive/progress.h"

_Static_assert(sizeof(struct weft_round_head) == 16, "heads travel, and what follows them stays aligned");

int weft_round_begin(struct weft_round *round, struct weft_comm *comm, uint8_t collective,
                     int64_t deadline_ns, const char *label)
{
    int status = weft_queue_await(comm); /* the ranks come to the round in the order of their calls */
    *round = (struct weft_round){.comm = comm,
                                 .waiting = {.call = {.sequence = weft_comm_next_call(comm),
                                                      .root = -1,
                                                      .collective = collective,
                                                      .label = label && *label ? label : NULL}},
                                 .deadline_ns = deadline_ns};
    if (status != WEFT_OK)
        return comm->failure.status ? status : weft_round_fail(round, status);
    weft_comm_count_call(comm);
    weft_context_lock(comm->context);
    comm->stall.waiting = &round->waiting;
    weft_context_unlock(comm->context);
    weft_progress_background(comm->context, 1);
    return WEFT_OK;
}

void weft_round_end(struct weft_round *round)
{
    struct weft_context *context = round->comm->context;
    weft_progress_background(context, -1);
    weft_context_lock(context);
    round->comm->stall.waiting = NULL;
    weft_context_unlock(context);
}

int weft_round_open(const struct weft_round_head *head, struct weft_blob *blobs, int ranks, int *rank)
{
    int differs = -1;
    for (int r = 0; r < ranks; r++) {
        const struct weft_round_head *theirs = blobs[r].data;
        *rank = r;
        if (blobs[r].size < sizeof *theirs || theirs->magic != head->magic)
            return WEFT_PROTOCOL;
        if (theirs->collective != head->collective || theirs->sequence != head->sequence)
            differs = differs < 0 ? r : differs;
        blobs[r] = (struct weft_blob){theirs + 1, blobs[r].size - sizeof *theirs};
    }
    *rank = differs;
    return differs < 0 ? WEFT_OK : WEFT_MISMATCH;
}

/* The overlay has brought together two calls that do not belong together. Rank 0 hears of both, and says who is wrong. */
static int await_verdict(struct weft_round *round, const struct weft_blob *blob, int rank)
{
    struct weft_comm *comm = round->comm;
    const struct weft_round_head *theirs = (const struct weft_round_head *)blob->data - 1;
    struct weft_call call = {.collective = (uint8_t)theirs->collective, .sequence = theirs->sequence};
    char text[200], mine[64], other[64];
    weft_call_print(&round->waiting.call, mine, sizeof mine);
    weft_call_print(&call, other, sizeof other);
    snprintf(text, sizeof text, "rank %d and rank %d are in different calls: %s and %s", rank, comm->rank,
             other, mine);
    weft_stall_await_verdict(comm, &round->waiting, text);
    return weft_comm_report(comm);
}

/* Rounds that one rank has missed fit together no more, so the communicator ends with them. */
int weft_round_fail(struct weft_round *round, int status)
{
    struct weft_comm *comm = round->comm;
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%s", weft_error_detail());
    weft_context_lock(comm->context);
    if (status == WEFT_TIMEOUT && !weft_bootstrap_has_failed(comm->bootstrap))
        weft_comm_fail(comm, status, text);
    else if (weft_comm_check(comm) == WEFT_OK)
        weft_comm_fail(comm, status, text);
    weft_context_unlock(comm->context);
    return weft_comm_report(comm);
}

int weft_round_gather(struct weft_round *round, const void *mine, size_t size, struct weft_blob **blobs)
{
    struct weft_comm *comm = round->comm;
    const struct weft_call *call = &round->waiting.call;
    uint32_t kind = call->collective == WEFT_CALL_EXIT ? WEFT_CALL_DESTROY : call->collective;
    struct weft_round_head head = {WEFT_ROUND_MAGIC, kind, call->sequence};
    struct weft_blob *gathered;
    char *message = malloc(sizeof head + size);
    if (!message) {
        weft_fail(WEFT_NOMEM, "%s: no memory for %zu bytes", weft_call_name(call), size);
        return weft_round_fail(round, WEFT_NOMEM);
    }
    memcpy(message, &head, sizeof head);
    if (size)
        memcpy(message + sizeof head, mine, size);
    int status = weft_bootstrap_allgather(comm->bootstrap, weft_call_name(call), message, sizeof head + size,
                                          &gathered, round->deadline_ns);
    free(message);
    if (status != WEFT_OK)
        return round->is_last ? status : weft_round_fail(round, status);
    int rank;
    status = weft_round_open(&head, gathered, comm->ranks, &rank);
    if (status == WEFT_OK) {
        *blobs = gathered;
        return WEFT_OK;
    }
    if (status == WEFT_MISMATCH) {
        status = await_verdict(round, &gathered[rank], rank);
    } else {
        weft_fail(status, "rank %d sent bytes that belong to no call", rank);
        status = weft_round_fail(round, status);
    }
    free(gathered);
    return status;
}

int weft_round_malformed(struct weft_round *round, int rank)
{
    weft_fail(WEFT_PROTOCOL, "%s: rank %d sent what this weft does not understand",
              weft_call_name(&round->waiting.call), rank);
    return weft_round_fail(round, WEFT_PROTOCOL);
}

static int is_silent(const struct weft_word *word)
{
    return word->status == WEFT_OK && !*word->address;
}

int weft_round_words(struct weft_round *round, const struct weft_word *mine, const int *ranks, int count,
                     struct weft_word *heard)
{
    struct weft_comm *comm = round->comm;
    struct weft_blob *words;
    int status = weft_round_gather(round, mine, is_silent(mine) ? 0 : sizeof *mine, &words), wrong = -1;
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < count && wrong < 0; i++) {
        struct weft_word word;
        if (weft_word_read(&words[ranks[i]], &word) != WEFT_OK)
            wrong = ranks[i];
        else if (i == 0 && word.status == WEFT_OK)
            *heard = word;
        if (word.status != WEFT_OK && heard->status == WEFT_OK && ranks[i] != comm->rank)
            weft_word_quote(comm, ranks[i], &word, heard);
    }
    free(words);
    return wrong < 0 ? WEFT_OK : weft_round_malformed(round, wrong);
}
