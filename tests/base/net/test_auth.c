/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (computes) */
/* The handshake's blocks and sealed frames, with everything that an attacker on the wire could do to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/net/auth.h"
#include <weft/status.h>

#define HEADER 24
#define BODY   50

struct pair {
    struct weft_key job;
    unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES], proof[WEFT_AUTH_PROOF_BYTES];
    unsigned char welcome[WEFT_AUTH_WELCOME_BYTES];
    struct weft_auth_claims claims;
    struct weft_auth_session dialer, listener;
};

static const char secret[] = "a secret of more than sixteen bytes";
static const struct weft_auth_claims all_different = {.purpose = WEFT_AUTH_EDGE,
                                                      .rank = 0x01020304,
                                                      .peer = 0x11121314,
                                                      .ranks = 0x21222324,
                                                      .generation = 0x31323334,
                                                      .name_hash = UINT64_C(0x4142434445464748),
                                                      .nonce = UINT64_C(0x5152535455565758),
                                                      .session = UINT64_C(0x6162636465666768)};

static void shake_hands(struct pair *pair)
{
    memset(pair, 0, sizeof *pair);
    assert_int_equal(weft_auth_job_key(secret, sizeof secret, &pair->job), 0);
    weft_auth_challenge(pair->challenge);
    assert_int_equal(weft_auth_prove(&pair->job, pair->challenge, &all_different, pair->proof, &pair->dialer),
                     0);
    assert_int_equal(weft_auth_verify(&pair->job, pair->challenge, pair->proof, &pair->claims,
                                      &pair->listener, pair->welcome),
                     0);
    assert_int_equal(weft_auth_welcomed(&pair->job, pair->challenge, pair->proof, pair->welcome), 0);
}

static int verifies(const struct weft_key *job, const unsigned char *challenge, const unsigned char *proof)
{
    struct weft_auth_claims claims;
    struct weft_auth_session session;
    unsigned char welcome[WEFT_AUTH_WELCOME_BYTES];
    return weft_auth_verify(job, challenge, proof, &claims, &session, welcome) == 0;
}

/* A frame with every byte different from its neighbour's. */
struct frame {
    unsigned char header[HEADER], body[BODY], tag[WEFT_TAG_BYTES];
};

static void seal(struct weft_auth_channel *channel, int number, struct frame *frame)
{
    for (int i = 0; i < HEADER; i++)
        frame->header[i] = (unsigned char)(i + number);
    for (int i = 0; i < BODY; i++)
        frame->body[i] = (unsigned char)(100 + i + number);
    weft_auth_seal(channel, frame->header, HEADER, frame->body, BODY, frame->tag);
}

/* Unseals a copy with a copy of the channel, so that one attempt does not spoil the next. */
static int opens_cut(const struct weft_auth_channel *channel, const struct frame *frame, size_t size)
{
    struct weft_auth_channel trial = *channel;
    struct frame copy = *frame;
    return weft_auth_unseal(&trial, copy.header, HEADER, copy.body, size, copy.tag) == 0;
}

static int opens(const struct weft_auth_channel *channel, const struct frame *frame)
{
    return opens_cut(channel, frame, BODY);
}

static void test_both_agree(void **state)
{
    (void)state;
    struct pair pair;
    shake_hands(&pair);
    assert_int_equal(pair.claims.purpose, all_different.purpose);
    assert_int_equal(pair.claims.rank, all_different.rank);
    assert_int_equal(pair.claims.peer, all_different.peer);
    assert_int_equal(pair.claims.ranks, all_different.ranks);
    assert_int_equal(pair.claims.generation, all_different.generation);
    assert_true(pair.claims.name_hash == all_different.name_hash);
    assert_true(pair.claims.nonce == all_different.nonce);
    assert_true(pair.claims.session == all_different.session);
    assert_memory_equal(&pair.dialer.send, &pair.listener.receive, sizeof pair.dialer.send);
    assert_memory_equal(&pair.dialer.receive, &pair.listener.send, sizeof pair.dialer.send);
    assert_memory_not_equal(&pair.dialer.send, &pair.dialer.receive, sizeof pair.dialer.send);
    for (int i = 0; i < 3; i++) {
        struct frame frame, plain;
        seal(&pair.dialer.send, i, &frame);
        assert_int_equal(
            weft_auth_unseal(&pair.listener.receive, frame.header, HEADER, frame.body, BODY, frame.tag), 0);
        for (int k = 0; k < BODY; k++)
            plain.body[k] = (unsigned char)(100 + k + i);
        assert_memory_equal(frame.body, plain.body, BODY);
    }
}

