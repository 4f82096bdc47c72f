/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/core/background.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/environment.h"
#include "comm/drive/progress.h"

static void *run(void *arg)
{
    struct weft_work *work = arg;
    struct weft_background *background = work->background;
    pthread_setname_np(pthread_self(), "weft-form");
    weft_environment_use(background->environment);
    int status = background->run(background->arg);
    if (status != WEFT_OK)
        snprintf(background->detail, sizeof background->detail, "%s", weft_error_detail());
    weft_context_lock(work->context);
    if (background->held)
        atomic_store(&background->held->is_forming, 0);
    pthread_mutex_lock(&background->lock);
    work->status = status;
    pthread_cond_broadcast(&background->ended);
    pthread_mutex_unlock(&background->lock);
    weft_work_notify(work);
    weft_context_unlock(work->context);
    return NULL;
}

/* The program's signals stay with its threads. */
static int start_thread(struct weft_work *work)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&work->background->thread, NULL, run, work);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? weft_fail_thread(error, "weft-form") : WEFT_OK;
}

static void discard(struct weft_work *work)
{
    pthread_cond_destroy(&work->background->ended);
    pthread_mutex_destroy(&work->background->lock);
    weft_environment_free(work->background->environment);
    free(work->background);
    atomic_fetch_sub(&work->context->forming, 1);
    weft_work_discard(work);
}

static int make(struct weft_context *context, struct weft_comm *comm, struct weft_work **made)
{
    struct weft_work *work = calloc(1, sizeof *work);
    struct weft_background *background = calloc(1, sizeof *background);
    if (!work || !background)
        goto free_both;
    background->environment = weft_environment_copy();
    if (!background->environment || pthread_mutex_init(&background->lock, NULL) != 0)
        goto free_environment;
    if (weft_clock_condition(&background->ended) != 0)
        goto destroy_lock;
    work->context = context;
    work->comm = comm;
    work->background = background;
    work->status = WEFT_AGAIN;
    work->parts = &work->only;
    atomic_fetch_add(&context->forming, 1);
    *made = work;
    return WEFT_OK;

destroy_lock:
    pthread_mutex_destroy(&background->lock);
free_environment:
    weft_environment_free(background->environment);
free_both:
    free(background);
    free(work);
    return weft_fail(WEFT_NOMEM, "no memory for a work handle");
}

static int await(struct weft_work *work, int64_t timeout_ms)
{
    struct weft_background *background = work->background;
    int64_t deadline_ns = weft_deadline_ns(timeout_ms);
    pthread_mutex_lock(&background->lock);
    while (work->status == WEFT_AGAIN && weft_clock_ns() < deadline_ns)
        weft_clock_wait(&background->ended, &background->lock, deadline_ns);
    int runs = work->status == WEFT_AGAIN;
    pthread_mutex_unlock(&background->lock);
    if (!runs)
        return WEFT_OK;
    return weft_fail(timeout_ms == 0 ? WEFT_AGAIN : WEFT_TIMEOUT, "the operation is still running");
}

static int end(struct weft_work *work)
{
    char text[WEFT_DETAIL_MAX];
    if (pthread_equal(pthread_self(), work->background->thread))
        return weft_fail(WEFT_BUSY, "a callback frees the work whose thread calls it: expected to have it "
                                    "freed by a thread of the program's");
    pthread_join(work->background->thread, NULL);
    int status = work->status;
    snprintf(text, sizeof text, "%s", work->background->detail);
    if (work->comm)
        work->comm->works--;
    discard(work);
    return status == WEFT_OK ? WEFT_OK : weft_fail(status, "%s", text);
}

int weft_background_start(struct weft_context *context, struct weft_comm *comm, int holds,
                          int (*run_it)(void *arg), void *arg, struct weft_work **started)
{
    struct weft_work *work = NULL;
    int status = make(context, comm, &work);
    if (status != WEFT_OK)
        return status;
    work->background->run = run_it;
    work->background->arg = arg;
    work->background->await = await;
    work->background->end = end;
    work->background->held = holds ? comm : NULL;
    weft_work_own(work, 1, 0);
    if (work->background->held)
        atomic_store(&comm->is_forming, 1);
    status = start_thread(work);
    if (status == WEFT_OK) {
        if (comm)
            comm->works++;
        *started = work;
        return WEFT_OK;
    }
    if (work->background->held)
        atomic_store(&comm->is_forming, 0);
    discard(work);
    return status;
}
