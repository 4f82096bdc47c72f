/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (reads and writes bytes) */
/* Reading sealed frames, whole and in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "comm/boot/boot.h"

#define ALL_TYPES UINT64_MAX

/* Feeds bytes in pieces of at most step. Returns the last answer of the reader; *frames counts the finished.
 */
static int feed(struct weft_boot_reader *reader, const unsigned char *bytes, size_t size, size_t step,
                int *frames)
{
    int status = 0;
    *frames = 0;
    while (size > 0 && status >= 0) {
        void *place;
        size_t room;
        assert_int_equal(weft_boot_reader_space(reader, &place, &room), WEFT_OK);
        assert_true(room > 0);
        size_t piece = room < step ? room : step;
        piece = piece < size ? piece : size;
        memcpy(place, bytes, piece);
        bytes += piece;
        size -= piece;
        status = weft_boot_reader_advance(reader, piece);
        if (status == 1) {
            struct weft_boot_frame frame;
            weft_boot_reader_take(reader, &frame);
            free(frame.body);
            ++*frames;
        }
    }
    return status;
}

static void start(struct weft_boot_reader *reader, uint64_t accepts)
{
    static const struct weft_auth_channel channel = {.key = {{7}}};
    weft_boot_reader_init(reader, accepts, &channel);
}

static void write_header(unsigned char header[WEFT_BOOT_HEADER_BYTES], int type, uint64_t length)
{
    static const unsigned char begin[] = {'W', 'E', 'F', 'T', 1, 0};
    memcpy(header, begin, sizeof begin);
    header[6] = (unsigned char)type;
    header[7] = 0;
    for (int i = 0; i < 8; i++)
        header[8 + i] = (unsigned char)(length >> 8 * i);
}

/* 0: it is taken, and what follows is waited for. */
static int feed_header(const unsigned char *header, uint64_t accepts)
{
    struct weft_boot_reader reader;
    int frames;
    start(&reader, accepts);
    int status = feed(&reader, header, WEFT_BOOT_HEADER_BYTES, 64, &frames);
    weft_boot_reader_clear(&reader);
    return status;
}

static void test_header_layout(void **state)
{
    (void)state;
    unsigned char header[WEFT_BOOT_HEADER_BYTES], expected[WEFT_BOOT_HEADER_BYTES], body[300],
        tag[WEFT_TAG_BYTES];
    struct weft_auth_channel sender = {.key = {{7}}};
    assert_int_equal(weft_crypto_init(), 0);
    memset(body, 0, sizeof body);
    weft_boot_frame_seal(&sender, WEFT_BOOT_RESULT, 0, header, body, sizeof body, tag);
    write_header(expected, 33, 300);
    assert_memory_equal(header, expected, sizeof expected);
    weft_boot_frame_seal(&sender, WEFT_BOOT_RESULT, 1, header, body, sizeof body, tag);
    expected[7] = 1;
    assert_memory_equal(header, expected, sizeof expected);
}

static void test_every_field_is_judged(void **state)
{
    (void)state;
    unsigned char good[WEFT_BOOT_HEADER_BYTES], bad[WEFT_BOOT_HEADER_BYTES];
    write_header(good, WEFT_BOOT_GOODBYE, 0);
    assert_int_equal(feed_header(good, ALL_TYPES), 0);
    assert_int_equal(feed_header(good, ALL_TYPES & ~WEFT_BOOT_BIT(WEFT_BOOT_GOODBYE)), WEFT_PROTOCOL);
    static const int judged[] = {0, 1, 2, 3, 4, 5, 7, 8, 12, 15};
    for (size_t i = 0; i < sizeof judged / sizeof *judged; i++) {
        memcpy(bad, good, sizeof bad);
        bad[judged[i]] ^= 0x80;
        assert_int_equal(feed_header(bad, ALL_TYPES), WEFT_PROTOCOL);
    }
    for (int type = 0; type < 256; type++) { /* the limit of each type, and that unknown ones have none */
        write_header(bad, type, (uint64_t)weft_boot_body_max(type) + 1);
        assert_int_equal(feed_header(bad, ALL_TYPES), WEFT_PROTOCOL);
        write_header(bad, type, UINT64_MAX);
        assert_int_equal(feed_header(bad, ALL_TYPES), WEFT_PROTOCOL);
    }
    write_header(bad, WEFT_BOOT_CHECKIN, 10);
    bad[4] = 9; /* a check-in may be of any version */
    assert_int_equal(feed_header(bad, ALL_TYPES), 0);
}

