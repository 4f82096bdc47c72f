/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what the members of a subset write to each other (comm/subset_letter.c). The first byte chooses a letter
 * that is as it should be, the rest is laid over it by exclusive or; a second byte of other than 0 changes the length.
 * A letter that was not changed must be understood.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "comm/subset_letter.h"

#define COUNT 120

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

union letter {
    struct weft_subset_head head;
    struct weft_subset_join join;
    struct weft_subset_letter letter;
};

static size_t make(uint8_t choice, const int *ranks, union letter *good)
{
    static const unsigned char number[WEFT_ATTEMPT_BYTES] = "a number";
    uint32_t kind = choice % 7 + 1;
    memset(good, 0, sizeof *good);
    if (kind == WEFT_SUBSET_JOIN) {
        weft_subset_join_make(number, ranks, COUNT, &good->join);
        return sizeof good->join;
    }
    good->head.kind = kind;
    memcpy(good->head.number, number, sizeof number);
    if (kind < WEFT_SUBSET_ANSWER)
        return sizeof good->head;
    good->letter.word = (struct weft_word){.status = -1, .text = "text", .address = "127.0.0.1:1"};
    return sizeof good->letter;
}

static void read_one(const void *bytes, size_t size, const int *ranks, int changed)
{
    struct weft_subset_head head;
    struct weft_subset_letter letter;
    uint32_t kind = weft_subset_head_read(bytes, size, &head);
    if (kind > WEFT_SUBSET_VERDICT || kind != head.kind || (!kind && !changed))
        __builtin_trap();
    int whole = weft_subset_letter_read(bytes, size, &letter);
    if (whole && (kind < WEFT_SUBSET_ANSWER || letter.word.status > 0 ||
                  strlen(letter.word.text) >= sizeof letter.word.text ||
                  strlen(letter.word.address) >= sizeof letter.word.address))
        __builtin_trap();
    if (!whole && !changed && kind >= WEFT_SUBSET_ANSWER)
        __builtin_trap();
    if (kind != WEFT_SUBSET_JOIN)
        return;
    struct weft_subset_join join;
    memcpy(&join, bytes, sizeof join); /* as comm/subset.c does */
    int status = weft_subset_join_compare(&join, 3, ranks, COUNT, 1);
    if (status != WEFT_OK && (status != WEFT_MISMATCH || !changed))
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int ranks[COUNT], changed = 0;
    union letter good;
    if (size < 2)
        return 0;
    for (int i = 0; i < COUNT; i++)
        ranks[i] = COUNT - i;
    size_t length = make(data[0], ranks, &good);
    uint8_t *bytes = (uint8_t *)&good;
    for (size_t i = 0; i + 2 < size && i < length; i++) {
        bytes[i] ^= data[i + 2];
        changed |= data[i + 2];
    }
    if (data[1]) {
        changed |= length != length * data[1] / 255;
        length = length * data[1] / 255;
    }
    uint8_t *copy = malloc(length ? length : 1); /* of exactly its size, so that a read beyond is seen */
    if (!copy)
        return 0;
    memcpy(copy, bytes, length);
    read_one(copy, length, ranks, changed);
    free(copy);
    return 0;
}
