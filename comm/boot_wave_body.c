/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of WAVE, ECHO, DECIDED, AGREED and LEFT (docs/bootstrap.md, section 3). */
#include <stdlib.h>
#include <string.h>
#include "base/crypto.h"
#include "base/error.h"
#include "comm/boot_wave.h"

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

/* A set's last byte has no bits beyond the ranks. */
static const unsigned char *get_set(struct weft_boot_cursor *cursor, int ranks)
{
    size_t size = weft_boot_set_bytes(ranks);
    const unsigned char *set = weft_boot_get_bytes(cursor, size);
    if (set && ranks % 8 && set[size - 1] >> ranks % 8)
        cursor->failed = 1;
    return cursor->failed ? NULL : set;
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
    const unsigned char *dead = get_set(cursor, ranks);
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

static void get_head(struct weft_boot_cursor *cursor, int ranks, struct weft_boot_wave_head *head)
{
    head->initiator = (uint32_t)weft_boot_get(cursor, 4);
    uint32_t kind = (uint32_t)weft_boot_get(cursor, 4);
    head->number = weft_boot_get(cursor, 8);
    head->instance = (uint32_t)weft_boot_get(cursor, 4);
    head->kind = (int)(kind & 7);
    if (head->initiator >= (uint32_t)ranks || kind < WEFT_BOOT_COLLECT || kind > WEFT_BOOT_SYNC)
        cursor->failed = 1;
}

void weft_boot_wave_put(struct weft_boot_writer *writer, const struct weft_boot_wave_head *head,
                        const struct weft_boot_value *value, const unsigned char *set, int ranks)
{
    put_head(writer, head);
    if (head->kind == WEFT_BOOT_PROPOSE)
        put_value(writer, value, ranks);
    if (head->kind == WEFT_BOOT_SYNC)
        weft_boot_put_bytes(writer, set, weft_boot_set_bytes(ranks));
}

int weft_boot_wave_get(const void *body, size_t size, int ranks, struct weft_boot_wave_head *head,
                       struct weft_boot_value **value, const unsigned char **set)
{
    struct weft_boot_cursor cursor = {.at = body, .left = size};
    struct weft_boot_wave_head read;
    struct weft_boot_value *value_read = NULL;
    const unsigned char *set_read = NULL;
    get_head(&cursor, ranks, &read);
    int status = WEFT_OK;
    if (read.kind == WEFT_BOOT_PROPOSE)
        status = get_value(&cursor, ranks, &value_read);
    if (read.kind == WEFT_BOOT_SYNC)
        set_read = get_set(&cursor, ranks);
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
    get_head(&cursor, ranks, &read.head);
    uint64_t tainted = weft_boot_get(&cursor, 2), accepted = weft_boot_get(&cursor, 2);
    read.tainted = tainted != 0;
    read.flags = weft_boot_get(&cursor, 8);
    read.set = get_set(&cursor, ranks);
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

void weft_boot_decided_put(struct weft_boot_writer *writer, uint32_t instance,
                           const struct weft_boot_value *value, int ranks)
{
    weft_boot_put(writer, instance, 4);
    put_value(writer, value, ranks);
}

int weft_boot_decided_get(const void *body, size_t size, int ranks, uint32_t *instance,
                          struct weft_boot_value **value)
{
    struct weft_boot_cursor cursor = {.at = body, .left = size};
    struct weft_boot_value *value_read = NULL;
    uint32_t read = (uint32_t)weft_boot_get(&cursor, 4);
    int status = get_value(&cursor, ranks, &value_read);
    if (status == WEFT_OK && (cursor.failed || cursor.left))
        status = malformed("decision");
    if (status != WEFT_OK) {
        weft_boot_value_free(value_read);
        return status;
    }
    *instance = read;
    *value = value_read;
    return WEFT_OK;
}

int weft_boot_set_get(const void *body, size_t size, int ranks, const unsigned char **set)
{
    struct weft_boot_cursor cursor = {.at = body, .left = size};
    const unsigned char *read = get_set(&cursor, ranks);
    if (!read || cursor.left)
        return malformed("set of ranks");
    *set = read;
    return WEFT_OK;
}

int weft_boot_left_get(const void *body, size_t size, int ranks, int *rank)
{
    struct weft_boot_cursor cursor = {.at = body, .left = size};
    uint32_t read = (uint32_t)weft_boot_get(&cursor, 4);
    if (cursor.failed || cursor.left || read >= (uint32_t)ranks)
        return malformed("notice of a rank that left");
    *rank = (int)read;
    return WEFT_OK;
}