/* A body's buffer does not grow before its bytes come. */
static void test_long_body_grows_as_it_comes(void **state)
{
    (void)state;
    struct weft_boot_reader reader;
    unsigned char header[WEFT_BOOT_HEADER_BYTES];
    int frames;
    void *place;
    size_t room;
    start(&reader, ALL_TYPES);
    write_header(header, WEFT_BOOT_RESULT, WEFT_BOOT_PIECE_MAX);
    assert_int_equal(feed(&reader, header, sizeof header, 100, &frames), 0);
    assert_int_equal(weft_boot_reader_space(&reader, &place, &room), WEFT_OK);
    assert_true(room < WEFT_BOOT_PIECE_MAX);
    weft_boot_reader_clear(&reader);
}

/* Nor does it for a later piece by more than what has come. */
static void test_pieces_grow_as_they_come(void **state)
{
    (void)state;
    enum { BODY = 65536 }; /* as many as the buffer has at first */
    static unsigned char piece[WEFT_BOOT_HEADER_BYTES + BODY + WEFT_TAG_BYTES];
    unsigned char header[WEFT_BOOT_HEADER_BYTES], *body = piece + WEFT_BOOT_HEADER_BYTES;
    write_header(header, WEFT_BOOT_RESULT, WEFT_BOOT_PIECE_MAX);
    for (int pieces = 1; pieces <= 3; pieces++) {
        header[7] = pieces < 3; /* more follow, or it says that it is the last */
        struct weft_auth_channel sender = {.key = {{7}}};
        struct weft_boot_reader reader;
        void *place;
        size_t room;
        int frames;
        start(&reader, ALL_TYPES);
        for (int i = 0; i < pieces; i++) {
            memset(body, 0xee, BODY);
            weft_boot_frame_seal(&sender, WEFT_BOOT_RESULT, 1, piece, body, BODY, body + BODY);
            assert_int_equal(feed(&reader, piece, sizeof piece, sizeof piece, &frames), 0);
        }
        assert_int_equal(feed(&reader, header, sizeof header, sizeof header, &frames), 0);
        assert_int_equal(weft_boot_reader_space(&reader, &place, &room), WEFT_OK);
        assert_in_range(room, 1, pieces * BODY);
        weft_boot_reader_clear(&reader);
    }
}

/* Frames that arrive in pieces of every size; the empty one has a tag too. Every byte of the stream counts, and none opens
 * twice. */
static void test_sealed(void **state)
{
    (void)state;
    enum { BODY = 37, BYTES = 2 * (WEFT_BOOT_HEADER_BYTES + WEFT_TAG_BYTES) + BODY };
    struct weft_auth_channel sender = {.key = {{7}}};
    unsigned char stream[BYTES], *at = stream, *body = at + WEFT_BOOT_HEADER_BYTES;
    struct weft_boot_reader reader;
    int frames;
    assert_int_equal(weft_crypto_init(), 0);
    memset(body, 0xee, BODY);
    weft_boot_frame_seal(&sender, WEFT_BOOT_RESULT, 0, at, body, BODY, body + BODY);
    at = body + BODY + WEFT_TAG_BYTES;
    weft_boot_frame_seal(&sender, WEFT_BOOT_GOODBYE, 0, at, NULL, 0, at + WEFT_BOOT_HEADER_BYTES);
    for (size_t step = 1; step <= BYTES; step++) {
        start(&reader, ALL_TYPES);
        assert_int_equal(feed(&reader, stream, BYTES, step, &frames), 1);
        assert_int_equal(frames, 2);
        assert_int_equal(feed(&reader, stream, BYTES, step, &frames), WEFT_PROTOCOL);
        weft_boot_reader_clear(&reader);
    }
    for (int i = 0; i < BYTES; i++) {
        start(&reader, ALL_TYPES);
        stream[i] ^= 0x10;
        int status = feed(&reader, stream, BYTES, BYTES, &frames);
        stream[i] ^= 0x10;
        assert_true(status == WEFT_PROTOCOL ||
                    status == 0); /* 0: a longer length, for which too little came */
        assert_true(frames < 2);
        weft_boot_reader_clear(&reader);
    }
}

