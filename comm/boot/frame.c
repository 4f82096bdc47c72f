/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/boot/frame.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"

/* A body's buffer starts with so much at most, and doubles as bytes come. */
#define BODY_FIRST ((size_t)64 << 10)
#define FLAG_MORE  1
#define SMALL_MAX  ((size_t)2048)

static const unsigned char magic[4] = {'W', 'E', 'F', 'T'};

size_t weft_boot_body_max(int type)
{
    switch (type) {
    case WEFT_BOOT_CHECKIN:
    case WEFT_BOOT_ACCEPTED:
    case WEFT_BOOT_REFUSED:
    case WEFT_BOOT_WHO:
    case WEFT_BOOT_FAILED:
    case WEFT_BOOT_REVOKED:
    case WEFT_BOOT_ENDING:
    case WEFT_BOOT_GONE:
        return SMALL_MAX;
    case WEFT_BOOT_LATE:
        return 4 + WEFT_BOOT_RANKS_MAX / 8;
    case WEFT_BOOT_WAVE:
    case WEFT_BOOT_ECHO:
    case WEFT_BOOT_NEWS: /* at most two sets and a payload */
        return (size_t)WEFT_BOOT_RANKS_MAX / 4 + SMALL_MAX;
    case WEFT_BOOT_OOB:
        return 12 + WEFT_BOOT_OOB_MAX;
    case WEFT_BOOT_TABLE:
        return (size_t)128 << 20;
    case WEFT_BOOT_CONTRIBUTION:
        return WEFT_BOOT_BLOB_MAX + 8;
    case WEFT_BOOT_RESULT:
        return WEFT_BOOT_RESULT_MAX;
    default:
        return 0;
    }
}

