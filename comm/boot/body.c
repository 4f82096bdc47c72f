/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/boot/body.h"

#include <string.h>
#include "base/error.h"
#include "comm/boot/bootstrap.h"
#include <weft/status.h>

static int malformed(const char *what)
{
    return weft_fail(WEFT_PROTOCOL, "malformed %s", what);
}

static struct weft_boot_cursor cursor_of(const void *body, size_t size)
{
    return (struct weft_boot_cursor){.at = body, .left = size};
}

/* A string with its length in front; what does not fit is cut, which only happens to our own texts. */
static void put_string(struct weft_boot_writer *writer, const char *text, int length_bytes, size_t most)
{
    size_t length = strnlen(text, most);
    weft_boot_put(writer, length, length_bytes);
    weft_boot_put_bytes(writer, text, length);
}

/* text has room for most + 1 bytes. Control characters become '?', since this ends up in logs and errors. */
static void get_string(struct weft_boot_cursor *cursor, char *text, int length_bytes, size_t most)
{
    size_t length = (size_t)weft_boot_get(cursor, length_bytes);
    if (length > most)
        cursor->failed = 1;
    const unsigned char *bytes = weft_boot_get_bytes(cursor, length);
    for (size_t i = 0; bytes && i < length; i++)
        text[i] = bytes[i] < 0x20 || bytes[i] == 0x7f ? '?' : (char)bytes[i];
    text[bytes ? length : 0] = '\0';
}

/* Without scope, which is a matter of each host (scope.c). */
static void put_address(struct weft_boot_writer *writer, const struct weft_net_address *address)
{
    weft_boot_put(writer, (uint64_t)address->family, 1);
    weft_boot_put(writer, 0, 1);
    weft_boot_put(writer, address->port, 2);
    weft_boot_put_bytes(writer, address->ip, sizeof address->ip);
}

static void get_address(struct weft_boot_cursor *cursor, struct weft_net_address *address)
{
    memset(address, 0, sizeof *address);
    address->family = (int)weft_boot_get(cursor, 1);
    if (address->family != 0 && address->family != 4 && address->family != 6)
        cursor->failed = 1;
    weft_boot_get(cursor, 1);
    address->port = (uint16_t)weft_boot_get(cursor, 2);
    const unsigned char *ip = weft_boot_get_bytes(cursor, sizeof address->ip);
    if (ip)
        memcpy(address->ip, ip, sizeof address->ip);
}

static void put_member(struct weft_boot_writer *writer, const struct weft_boot_member *member)
{
    put_address(writer, &member->address);
    weft_boot_put(writer, member->pid, 4);
    put_string(writer, member->host, 1, WEFT_BOOT_HOST_MAX);
}

static void get_member(struct weft_boot_cursor *cursor, struct weft_boot_member *member)
{
    get_address(cursor, &member->address);
    member->pid = (uint32_t)weft_boot_get(cursor, 4);
    get_string(cursor, member->host, 1, WEFT_BOOT_HOST_MAX);
}

void weft_boot_checkin_put(struct weft_boot_writer *writer, const struct weft_boot_checkin *checkin)
{
    weft_boot_put(writer, checkin->left_ms, 8);
    put_member(writer, &checkin->member);
}

int weft_boot_checkin_get(const void *body, size_t size, struct weft_boot_checkin *checkin)
{
    struct weft_boot_cursor cursor = cursor_of(body, size);
    struct weft_boot_checkin read = {.left_ms = weft_boot_get(&cursor, 8)};
    get_member(&cursor, &read.member);
    if (cursor.failed || cursor.left)
        return malformed("check-in");
    *checkin = read;
    return WEFT_OK;
}

int weft_boot_accepted_get(const void *body, size_t size, uint64_t *session)
{
    struct weft_boot_cursor cursor = cursor_of(body, size);
    uint64_t read = weft_boot_get(&cursor, 8);
    if (cursor.failed || cursor.left)
        return malformed("answer to the check-in");
    *session = read;
    return WEFT_OK;
}