static void test_secret_sizes(void **state)
{
    (void)state;
    static unsigned char long_secret[WEFT_SECRET_MAX + 1];
    struct weft_key a, b;
    assert_int_equal(weft_auth_job_key(long_secret, WEFT_SECRET_MIN - 1, &a), WEFT_INVALID);
    assert_int_equal(weft_auth_job_key(long_secret, WEFT_SECRET_MAX + 1, &a), WEFT_INVALID);
    assert_int_equal(weft_auth_job_key(NULL, 32, &a), WEFT_INVALID);
    assert_int_equal(weft_auth_job_key(long_secret, WEFT_SECRET_MIN, &a), 0);
    assert_int_equal(weft_auth_job_key(long_secret, WEFT_SECRET_MAX, &b), 0);
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_int_equal(weft_auth_job_key(long_secret, WEFT_SECRET_MIN + 1, &b), 0);
    assert_memory_not_equal(&a, &b, sizeof a);
}

/* Another secret for every job, session, name and purpose, and none of them the key it comes from. */
static void test_group_secrets(void **state)
{
    (void)state;
    struct weft_key job = {{1}}, other_job = {{2}}, groups[4], again;
    unsigned char secrets[6][WEFT_MAC_BYTES];
    weft_auth_group_key(&job, 7, 8, &groups[0]);
    weft_auth_group_key(&job, 8, 7, &groups[1]);
    weft_auth_group_key(&job, 7, 9, &groups[2]);
    weft_auth_group_key(&other_job, 7, 8, &groups[3]);
    weft_auth_group_key(&job, 7, 8, &again);
    assert_memory_equal(&groups[0], &again, sizeof again);
    for (int i = 0; i < 4; i++)
        weft_auth_group_secret(&groups[i], "purpose", 7, secrets[i]);
    weft_auth_group_secret(&again, "purposf", 7, secrets[4]);
    weft_auth_group_secret(&again, "purpose", 6, secrets[5]);
    for (int i = 0; i < 6; i++) {
        assert_memory_not_equal(secrets[i], &groups[0], WEFT_MAC_BYTES);
        assert_memory_not_equal(secrets[i], &job, WEFT_MAC_BYTES);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(secrets[i], secrets[k], WEFT_MAC_BYTES);
    }
    weft_auth_group_secret(&again, "purpose", 7, secrets[4]);
    assert_memory_equal(secrets[0], secrets[4], WEFT_MAC_BYTES);
}

static void test_wrong_secret(void **state)
{
    (void)state;
    struct pair pair;
    shake_hands(&pair);
    for (size_t at = 0; at < sizeof secret; at++) {
        char other[sizeof secret];
        struct weft_key job;
        memcpy(other, secret, sizeof secret);
        other[at] ^= 1;
        assert_int_equal(weft_auth_job_key(other, sizeof other, &job), 0);
        assert_false(verifies(&job, pair.challenge, pair.proof));
        assert_int_equal(weft_auth_welcomed(&job, pair.challenge, pair.proof, pair.welcome), WEFT_PROTOCOL);
    }
}

