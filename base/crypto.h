/* SPDX-License-Identifier: Apache-2.0 */
/* The few cryptographic primitives that weft uses, over libsodium: nothing here is our own cryptography.
 *
 * HMAC-SHA-256 (RFC 2104, FIPS 198-1) proves knowledge of a key and derives others from it; sealing is
 * ChaCha20-Poly1305 with a 96-bit nonce (RFC 8439), made of a 64-bit counter that a key never sees twice.
 * Threads: no shared state after weft_crypto_init(), which may be called from any thread any number of times
 * and comes first. Keys are the callers': weft_crypto_wipe() when they are done.
 */
#ifndef WEFT_BASE_CRYPTO_H
#define WEFT_BASE_CRYPTO_H

#include <stddef.h>
#include <stdint.h>

#define WEFT_KEY_BYTES 32
#define WEFT_MAC_BYTES 32
#define WEFT_TAG_BYTES 16 /* what sealing adds */

struct weft_key {
    unsigned char bytes[WEFT_KEY_BYTES];
};

struct weft_crypto_part {
    const void *data;
    size_t size;
};

/* WEFT_SYSTEM when the library cannot start (no randomness). */
int weft_crypto_init(void);

/* Random bytes of cryptographic quality. */
void weft_crypto_random(void *bytes, size_t size);

/* HMAC over the parts in order. Callers separate parts of variable length themselves (fixed sizes, or a
 * length in front), and begin with a label that is used nowhere else. */
void weft_crypto_hmac(const struct weft_key *key, const struct weft_crypto_part *parts, size_t count,
                      unsigned char mac[WEFT_MAC_BYTES]);

/* Compares in constant time: 1 when equal. */
int weft_crypto_equal(const void *a, const void *b, size_t size);

/* Overwrites, also where a compiler would see no use in it. */
void weft_crypto_wipe(void *memory, size_t size);

/* Encrypts size bytes in place and writes the tag, which also covers extra. */
void weft_crypto_seal(const struct weft_key *key, uint64_t counter, const void *extra, size_t extra_size,
                      void *bytes, size_t size, unsigned char tag[WEFT_TAG_BYTES]);

/* Decrypts in place what weft_crypto_seal() made with the same key, counter and extra: 1, or 0 when tag and
 * bytes do not belong together; the bytes are then of no use. */
int weft_crypto_unseal(const struct weft_key *key, uint64_t counter, const void *extra, size_t extra_size,
                       void *bytes, size_t size, const unsigned char tag[WEFT_TAG_BYTES]);

#endif
