/* SPDX-License-Identifier: Apache-2.0 */
/* Weft's own messages between two ranks of a communicator: short, apart from the program's, and with room of their own
 * (comm/p2p/p2p.h). A rank that waits for one looks through what has come; what nobody takes or drops stays.
 *
 * Neither call ends the communicator when its time is over. Any thread; the context's lock is not held.
 */
#ifndef WEFT_COMM_CORE_OOB_H
#define WEFT_COMM_CORE_OOB_H

#include "comm/core/comm.h"

/* At most WEFT_P2P_OOB_MAX bytes, to another rank. WEFT_TIMEOUT, without a text: the link had no room, or the peer has
 * left so many lying that there is no credit. Tries at least once. */
int weft_oob_send(struct weft_comm *comm, const void *bytes, size_t size, int peer, int64_t tag,
                  int64_t deadline_ns);

/* Until look(), which is called under the context's lock, returns other than 0: it has found what it wants.
 * WEFT_TIMEOUT, without a text. Looks at least once. */
int weft_oob_await(struct weft_comm *comm, int (*look)(struct weft_comm *comm, void *arg), void *arg,
                   int64_t deadline_ns);

#endif
