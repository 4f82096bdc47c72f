/* SPDX-License-Identifier: Apache-2.0 */
/* Works that a thread of their own does: what can only block, such as making a communicator. The thread belongs to the handle, and
 * freeing the handle waits for its end. */
#ifndef WEFT_COMM_CORE_BACKGROUND_H
#define WEFT_COMM_CORE_BACKGROUND_H

#include <pthread.h>

#include "comm/core/work.h"

struct weft_background {
    pthread_t thread;
    pthread_mutex_t lock; /* with it status of the work ends; taken after the context's */
    pthread_cond_t ended;
    struct weft_comm *held; /* on which there can be no collectives meanwhile, NULL: none */
    int (*run)(void *arg);
    void *arg;
    char *environment; /* as the program had it when it made the call */
    /* weft_work_wait(), which returns WEFT_OK when the work has ended, and weft_work_free(). */
    int (*await)(struct weft_work *work, int64_t timeout_ms);
    int (*end)(struct weft_work *work);
    char detail[WEFT_DETAIL_MAX]; /* of its error */
};

/* Has a thread call run(arg), whose result is the work's, with the text of its error. run() frees arg; where this fails it is still
 * the caller's. comm: the communicator that the work is of, NULL: none. holds: until the end other collectives on it are WEFT_BUSY. */
int weft_background_start(struct weft_context *context, struct weft_comm *comm, int holds,
                          int (*run)(void *arg), void *arg, struct weft_work **work);

#endif
