/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and reading letters: letter.h has the format. */
#include "transport/verbs/letter.h"

#include <string.h>
#include "base/error.h"
#include "transport/verbs/address.h"

#define HEAD_BYTES 48
#define LANE_BYTES 12
#define NUMBER_MAX 0xffffffu /* queue pairs and packets are numbered with 24 bits */
#define FRAME_MIN  2048      /* so that every message of the executor's own fits */

_Static_assert(HEAD_BYTES + VERBS_LANES * LANE_BYTES <= WEFT_LETTER_MAX &&
                   HEAD_BYTES + VERBS_LETTER_WHY <= WEFT_LETTER_MAX,
               "a letter fits");

static void put16(uint8_t *bytes, uint16_t value)
{
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *bytes, uint32_t value)
{
    put16(bytes, (uint16_t)value);
    put16(bytes + 2, (uint16_t)(value >> 16));
}

static uint16_t get16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static uint32_t get32(const uint8_t *bytes)
{
    return get16(bytes) | (uint32_t)get16(bytes + 2) << 16;
}

size_t verbs_letter_write(const struct verbs_letter *letter, uint8_t bytes[WEFT_LETTER_MAX])
{
    put32(bytes, VERBS_LETTER_MAGIC);
    bytes[4] = VERBS_VERSION_MIN;
    bytes[5] = VERBS_VERSION;
    bytes[6] = (uint8_t)letter->type;
    bytes[7] = letter->lanes_count;
    put32(bytes + 8, letter->link);
    put32(bytes + 12, letter->generation);
    put32(bytes + 16, letter->heard);
    bytes[20] = letter->flags;
    bytes[21] = 0;
    put16(bytes + 22, letter->window);
    put32(bytes + 24, letter->frame_bytes);
    put32(bytes + 28, letter->features);
    put32(bytes + 32, letter->round);
    put32(bytes + 36, letter->expected);
    put32(bytes + 40, letter->consumed);
    put32(bytes + 44, 0);
    for (uint32_t i = 0; i < letter->lanes_count; i++) {
        uint8_t *lane = bytes + HEAD_BYTES + i * LANE_BYTES;
        put32(lane, letter->lanes[i].number);
        put32(lane + 4, letter->lanes[i].psn);
        lane[8] = letter->lanes[i].mine;
        lane[9] = letter->lanes[i].theirs;
        put16(lane + 10, 0);
    }
    size_t text = letter->type == VERBS_LETTER_END ? strlen(letter->why) : 0;
    memcpy(bytes + HEAD_BYTES, letter->why, text);
    return HEAD_BYTES + (size_t)letter->lanes_count * LANE_BYTES + text;
}

static int half_check(const struct verbs_letter *letter)
{
    if (!letter->lanes_count || !letter->window || letter->frame_bytes < FRAME_MIN)
        return weft_fail(WEFT_PROTOCOL,
                         "verbs: letter with %u queue pairs, a window of %u, frames of %u bytes",
                         letter->lanes_count, letter->window, letter->frame_bytes);
    for (uint32_t i = 0; i < letter->lanes_count; i++) {
        const struct verbs_letter_lane *lane = &letter->lanes[i];
        int is_absent = letter->round && !lane->number;
        if ((!lane->number && !is_absent) || lane->number > NUMBER_MAX || lane->psn > NUMBER_MAX ||
            lane->mine >= VERBS_RAILS || lane->theirs >= VERBS_RAILS)
            return weft_fail(WEFT_PROTOCOL, "verbs: letter with queue pair %u, packet %u, rails %u and %u",
                             lane->number, lane->psn, lane->mine, lane->theirs);
    }
    return WEFT_OK;
}

/* What may follow the head. */
static int is_size(const struct verbs_letter *letter, size_t size)
{
    if (letter->type == VERBS_LETTER_END)
        return !letter->lanes_count && size < HEAD_BYTES + sizeof letter->why;
    return letter->type == VERBS_LETTER_HALF && letter->lanes_count <= VERBS_LANES &&
           size == HEAD_BYTES + (size_t)letter->lanes_count * LANE_BYTES;
}

static void why_read(const uint8_t *bytes, size_t size, char *why)
{
    for (size_t i = 0; i < size; i++)
        why[i] = (char)(bytes[i] < ' ' || bytes[i] >= 0x7f ? '?' : bytes[i]);
}

int verbs_letter_read(const void *memory, size_t size, struct verbs_letter *result)
{
    const uint8_t *bytes = memory;
    if (size < HEAD_BYTES || size > WEFT_LETTER_MAX || get32(bytes) != VERBS_LETTER_MAGIC)
        return weft_fail(WEFT_PROTOCOL, "verbs: %zu bytes that are no letter", size);
    if (bytes[4] > VERBS_VERSION || bytes[5] < VERBS_VERSION)
        return weft_fail(WEFT_PROTOCOL, "verbs: letter of versions %u to %u, this side speaks %d", bytes[4],
                         bytes[5], VERBS_VERSION);
    struct verbs_letter letter = {
        .type = bytes[6],
        .lanes_count = bytes[7],
        .link = get32(bytes + 8),
        .generation = get32(bytes + 12),
        .heard = get32(bytes + 16),
        .flags = bytes[20],
        .window = get16(bytes + 22),
        .frame_bytes = get32(bytes + 24),
        .features = get32(bytes + 28),
        .round = get32(bytes + 32),
        .expected = get32(bytes + 36),
        .consumed = get32(bytes + 40),
    };
    if (!is_size(&letter, size) || !letter.generation)
        return weft_fail(WEFT_PROTOCOL,
                         "verbs: malformed letter of type %d, %zu bytes, %u queue pairs, generation %u",
                         (int)letter.type, size, letter.lanes_count, letter.generation);
    for (uint32_t i = 0; i < letter.lanes_count; i++) {
        const uint8_t *lane = bytes + HEAD_BYTES + i * LANE_BYTES;
        letter.lanes[i] = (struct verbs_letter_lane){get32(lane), get32(lane + 4), lane[8], lane[9]};
    }
    if (letter.type == VERBS_LETTER_END)
        why_read(bytes + HEAD_BYTES, size - HEAD_BYTES, letter.why);
    int status = letter.type == VERBS_LETTER_HALF ? half_check(&letter) : WEFT_OK;
    if (!status)
        *result = letter;
    return status;
}