void weft_boot_refused_put(struct weft_boot_writer *writer, int status, const char *text)
{
    weft_boot_put(writer, (uint32_t)status, 4);
    put_string(writer, text, 2, WEFT_BOOT_TEXT_MAX);
}

int weft_boot_refused_get(const void *body, size_t size, struct weft_boot_refused *refused)
{
    struct weft_boot_cursor cursor = cursor_of(body, size);
    struct weft_boot_refused read;
    memset(&read, 0, sizeof read);
    uint32_t negated = 0 - (uint32_t)weft_boot_get(&cursor, 4);
    get_string(&cursor, read.text, 2, WEFT_BOOT_TEXT_MAX);
    /* Of what we know or a later version added; success and nonsense are not refusals. */
    if (cursor.failed || negated == 0 || negated > WEFT_BOOT_STATUS_MOST)
        return malformed("refusal");
    read.status = -(int)negated;
    *refused = read;
    return WEFT_OK;
}

void weft_boot_table_put(struct weft_boot_writer *writer, uint64_t session, int64_t heartbeat_ms,
                         const struct weft_boot_member *members, int ranks)
{
    weft_boot_put(writer, session, 8);
    weft_boot_put(writer, (uint64_t)ranks, 4);
    weft_boot_put(writer, (uint64_t)heartbeat_ms, 4);
    for (int i = 0; i < ranks; i++)
        put_member(writer, &members[i]);
}

int weft_boot_table_get(const void *body, size_t size, uint64_t session, int64_t *heartbeat_ms,
                        struct weft_boot_member *members, int ranks)
{
    struct weft_boot_cursor cursor = cursor_of(body, size);
    uint64_t theirs = weft_boot_get(&cursor, 8);
    uint64_t count = weft_boot_get(&cursor, 4);
    int64_t beat_ms = (int64_t)weft_boot_get(&cursor, 4);
    if (cursor.failed || theirs != session || count != (uint64_t)ranks)
        return malformed("address table: another session or number of ranks");
    if (beat_ms < WEFT_HEARTBEAT_MIN_MS || beat_ms > WEFT_HEARTBEAT_MAX_MS)
        return malformed("address table: heartbeat");
    for (int i = 0; i < ranks && !cursor.failed; i++)
        get_member(&cursor, &members[i]);
    if (cursor.failed || cursor.left)
        return malformed("address table");
    *heartbeat_ms = beat_ms;
    return WEFT_OK;
}

void weft_boot_notice_put(struct weft_boot_writer *writer, const struct weft_boot_notice *notice)
{
    weft_boot_put(writer, notice->rank, 4);
    weft_boot_put(writer, notice->reporter, 4);
    weft_boot_put(writer, (uint32_t)notice->status, 4);
    weft_boot_put(writer, (uint64_t)notice->time_ns, 8);
    weft_boot_put(writer, notice->aborts, 4);
    put_string(writer, notice->text, 2, WEFT_BOOT_TEXT_MAX);
}

int weft_boot_notice_get(const void *body, size_t size, int ranks, struct weft_boot_notice *notice)
{
    struct weft_boot_cursor cursor = cursor_of(body, size);
    struct weft_boot_notice read;
    memset(&read, 0, sizeof read);
    read.rank = (uint32_t)weft_boot_get(&cursor, 4);
    read.reporter = (uint32_t)weft_boot_get(&cursor, 4);
    uint32_t negated = 0 - (uint32_t)weft_boot_get(&cursor, 4);
    read.time_ns = (int64_t)weft_boot_get(&cursor, 8);
    read.aborts = (uint32_t)weft_boot_get(&cursor, 4);
    get_string(&cursor, read.text, 2, WEFT_BOOT_TEXT_MAX);
    if (cursor.failed || cursor.left || read.rank >= (uint32_t)ranks || read.reporter >= (uint32_t)ranks ||
        negated == 0 || negated > WEFT_BOOT_STATUS_MOST || read.time_ns < 0)
        return malformed("notice of a failure");
    read.status = -(int)negated;
    *notice = read;
    return WEFT_OK;
}

