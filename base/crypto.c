/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crypto.h"

#include <sodium.h>

#include "base/error.h"

int weft_crypto_init(void)
{
    if (sodium_init() < 0)
        return weft_fail(WEFT_SYSTEM, "libsodium cannot start: no source of randomness?");
    return WEFT_OK;
}

void weft_crypto_random(void *bytes, size_t size)
{
    randombytes_buf(bytes, size);
}

void weft_crypto_hmac(const struct weft_key *key, const struct weft_crypto_part *parts, size_t count,
                      unsigned char mac[WEFT_MAC_BYTES])
{
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init(&state, key->bytes, sizeof key->bytes);
    for (size_t i = 0; i < count; i++)
        crypto_auth_hmacsha256_update(&state, parts[i].data, parts[i].size);
    crypto_auth_hmacsha256_final(&state, mac);
    sodium_memzero(&state, sizeof state);
}

int weft_crypto_equal(const void *a, const void *b, size_t size)
{
    return sodium_memcmp(a, b, size) == 0;
}

void weft_crypto_wipe(void *memory, size_t size)
{
    sodium_memzero(memory, size);
}

static void make_nonce(uint64_t counter, unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES])
{
    for (size_t i = 0; i < crypto_aead_chacha20poly1305_ietf_NPUBBYTES; i++)
        nonce[i] = i < 4 ? 0 : (unsigned char)(counter >> 8 * (i - 4));
}

void weft_crypto_seal(const struct weft_key *key, uint64_t counter, const void *extra, size_t extra_size,
                      void *bytes, size_t size, unsigned char tag[WEFT_TAG_BYTES])
{
    unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
    make_nonce(counter, nonce);
    crypto_aead_chacha20poly1305_ietf_encrypt_detached(bytes, tag, NULL, bytes, size, extra, extra_size, NULL,
                                                       nonce, key->bytes);
}

int weft_crypto_unseal(const struct weft_key *key, uint64_t counter, const void *extra, size_t extra_size,
                       void *bytes, size_t size, const unsigned char tag[WEFT_TAG_BYTES])
{
    unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
    make_nonce(counter, nonce);
    return crypto_aead_chacha20poly1305_ietf_decrypt_detached(bytes, NULL, bytes, size, tag, extra,
                                                              extra_size, nonce, key->bytes) == 0;
}
