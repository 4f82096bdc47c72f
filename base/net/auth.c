/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake's blocks, little-endian. A prefix of 8 bytes begins each: "WEFT", u16 version of the handshake,
 * u8 type of the block (1, 2, 3: the first of the numbers reserved for this among frame types), u8 zero.
 *
 *   CHALLENGE  prefix, 32 bytes nonce
 *   PROOF      prefix, 32 bytes nonce, 48 bytes claims, 32 bytes HMAC
 *   WELCOME    prefix, 32 bytes HMAC
 *
 * All HMACs are HMAC-SHA-256 under the job key, itself an HMAC of the secret under a public key (the extraction
 * step of RFC 5869). What is authenticated begins with a label of fixed size that says what for, so that no value
 * made for one purpose can serve another; a proof sent back as a welcome, for instance, is worth nothing. The
 * session keys are HMACs over both nonces and the claims, so no two connections ever share one, and frames recorded
 * on one fail on every other.
 */
#include "base/net/auth.h"

#include <string.h>
#include "base/error.h"

#define VERSION     1
#define PREFIX      8
#define NONCE_BYTES 32
#define CLAIMS_AT   (PREFIX + NONCE_BYTES)
#define PROOF_SPAN  (WEFT_AUTH_PROOF_BYTES - WEFT_MAC_BYTES) /* of a proof, without its HMAC */
#define LABEL_BYTES 32

enum { TYPE_CHALLENGE = 1, TYPE_PROOF = 2, TYPE_WELCOME = 3 };

static const char label_job[LABEL_BYTES] = "weft 1 job key";
static const char label_group[LABEL_BYTES] = "weft 1 group key";
static const char label_secret[LABEL_BYTES] = "weft 1 secret of a group";
static const char label_proof[LABEL_BYTES] = "weft 1 proof";
static const char label_welcome[LABEL_BYTES] = "weft 1 welcome";
static const char label_to_listener[LABEL_BYTES] = "weft 1 key dialer to listener";
static const char label_to_dialer[LABEL_BYTES] = "weft 1 key listener to dialer";

static void write_prefix(unsigned char *block, int type)
{
    memcpy(block, "WEFT", 4);
    block[4] = VERSION;
    block[5] = 0;
    block[6] = (unsigned char)type;
    block[7] = 0;
}

static int has_prefix(const unsigned char *block, int type)
{
    unsigned char expected[PREFIX];
    write_prefix(expected, type);
    return memcmp(block, expected, sizeof expected) == 0;
}

static unsigned char *store(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> 8 * i);
    return at + bytes;
}

static uint64_t load(const unsigned char **at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)(*at)[i] << 8 * i;
    *at += bytes;
    return value;
}

static void write_claims(unsigned char *at, const struct weft_auth_claims *claims)
{
    at = store(at, (uint64_t)claims->purpose, 4);
    at = store(at, claims->rank, 4);
    at = store(at, claims->peer, 4);
    at = store(at, claims->ranks, 4);
    at = store(at, claims->generation, 4);
    at = store(at, 0, 4);
    at = store(at, claims->name_hash, 8);
    at = store(at, claims->nonce, 8);
    store(at, claims->session, 8);
}

static void read_claims(const unsigned char *at, struct weft_auth_claims *claims)
{
    claims->purpose = (int)(load(&at, 4) & 0xff);
    claims->rank = (uint32_t)load(&at, 4);
    claims->peer = (uint32_t)load(&at, 4);
    claims->ranks = (uint32_t)load(&at, 4);
    claims->generation = (uint32_t)load(&at, 4);
    load(&at, 4);
    claims->name_hash = load(&at, 8);
    claims->nonce = load(&at, 8);
    claims->session = load(&at, 8);
}

/* HMAC under the job key over a label, the challenge, and the beginning of the proof. */
static void mac_over(const struct weft_key *job, const char label[LABEL_BYTES],
                     const unsigned char *challenge, const unsigned char *proof, size_t proof_size,
                     unsigned char mac[WEFT_MAC_BYTES])
{
    const struct weft_crypto_part parts[] = {
        {label, LABEL_BYTES}, {challenge, WEFT_AUTH_CHALLENGE_BYTES}, {proof, proof_size}};
    weft_crypto_hmac(job, parts, sizeof parts / sizeof *parts, mac);
}

static void derive(const struct weft_key *job, const char label[LABEL_BYTES], const unsigned char *challenge,
                   const unsigned char *proof, struct weft_auth_channel *channel)
{
    mac_over(job, label, challenge, proof, WEFT_AUTH_PROOF_BYTES, channel->key.bytes);
    channel->counter = 0;
}

