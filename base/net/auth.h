/* SPDX-License-Identifier: Apache-2.0 */
/* Proving the job's secret, and sealing what follows (docs/bootstrap.md, section 3).
 *
 * The listener speaks first: CHALLENGE carries its fresh nonce. The dialer answers with PROOF: its own nonce, who
 * it claims to be, and an HMAC over both blocks. The listener verifies that HMAC before it looks at any field,
 * and proves itself by WELCOME, an HMAC over the transcript. Both derive one key per direction from secret and
 * transcript; every frame from then on is sealed under its direction's key and counter.
 *
 * Pure: bytes in, bytes out, no descriptor is touched. Threads: no shared state; a channel belongs to its owner.
 * weft_auth_job_key() must have succeeded once before anything else here is used. Keys are wiped by their owners
 * (weft_crypto_wipe() on the struct).
 */
#ifndef WEFT_BASE_NET_AUTH_H
#define WEFT_BASE_NET_AUTH_H

#include <stddef.h>
#include <stdint.h>
#include "base/crypto.h"
#include "base/secret.h"

/* The blocks of a handshake never change their size. */
#define WEFT_AUTH_CHALLENGE_BYTES 40
#define WEFT_AUTH_PROOF_BYTES     120
#define WEFT_AUTH_WELCOME_BYTES   40

/* What a connection is for. */
enum weft_auth_purpose {
    WEFT_AUTH_CHECKIN = 1, /* rank to rank 0 */
    WEFT_AUTH_EDGE = 2,    /* neighbour to a higher neighbour of the overlay */
};

/* What the dialer says, bound by its proof. */
struct weft_auth_claims {
    int purpose;
    uint32_t rank, peer; /* who dials, and whom it means to reach */
    uint32_t ranks, generation;
    uint64_t name_hash, nonce,
        session; /* of the communicator, the record (0 none), the job (0 not known yet) */
};

/* One direction of a connection. */
struct weft_auth_channel {
    struct weft_key key;
    uint64_t counter; /* of the next frame */
};

struct weft_auth_session {
    struct weft_auth_channel send, receive;
};

/* WEFT_INVALID when size is out of range; WEFT_SYSTEM. */
int weft_auth_job_key(const void *secret, size_t size, struct weft_key *job);

/* The key of one communicator, which is made from the job's and from what rank 0 has drawn for it; under it the secrets of
 * further communicators of its ranks. */
void weft_auth_group_key(const struct weft_key *job, uint64_t session, uint64_t name_hash,
                         struct weft_key *group);
void weft_auth_group_secret(const struct weft_key *group, const void *purpose, size_t size,
                            unsigned char secret[WEFT_MAC_BYTES]);

/* Listener: a fresh challenge. */
void weft_auth_challenge(unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES]);

/* Dialer: answers a challenge. WEFT_PROTOCOL when the challenge is not one that we know. The session may be used
 * for sending at once; nothing received counts before the WELCOME. */
int weft_auth_prove(const struct weft_key *job, const unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES],
                    const struct weft_auth_claims *claims, unsigned char proof[WEFT_AUTH_PROOF_BYTES],
                    struct weft_auth_session *session);

/* Listener: verifies a proof. WEFT_PROTOCOL when it is none. What the claims mean is for the caller to judge,
 * before it sends the WELCOME. */
int weft_auth_verify(const struct weft_key *job, const unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES],
                     const unsigned char proof[WEFT_AUTH_PROOF_BYTES], struct weft_auth_claims *claims,
                     struct weft_auth_session *session, unsigned char welcome[WEFT_AUTH_WELCOME_BYTES]);

/* Dialer: WEFT_PROTOCOL when the listener does not know the secret. */
int weft_auth_welcomed(const struct weft_key *job, const unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES],
                       const unsigned char proof[WEFT_AUTH_PROOF_BYTES],
                       const unsigned char welcome[WEFT_AUTH_WELCOME_BYTES]);

/* Encrypts a body in place; the tag also covers the header. Counts the channel on. */
void weft_auth_seal(struct weft_auth_channel *channel, const void *header, size_t header_size, void *body,
                    size_t size, unsigned char tag[WEFT_TAG_BYTES]);

/* Decrypts what the other end's weft_auth_seal() made next. WEFT_PROTOCOL: changed, replayed, reflected, out of
 * order, or cut; the channel is then of no further use. */
int weft_auth_unseal(struct weft_auth_channel *channel, const void *header, size_t header_size, void *body,
                     size_t size, const unsigned char tag[WEFT_TAG_BYTES]);

#endif