static void store(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t load(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

void weft_boot_frame_seal(struct weft_auth_channel *channel, int type, int more,
                          unsigned char header[WEFT_BOOT_HEADER_BYTES], void *body, size_t size,
                          unsigned char tag[WEFT_TAG_BYTES])
{
    unsigned char none[1] = {0};
    memcpy(header, magic, sizeof magic);
    store(header + 4, WEFT_BOOT_VERSION, 2);
    header[6] = (unsigned char)type;
    header[7] = more ? FLAG_MORE : 0;
    store(header + 8, size, 8);
    weft_auth_seal(channel, header, WEFT_BOOT_HEADER_BYTES, size ? body : none, size, tag);
}

void weft_boot_reader_init(struct weft_boot_reader *reader, uint64_t accepts,
                           const struct weft_auth_channel *channel)
{
    memset(reader, 0, sizeof *reader);
    reader->accepts = accepts;
    reader->channel = *channel;
}

void weft_boot_reader_clear(struct weft_boot_reader *reader)
{
    free(reader->frame.body);
    weft_crypto_wipe(reader, sizeof *reader);
}

/* Judges a complete header. */
static int read_header(struct weft_boot_reader *reader)
{
    const unsigned char *header = reader->header;
    if (memcmp(header, magic, sizeof magic) != 0)
        return weft_fail(WEFT_PROTOCOL, "not a frame of weft");
    int version = (int)load(header + 4, 2);
    int type = header[6];
    uint64_t length = load(header + 8, 8);
    if (type > 63 || !(reader->accepts & WEFT_BOOT_BIT(type)))
        return weft_fail(WEFT_PROTOCOL, "frame of type %d is not expected here", type);
    /* These of any version are read, so that disagreement can be answered in words. */
    if (type != WEFT_BOOT_CHECKIN && type != WEFT_BOOT_REFUSED && version != WEFT_BOOT_VERSION)
        return weft_fail(WEFT_PROTOCOL, "frame of protocol version %d, expected %d", version,
                         WEFT_BOOT_VERSION);
    if (header[7] > (weft_boot_body_max(type) > WEFT_BOOT_PIECE_MAX ? FLAG_MORE : 0))
        return weft_fail(WEFT_PROTOCOL, "frame of type %d with flags 0x%x", type, header[7]);
    size_t before = reader->more ? reader->frame.size : 0;
    if (reader->more && type != reader->frame.type)
        return weft_fail(WEFT_PROTOCOL, "frame of type %d inside one of type %d", type, reader->frame.type);
    if (header[7] && length == 0)
        return weft_fail(WEFT_PROTOCOL, "empty piece of a frame of type %d", type);
    if (length > weft_boot_body_max(type) - before)
        return weft_fail(WEFT_PROTOCOL, "frame of type %d with %llu bytes, at most %zu are allowed", type,
                         (unsigned long long)length + before, weft_boot_body_max(type));
    if (length > WEFT_BOOT_PIECE_MAX) /* nothing vouches for it before its end */
        return weft_fail(WEFT_PROTOCOL, "piece of %llu bytes of a frame of type %d, at most %zu are allowed",
                         (unsigned long long)length, type, WEFT_BOOT_PIECE_MAX);
    reader->more = header[7] != 0;
    reader->piece_at = before;
    reader->frame.type = type;
    reader->frame.version = version;
    reader->frame.size = before + (size_t)length;
    return WEFT_OK;
}

int weft_boot_reader_space(struct weft_boot_reader *reader, void **place, size_t *room)
{
    if (reader->header_have < WEFT_BOOT_HEADER_BYTES) {
        *place = reader->header + reader->header_have;
        *room = WEFT_BOOT_HEADER_BYTES - reader->header_have;
        return WEFT_OK;
    }
    struct weft_boot_frame *frame = &reader->frame;
    if (reader->body_have == frame->size) {
        *place = reader->tag + reader->tag_have;
        *room = sizeof reader->tag - reader->tag_have;
        return WEFT_OK;
    }
    if (reader->body_have == reader->body_capacity) {
        size_t capacity = reader->body_capacity ? 2 * reader->body_capacity : BODY_FIRST;
        if (capacity > frame->size && !reader->more)
            capacity = frame->size;
        unsigned char *grown = realloc(frame->body, capacity);
        if (!grown)
            return weft_fail(WEFT_NOMEM, "no memory for a frame of %zu bytes", frame->size);
        frame->body = grown;
        reader->body_capacity = capacity;
    }
    *place = frame->body + reader->body_have;
    *room = (reader->body_capacity < frame->size ? reader->body_capacity : frame->size) - reader->body_have;
    return WEFT_OK;
}

/* A piece is whole. 1: so is the frame, 0: more pieces follow, or the reason why it is not what was sent. */
static int finish(struct weft_boot_reader *reader)
{
    unsigned char none[1] = {0};
    const struct weft_boot_frame *frame = &reader->frame;
    size_t size = frame->size - reader->piece_at;
    int status = weft_auth_unseal(&reader->channel, reader->header, sizeof reader->header,
                                  size ? frame->body + reader->piece_at : none, size, reader->tag);
    if (status != WEFT_OK)
        return status;
    if (!reader->more)
        return 1;
    reader->header_have = reader->tag_have = 0;
    return 0;
}

int weft_boot_reader_advance(struct weft_boot_reader *reader, size_t size)
{
    if (reader->header_have < WEFT_BOOT_HEADER_BYTES) {
        reader->header_have += size;
        if (reader->header_have < WEFT_BOOT_HEADER_BYTES)
            return 0;
        int status = read_header(reader);
        if (status != WEFT_OK)
            return status;
    } else if (reader->body_have < reader->frame.size) {
        reader->body_have += size;
    } else {
        reader->tag_have += size;
    }
    if (reader->body_have < reader->frame.size || reader->tag_have < sizeof reader->tag)
        return 0;
    return finish(reader);
}

void weft_boot_reader_take(struct weft_boot_reader *reader, struct weft_boot_frame *frame)
{
    *frame = reader->frame;
    memset(&reader->frame, 0, sizeof reader->frame);
    reader->header_have = reader->body_have = reader->body_capacity = reader->tag_have = 0;
    reader->piece_at = 0;
    reader->more = 0;
}

/* Bodies with a secret in them are small: of these no copy is left behind. */
static unsigned char *grow(struct weft_boot_writer *writer, size_t capacity)
{
    if (capacity > 2 * BODY_FIRST || !writer->data)
        return realloc(writer->data, capacity);
    unsigned char *grown = malloc(capacity);
    if (!grown)
        return NULL;
    memcpy(grown, writer->data, writer->size);
    weft_crypto_wipe(writer->data, writer->size);
    free(writer->data);
    return grown;
}

void weft_boot_put_bytes(struct weft_boot_writer *writer, const void *bytes, size_t size)
{
    if (writer->failed || size == 0)
        return;
    if (writer->capacity - writer->size < size) {
        size_t capacity = writer->capacity ? writer->capacity : 256;
        while (capacity - writer->size < size)
            capacity *= 2;
        unsigned char *grown = grow(writer, capacity);
        if (!grown) {
            writer->failed = 1;
            return;
        }
        writer->data = grown;
        writer->capacity = capacity;
    }
    memcpy(writer->data + writer->size, bytes, size);
    writer->size += size;
}

void weft_boot_put(struct weft_boot_writer *writer, uint64_t value, int bytes)
{
    unsigned char raw[8];
    store(raw, value, bytes);
    weft_boot_put_bytes(writer, raw, (size_t)bytes);
}

const unsigned char *weft_boot_get_bytes(struct weft_boot_cursor *cursor, size_t size)
{
    if (cursor->failed || cursor->left < size) {
        cursor->failed = 1;
        return NULL;
    }
    const unsigned char *at = cursor->at;
    cursor->at += size;
    cursor->left -= size;
    return at;
}

uint64_t weft_boot_get(struct weft_boot_cursor *cursor, int bytes)
{
    const unsigned char *at = weft_boot_get_bytes(cursor, (size_t)bytes);
    return at ? load(at, bytes) : 0;
}
