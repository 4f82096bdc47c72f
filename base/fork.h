/* SPDX-License-Identifier: Apache-2.0 */
/* What a forked child must not keep, and must not do.
 *
 * A child made by fork() has copies of all descriptors. As long as it lives, copies of sockets keep
 * connections open whose owner has died, and copies of eventfds and epoll sets can disturb the parent. So
 * every descriptor that keeps a connection or a wake-up alive is made known (base/fd.h), and a handler of
 * pthread_atfork() closes them in the child and marks it, for public calls to answer WEFT_INVALID: the threads
 * that its memory speaks of do not exist there. A child that calls exec is safe anyway (CLOEXEC). A process that
 * forks while nothing of weft is open has children that may use weft like any other process.
 *
 * Out of reach are the descriptors that libfabric makes, a descriptor in the instant between the system call
 * that makes it and its weft_fd_add(), and children of vfork(), _Fork() and bare clone(), which run no
 * handlers: they must exec or exit.
 *
 * Threads: any. The handler takes no lock, so that a fork at any instant, also in a signal handler, is safe.
 */
#ifndef WEFT_BASE_FORK_H
#define WEFT_BASE_FORK_H

#include <stdatomic.h>

/* Has the handler registered, and in_child called by it: before the first descriptor is made known. in_child returns whether anything of weft's
 * was open, and is async-signal-safe. Always the same function. 0, or an errno value. */
int weft_fork_register(int (*in_child)(void));

extern atomic_int weft_fork_child;

/* Whether this is a child forked while something of weft was open. */
static inline int weft_fork_is_child(void)
{
    return __builtin_expect(atomic_load_explicit(&weft_fork_child, memory_order_relaxed), 0);
}

/* WEFT_INVALID with the reason: what public calls answer there. */
int weft_fork_refuse(void);

#endif
