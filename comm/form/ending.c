/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/form/ending.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fork.h"
#include "comm/core/comm.h"
#include "comm/drive/progress.h"
#include <weft/weft.h>

#define PATIENCE_NS INT64_C(1000000000) /* for others that end as well, of all communicators together */
#define LOCK_NS     INT64_C(100000000)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t running =
    PTHREAD_MUTEX_INITIALIZER;                     /* while communicators end: nobody frees one of them */
static struct weft_comm *open_comms, *ended_comms; /* [lock] the others have heard of the end of those */

static void at_end(int status, void *arg)
{
    (void)arg;
    weft_process_end(status);
}

/* The handler must be there when the program ends, even where the library has been unloaded before that. */
static void stay_loaded(void)
{
    Dl_info info;
    if (dladdr((void *)(uintptr_t)&open_comms, &info) && info.dli_fname)
        dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE); /* the reference is kept */
}

static void listen_once(void)
{
    stay_loaded();
    on_exit(at_end, NULL); /* without memory for it an end looks like a death */
}

void weft_ending_add(struct weft_comm *comm)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, listen_once);
    pthread_mutex_lock(&lock);
    comm->next_open = open_comms;
    open_comms = comm;
    pthread_mutex_unlock(&lock);
}

static int take_out(struct weft_comm **at, struct weft_comm *comm)
{
    while (*at && *at != comm)
        at = &(*at)->next_open;
    if (!*at)
        return 0;
    *at = comm->next_open;
    return 1;
}

int weft_ending_remove(struct weft_comm *comm)
{
    pthread_mutex_lock(&lock);
    int is_open = take_out(&open_comms, comm);
    pthread_mutex_unlock(&lock);
    if (is_open)
        return 1;
    pthread_mutex_lock(&running);
    pthread_mutex_lock(&lock);
    take_out(&ended_comms, comm);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&running);
    return 0;
}

static int try_lock(struct weft_context *context)
{
    int64_t until_ns = weft_clock_ns() + LOCK_NS;
    int has_lock;
    atomic_fetch_add(&context->contenders, 1); /* who polls steps aside */
    while (!(has_lock = pthread_mutex_trylock(&context->lock) == 0) && weft_clock_ns() < until_ns)
        nanosleep(&(const struct timespec){.tv_nsec = 10000}, NULL);
    atomic_fetch_sub(&context->contenders, 1);
    return has_lock;
}

/* Whether something of it is in flight, perhaps in another thread: then this one makes no call. */
static int is_in_use(struct weft_comm *comm)
{
    struct weft_exec_op *ops[WEFT_OPS_MAX];
    if (!try_lock(comm->context))
        return 1;
    int in_use = comm->works || comm->stall.waiting || weft_exec_running(comm->exec, ops) || comm->dropped ||
                 atomic_load(&comm->queue.waiting) || comm->is_forming;
    pthread_mutex_unlock(&comm->context->lock);
    return in_use;
}

static void leave(struct weft_comm *comm, int64_t until_ns)
{
    if (is_in_use(comm))
        weft_bootstrap_leave(comm->bootstrap, 1);
    else
        weft_comm_part(comm, until_ns, 1);
    weft_bootstrap_stop(comm->bootstrap);
}

static void end(struct weft_comm *comm, int status, int64_t until_ns)
{
    char text[64];
    snprintf(text, sizeof text, "its program has ended with exit status %d", status);
    if (status)
        weft_bootstrap_end(comm->bootstrap, text);
    else
        leave(comm, until_ns);
}

static struct weft_comm *take(void)
{
    pthread_mutex_lock(&lock);
    struct weft_comm *comm = open_comms;
    if (comm) {
        open_comms = comm->next_open;
        comm->next_open = ended_comms;
        ended_comms = comm;
    }
    pthread_mutex_unlock(&lock);
    return comm;
}

void weft_process_end(int exit_status)
{
    if (weft_fork_is_child())
        return;
    int64_t until_ns = weft_clock_ns() + PATIENCE_NS;
    if (pthread_mutex_trylock(&running) != 0)
        return; /* another thread says so just now */
    for (struct weft_comm *comm; (comm = take());)
        end(comm, exit_status & 0xff, until_ns);
    pthread_mutex_unlock(&running);
}
