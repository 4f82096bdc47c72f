/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/watcher.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

#define WATCHED_MAX 1024

struct watched {
    int fd;
    weft_watch_callback *callback;
    void *arg;
};

struct test_watcher {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    pthread_t thread;
    struct watched watched[WATCHED_MAX];
    int count;
    int running_fd; /* whose callback runs; -1 none */
    int stop;
    int wake_fd;
};

static void wake(struct test_watcher *watcher)
{
    uint64_t one = 1;
    ssize_t written = write(watcher->wake_fd, &one, sizeof one);
    (void)written;
}

static int watched_index(const struct test_watcher *watcher, int fd)
{
    for (int i = 0; i < watcher->count; i++) {
        if (watcher->watched[i].fd == fd)
            return i;
    }
    return -1;
}

/* Under the lock: runs the callback of one descriptor, if it is still watched. */
static void run_callback(struct test_watcher *watcher, int fd)
{
    int index = watched_index(watcher, fd);
    if (index < 0)
        return;
    struct watched one = watcher->watched[index];
    watcher->running_fd = fd;
    pthread_mutex_unlock(&watcher->lock);
    one.callback(one.arg, fd);
    pthread_mutex_lock(&watcher->lock);
    watcher->running_fd = -1;
    pthread_cond_broadcast(&watcher->idle);
}

static void *run(void *arg)
{
    struct test_watcher *watcher = arg;
    static _Thread_local struct pollfd fds[WATCHED_MAX + 1];
    pthread_mutex_lock(&watcher->lock);
    while (!watcher->stop) {
        int count = watcher->count;
        for (int i = 0; i < count; i++)
            fds[i] = (struct pollfd){.fd = watcher->watched[i].fd, .events = POLLIN};
        fds[count] = (struct pollfd){.fd = watcher->wake_fd, .events = POLLIN};
        pthread_mutex_unlock(&watcher->lock);
        poll(fds, (nfds_t)count + 1, -1);
        uint64_t wakes;
        ssize_t got = fds[count].revents ? read(watcher->wake_fd, &wakes, sizeof wakes) : 0;
        (void)got;
        pthread_mutex_lock(&watcher->lock);
        for (int i = 0; i < count && !watcher->stop; i++) {
            if (fds[i].revents)
                run_callback(watcher, fds[i].fd);
        }
    }
    pthread_mutex_unlock(&watcher->lock);
    return NULL;
}

struct test_watcher *test_watcher_start(void)
{
    struct test_watcher *watcher = calloc(1, sizeof *watcher);
    if (!watcher)
        abort();
    watcher->running_fd = -1;
    watcher->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&watcher->lock, NULL);
    pthread_cond_init(&watcher->idle, NULL);
    if (watcher->wake_fd < 0 || pthread_create(&watcher->thread, NULL, run, watcher))
        abort();
    return watcher;
}

void test_watcher_stop(struct test_watcher *watcher)
{
    pthread_mutex_lock(&watcher->lock);
    watcher->stop = 1;
    pthread_mutex_unlock(&watcher->lock);
    wake(watcher);
    pthread_join(watcher->thread, NULL);
    pthread_mutex_destroy(&watcher->lock);
    pthread_cond_destroy(&watcher->idle);
    close(watcher->wake_fd);
    free(watcher);
}

static int watch(void *arg, int fd, weft_watch_callback *callback, void *callback_arg)
{
    struct test_watcher *watcher = arg;
    int status = WEFT_NOMEM;
    pthread_mutex_lock(&watcher->lock);
    if (watched_index(watcher, fd) >= 0) {
        status = WEFT_INTERNAL;
    } else if (watcher->count < WATCHED_MAX) {
        watcher->watched[watcher->count++] = (struct watched){fd, callback, callback_arg};
        status = WEFT_OK;
    }
    pthread_mutex_unlock(&watcher->lock);
    wake(watcher);
    return status;
}

static void unwatch(void *arg, int fd)
{
    struct test_watcher *watcher = arg;
    pthread_mutex_lock(&watcher->lock);
    int index = watched_index(watcher, fd);
    if (index >= 0)
        watcher->watched[index] = watcher->watched[--watcher->count];
    while (watcher->running_fd == fd && !pthread_equal(pthread_self(), watcher->thread))
        pthread_cond_wait(&watcher->idle, &watcher->lock);
    pthread_mutex_unlock(&watcher->lock);
    wake(watcher);
}

static void log_line(int level, const char *format, ...)
{
    (void)level;
    (void)format;
}

void test_watcher_params(struct test_watcher *watcher, struct weft_transport_params *params)
{
    memset(params, 0, sizeof *params);
    params->size = sizeof *params;
    params->direct = 1;
    if (getrandom(&params->instance, sizeof params->instance, 0) != sizeof params->instance)
        abort();
    params->watch_arg = watcher;
    params->watch = watch;
    params->unwatch = unwatch;
    params->fail = weft_fail;
    params->log = log_line;
}