/* Each bit of each block, at each side that reads it. */
static void test_each_bit(void **state)
{
    (void)state;
    struct pair pair;
    shake_hands(&pair);
    for (size_t bit = 0; bit < 8 * sizeof pair.challenge; bit++) {
        unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES], proof[WEFT_AUTH_PROOF_BYTES];
        struct weft_auth_session session;
        memcpy(challenge, pair.challenge, sizeof challenge);
        challenge[bit / 8] ^= (unsigned char)(1u << bit % 8);
        /* The dialer sees another challenge than was sent: its proof is worth nothing to the listener. */
        if (weft_auth_prove(&pair.job, challenge, &all_different, proof, &session) == 0)
            assert_false(verifies(&pair.job, pair.challenge, proof));
        else
            assert_true(bit < 64);
        assert_false(verifies(&pair.job, challenge, pair.proof));
        assert_int_not_equal(weft_auth_welcomed(&pair.job, challenge, pair.proof, pair.welcome), 0);
    }
    for (size_t bit = 0; bit < 8 * sizeof pair.proof; bit++) {
        unsigned char proof[WEFT_AUTH_PROOF_BYTES];
        memcpy(proof, pair.proof, sizeof proof);
        proof[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_false(verifies(&pair.job, pair.challenge, proof));
        assert_int_not_equal(weft_auth_welcomed(&pair.job, pair.challenge, proof, pair.welcome), 0);
    }
    for (size_t bit = 0; bit < 8 * sizeof pair.welcome; bit++) {
        unsigned char welcome[WEFT_AUTH_WELCOME_BYTES];
        memcpy(welcome, pair.welcome, sizeof welcome);
        welcome[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_not_equal(weft_auth_welcomed(&pair.job, pair.challenge, pair.proof, welcome), 0);
    }
}

/* A handshake recorded on one connection, or turned round on its own, fails on every other. */
static void test_blocks_replayed(void **state)
{
    (void)state;
    struct pair pair, other;
    shake_hands(&pair);
    shake_hands(&other);
    assert_memory_not_equal(pair.challenge, other.challenge, sizeof pair.challenge);
    assert_false(verifies(&other.job, other.challenge, pair.proof));
    assert_int_not_equal(weft_auth_welcomed(&other.job, other.challenge, other.proof, pair.welcome), 0);
    assert_memory_not_equal(&pair.dialer, &other.dialer, sizeof pair.dialer);
    /* The same challenge again, as from a listener that lies: the dialer's own nonce makes another session. */
    unsigned char proof[WEFT_AUTH_PROOF_BYTES];
    struct weft_auth_session session;
    assert_int_equal(weft_auth_prove(&pair.job, pair.challenge, &all_different, proof, &session), 0);
    assert_memory_not_equal(proof, pair.proof, sizeof proof);
    assert_memory_not_equal(&session.send.key, &pair.dialer.send.key, sizeof session.send.key);
    /* The dialer's own blocks sent back. */
    assert_int_not_equal(weft_auth_welcomed(&pair.job, pair.challenge, pair.proof, pair.proof), 0);
    assert_int_not_equal(
        weft_auth_welcomed(&pair.job, pair.challenge, pair.proof, pair.proof + sizeof pair.proof - 40), 0);
    assert_int_not_equal(weft_auth_welcomed(&pair.job, pair.challenge, pair.proof, pair.challenge), 0);
    assert_int_not_equal(weft_auth_prove(&pair.job, pair.proof, &all_different, proof, &session), 0);
}

static void test_frames_each_bit(void **state)
{
    (void)state;
    struct pair pair;
    struct frame frame;
    shake_hands(&pair);
    seal(&pair.dialer.send, 0, &frame);
    assert_true(opens(&pair.listener.receive, &frame));
    for (size_t bit = 0; bit < 8 * sizeof frame; bit++) {
        struct frame wrong = frame;
        ((unsigned char *)&wrong)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_false(opens(&pair.listener.receive, &wrong));
    }
    for (size_t size = 0; size < BODY; size++)
        assert_false(opens_cut(&pair.listener.receive, &frame, size));
}

static void test_frames_moved(void **state)
{
    (void)state;
    struct pair pair, other;
    struct frame first, second, reply;
    shake_hands(&pair);
    shake_hands(&other);
    struct weft_auth_channel receive = pair.listener.receive;
    seal(&pair.dialer.send, 0, &first);
    seal(&pair.dialer.send, 0, &second);
    assert_memory_not_equal(first.body, second.body, BODY); /* the same plaintext, another counter */
    assert_false(opens(&receive, &second));                 /* out of order, or one left out */
    assert_false(opens(&pair.dialer.receive, &first));      /* sent back to whom it came from */
    assert_false(opens(&other.listener.receive, &first));   /* on another connection */
    struct frame copy = first;
    assert_int_equal(weft_auth_unseal(&receive, copy.header, HEADER, copy.body, BODY, copy.tag), 0);
    assert_false(opens(&receive, &first)); /* again */
    assert_true(opens(&receive, &second));
    seal(&pair.listener.send, 0, &reply);
    assert_false(opens(&receive, &reply));
    assert_true(opens(&pair.dialer.receive, &reply));
}

/* A frame without a body still carries its tag. */
static void test_empty_frame(void **state)
{
    (void)state;
    struct pair pair;
    struct frame frame = {{0}, {0}, {0}};
    shake_hands(&pair);
    weft_auth_seal(&pair.dialer.send, frame.header, HEADER, frame.body, 0, frame.tag);
    struct weft_auth_channel receive = pair.listener.receive;
    frame.header[6] ^= 1;
    assert_int_equal(weft_auth_unseal(&receive, frame.header, HEADER, frame.body, 0, frame.tag),
                     WEFT_PROTOCOL);
    frame.header[6] ^= 1;
    assert_int_equal(weft_auth_unseal(&receive, frame.header, HEADER, frame.body, 0, frame.tag), 0);
    assert_int_equal(weft_auth_unseal(&receive, frame.header, HEADER, frame.body, 0, frame.tag),
                     WEFT_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_agree),      cmocka_unit_test(test_secret_sizes),
        cmocka_unit_test(test_group_secrets),   cmocka_unit_test(test_wrong_secret),
        cmocka_unit_test(test_each_bit),        cmocka_unit_test(test_blocks_replayed),
        cmocka_unit_test(test_frames_each_bit), cmocka_unit_test(test_frames_moved),
        cmocka_unit_test(test_empty_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
