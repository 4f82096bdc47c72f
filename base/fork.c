/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fork.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/error.h"

atomic_int weft_fork_child;

static atomic_int registered;
static int (*_Atomic drop_all)(void);

/* In the child, where this is the only thread; async-signal-safe. */
static void after_fork(void)
{
    int error = errno;
    if (atomic_load(&drop_all)())
        atomic_store(&weft_fork_child, 1);
    errno = error;
}

/* Not by pthread_once(), which would make a moment without memory last for ever. Two threads at a time may register
 * the handler twice: it finds nothing left to do the second time. */
int weft_fork_register(int (*in_child)(void))
{
    if (atomic_load(&registered))
        return 0;
    atomic_store(&drop_all, in_child);
    int error = pthread_atfork(NULL, NULL, after_fork);
    if (!error)
        atomic_store(&registered, 1);
    return error;
}

int weft_fork_refuse(void)
{
    return weft_fail(WEFT_INVALID,
                     "process %d was forked while weft was in use and cannot call it: use weft in the "
                     "parent, or exec first",
                     (int)getpid());
}
