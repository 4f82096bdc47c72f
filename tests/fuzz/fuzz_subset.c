/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the oob messages of a subset's members (comm/form/subset_oob.c). The first byte chooses a message that is as it should
 * be, the rest is laid over it by exclusive or; a second byte of other than 0 changes the length. A message that was not changed must be
 * understood.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "comm/form/subset_oob.h"

#define COUNT 120

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t make(uint8_t choice, const int *ranks, union weft_subset_message *good)
{
    memset(good, 0, sizeof *good);
    good->kind = choice % WEFT_SUBSET_GONE + 1;
    if (good->kind == WEFT_SUBSET_JOIN) {
        weft_subset_join_make(ranks, COUNT, &good->join);
        return sizeof good->join;
    }
    good->report.word = (struct weft_word){.status = -1, .text = "text", .address = "127.0.0.1:1"};
    return sizeof good->report;
}

static void read_one(const void *bytes, size_t size, const int *ranks, int changed)
{
    union weft_subset_message message;
    uint32_t kind = weft_subset_message_read(bytes, size, &message);
    const struct weft_word *word = &message.report.word;
    if (kind > WEFT_SUBSET_GONE || (kind && kind != message.kind) || (!kind && !changed))
        __builtin_trap();
    if (kind > WEFT_SUBSET_JOIN && (word->status > 0 || strlen(word->text) >= sizeof word->text ||
                                    strlen(word->address) >= sizeof word->address))
        __builtin_trap();
    if (kind != WEFT_SUBSET_JOIN)
        return;
    int status = weft_subset_join_compare(&message.join, 3, ranks, COUNT, 1);
    if (status != WEFT_OK && (status != WEFT_MISMATCH || !changed))
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int ranks[COUNT], changed = 0;
    union weft_subset_message good;
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
