/* SPDX-License-Identifier: Apache-2.0 */
/* The listening side of handshakes on sockets, many at once on one listener (docs/bootstrap.md, section 3).
 *
 * It is a state machine over non-blocking sockets; nobody waits inside. What has not proven the job's
 * secret gets a fixed-size buffer and one of a bounded number of places, and not one of its bytes is
 * looked at before the HMAC over all of them is right.
 *
 * Threads: one at a time per object, any thread.
 */
#ifndef WEFT_BASE_NET_ACCEPT_H
#define WEFT_BASE_NET_ACCEPT_H

#include "base/net/auth.h"

/* A connection whose other end knows the secret. The receiver owns fd; it judges the claims, then either closes
 * fd (weft_fd_close()) or calls weft_net_welcome(). Frames follow in both directions, sealed under the session. */
struct weft_net_proven {
    int fd;
    struct weft_auth_claims claims;
    struct weft_auth_session session;
    unsigned char welcome[WEFT_AUTH_WELCOME_BYTES];
};

struct weft_net_accept;

/* Serves listener, which stays the caller's and must outlive this. expected: how many honest connections may be
 * in flight at once: they get room beyond the places of strangers, which are a quarter of the descriptors that this
 * process may have, and at most 1,024. who is listening, for the log; job is copied. *strangers counts the connections that were dropped because they did
 * not prove the secret: the first is logged as a warning, the others for debugging. WEFT_NOMEM, WEFT_SYSTEM. */
int weft_net_accept_open(const char *who, int listener, const struct weft_key *job, int expected,
                         unsigned *strangers, struct weft_net_accept **accept);

/* Becomes readable whenever weft_net_accept_step() has something to do. */
int weft_net_accept_fd(const struct weft_net_accept *accept);

/* Does what can be done now without waiting. 1: *proven was filled, call again; 0: nothing more for now;
 * WEFT_SYSTEM: nobody can be accepted for now, as when descriptors have run out. */
int weft_net_accept_step(struct weft_net_accept *accept, struct weft_net_proven *proven);

/* Drops those who have not proven anything. NULL is allowed. */
void weft_net_accept_close(struct weft_net_accept *accept);

/* Sends the WELCOME, which ends the handshake. WEFT_PEER_FAILED. */
int weft_net_welcome(const struct weft_net_proven *proven);

#endif
