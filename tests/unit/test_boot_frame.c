/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (reads and writes bytes) */
/* Reading frames, whole, in pieces and sealed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "comm/boot.h"

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

static int feed_header(const unsigned char *header, uint64_t accepts)
{
    struct weft_boot_reader reader;
    int frames;
    weft_boot_reader_init(&reader, accepts);
    int status = feed(&reader, header, WEFT_BOOT_HEADER_BYTES, 64, &frames);
    weft_boot_reader_clear(&reader);
    return status;
}

static void test_header_layout(void **state)
{
    (void)state;
    unsigned char header[WEFT_BOOT_HEADER_BYTES];
    static const unsigned char expected[] = {'W',  'E',  'F',  'T',  1, 0, 50, 0, 0x88, 0x77, 0x66, 0x55,
                                             0x44, 0x33, 0x22, 0x11, 4, 3, 2,  1, 0,    0,    0,    0};
    weft_boot_header_write(header, WEFT_BOOT_GOODBYE, UINT64_C(0x1122334455667788), 0x01020304);
    assert_memory_equal(header, expected, sizeof expected);
}

static void test_every_field_is_judged(void **state)
{
    (void)state;
    unsigned char good[WEFT_BOOT_HEADER_BYTES], bad[WEFT_BOOT_HEADER_BYTES];
    weft_boot_header_write(good, WEFT_BOOT_GOODBYE, 0, 7);
    assert_int_equal(feed_header(good, ALL_TYPES), 1);
    assert_int_equal(feed_header(good, ALL_TYPES & ~WEFT_BOOT_BIT(WEFT_BOOT_GOODBYE)), WEFT_PROTOCOL);
    static const int judged[] = {0, 1, 2, 3, 4, 5, 7, 8, 12, 15, 20, 23};
    for (size_t i = 0; i < sizeof judged / sizeof *judged; i++) {
        memcpy(bad, good, sizeof bad);
        bad[judged[i]] ^= 0x80;
        assert_int_equal(feed_header(bad, ALL_TYPES), WEFT_PROTOCOL);
    }
    for (int type = 0; type < 256; type++) { /* the limit of each type, and that unknown ones have none */
        uint64_t most = weft_boot_body_max(type);
        weft_boot_header_write(bad, type, most + 1, 7);
        assert_int_equal(feed_header(bad, ALL_TYPES), WEFT_PROTOCOL);
        weft_boot_header_write(bad, type, UINT64_MAX, 7);
        assert_int_equal(feed_header(bad, ALL_TYPES), WEFT_PROTOCOL);
    }
    weft_boot_header_write(bad, WEFT_BOOT_CHECKIN, 10, 7);
    bad[4] = 9; /* a check-in may be of any version */
    assert_int_equal(feed_header(bad, ALL_TYPES), 0);
}

static void test_pieces_and_sequence_wrap(void **state)
{
    (void)state;
    enum { FRAMES = 40, BODY = 100 };
    static const size_t steps[] = {1, 3, 23, 24, 25, 1000};
    unsigned char stream[FRAMES * (WEFT_BOOT_HEADER_BYTES + BODY)];
    memset(stream, 0xee, sizeof stream);
    for (uint32_t i = 0; i < FRAMES; i++) /* wraps in the middle */
        weft_boot_header_write(stream + i * (WEFT_BOOT_HEADER_BYTES + BODY), WEFT_BOOT_RESULT, BODY,
                               WEFT_BOOT_SEQUENCE_START + i);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct weft_boot_reader reader;
        int frames;
        weft_boot_reader_init(&reader, ALL_TYPES);
        assert_int_equal(feed(&reader, stream, sizeof stream, steps[i], &frames), 1);
        assert_int_equal(frames, FRAMES);
        /* The same frames again do not continue the sequence. */
        assert_int_equal(feed(&reader, stream, sizeof stream, steps[i], &frames), WEFT_PROTOCOL);
        weft_boot_reader_clear(&reader);
    }
}

static void test_long_body_grows_as_it_comes(void **state)
{
    (void)state;
    struct weft_boot_reader reader;
    unsigned char header[WEFT_BOOT_HEADER_BYTES];
    int frames;
    void *place;
    size_t room;
    weft_boot_reader_init(&reader, ALL_TYPES);
    weft_boot_header_write(header, WEFT_BOOT_RESULT, WEFT_BOOT_RESULT_MAX, 1);
    assert_int_equal(feed(&reader, header, sizeof header, 100, &frames), 0);
    assert_int_equal(weft_boot_reader_space(&reader, &place, &room), WEFT_OK);
    assert_true(room <= 1 << 20); /* and not a gigabyte because somebody says so */
    weft_boot_reader_clear(&reader);
}

