/* SPDX-License-Identifier: Apache-2.0 */
/* The proof of the key, as bytes in and bytes out. wire.h has the blocks.
 *
 * Each instance has a key of its own, which is part of its address and so known to whom the bootstrap has given
 * it. Dialer and listener prove it by HMACs under different labels over both nonces and both identities: a proof
 * is of no use a second time, at another instance, or sent back to where it came from. Frames that follow carry no
 * MAC: they pass between two sockets that the kernel has joined, into which only those could write who could as
 * well write these processes' memory.
 */
#include <string.h>
#include "transport/shm/shm_private.h"

static const char dialer_label[16] = "weft shm dials 2";
static const char listener_label[16] = "weft shm hears 2";

void shm_challenge_make(struct shm_challenge *challenge)
{
    *challenge = (struct shm_challenge){.magic = SHM_CHALLENGE_MAGIC, .version = SHM_VERSION};
    weft_crypto_random(challenge->nonce, sizeof challenge->nonce);
}

static void dialer_mac(const struct weft_key *key, const struct shm_challenge *challenge,
                       const struct shm_identity *target, const struct shm_proof *proof,
                       unsigned char mac[WEFT_MAC_BYTES])
{
    const struct weft_crypto_part parts[] = {
        {dialer_label, sizeof dialer_label},
        {challenge, sizeof *challenge},
        {target, sizeof *target},
        {proof, offsetof(struct shm_proof, mac)},
    };
    weft_crypto_hmac(key, parts, sizeof parts / sizeof *parts, mac);
}

static void listener_mac(const struct weft_key *key, const struct shm_challenge *challenge,
                         const struct shm_identity *target, const struct shm_proof *proof,
                         unsigned char mac[WEFT_MAC_BYTES])
{
    const struct weft_crypto_part parts[] = {
        {listener_label, sizeof listener_label},
        {challenge, sizeof *challenge},
        {target, sizeof *target},
        {proof, sizeof *proof},
    };
    weft_crypto_hmac(key, parts, sizeof parts / sizeof *parts, mac);
}

void shm_proof_make(const struct weft_key *key, const struct shm_challenge *challenge,
                    const struct shm_identity *source, const struct shm_identity *target,
                    struct shm_proof *proof)
{
    memset(proof, 0, sizeof *proof);
    weft_crypto_random(proof->nonce, sizeof proof->nonce);
    proof->source = *source;
    dialer_mac(key, challenge, target, proof, proof->mac);
}

int shm_proof_check(const struct weft_key *key, const struct shm_challenge *challenge,
                    const struct shm_identity *target, const struct shm_proof *proof,
                    struct shm_welcome *welcome)
{
    unsigned char mac[WEFT_MAC_BYTES];
    dialer_mac(key, challenge, target, proof, mac);
    if (!weft_crypto_equal(mac, proof->mac, sizeof mac))
        return 0;
    listener_mac(key, challenge, target, proof, welcome->mac);
    return 1;
}

int shm_welcome_check(const struct weft_key *key, const struct shm_challenge *challenge,
                      const struct shm_identity *target, const struct shm_proof *proof,
                      const struct shm_welcome *welcome)
{
    unsigned char mac[WEFT_MAC_BYTES];
    listener_mac(key, challenge, target, proof, mac);
    return weft_crypto_equal(mac, welcome->mac, sizeof mac);
}
