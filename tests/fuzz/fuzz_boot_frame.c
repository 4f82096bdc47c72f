/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: bytes from a bootstrap connection, through the frame reader into every decoder of bodies.
 *
 * The first byte is the number of ranks less one, the second the size of the pieces in which the rest
 * arrives. Bodies are handed on in a block of exactly their size, so that the address sanitizer sees a read
 * beyond.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "comm/boot_wave.h"

#define RANKS_MAX 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What came through a decoder is used as its caller would: texts end, indices are in range. */
static void check(int good)
{
    if (!good)
        __builtin_trap();
}

static void decode_meeting(int type, const unsigned char *body, size_t size, int ranks)
{
    struct weft_boot_checkin checkin;
    struct weft_boot_accepted accepted;
    struct weft_boot_refused refused;
    int64_t beat_ms;
    static struct weft_boot_member members[RANKS_MAX];
    if (type == WEFT_BOOT_CHECKIN && weft_boot_checkin_get(body, size, &checkin) == 0)
        check(strlen(checkin.member.host) <= WEFT_BOOT_HOST_MAX);
    if (type == WEFT_BOOT_ACCEPTED)
        weft_boot_accepted_get(body, size, &accepted);
    if (type == WEFT_BOOT_REFUSED && weft_boot_refused_get(body, size, &refused) == 0)
        check(refused.status < 0 && strlen(refused.text) <= WEFT_BOOT_TEXT_MAX);
    if (type == WEFT_BOOT_TABLE && weft_boot_table_get(body, size, 1, &beat_ms, members, ranks) == 0)
        check(strlen(members[ranks - 1].host) <= WEFT_BOOT_HOST_MAX);
}

static void decode_overlay(int type, const unsigned char *body, size_t size, int ranks)
{
    struct weft_boot_notice notice;
    struct weft_boot_late late;
    uint32_t round;
    int rank, to;
    size_t record_size;
    const unsigned char *sizes, *bytes;
    if (type == WEFT_BOOT_FAILED || type == WEFT_BOOT_REVOKED) {
        if (weft_boot_notice_get(body, size, ranks, &notice) == 0)
            check(notice.rank < (uint32_t)ranks && strlen(notice.text) <= WEFT_BOOT_TEXT_MAX);
    } else if (type == WEFT_BOOT_REPORT) {
        if (weft_boot_report_get(body, size, ranks, &rank, &bytes, &record_size) == 0)
            check(rank >= 0 && rank < ranks && bytes + record_size == body + size);
    } else if (type == WEFT_BOOT_TELL) {
        if (weft_boot_tell_get(body, size, ranks, &to, &rank, &bytes, &record_size) == 0)
            check(to >= 0 && to < ranks && rank >= 0 && rank < ranks && bytes + record_size == body + size);
    } else if (type == WEFT_BOOT_LATE) {
        if (weft_boot_late_get(body, size, ranks, &late) == 0)
            check(late.range_count <= WEFT_BOOT_RANGES_MAX && late.missing <= (uint32_t)ranks);
    } else if (type == WEFT_BOOT_WHO || type == WEFT_BOOT_CONTRIBUTION) {
        if (weft_boot_round_get(body, size, ranks, &round, &rank) == 0)
            check(rank >= 0 && rank < ranks && size >= 8);
    } else if (type == WEFT_BOOT_RESULT) {
        if (weft_boot_result_get(body, size, ranks, &round, &sizes, &bytes) == 0)
            check(bytes <= body + size && (!sizes || sizes + 8 * (size_t)ranks == bytes));
    }
}

static void check_value(struct weft_boot_value *value, int ranks)
{
    check(value->leader < (uint32_t)ranks && value->payload_size <= WEFT_BOOTSTRAP_PAYLOAD_MAX);
    struct weft_boot_value *copy = weft_boot_value_copy(value, ranks);
    check(!copy || memcmp(copy->dead, value->dead, weft_boot_set_bytes(ranks)) == 0);
    free(copy);
    free(value);
}

static void decode_waves(int type, const unsigned char *body, size_t size, int ranks)
{
    struct weft_boot_wave_head head;
    struct weft_boot_echo echo;
    struct weft_boot_value *value;
    const unsigned char *set;
    uint32_t instance;
    int rank;
    if (type == WEFT_BOOT_WAVE && weft_boot_wave_get(body, size, ranks, &head, &value, &set) == 0) {
        check(head.initiator < (uint32_t)ranks && (!set || weft_boot_set_has(set, ranks - 1) <= 1));
        if (value)
            check_value(value, ranks);
    }
    if (type == WEFT_BOOT_ECHO && weft_boot_echo_get(body, size, ranks, &echo) == 0) {
        check(echo.ballot.rank < (uint32_t)ranks && weft_boot_set_has(echo.set, ranks - 1) <= 1);
        if (echo.accepted)
            check_value(echo.accepted, ranks);
    }
    if (type == WEFT_BOOT_DECIDED && weft_boot_decided_get(body, size, ranks, &instance, &value) == 0)
        check_value(value, ranks);
    if ((type == WEFT_BOOT_AGREED || type == WEFT_BOOT_CUT) &&
        weft_boot_set_get(body, size, ranks, &set) == 0)
        check(set + weft_boot_set_bytes(ranks) == body + size);
    if (type == WEFT_BOOT_LEFT && weft_boot_left_get(body, size, ranks, &rank) == 0)
        check(rank >= 0 && rank < ranks);
}

static void decode(const struct weft_boot_frame *frame, int ranks)
{
    unsigned char *body = malloc(frame->size ? frame->size : 1);
    if (!body)
        return;
    if (frame->size)
        memcpy(body, frame->body, frame->size);
    decode_meeting(frame->type, body, frame->size, ranks);
    decode_overlay(frame->type, body, frame->size, ranks);
    decode_waves(frame->type, body, frame->size, ranks);
    free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    int ranks = data[0] + 1, status = 0;
    size_t piece_max = (size_t)data[1] + 1, at = 2;
    struct weft_boot_reader reader;
    weft_boot_reader_init(&reader, UINT64_MAX);
    while (at < size && status >= 0) {
        void *place;
        size_t room;
        if (weft_boot_reader_space(&reader, &place, &room) != 0)
            break;
        check(room > 0);
        size_t piece = room < piece_max ? room : piece_max;
        piece = piece < size - at ? piece : size - at;
        memcpy(place, data + at, piece);
        at += piece;
        status = weft_boot_reader_advance(&reader, piece);
        if (status == 1) {
            struct weft_boot_frame frame;
            weft_boot_reader_take(&reader, &frame);
            decode(&frame, ranks);
            free(frame.body);
        }
    }
    weft_boot_reader_clear(&reader);
    return 0;
}