/* Sealed frames in pieces of every size; the empty one has a trailer too. Every byte of the stream counts. */
static void test_sealed(void **state)
{
    (void)state;
    enum { BODY = 37, BYTES = 2 * (WEFT_BOOT_HEADER_BYTES + WEFT_TAG_BYTES) + BODY };
    struct weft_auth_channel sender = {.key = {{7}}}, channel = sender;
    unsigned char stream[BYTES], *at = stream, *body = at + WEFT_BOOT_HEADER_BYTES;
    int frames;
    assert_int_equal(weft_crypto_init(), 0);
    memset(body, 0xee, BODY);
    weft_boot_frame_seal(&sender, WEFT_BOOT_RESULT, 4, at, body, BODY, body + BODY);
    at = body + BODY + WEFT_TAG_BYTES;
    weft_boot_frame_seal(&sender, WEFT_BOOT_GOODBYE, 5, at, NULL, 0, at + WEFT_BOOT_HEADER_BYTES);
    for (size_t step = 1; step <= BYTES; step++) {
        struct weft_boot_reader reader;
        weft_boot_reader_init(&reader, ALL_TYPES);
        weft_boot_reader_unseal(&reader, &channel);
        assert_int_equal(feed(&reader, stream, BYTES, step, &frames), 1);
        assert_int_equal(frames, 2);
        weft_boot_reader_clear(&reader);
    }
    for (int i = 0; i < BYTES; i++) {
        struct weft_boot_reader reader;
        weft_boot_reader_init(&reader, ALL_TYPES);
        weft_boot_reader_unseal(&reader, &channel);
        stream[i] ^= 0x10;
        int status = feed(&reader, stream, BYTES, BYTES, &frames);
        stream[i] ^= 0x10;
        assert_true(status == WEFT_PROTOCOL ||
                    status == 0); /* 0: a longer length, for which too little came */
        assert_true(frames < 2);
        weft_boot_reader_clear(&reader);
    }
    struct weft_boot_reader plain;
    weft_boot_reader_init(&plain, ALL_TYPES);
    assert_int_equal(feed(&plain, stream, BYTES, BYTES, &frames), WEFT_PROTOCOL);
    weft_boot_reader_clear(&plain);
}

/* One frame of several pieces, sealed each for itself. `bad` spoils the second one. */
enum bad_piece { GOOD_PIECES, OTHER_TYPE, EMPTY_PIECE, SMALL_TYPE };

static int feed_pieces(enum bad_piece bad, size_t step, int *frames)
{
    enum { PIECE = 50, PIECES = 3, ROOM = WEFT_BOOT_HEADER_BYTES + PIECE + WEFT_TAG_BYTES };
    struct weft_auth_channel sender = {.key = {{9}}}, channel = sender;
    unsigned char stream[PIECES * ROOM], *at = stream;
    for (int i = 0; i < PIECES; i++) {
        size_t size = bad == EMPTY_PIECE && i == 1 ? 0 : PIECE;
        int type = bad == SMALL_TYPE             ? WEFT_BOOT_FAILED
                   : bad == OTHER_TYPE && i == 1 ? WEFT_BOOT_RESULT
                                                 : WEFT_BOOT_TABLE;
        memset(at + WEFT_BOOT_HEADER_BYTES, 'a' + i, size);
        weft_boot_piece_seal(&sender, type, i < PIECES - 1, 4 + (uint32_t)i, at, at + WEFT_BOOT_HEADER_BYTES,
                             size, at + WEFT_BOOT_HEADER_BYTES + size);
        at += WEFT_BOOT_HEADER_BYTES + size + WEFT_TAG_BYTES;
    }
    struct weft_boot_reader reader;
    weft_boot_reader_init(&reader, ALL_TYPES);
    weft_boot_reader_unseal(&reader, &channel);
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

/* A header is not vouched for before its tag has come: no sealed piece is longer than senders make them. */
static void test_piece_too_long(void **state)
{
    (void)state;
    static unsigned char body[WEFT_BOOT_PIECE_MAX + 1];
    unsigned char header[WEFT_BOOT_HEADER_BYTES], tag[WEFT_TAG_BYTES];
    assert_int_equal(weft_crypto_init(), 0);
    for (size_t size = WEFT_BOOT_PIECE_MAX; size <= sizeof body; size++) {
        struct weft_auth_channel sender = {.key = {{9}}};
        struct weft_boot_reader reader;
        void *place;
        size_t room;
        weft_boot_reader_init(&reader, ALL_TYPES);
        weft_boot_reader_unseal(&reader, &sender);
        weft_boot_piece_seal(&sender, WEFT_BOOT_RESULT, 1, 4, header, body, size, tag);
        assert_int_equal(weft_boot_reader_space(&reader, &place, &room), WEFT_OK);
        assert_int_equal(room, sizeof header);
        memcpy(place, header, sizeof header);
        assert_int_equal(weft_boot_reader_advance(&reader, sizeof header),
                         size > WEFT_BOOT_PIECE_MAX ? WEFT_PROTOCOL : 0);
        weft_boot_reader_clear(&reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_layout),
        cmocka_unit_test(test_every_field_is_judged),
        cmocka_unit_test(test_pieces_and_sequence_wrap),
        cmocka_unit_test(test_long_body_grows_as_it_comes),
        cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_pieces_of_a_frame),
        cmocka_unit_test(test_piece_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
