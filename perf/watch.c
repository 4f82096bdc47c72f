/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "perf/picture.h"

enum { TICK_MS = 250 };

struct perf_watch {
    _Atomic(weft_comm *) comm; /* NULL: not joined yet */
    int rank;
    pthread_t thread;
    int socket;        /* to the launcher, -1 none */
    int stop_fd;       /* wakes the thread to end */
    int hang_s;        /* a call that takes longer is a hang; 0: never */
    uint64_t stay_at;  /* the call at which to stay away; 0: none */
    atomic_int ended;  /* the launcher has given the job up */
    atomic_int failed; /* has said so already */
    _Atomic uint64_t calls;
};

static void report(struct perf_watch *watch, char kind)
{
    static const size_t head = 1;
    weft_comm *comm = atomic_load(&watch->comm);
    if (!comm)
        return;
    char *message = calloc(1, head + PERF_PICTURE_TEXT);
    if (!message)
        return;
    message[0] = kind;
    weft_comm_dump(comm, message + head, PERF_PICTURE_TEXT, NULL);
    if (kind == PERF_HANGS && !strstr(message + head, " ms in ")) {
        free(message); /* between two calls: this rank does not hang */
        return;
    }
    if (watch->socket >= 0)
        send(watch->socket, message, head + strlen(message + head), MSG_NOSIGNAL | MSG_DONTWAIT);
    else if (kind != PERF_SAYS)
        fprintf(stderr, "%s", message + head);
    free(message);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The communicator that this rank waits for cannot come any more, and the call has no end but its deadline. */
static void give_up(const struct perf_watch *watch, const char *text)
{
    if (atomic_load(&watch->comm))
        return; /* this rank hears it from weft itself */
    if (watch->rank == 0)
        fprintf(stderr, "weft-perf: rank 0: creating the communicator: %s\n", text);
    fflush(stderr);
    _exit(PERF_EXIT_FAILED);
}

/* One message of the launcher. 0 when it is gone. */
static int listen_to_launcher(struct perf_watch *watch)
{
    char message[1 + PERF_GONE_TEXT];
    ssize_t got = recv(watch->socket, message, sizeof message - 1, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (got == 0)
        return 0;
    message[got] = '\0';
    if (message[0] == PERF_ASK)
        report(watch, PERF_SAYS);
    else if (message[0] == PERF_END)
        atomic_store(&watch->ended, 1);
    else if (message[0] == PERF_GONE)
        give_up(watch, message + 1);
    return 1;
}

static void *watch_main(void *arg)
{
    struct perf_watch *watch = arg;
    struct pollfd polled[2] = {{.fd = watch->stop_fd, .events = POLLIN},
                               {.fd = watch->socket, .events = POLLIN}};
    uint64_t seen = 0;
    int64_t since_ms = now_ms();
    int reported = 0;
    for (;;) {
        int ready = poll(polled, 2, watch->hang_s ? TICK_MS : -1);
        if (ready > 0 && polled[0].revents)
            return NULL;
        if (ready > 0 && polled[1].revents && !listen_to_launcher(watch))
            polled[1].fd = -1;
        uint64_t calls = atomic_load_explicit(&watch->calls, memory_order_relaxed);
        if (calls != seen) {
            seen = calls;
            since_ms = now_ms();
            reported = 0;
        } else if (calls && !reported && watch->hang_s &&
                   now_ms() - since_ms >= watch->hang_s * INT64_C(1000)) {
            reported = 1;
            report(watch, PERF_HANGS);
        }
    }
}

static int start_thread(struct perf_watch *watch)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the rank's own business */
    int error = pthread_create(&watch->thread, NULL, watch_main, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int perf_watch_start(int rank, const struct perf_options *options, struct perf_watch **started)
{
    const char *inherited = getenv(PERF_WATCH_VARIABLE);
    struct perf_watch *watch = calloc(1, sizeof *watch);
    int stop_fd = eventfd(0, EFD_CLOEXEC);
    if (!watch || stop_fd < 0)
        goto fail;
    watch->rank = rank;
    watch->stop_fd = stop_fd;
    watch->hang_s = options->hang_s;
    watch->socket = inherited ? atoi(inherited) : -1;
    if (watch->socket >= 0)
        fcntl(watch->socket, F_SETFD, FD_CLOEXEC);
    if (options->stay_rank == rank && options->stay_call > 0)
        watch->stay_at = (uint64_t)options->stay_call;
    if (start_thread(watch) == 0) {
        *started = watch;
        return 0;
    }
fail:
    fprintf(stderr, "weft-perf: cannot start the thread that watches for hangs\n");
    if (stop_fd >= 0)
        close(stop_fd);
    free(watch);
    return -1;
}

void perf_watch_joined(struct perf_watch *watch, weft_comm *comm)
{
    static const char letter = PERF_JOINED;
    atomic_store(&watch->comm, comm);
    if (watch->socket >= 0)
        send(watch->socket, &letter, 1, MSG_NOSIGNAL);
}

void perf_watch_stop(struct perf_watch *watch)
{
    if (!watch)
        return;
    uint64_t one = 1;
    ssize_t put = write(watch->stop_fd, &one, sizeof one);
    (void)put; /* an empty eventfd takes it */
    pthread_join(watch->thread, NULL);
    close(watch->stop_fd);
    if (watch->socket >= 0)
        close(watch->socket);
    free(watch);
}

void perf_watch_call(struct perf_watch *watch)
{
    if (!watch)
        return;
    uint64_t number = atomic_load_explicit(&watch->calls, memory_order_relaxed) + 1;
    atomic_store_explicit(&watch->calls, number, memory_order_relaxed);
    if (number != watch->stay_at)
        return;
    while (!atomic_load(&watch->ended))
        usleep(20000);
}

void perf_watch_failed(struct perf_watch *watch)
{
    if (watch && !atomic_exchange(&watch->failed, 1))
        report(watch, PERF_FAILED);
}
