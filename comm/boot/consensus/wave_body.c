/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of WAVE, ECHO and NEWS (docs/bootstrap.md, section 3). */
#include <stdlib.h>
#include <string.h>
#include "base/crypto.h"
#include "base/error.h"
#include "comm/boot/consensus/wave.h"

static int malformed(const char *what)
{
    return weft_fail(WEFT_PROTOCOL, "malformed %s", what);
}

struct weft_boot_value *weft_boot_value_new(int ranks)
{
    return calloc(1, sizeof(struct weft_boot_value) + weft_boot_set_bytes(ranks));
}

struct weft_boot_value *weft_boot_value_copy(const struct weft_boot_value *value, int ranks)
{
    struct weft_boot_value *copy = weft_boot_value_new(ranks);
    if (copy)
        memcpy(copy, value, sizeof *value + weft_boot_set_bytes(ranks));
    return copy;
}

void weft_boot_value_free(struct weft_boot_value *value)
{
    if (value)
        weft_crypto_wipe(value->payload, sizeof value->payload); /* a secret, perhaps */
    free(value);
}

static void put_value(struct weft_boot_writer *writer, const struct weft_boot_value *value, int ranks)
{
    weft_boot_put(writer, value->flags, 8);
    weft_boot_put(writer, value->leader, 4);
    weft_boot_put(writer, value->payload_size, 4);
    weft_boot_put_bytes(writer, value->payload, value->payload_size);
    weft_boot_put_bytes(writer, value->dead, weft_boot_set_bytes(ranks));
}

/* WEFT_NOMEM, WEFT_OK; a malformed one shows in the cursor. */
static int get_value(struct weft_boot_cursor *cursor, int ranks, struct weft_boot_value **result)
{
    uint64_t flags = weft_boot_get(cursor, 8);
    uint32_t leader = (uint32_t)weft_boot_get(cursor, 4);
    uint32_t payload_size = (uint32_t)weft_boot_get(cursor, 4);
    if (leader >= (uint32_t)ranks || payload_size > WEFT_BOOTSTRAP_PAYLOAD_MAX)
        cursor->failed = 1;
    const unsigned char *payload = weft_boot_get_bytes(cursor, payload_size);
    const unsigned char *dead = weft_boot_get_set(cursor, ranks);
    if (cursor->failed)
        return WEFT_OK;
    struct weft_boot_value *value = weft_boot_value_new(ranks);
    if (!value)
        return weft_fail(WEFT_NOMEM, "no memory for an agreement");
    value->flags = flags;
    value->leader = leader;
    value->payload_size = payload_size;
    if (payload_size)
        memcpy(value->payload, payload, payload_size);
    memcpy(value->dead, dead, weft_boot_set_bytes(ranks));
    *result = value;
    return WEFT_OK;
}

static void put_head(struct weft_boot_writer *writer, const struct weft_boot_wave_head *head)
{
    weft_boot_put(writer, head->initiator, 4);
    weft_boot_put(writer, (uint64_t)head->kind, 4);
    weft_boot_put(writer, head->number, 8);
    weft_boot_put(writer, head->instance, 4);
}

/* Of a kind from first to last. */
static void get_head(struct weft_boot_cursor *cursor, int ranks, uint32_t first, uint32_t last,
                     struct weft_boot_wave_head *head)
{
    head->initiator = (uint32_t)weft_boot_get(cursor, 4);
    uint32_t kind = (uint32_t)weft_boot_get(cursor, 4);
    head->number = weft_boot_get(cursor, 8);
    head->instance = (uint32_t)weft_boot_get(cursor, 4);
    head->kind = (int)(kind & 15);
    if (head->initiator >= (uint32_t)ranks || kind < first || kind > last)
        cursor->failed = 1;
}

static int brings_value(int kind)
{
    return kind == WEFT_BOOT_PROPOSE || kind == WEFT_BOOT_DECIDED;
}

static int brings_set(int kind)
{
    return kind == WEFT_BOOT_SYNC || kind == WEFT_BOOT_AGREED || kind == WEFT_BOOT_CUT;
}

void weft_boot_wave_put(struct weft_boot_writer *writer, const struct weft_boot_wave_head *head,
                        const struct weft_boot_value *value, const unsigned char *set, int ranks)
{
    put_head(writer, head);
    if (brings_value(head->kind))
        put_value(writer, value, ranks);
    if (brings_set(head->kind))
        weft_boot_put_bytes(writer, set, weft_boot_set_bytes(ranks));
}

int weft_boot_wave_get(int type, const void *body, size_t size, int ranks, struct weft_boot_wave_head *head,
                       struct weft_boot_value **value, const unsigned char **set)
{
    struct weft_boot_cursor cursor = {.at = body, .left = size};
    struct weft_boot_wave_head read;
    struct weft_boot_value *value_read = NULL;
    const unsigned char *set_read = NULL;
    if (type == WEFT_BOOT_NEWS)
        get_head(&cursor, ranks, WEFT_BOOT_DECIDED, WEFT_BOOT_CUT, &read);
    else
        get_head(&cursor, ranks, WEFT_BOOT_COLLECT, WEFT_BOOT_SYNC, &read);
    int status = WEFT_OK;
    if (brings_value(read.kind))
        status = get_value(&cursor, ranks, &value_read);
    if (brings_set(read.kind))
        set_read = weft_boot_get_set(&cursor, ranks);
    if (status == WEFT_OK && (cursor.failed || cursor.left))
        status = malformed("wave");
    if (status != WEFT_OK) {
        weft_boot_value_free(value_read);
        return status;
    }
    *head = read;
    *value = value_read;
    *set = set_read;
    return WEFT_OK;
}

void weft_boot_echo_put(struct weft_boot_writer *writer, const struct weft_boot_echo *echo, int ranks)
{
    put_head(writer, &echo->head);
    weft_boot_put(writer, (uint64_t)(echo->tainted != 0), 2);
    weft_boot_put(writer, (uint64_t)(echo->accepted != NULL), 2);
    weft_boot_put(writer, echo->flags, 8);
    weft_boot_put_bytes(writer, echo->set, weft_boot_set_bytes(ranks));
    if (echo->accepted) {
        weft_boot_put(writer, echo->ballot.rank, 4);
        weft_boot_put(writer, echo->ballot.number, 8);
        put_value(writer, echo->accepted, ranks);
    }
}

int weft_boot_echo_get(const void *body, size_t size, int ranks, struct weft_boot_echo *echo)
{
    struct weft_boot_cursor cursor = {.at = body, .left = size};
    struct weft_boot_echo read = {.accepted = NULL};
    get_head(&cursor, ranks, WEFT_BOOT_COLLECT, WEFT_BOOT_SYNC, &read.head);
    uint64_t tainted = weft_boot_get(&cursor, 2), accepted = weft_boot_get(&cursor, 2);
    read.tainted = tainted != 0;
    read.flags = weft_boot_get(&cursor, 8);
    read.set = weft_boot_get_set(&cursor, ranks);
    int status = WEFT_OK;
    if (accepted) {
        read.ballot.rank = (uint32_t)weft_boot_get(&cursor, 4);
        read.ballot.number = weft_boot_get(&cursor, 8);
        status = get_value(&cursor, ranks, &read.accepted);
    }
    if (status == WEFT_OK &&
        (cursor.failed || cursor.left || tainted > 1 || accepted > 1 || read.ballot.rank >= (uint32_t)ranks))
        status = malformed("echo of a wave");
    if (status != WEFT_OK) {
        weft_boot_value_free(read.accepted);
        return status;
    }
    *echo = read;
    return WEFT_OK;
}
