/* SPDX-License-Identifier: Apache-2.0 */
/* The dialing side of handshakes on sockets (docs/bootstrap.md, section 3): base/net/accept.h has the other.
 *
 * A dial is a state machine over a non-blocking socket. Threads: one at a time per object, any thread.
 */
#ifndef WEFT_BASE_NET_DIAL_H
#define WEFT_BASE_NET_DIAL_H

#include "base/net/address.h"
#include "base/net/auth.h"

enum weft_net_dial_state {
    WEFT_NET_DIAL_IDLE,
    WEFT_NET_DIAL_CONNECTING, /* poll for POLLOUT */
    WEFT_NET_DIAL_CHALLENGED, /* connected, waits for the challenge: poll for POLLIN, as below */
    WEFT_NET_DIAL_PROVING,    /* the connection has not taken all of PROOF: poll for POLLOUT */
    WEFT_NET_DIAL_PROVEN,     /* PROOF is sent: session.send may be used already, behind it */
    WEFT_NET_DIAL_WELCOMED,   /* done: fd and session are the caller's to take, and it sets fd to -1 */
};

struct weft_net_dial {
    const struct weft_key *job; /* the caller's */
    struct weft_net_address address;
    struct weft_auth_claims claims;
    enum weft_net_dial_state state;
    int fd; /* -1 none */
    struct weft_auth_session session;
    size_t have;
    unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES];
    unsigned char proof[WEFT_AUTH_PROOF_BYTES];
    unsigned char welcome[WEFT_AUTH_WELCOME_BYTES];
    /* weft_net_dial_all() only. */
    int status;
    char reason[160];
    int64_t again_ns;
    int pause_ms;
};

/* Begins to connect. Closes nothing of before. */
int weft_net_dial_start(struct weft_net_dial *dial, const struct weft_key *job,
                        const struct weft_net_address *address, const struct weft_auth_claims *claims);
/* The events of poll() to wait for on dial->fd. */
short weft_net_dial_events(const struct weft_net_dial *dial);
/* Goes on after such an event; at most one state further per call. Negative: it failed, fd is closed, and the
 * state says how far it came. WEFT_PEER_FAILED in state PROVEN may mean that this rank has another secret. */
int weft_net_dial_step(struct weft_net_dial *dial);
/* Closes fd, if any, and wipes the keys. */
void weft_net_dial_stop(struct weft_net_dial *dial);

/* Carries all dials that have been started on to WELCOMED, or until the deadline. One that was dropped between
 * connecting and WELCOME, as happens to the oldest of too many, is started again. status and reason of each say
 * how it ended. check (NULL allowed) is asked now and then: its error ends all, as does WEFT_NOMEM. */
int weft_net_dial_all(struct weft_net_dial *dials, int count, int64_t deadline_ns, int (*check)(void *arg),
                      void *arg);

#endif
