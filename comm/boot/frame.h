/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the bootstrap protocol (docs/bootstrap.md, section 3): writing them, and reading them from bytes.
 *
 * Pure: no descriptor is touched here, every byte is taken as hostile. The reader hands out the place where
 * the next bytes belong, so that callers receive straight into it. Not thread-safe; owners lock.
 */
#ifndef WEFT_COMM_BOOT_FRAME_H
#define WEFT_COMM_BOOT_FRAME_H

#include <stddef.h>
#include <stdint.h>
#include "base/net/auth.h"

#define WEFT_BOOT_VERSION      1
#define WEFT_BOOT_HEADER_BYTES 16
#define WEFT_BOOT_ROUND_START  UINT32_C(0xfffffffe)
#define WEFT_BOOT_RANKS_MAX    (1 << 20)
#define WEFT_BOOT_BLOB_MAX     ((size_t)64 << 20)
#define WEFT_BOOT_OOB_MAX      ((size_t)1024)
#define WEFT_BOOT_PIECE_MAX    ((size_t)256 << 10) /* of a body that is sent in pieces */
#define WEFT_BOOT_RESULT_MAX   ((size_t)1 << 30)

enum weft_boot_type {
    WEFT_BOOT_CHECKIN = 16,
    WEFT_BOOT_ACCEPTED = 17,
    WEFT_BOOT_REFUSED = 18,
    WEFT_BOOT_TABLE = 20,
    WEFT_BOOT_CONTRIBUTION = 32,
    WEFT_BOOT_RESULT = 33,
    WEFT_BOOT_WHO = 34,
    WEFT_BOOT_LATE = 35,
    WEFT_BOOT_FAILED = 48,
    WEFT_BOOT_REVOKED = 49,
    WEFT_BOOT_GOODBYE = 50,
    WEFT_BOOT_HEARTBEAT = 51,
    WEFT_BOOT_OOB = 52,
    WEFT_BOOT_WAVE = 53,
    WEFT_BOOT_ECHO = 54,
    WEFT_BOOT_NEWS = 55,
    WEFT_BOOT_ENDING = 56,
    WEFT_BOOT_GONE = 57,
};

/* Sets of types, for what a reader accepts at one point of the protocol. */
#define WEFT_BOOT_BIT(type) (UINT64_C(1) << (type))
/* What every edge of the overlay carries, and what only edges of the tree do. */
#define WEFT_BOOT_EDGES                                                                                      \
    (WEFT_BOOT_BIT(WEFT_BOOT_FAILED) | WEFT_BOOT_BIT(WEFT_BOOT_REVOKED) | WEFT_BOOT_BIT(WEFT_BOOT_GOODBYE) | \
     WEFT_BOOT_BIT(WEFT_BOOT_HEARTBEAT) | WEFT_BOOT_BIT(WEFT_BOOT_WAVE) | WEFT_BOOT_BIT(WEFT_BOOT_ECHO) |    \
     WEFT_BOOT_BIT(WEFT_BOOT_NEWS) | WEFT_BOOT_BIT(WEFT_BOOT_ENDING) | WEFT_BOOT_BIT(WEFT_BOOT_GONE))
#define WEFT_BOOT_DOWN                                                                                       \
    (WEFT_BOOT_EDGES | WEFT_BOOT_BIT(WEFT_BOOT_RESULT) | WEFT_BOOT_BIT(WEFT_BOOT_LATE) |                     \
     WEFT_BOOT_BIT(WEFT_BOOT_OOB))
#define WEFT_BOOT_UP                                                                                         \
    (WEFT_BOOT_EDGES | WEFT_BOOT_BIT(WEFT_BOOT_CONTRIBUTION) | WEFT_BOOT_BIT(WEFT_BOOT_WHO) |                \
     WEFT_BOOT_BIT(WEFT_BOOT_OOB))

/* Largest body of a type; unknown types have 0. */
size_t weft_boot_body_max(int type);

/* Writes the header of a frame, or of one piece of it (more: another one follows), encrypts the body in place, and makes
 * the tag behind it. Pieces go out in the order of sealing. */
void weft_boot_frame_seal(struct weft_auth_channel *channel, int type, int more,
                          unsigned char header[WEFT_BOOT_HEADER_BYTES], void *body, size_t size,
                          unsigned char tag[WEFT_TAG_BYTES]);

struct weft_boot_frame {
    int type, version;
    unsigned char *body; /* malloc()ed, NULL when empty; owned by whoever took the frame */
    size_t size;
};

struct weft_boot_reader {
    uint64_t accepts; /* types allowed next; the owner changes it between frames */
    unsigned char header[WEFT_BOOT_HEADER_BYTES];
    size_t header_have;
    struct weft_boot_frame frame;
    size_t body_have, body_capacity;
    struct weft_auth_channel channel;
    unsigned char tag[WEFT_TAG_BYTES];
    size_t tag_have;
    size_t piece_at; /* where the piece that is being read begins in the body */
    int more;        /* another piece of the frame follows this one, or the next header is that of one */
};

/* Of what the other end of a handshake seals. */
void weft_boot_reader_init(struct weft_boot_reader *reader, uint64_t accepts,
                           const struct weft_auth_channel *channel);
void weft_boot_reader_clear(struct weft_boot_reader *reader); /* wipes the channel */

/* Where the next bytes belong, and how many fit (at least 1, never beyond the end of the frame). Only while
 * no finished frame waits to be taken. WEFT_NOMEM. */
int weft_boot_reader_space(struct weft_boot_reader *reader, void **place, size_t *room);

/* size bytes (at most the room) have been placed. 1: a frame is complete, 0: more is needed, else
 * WEFT_PROTOCOL with the reason; the reader is then of no further use but to be cleared. */
int weft_boot_reader_advance(struct weft_boot_reader *reader, size_t size);

/* Takes the finished frame, body included, and makes ready for the next. */
void weft_boot_reader_take(struct weft_boot_reader *reader, struct weft_boot_frame *frame);

/* Writing bodies: little-endian into a growing buffer. After a failed allocation `failed` is set and the
 * rest does nothing. data belongs to the owner (free()). */
struct weft_boot_writer {
    unsigned char *data;
    size_t size, capacity;
    int failed;
};
void weft_boot_put(struct weft_boot_writer *writer, uint64_t value, int bytes);
void weft_boot_put_bytes(struct weft_boot_writer *writer, const void *bytes, size_t size);

/* Reading bodies: past the end everything is 0 and `failed` is set. */
struct weft_boot_cursor {
    const unsigned char *at;
    size_t left;
    int failed;
};
uint64_t weft_boot_get(struct weft_boot_cursor *cursor, int bytes);
const unsigned char *weft_boot_get_bytes(struct weft_boot_cursor *cursor, size_t size);

#endif
