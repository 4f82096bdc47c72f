/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what ranks announce to each other in rounds on a communicator (comm/form/round.c), about groups (comm/form/split.c) and in
 * meetings (comm/form/meeting.c):
 * heads, choices, words and proposals of three ranks. Each begins as a good one, over which the input is laid: a byte for whom, one
 * for the place, one for the length, and the bytes to add by exclusive or; a length of 255 cuts the message off there
 * instead.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "comm/form/grow.h"
#include "comm/form/round.h"
#include "comm/form/split.h"

#define RANKS 3
#define MOST  (sizeof(struct weft_round_head) + sizeof(struct weft_word))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct message {
    struct weft_round_head head;
    union {
        struct weft_group_choice choice;
        struct weft_word word;
        struct weft_proposal proposal;
    };
};

static void lay_over(const uint8_t *data, size_t size, size_t sizes[RANKS], uint8_t bytes[RANKS][MOST])
{
    while (size > 3) {
        int m = data[0] % RANKS;
        size_t place = data[1] * sizes[m] / 255, length = data[2], given = size - 3;
        if (length == 255) {
            sizes[m] = place;
            length = 0;
        }
        length = length < sizes[m] - place ? length : sizes[m] - place;
        length = length < given ? length : given;
        for (size_t i = 0; i < length; i++)
            bytes[m][place + i] ^= data[3 + i];
        data += 3 + length;
        size -= 3 + length;
    }
}

static void read_choices(const struct weft_blob *blobs)
{
    int members[RANKS], wrong = -1;
    int count = weft_group_choose(blobs, RANKS, 1, members, &wrong);
    if (count > RANKS || (count < 0 && (wrong < 0 || wrong >= RANKS)))
        __builtin_trap();
    for (int i = 1; i < count; i++) {
        const struct weft_group_choice *x = blobs[members[i - 1]].data, *y = blobs[members[i]].data;
        if (y->key < x->key || (y->key == x->key && members[i] <= members[i - 1]))
            __builtin_trap();
    }
}

static void read_words(const struct weft_blob *blobs)
{
    for (int r = 0; r < RANKS; r++) {
        struct weft_word word;
        if (weft_word_read(&blobs[r], &word) != WEFT_OK)
            continue;
        if (word.status > 0 || strlen(word.text) >= sizeof word.text ||
            strlen(word.address) >= sizeof word.address)
            __builtin_trap();
    }
}

static void read_proposals(const struct weft_blob *blobs)
{
    struct weft_proposal proposals[RANKS];
    static const struct weft_member members[RANKS];
    for (int r = 0; r < RANKS; r++) {
        if (weft_proposal_read(&blobs[r], &proposals[r]) != WEFT_OK)
            return;
    }
    int status = weft_proposals_compare(proposals, RANKS, members), refused = WEFT_OK;
    for (int r = 0; r < RANKS && refused == WEFT_OK; r++)
        refused = proposals[r].status;
    if (refused != WEFT_OK ? status != refused : status != WEFT_OK && status != WEFT_MISMATCH)
        __builtin_trap();
}

static size_t make(int kind, int rank, struct message *good)
{
    const struct weft_bootstrap_options place = {.ranks = 5, .name = "name", .file = "/a/file"};
    if (kind == 0) {
        good->choice = (struct weft_group_choice){.colour = rank % 2, .key = -rank};
        return sizeof good->choice;
    }
    if (kind == 1) {
        good->word = (struct weft_word){.status = rank - 1, .text = "text", .address = "127.0.0.1:1"};
        return sizeof good->word;
    }
    if (kind == 3 && rank == 1)
        weft_proposal_refuse(&(const struct weft_word){.status = WEFT_NOMEM, .text = "text"},
                             &good->proposal);
    else
        weft_proposal_set(&place, &good->proposal);
    return sizeof good->proposal;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct weft_round_head head = {WEFT_ROUND_MAGIC, WEFT_CALL_SPLIT, 5};
    uint8_t bytes[RANKS][MOST] = {{0}};
    size_t sizes[RANKS];
    struct weft_blob blobs[RANKS] = {{NULL, 0}};
    void *copies[RANKS] = {NULL};
    int kind = size ? data[0] % 4 : 0, rank = -1, complete = 1;
    for (int r = 0; r < RANKS; r++) {
        struct message good = {.head = head};
        sizes[r] = sizeof head + make(kind, r, &good);
        memcpy(bytes[r], &good, sizes[r]);
    }
    if (size)
        lay_over(data + 1, size - 1, sizes, bytes);
    for (int r = 0; r < RANKS; r++) { /* of exactly their size, so that a read beyond is seen */
        copies[r] = malloc(sizes[r] ? sizes[r] : 1);
        complete &= copies[r] != NULL;
        if (copies[r])
            memcpy(copies[r], bytes[r], sizes[r]);
        blobs[r] = (struct weft_blob){copies[r], sizes[r]};
    }
    if (complete && weft_round_open(&head, blobs, RANKS, &rank) == WEFT_OK) {
        read_choices(blobs);
        read_words(blobs);
        read_proposals(blobs);
    } else if (complete && (rank < 0 || rank >= RANKS)) {
        __builtin_trap();
    }
    for (int r = 0; r < RANKS; r++)
        free(copies[r]);
    return 0;
}
