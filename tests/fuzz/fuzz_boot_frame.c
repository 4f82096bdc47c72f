/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: bodies of frames that a peer has sealed, into every decoder.
 *
 * The first byte is the number of ranks less one. Then come bodies: u8 type, u16 size, and as many bytes, or what is left
 * of them. Each is handed on in a block of exactly its size, so that the address sanitizer sees a read beyond. What is
 * around a body is fuzz_auth's.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "comm/boot/consensus/wave.h"

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
    uint64_t session;
    struct weft_boot_refused refused;
    int64_t beat_ms;
    static struct weft_boot_member members[RANKS_MAX];
    if (type == WEFT_BOOT_CHECKIN && weft_boot_checkin_get(body, size, &checkin) == 0)
        check(strlen(checkin.member.host) <= WEFT_BOOT_HOST_MAX);
    if (type == WEFT_BOOT_ACCEPTED)
        weft_boot_accepted_get(body, size, &session);
    if (type == WEFT_BOOT_REFUSED && weft_boot_refused_get(body, size, &refused) == 0)
        check(refused.status < 0 && strlen(refused.text) <= WEFT_BOOT_TEXT_MAX);
    if (type == WEFT_BOOT_TABLE && weft_boot_table_get(body, size, 1, &beat_ms, members, ranks) == 0)
        check(strlen(members[ranks - 1].host) <= WEFT_BOOT_HOST_MAX);
}

static void decode_overlay(int type, const unsigned char *body, size_t size, int ranks)
{
    struct weft_boot_notice notice;
    uint32_t round;
    struct weft_boot_oob_body oob;
    int rank;
    const unsigned char *sizes, *bytes;
    if (type == WEFT_BOOT_FAILED || type == WEFT_BOOT_REVOKED) {
        if (weft_boot_notice_get(body, size, ranks, &notice) == 0)
            check(notice.rank < (uint32_t)ranks && strlen(notice.text) <= WEFT_BOOT_TEXT_MAX);
    } else if (type == WEFT_BOOT_OOB) {
        if (weft_boot_oob_get(body, size, ranks, &oob) == 0)
            check(oob.to >= 0 && oob.to < ranks && oob.from >= 0 && oob.from < ranks &&
                  (const unsigned char *)oob.bytes + oob.size == body + size);
    } else if (type == WEFT_BOOT_LATE) {
        if (weft_boot_late_get(body, size, ranks, &round, &sizes) == 0)
            check(sizes + weft_boot_set_bytes(ranks) == body + size);
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
    if (!value)
        return;
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
    if ((type == WEFT_BOOT_WAVE || type == WEFT_BOOT_NEWS) &&
        weft_boot_wave_get(type, body, size, ranks, &head, &value, &set) == 0) {
        check(head.initiator < (uint32_t)ranks && (!set || weft_boot_set_has(set, ranks - 1) <= 1));
        check_value(value, ranks);
    }
    if (type == WEFT_BOOT_ECHO && weft_boot_echo_get(body, size, ranks, &echo) == 0) {
        check(echo.ballot.rank < (uint32_t)ranks && weft_boot_set_has(echo.set, ranks - 1) <= 1);
        check_value(echo.accepted, ranks);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int ranks = size ? data[0] + 1 : 1;
    for (size_t at = 1; at + 3 <= size;) {
        int type = data[at];
        size_t length = data[at + 1] | (size_t)data[at + 2] << 8;
        at += 3;
        length = length < size - at ? length : size - at;
        unsigned char *body = malloc(length ? length : 1);
        if (!body)
            return 0;
        if (length)
            memcpy(body, data + at, length);
        decode_meeting(type, body, length, ranks);
        decode_overlay(type, body, length, ranks);
        decode_waves(type, body, length, ranks);
        free(body);
        at += length;
    }
    return 0;
}