void weft_boot_oob_put(struct weft_boot_writer *writer, const struct weft_boot_oob_body *body)
{
    weft_boot_put(writer, (uint64_t)body->to, 4);
    weft_boot_put(writer, (uint64_t)body->from, 4);
    weft_boot_put(writer, body->channel, 4);
    weft_boot_put_bytes(writer, body->bytes, body->size);
}

int weft_boot_oob_get(const void *bytes, size_t size, int ranks, struct weft_boot_oob_body *body)
{
    struct weft_boot_cursor cursor = cursor_of(bytes, size);
    uint32_t to = (uint32_t)weft_boot_get(&cursor, 4), from = (uint32_t)weft_boot_get(&cursor, 4);
    uint32_t channel = (uint32_t)weft_boot_get(&cursor, 4);
    if (cursor.failed || to >= (uint32_t)ranks || from >= (uint32_t)ranks || to == from ||
        channel < WEFT_OOB_REPORT || channel > WEFT_OOB_TRANSPORT || cursor.left > WEFT_BOOT_OOB_MAX)
        return malformed("out-of-band message");
    *body = (struct weft_boot_oob_body){.to = (int)to,
                                        .from = (int)from,
                                        .channel = (enum weft_oob_channel)channel,
                                        .bytes = cursor.at,
                                        .size = cursor.left};
    return WEFT_OK;
}

const unsigned char *weft_boot_get_set(struct weft_boot_cursor *cursor, int ranks)
{
    size_t size = weft_boot_set_bytes(ranks);
    const unsigned char *set = weft_boot_get_bytes(cursor, size);
    if (set && ranks % 8 && set[size - 1] >> ranks % 8)
        cursor->failed = 1;
    return cursor->failed ? NULL : set;
}

int weft_boot_late_get(const void *body, size_t size, int ranks, uint32_t *round,
                       const unsigned char **missing)
{
    struct weft_boot_cursor cursor = cursor_of(body, size);
    uint32_t theirs = (uint32_t)weft_boot_get(&cursor, 4);
    const unsigned char *set = weft_boot_get_set(&cursor, ranks);
    if (!set || cursor.left)
        return malformed("list of late ranks");
    *round = theirs;
    *missing = set;
    return WEFT_OK;
}

int weft_boot_round_get(const void *body, size_t size, int ranks, uint32_t *round, int *rank)
{
    struct weft_boot_cursor cursor = cursor_of(body, size);
    uint32_t theirs = (uint32_t)weft_boot_get(&cursor, 4);
    uint32_t from = (uint32_t)weft_boot_get(&cursor, 4);
    if (cursor.failed || from >= (uint32_t)ranks)
        return malformed("contribution");
    *round = theirs;
    *rank = (int)from;
    return WEFT_OK;
}

int weft_boot_result_get(const void *body, size_t size, int ranks, uint32_t *round,
                         const unsigned char **sizes, const unsigned char **data)
{
    struct weft_boot_cursor cursor = cursor_of(body, size);
    uint32_t theirs = (uint32_t)weft_boot_get(&cursor, 4);
    uint64_t count = weft_boot_get(&cursor, 4);
    if (cursor.failed || (count != 0 && count != (uint64_t)ranks))
        return malformed("result of a gather");
    const unsigned char *table = weft_boot_get_bytes(&cursor, (size_t)count * 8);
    struct weft_boot_cursor walk = cursor_of(table, table ? (size_t)count * 8 : 0);
    uint64_t left = cursor.left;
    int bad = cursor.failed;
    for (uint64_t i = 0; !bad && i < count; i++) {
        uint64_t each = weft_boot_get(&walk, 8);
        bad = each > left;
        left -= bad ? 0 : each;
    }
    if (bad || left)
        return malformed("result of a gather");
    *round = theirs;
    *sizes = count ? table : NULL;
    *data = cursor.at;
    return WEFT_OK;
}
