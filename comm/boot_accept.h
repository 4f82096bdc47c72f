/* SPDX-License-Identifier: Apache-2.0 */
/* Handshakes on sockets: many at once on one listener, and many dials at once (docs/bootstrap.md, section 3).
 *
 * Both sides are state machines over non-blocking sockets; nobody waits inside. What has not proven the job's
 * secret gets a fixed-size buffer, a deadline and one of a bounded number of places, and not one of its bytes is
 * looked at before the HMAC over all of them is right.
 *
 * Threads: one at a time per object, any thread.
 */
#ifndef WEFT_COMM_BOOT_ACCEPT_H
#define WEFT_COMM_BOOT_ACCEPT_H

#include "comm/auth.h"
#include "comm/boot_body.h"

/* --- listening */

/* Connections that were dropped because they did not prove the secret; one per bootstrap, shared by its listeners
 * (one thread at a time). The first is logged as a warning, the others for debugging. */
struct weft_boot_strangers {
    unsigned count;
};

/* A connection whose other end knows the secret. The receiver owns fd; it judges the claims, then either closes
 * fd (weft_fd_close()) or calls weft_boot_welcome(). Frames follow in both directions, sealed under the session. */
struct weft_boot_proven {
    int fd;
    struct weft_auth_claims claims;
    struct weft_auth_session session;
    unsigned char welcome[WEFT_AUTH_WELCOME_BYTES];
};

struct weft_boot_accept;

/* Serves listener, which stays the caller's and must outlive this. expected: how many honest connections may be
 * under way at once: they get room beyond the places of strangers, which are a quarter of the descriptors that this
 * process may have, and at most 1,024. job is copied. WEFT_NOMEM, WEFT_SYSTEM. */
int weft_boot_accept_open(int listener, const struct weft_key *job, int expected,
                          struct weft_boot_strangers *strangers, struct weft_boot_accept **accept);

/* Becomes readable whenever weft_boot_accept_step() has something to do, deadlines included. */
int weft_boot_accept_fd(const struct weft_boot_accept *accept);

/* Does what can be done now without waiting. 1: *proven was filled, call again; 0: nothing more for now;
 * WEFT_SYSTEM: nobody can be accepted for now, as when descriptors have run out. */
int weft_boot_accept_step(struct weft_boot_accept *accept, struct weft_boot_proven *proven);

/* In place of close, which takes some 50 us for each stranger: nothing is served any more, the listener may go, and
 * strangers stay connected until they are swept out, `most` at a time. sweep answers how many are left. */
void weft_boot_accept_stop(struct weft_boot_accept *accept);
int weft_boot_accept_sweep(struct weft_boot_accept *accept, int most);

/* Drops those who have not proven anything. NULL is allowed. */
void weft_boot_accept_close(struct weft_boot_accept *accept);

/* Sends the WELCOME, which ends the handshake. WEFT_PEER_FAILED. */
int weft_boot_welcome(const struct weft_boot_proven *proven);

/* --- dialing */

enum weft_boot_dial_state {
    WEFT_BOOT_DIAL_IDLE,
    WEFT_BOOT_DIAL_CONNECTING, /* poll for POLLOUT */
    WEFT_BOOT_DIAL_CHALLENGED, /* connected, waits for the challenge: poll for POLLIN, as below */
    WEFT_BOOT_DIAL_PROVEN,     /* PROOF is sent: session.send may be used already, behind it */
    WEFT_BOOT_DIAL_WELCOMED,   /* done: fd and session are the caller's to take, and it sets fd to -1 */
};

struct weft_boot_dial {
    const struct weft_key *job; /* the caller's */
    struct weft_boot_address address;
    struct weft_auth_claims claims;
    enum weft_boot_dial_state state;
    int fd; /* -1 none */
    struct weft_auth_session session;
    size_t have;
    unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES];
    unsigned char proof[WEFT_AUTH_PROOF_BYTES];
    unsigned char welcome[WEFT_AUTH_WELCOME_BYTES];
    /* weft_boot_dial_all() only. */
    int status;
    char reason[160];
    int64_t again_ns;
    int pause_ms;
};

/* Begins to connect. Closes nothing of before. */
int weft_boot_dial_start(struct weft_boot_dial *dial, const struct weft_key *job,
                         const struct weft_boot_address *address, const struct weft_auth_claims *claims);
/* The events of poll() to wait for on dial->fd. */
short weft_boot_dial_events(const struct weft_boot_dial *dial);
/* Goes on after such an event; at most one state further per call. Negative: it failed, fd is closed, and the
 * state tells how far it came. WEFT_PEER_FAILED in state PROVEN may mean that this rank has another secret. */
int weft_boot_dial_step(struct weft_boot_dial *dial);
/* Closes fd, if any, and wipes the keys. */
void weft_boot_dial_stop(struct weft_boot_dial *dial);

/* Carries all dials that have been started on to WELCOMED, or until the deadline. One that was dropped between
 * connecting and WELCOME, as happens to the oldest of too many, is started again. status and reason of each say
 * how it ended. */
void weft_boot_dial_all(struct weft_boot_dial *dials, int count, int64_t deadline_ns);
/* The same for a while: returns how many are still under way, which may be carried on later. */
int weft_boot_dial_until(struct weft_boot_dial *dials, int count, int64_t until_ns);

#endif