int weft_auth_job_key(const void *secret, size_t size, struct weft_key *job)
{
    static const struct weft_key extraction = {{0}};
    if (!secret || size < WEFT_SECRET_MIN || size > WEFT_SECRET_MAX)
        return weft_fail(WEFT_INVALID, "the secret has %zu bytes: expected %d to %d", secret ? size : 0,
                         WEFT_SECRET_MIN, WEFT_SECRET_MAX);
    int status = weft_crypto_init();
    if (status != WEFT_OK)
        return status;
    const struct weft_crypto_part parts[] = {{label_job, sizeof label_job}, {secret, size}};
    weft_crypto_hmac(&extraction, parts, 2, job->bytes);
    return WEFT_OK;
}

void weft_auth_group_key(const struct weft_key *job, uint64_t session, uint64_t name_hash,
                         struct weft_key *group)
{
    unsigned char numbers[16];
    store(store(numbers, session, 8), name_hash, 8);
    const struct weft_crypto_part parts[] = {{label_group, sizeof label_group}, {numbers, sizeof numbers}};
    weft_crypto_hmac(job, parts, 2, group->bytes);
}

void weft_auth_group_secret(const struct weft_key *group, const void *purpose, size_t size,
                            unsigned char secret[WEFT_MAC_BYTES])
{
    const struct weft_crypto_part parts[] = {{label_secret, sizeof label_secret}, {purpose, size}};
    weft_crypto_hmac(group, parts, 2, secret);
}

void weft_auth_challenge(unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES])
{
    write_prefix(challenge, TYPE_CHALLENGE);
    weft_crypto_random(challenge + PREFIX, NONCE_BYTES);
}

int weft_auth_prove(const struct weft_key *job, const unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES],
                    const struct weft_auth_claims *claims, unsigned char proof[WEFT_AUTH_PROOF_BYTES],
                    struct weft_auth_session *session)
{
    if (!has_prefix(challenge, TYPE_CHALLENGE))
        return weft_fail(WEFT_PROTOCOL, "what listens there does not begin a handshake of weft, version %d",
                         VERSION);
    write_prefix(proof, TYPE_PROOF);
    weft_crypto_random(proof + PREFIX, NONCE_BYTES);
    write_claims(proof + CLAIMS_AT, claims);
    mac_over(job, label_proof, challenge, proof, PROOF_SPAN, proof + PROOF_SPAN);
    derive(job, label_to_listener, challenge, proof, &session->send);
    derive(job, label_to_dialer, challenge, proof, &session->receive);
    return WEFT_OK;
}

int weft_auth_verify(const struct weft_key *job, const unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES],
                     const unsigned char proof[WEFT_AUTH_PROOF_BYTES], struct weft_auth_claims *claims,
                     struct weft_auth_session *session, unsigned char welcome[WEFT_AUTH_WELCOME_BYTES])
{
    unsigned char expected[WEFT_MAC_BYTES];
    mac_over(job, label_proof, challenge, proof, PROOF_SPAN, expected);
    int good = weft_crypto_equal(expected, proof + PROOF_SPAN, sizeof expected);
    weft_crypto_wipe(expected, sizeof expected);
    if (!good)
        return weft_fail(WEFT_PROTOCOL, "it does not prove the job's secret");
    if (!has_prefix(proof, TYPE_PROOF))
        return weft_fail(WEFT_PROTOCOL, "it knows the secret, but speaks another version of the handshake");
    read_claims(proof + CLAIMS_AT, claims);
    derive(job, label_to_listener, challenge, proof, &session->receive);
    derive(job, label_to_dialer, challenge, proof, &session->send);
    write_prefix(welcome, TYPE_WELCOME);
    mac_over(job, label_welcome, challenge, proof, WEFT_AUTH_PROOF_BYTES, welcome + PREFIX);
    return WEFT_OK;
}

int weft_auth_welcomed(const struct weft_key *job, const unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES],
                       const unsigned char proof[WEFT_AUTH_PROOF_BYTES],
                       const unsigned char welcome[WEFT_AUTH_WELCOME_BYTES])
{
    unsigned char expected[WEFT_AUTH_WELCOME_BYTES];
    write_prefix(expected, TYPE_WELCOME);
    mac_over(job, label_welcome, challenge, proof, WEFT_AUTH_PROOF_BYTES, expected + PREFIX);
    if (!weft_crypto_equal(expected, welcome, sizeof expected))
        return weft_fail(WEFT_PROTOCOL, "what listens there does not prove the job's secret");
    return WEFT_OK;
}

void weft_auth_seal(struct weft_auth_channel *channel, const void *header, size_t header_size, void *body,
                    size_t size, unsigned char tag[WEFT_TAG_BYTES])
{
    weft_crypto_seal(&channel->key, channel->counter++, header, header_size, body, size, tag);
}

int weft_auth_unseal(struct weft_auth_channel *channel, const void *header, size_t header_size, void *body,
                     size_t size, const unsigned char tag[WEFT_TAG_BYTES])
{
    if (!weft_crypto_unseal(&channel->key, channel->counter, header, header_size, body, size, tag))
        return weft_fail(WEFT_PROTOCOL, "frame %llu of the connection is not what its sender sealed",
                         (unsigned long long)channel->counter);
    channel->counter++;
    return WEFT_OK;
}
