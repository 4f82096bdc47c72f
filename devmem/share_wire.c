/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/share_wire.h"

#include <string.h>

#include "base/error.h"

enum { VERSION = 1, UUID = 4, NUMBERS = 20, NUMBER_COUNT = 5, NAME = NUMBERS + NUMBER_COUNT * 8 };

static void put_number(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get_number(const uint8_t *at)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

int weft_share_write(const struct weft_share_content *content, struct weft_share *share)
{
    const uint64_t numbers[NUMBER_COUNT] = {content->instance, content->identity, content->address,
                                            content->offset, content->length};
    size_t name_bytes = strlen(content->kind), handle_bytes = content->handle.bytes_used;
    if (handle_bytes > WEFT_DEVICE_HANDLE_MAX || NAME + name_bytes + handle_bytes > WEFT_SHARE_BYTES)
        return weft_fail(WEFT_UNSUPPORTED,
                         "a handle of %zu bytes of the kind '%s' does not fit into a description of %d bytes",
                         handle_bytes, content->kind, WEFT_SHARE_BYTES);
    memset(share, 0, sizeof *share);
    share->bytes[0] = VERSION;
    share->bytes[1] = (uint8_t)name_bytes;
    share->bytes[2] = (uint8_t)handle_bytes;
    memcpy(share->bytes + UUID, content->uuid, sizeof content->uuid);
    for (int i = 0; i < NUMBER_COUNT; i++)
        put_number(share->bytes + NUMBERS + 8 * i, numbers[i]);
    memcpy(share->bytes + NAME, content->kind, name_bytes);
    memcpy(share->bytes + NAME + name_bytes, content->handle.bytes, handle_bytes);
    return WEFT_OK;
}

static int is_past_the_end(uint64_t begin, uint64_t length)
{
    return begin + length < begin;
}

/* NULL when the numbers can be. */
static const char *find_fault(const struct weft_share_content *content)
{
    if (!content->instance)
        return "it names no process";
    if (!content->identity)
        return "its memory has no identity";
    if (!content->length || is_past_the_end(content->address, content->length) ||
        is_past_the_end(content->offset, content->length))
        return "its length is impossible";
    if (!content->address || content->offset > content->address)
        return "its address is impossible";
    if (!content->handle.bytes_used && content->offset)
        return "it has an offset and no handle";
    return NULL;
}

int weft_share_read(const struct weft_share *share, struct weft_share_content *content)
{
    const uint8_t *bytes = share->bytes;
    size_t name_bytes = bytes[1], handle_bytes = bytes[2], used = NAME + name_bytes + handle_bytes;
    if (bytes[0] != VERSION)
        return weft_fail(WEFT_PROTOCOL, "a description of device memory has version %u: expected %d",
                         bytes[0], VERSION);
    if (name_bytes > WEFT_DEVICE_NAME_MAX || handle_bytes > WEFT_DEVICE_HANDLE_MAX ||
        used > WEFT_SHARE_BYTES || bytes[3])
        return weft_fail(WEFT_PROTOCOL,
                         "a description of device memory has a name of %zu and a handle of %zu bytes: "
                         "expected up to %d and %d, which fit",
                         name_bytes, handle_bytes, WEFT_DEVICE_NAME_MAX, WEFT_DEVICE_HANDLE_MAX);
    memset(content, 0, sizeof *content);
    memcpy(content->kind, bytes + NAME, name_bytes);
    memcpy(content->uuid, bytes + UUID, sizeof content->uuid);
    memcpy(content->handle.bytes, bytes + NAME + name_bytes, handle_bytes);
    content->handle.bytes_used = (uint32_t)handle_bytes;
    content->instance = get_number(bytes + NUMBERS);
    content->identity = get_number(bytes + NUMBERS + 8);
    content->address = get_number(bytes + NUMBERS + 16);
    content->offset = get_number(bytes + NUMBERS + 24);
    content->length = get_number(bytes + NUMBERS + 32);
    const char *wrong = find_fault(content);
    if (strlen(content->kind) != name_bytes || !weft_device_name_is_good(content->kind))
        wrong = "its kind has no good name";
    for (; !wrong && used < WEFT_SHARE_BYTES; used++)
        wrong = bytes[used] ? "it has more bytes than it says" : NULL;
    return wrong ? weft_fail(WEFT_PROTOCOL, "a description of device memory cannot be used: %s", wrong)
                 : WEFT_OK;
}
