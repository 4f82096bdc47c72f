/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: bytes of strangers, into everything that reads them: the blocks of a handshake, at both ends, and the
 * reader of sealed frames.
 *
 * The first byte chooses. Nothing that is made without the key may pass: where the key is fresh, success is a finding.
 * The reader's key is fixed, so that a corpus can hold frames that open; the second byte is the size of pieces.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "comm/boot/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int good)
{
    if (!good)
        __builtin_trap();
}

static struct weft_key fresh;

/* A block of exactly its size, so that the address sanitizer sees a read beyond. */
static unsigned char *block_of(const uint8_t *data, size_t size, size_t wanted)
{
    unsigned char *block = calloc(1, wanted);
    if (block && size)
        memcpy(block, data, size < wanted ? size : wanted);
    return block;
}

static void at_listener(const uint8_t *data, size_t size)
{
    unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES], welcome[WEFT_AUTH_WELCOME_BYTES];
    struct weft_auth_claims claims;
    struct weft_auth_session session;
    unsigned char *proof = block_of(data, size, WEFT_AUTH_PROOF_BYTES);
    if (!proof)
        return;
    weft_auth_challenge(challenge);
    check(weft_auth_verify(&fresh, challenge, proof, &claims, &session, welcome) != 0);
    free(proof);
}

static void at_dialer(const uint8_t *data, size_t size)
{
    const struct weft_auth_claims claims = {.purpose = WEFT_AUTH_CHECKIN};
    struct weft_auth_session session;
    unsigned char proof[WEFT_AUTH_PROOF_BYTES];
    unsigned char *challenge = block_of(data, size, WEFT_AUTH_CHALLENGE_BYTES);
    size_t used = size < WEFT_AUTH_CHALLENGE_BYTES ? size : WEFT_AUTH_CHALLENGE_BYTES;
    unsigned char *welcome = block_of(data + used, size - used, WEFT_AUTH_WELCOME_BYTES);
    if (challenge && welcome && weft_auth_prove(&fresh, challenge, &claims, proof, &session) == 0)
        check(weft_auth_welcomed(&fresh, challenge, proof, welcome) != 0);
    free(challenge);
    free(welcome);
}

static void read_frames(const uint8_t *data, size_t size, size_t piece_max)
{
    const struct weft_auth_channel channel = {.key = {{7}}};
    struct weft_boot_reader reader;
    int status = 0;
    weft_boot_reader_init(&reader, UINT64_MAX, &channel);
    while (size > 0 && status >= 0) {
        void *place;
        size_t room;
        if (weft_boot_reader_space(&reader, &place, &room) != 0)
            break;
        check(room > 0);
        size_t piece = room < piece_max ? room : piece_max;
        piece = piece < size ? piece : size;
        memcpy(place, data, piece);
        data += piece;
        size -= piece;
        status = weft_boot_reader_advance(&reader, piece);
        if (status == 1) {
            struct weft_boot_frame frame;
            weft_boot_reader_take(&reader, &frame);
            check(frame.size <= weft_boot_body_max(frame.type));
            free(frame.body);
        }
    }
    weft_boot_reader_clear(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int started;
    if (!started++) {
        check(weft_crypto_init() == 0);
        weft_crypto_random(&fresh, sizeof fresh);
    }
    if (size < 2)
        return 0;
    if (data[0] % 3 == 0)
        at_listener(data + 2, size - 2);
    else if (data[0] % 3 == 1)
        at_dialer(data + 2, size - 2);
    else
        read_frames(data + 2, size - 2, (size_t)data[1] + 1);
    return 0;
}
