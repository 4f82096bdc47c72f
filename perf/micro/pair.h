/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes with an instance of a transport each and the link between them, for measuring it. */
#ifndef WEFT_PERF_MICRO_PAIR_H
#define WEFT_PERF_MICRO_PAIR_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>
#include "base/clock.h"
#include "tests/support/letters.h"
#include "transport/registry.h"

/* Both processes see it. */
struct pair_shared {
    uint8_t addresses[2][WEFT_ADDRESS_MAX];
    size_t sizes[2];
    _Atomic int ready[2]; /* 1: it has an address; 2: it has measured all */
};

struct pair_side {
    struct weft_transport_ops ops;
    struct weft_transport *transport;
    struct test_letters *letters;
    struct weft_link *link;
    weft_event_handler *note; /* of every event; arg is the side */
    long messages;            /* that note() has counted and nobody has taken */
};

static inline void pair_must(int status, const char *what)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, weft_strerror(status), weft_error_detail());
    exit(1);
}

static inline int pair_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void pair_turn(struct pair_side *side)
{
    int events = side->ops.poll(side->transport, 16, side->note, side);
    pair_must(events < 0 ? events : WEFT_OK, "poll");
}

static inline void pair_send(struct pair_side *side, const void *header, size_t header_size,
                             const void *payload, size_t size)
{
    int status;
    while ((status = side->ops.send(side->link, header, header_size, payload, size)) == WEFT_AGAIN)
        pair_turn(side);
    pair_must(status, "send");
}

/* Takes one message. */
static inline void pair_wait(struct pair_side *side)
{
    while (side->messages == 0)
        pair_turn(side);
    side->messages--;
}

/* Opens side `me`, on processor `me`, and connects it. */
static inline void pair_open(struct pair_side *side, struct pair_shared *shared, const char *name,
                             struct weft_transport_params *params, int me)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(me, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    side->letters = test_letters_open(0);
    test_letters_params(side->letters, params);
    pair_must(weft_transport_complete(weft_transport_find(name), &side->ops), "table");
    int64_t start_ns = weft_clock_ns();
    pair_must(side->ops.open(params, &side->transport), "open");
    if (me == 0)
        printf("%s: opened in %.1f ms\n", params->provider ? params->provider : name,
               (double)(weft_clock_ns() - start_ns) / 1e6);
    shared->sizes[me] = WEFT_ADDRESS_MAX;
    pair_must(side->ops.address(side->transport, shared->addresses[me], &shared->sizes[me]), "address");
    test_letters_bind(side->letters, shared->addresses[me], shared->sizes[me]);
    shared->ready[me] = 1;
    while (!shared->ready[!me])
        usleep(100);
    pair_must(
        side->ops.connect(side->transport, shared->addresses[!me], shared->sizes[!me], NULL, &side->link),
        "connect");
    uint32_t flags;
    int status;
    while ((status = side->ops.link_flags(side->link, &flags)) == WEFT_AGAIN) {
        test_letters_deliver(side->letters, &side->ops, side->transport);
        pair_turn(side);
    }
    pair_must(status, "link");
}

static inline void pair_ignore(void *arg, const struct weft_event *event)
{
    (void)arg, (void)event;
}

/* When both have measured all, or the end of one would be the other's failure. */
static inline void pair_close(struct pair_side *side, struct pair_shared *shared, int me)
{
    shared->ready[me] = 2;
    while (shared->ready[!me] != 2)
        side->ops.poll(side->transport, 16, pair_ignore, side);
    side->ops.close(side->transport);
    test_letters_close(side->letters);
}

/* Runs a function in two processes, 0 and 1; each gets arg. Whether one has failed. */
static inline int pair_run(void (*run)(struct pair_shared *shared, void *arg, int me), void *arg)
{
    struct pair_shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failed = 0;
    if (shared == MAP_FAILED)
        return 1;
    fflush(stdout);
    pid_t children[2];
    for (int me = 0; me < 2; me++) {
        children[me] = fork();
        if (children[me] == 0) {
            run(shared, arg, me);
            fflush(stdout);
            _exit(0);
        }
    }
    for (int me = 0; me < 2; me++) {
        int status;
        failed |= waitpid(children[me], &status, 0) != children[me] || status != 0;
    }
    munmap(shared, sizeof *shared);
    return failed;
}

#endif