/* One frame of several pieces, sealed each for itself. `bad` spoils the second one. */
enum bad_piece { GOOD_PIECES, OTHER_TYPE, EMPTY_PIECE, SMALL_TYPE };

static int feed_pieces(enum bad_piece bad, size_t step, int *frames)
{
    enum { PIECE = 50, PIECES = 3, ROOM = WEFT_BOOT_HEADER_BYTES + PIECE + WEFT_TAG_BYTES };
    struct weft_auth_channel sender = {.key = {{7}}};
    unsigned char stream[PIECES * ROOM], *at = stream;
    for (int i = 0; i < PIECES; i++) {
        size_t size = bad == EMPTY_PIECE && i == 1 ? 0 : PIECE;
        int type = bad == SMALL_TYPE             ? WEFT_BOOT_FAILED
                   : bad == OTHER_TYPE && i == 1 ? WEFT_BOOT_RESULT
                                                 : WEFT_BOOT_TABLE;
        memset(at + WEFT_BOOT_HEADER_BYTES, 'a' + i, size);
        weft_boot_frame_seal(&sender, type, i < PIECES - 1, at, at + WEFT_BOOT_HEADER_BYTES, size,
                             at + WEFT_BOOT_HEADER_BYTES + size);
        at += WEFT_BOOT_HEADER_BYTES + size + WEFT_TAG_BYTES;
    }
    struct weft_boot_reader reader;
    start(&reader, ALL_TYPES);
    int status = 0;
    *frames = 0;
    for (unsigned char *from = stream; status >= 0 && from < at;) {
        void *place;
        size_t room, size = (size_t)(at - from) < step ? (size_t)(at - from) : step;
        assert_int_equal(weft_boot_reader_space(&reader, &place, &room), WEFT_OK);
        size = size < room ? size : room;
        memcpy(place, from, size);
        from += size;
        status = weft_boot_reader_advance(&reader, size);
        if (status == 1) {
            struct weft_boot_frame frame;
            weft_boot_reader_take(&reader, &frame);
            ++*frames;
            assert_true(frame.type == WEFT_BOOT_TABLE && frame.size == PIECES * PIECE);
            for (size_t i = 0; i < frame.size; i++)
                assert_int_equal(frame.body[i], 'a' + (int)(i / PIECE));
            free(frame.body);
        }
    }
    weft_boot_reader_clear(&reader);
    return status;
}

static void test_pieces_of_a_frame(void **state)
{
    (void)state;
    int frames;
    assert_int_equal(weft_crypto_init(), 0);
    for (size_t step = 1; step < 300; step++) {
        assert_int_equal(feed_pieces(GOOD_PIECES, step, &frames), 1);
        assert_int_equal(frames, 1);
    }
    for (int bad = OTHER_TYPE; bad <= SMALL_TYPE; bad++) {
        assert_int_equal(feed_pieces((enum bad_piece)bad, 1000, &frames), WEFT_PROTOCOL);
        assert_int_equal(frames, 0);
    }
}

/* A header is not vouched for before its tag has come: no piece is longer than senders make them. */
static void test_piece_too_long(void **state)
{
    (void)state;
    unsigned char header[WEFT_BOOT_HEADER_BYTES];
    for (size_t more = 0; more < 2; more++) {
        write_header(header, WEFT_BOOT_RESULT, WEFT_BOOT_PIECE_MAX + more);
        header[7] = 1;
        assert_int_equal(feed_header(header, ALL_TYPES), more ? WEFT_PROTOCOL : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_layout),
        cmocka_unit_test(test_every_field_is_judged),
        cmocka_unit_test(test_long_body_grows_as_it_comes),
        cmocka_unit_test(test_pieces_grow_as_they_come),
        cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_pieces_of_a_frame),
        cmocka_unit_test(test_piece_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
