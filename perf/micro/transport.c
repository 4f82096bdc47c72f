/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/support/watcher.c */
/* What the in-host transports cost: build/perf/micro/transport [loop|shm|reads|chunks]
 *
 *   loop    send + poll of one message on one thread, 64 instances in a ring; an idle poll
 *   shm     ping-pong latency and one-way throughput between two processes pinned to CPUs 0 and 1
 *   reads   copying slices of a peer's memory: from its mapping and by process_vm_readv()
 *   chunks  process_vm_readv() of ordinary memory in chunks from 4 KiB to 32 MiB, always to the same place
 *
 * Every figure is the best and the median of several turns: on a busy machine the best is the transport's.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>
#include "base/clock.h"
#include "tests/support/watcher.h"
#include "transport/registry.h"

#define TURNS       101 /* short ones: some fall between other programs' time slices */
#define RING        64
#define BUFFER_SIZE ((size_t)64 << 20)
#define PULL_SPAN   ((size_t)32 << 20)

struct side {
    struct weft_transport_ops ops;
    struct test_watcher *watcher;
    struct weft_transport *transport;
    struct weft_link *link;
    long received, expected;
    uint8_t last[64];
};

static void must(int status, const char *what)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, weft_strerror(status), weft_error_detail());
    exit(1);
}

static void receive(void *arg, const struct weft_event *event)
{
    struct side *side = arg;
    if (event->kind != WEFT_EVENT_MESSAGE)
        return;
    side->received++;
    memcpy(side->last, event->data,
           event->data_size < sizeof side->last ? event->data_size : sizeof side->last);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort(double *values)
{
    qsort(values, TURNS, sizeof *values, by_value);
}

static void count_loop(void *arg, const struct weft_event *event)
{
    *(long *)arg += event->kind == WEFT_EVENT_MESSAGE;
}

static void loop_run(void)
{
    static struct weft_transport *transports[RING];
    static struct weft_link *links[RING];
    struct weft_transport_ops ops;
    must(weft_transport_complete(weft_transport_find("loop"), &ops), "loop");
    for (int i = 0; i < RING; i++)
        must(ops.open(NULL, &transports[i]), "open");
    for (int i = 0; i < RING * RING; i++) {
        uint8_t address[WEFT_ADDRESS_MAX];
        size_t size = sizeof address;
        struct weft_link *link;
        if (i / RING == i % RING)
            continue;
        must(ops.address(transports[i % RING], address, &size), "address");
        must(ops.connect(transports[i / RING], address, size, NULL, &link), "connect");
        if (i % RING == (i / RING + 1) % RING)
            links[i / RING] = link;
    }
    double both[TURNS], idle[TURNS];
    uint8_t header[32] = {0}, payload[8] = {0};
    const long rounds = 200;
    long received = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        int64_t start_ns = weft_clock_ns();
        for (long i = 0; i < rounds * RING; i++) {
            ops.send(links[i % RING], header, sizeof header, payload, sizeof payload);
            ops.poll(transports[(i + 1) % RING], 16, count_loop, &received);
        }
        both[turn] = (double)(weft_clock_ns() - start_ns) / (double)(rounds * RING);
        start_ns = weft_clock_ns();
        for (long i = 0; i < rounds * RING; i++)
            ops.poll(transports[i % RING], 16, count_loop, &received);
        idle[turn] = (double)(weft_clock_ns() - start_ns) / (double)(rounds * RING);
    }
    sort(both);
    sort(idle);
    printf("loop: send + poll of 40 bytes, 64 instances, one thread: %.1f ns (median %.1f)\n", both[0],
           both[TURNS / 2]);
    printf("loop: idle poll with 63 inbound links: %.1f ns (median %.1f)\n", idle[0], idle[TURNS / 2]);
    for (int i = 0; i < RING; i++)
        ops.close(transports[i]);
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        fprintf(stderr, "cannot pin to CPU %d\n", cpu);
}

/* Opens shm on both sides of a fork and links them. Returns 0 in the parent, 1 in the child. */
static int pair_open(struct side *side)
{
    int pipes[2][2];
    uint8_t address[WEFT_ADDRESS_MAX];
    size_t size = sizeof address;
    struct weft_transport_params params;
    uint32_t flags;
    int status;
    memset(side, 0, sizeof *side);
    if (pipe(pipes[0]) || pipe(pipes[1]))
        must(WEFT_SYSTEM, "pipe");
    int child = fork() == 0;
    side->watcher = test_watcher_start();
    pin(child);
    test_watcher_params(side->watcher, &params);
    must(weft_transport_complete(weft_transport_find("shm"), &side->ops), "shm");
    must(side->ops.open(&params, &side->transport), "open");
    must(side->ops.address(side->transport, address, &size), "address");
    if (write(pipes[child][1], address, size) != (ssize_t)size ||
        read(pipes[!child][0], address, size) != (ssize_t)size)
        must(WEFT_SYSTEM, "pipe");
    must(side->ops.connect(side->transport, address, size, NULL, &side->link), "connect");
    while ((status = side->ops.link_flags(side->link, &flags)) == WEFT_AGAIN)
        side->ops.poll(side->transport, 16, receive, side);
    must(status, "link");
    for (int i = 0; i < 4; i++)
        close(pipes[i / 2][i % 2]);
    return child;
}

static void pair_close(struct side *side, int child)
{
    side->ops.close(side->transport);
    test_watcher_stop(side->watcher);
    if (child)
        exit(0);
    wait(NULL);
}

static void put(struct side *side, const void *bytes, size_t size)
{
    int status;
    while ((status = side->ops.send(side->link, bytes, size, NULL, 0)) == WEFT_AGAIN)
        ;
    must(status, "send");
}

/* Waits for so many messages more. */
static void get(struct side *side, long more)
{
    side->expected += more;
    while (side->received < side->expected)
        side->ops.poll(side->transport, 64, receive, side);
}

static void latency_run(struct side *side, int child, size_t size)
{
    static uint8_t bytes[8192];
    const long rounds = 1000;
    double one_way[TURNS];
    for (int turn = 0; turn < TURNS; turn++) {
        int64_t start_ns = weft_clock_ns();
        for (long i = 0; i < rounds; i++) {
            if (!child)
                put(side, bytes, size);
            get(side, 1);
            if (child)
                put(side, bytes, size);
        }
        one_way[turn] = (double)(weft_clock_ns() - start_ns) / (double)rounds / 2;
    }
    sort(one_way);
    if (!child)
        printf("shm: %5zu bytes one way: %.1f ns (median %.1f)\n", size, one_way[0], one_way[TURNS / 2]);
}

static void throughput_run(struct side *side, int child, size_t size)
{
    static uint8_t bytes[8192];
    const long count = 4000;
    double each[TURNS];
    for (int turn = 0; turn < TURNS; turn++) {
        int64_t start_ns = weft_clock_ns();
        if (child) {
            get(side, count);
            put(side, bytes, 1);
        } else {
            for (long i = 0; i < count; i++)
                put(side, bytes, size);
            get(side, 1);
        }
        each[turn] = (double)(weft_clock_ns() - start_ns) / (double)count;
    }
    sort(each);
    if (!child)
        printf("shm: %5zu bytes in a stream: %.1f ns each, %.2f GB/s (median %.1f ns)\n", size, each[0],
               (double)size / each[0], each[TURNS / 2]);
}

static void shm_run(void)
{
    static const size_t sizes[] = {8, 48, 112, 496, 2048, 8192};
    struct side side;
    int child = pair_open(&side);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        latency_run(&side, child, sizes[i]);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        throughput_run(&side, child, sizes[i]);
    pair_close(&side, child);
}

/* Walks through the buffer in slices, again and again, and times each: the best and the median. The target is
 * the same place every time (as when a reduction follows) or walks along. */
static double read_rate(struct side *side, const struct weft_token *token, int by_map, int walk, size_t slice,
                        uint8_t *target, double *median)
{
    double rates[TURNS];
    const void *mapped = NULL;
    size_t at = 0;
    if (by_map)
        must(side->ops.map(side->link, token, BUFFER_SIZE, &mapped), "map");
    for (int turn = 0; turn < TURNS; turn++) {
        uint8_t *to = target + (walk ? at : 0);
        int64_t start_ns = weft_clock_ns();
        if (by_map)
            memcpy(to, (const uint8_t *)mapped + at, slice);
        else
            must(side->ops.pull(side->link, token, at, to, slice), "pull");
        rates[turn] = (double)slice / (double)(weft_clock_ns() - start_ns);
        at = (at + slice) % BUFFER_SIZE;
    }
    sort(rates);
    *median = rates[TURNS / 2];
    return rates[TURNS - 1];
}

/* As get(), without taking a processor from whoever is measured. */
static void get_asleep(struct side *side, long more)
{
    side->expected += more;
    while (side->received < side->expected) {
        side->ops.poll(side->transport, 64, receive, side);
        usleep(200);
    }
}

/* The child exposes; the parent gets the token of it. */
static struct weft_token token_pass(struct side *side, int child, const void *memory, size_t size)
{
    struct weft_token token;
    if (child) {
        must(side->ops.expose(side->link, NULL, memory, size, &token), "expose");
        put(side, &token, sizeof token);
        get_asleep(side, 1);
        return token;
    }
    get(side, 1);
    memcpy(&token, side->last, sizeof token);
    return token;
}

static void reads_run(int chunks)
{
    struct side side;
    int child = pair_open(&side);
    void *segment = NULL;
    uint8_t *ordinary = malloc(BUFFER_SIZE);
    if (!ordinary)
        must(WEFT_NOMEM, "buffer");
    memset(ordinary, 1, BUFFER_SIZE);
    if (child) {
        must(side.ops.alloc(side.transport, BUFFER_SIZE, &segment), "alloc");
        memset(segment, 2, BUFFER_SIZE);
    }
    struct weft_token mapped = token_pass(&side, child, segment, BUFFER_SIZE);
    if (!child)
        put(&side, "", 1);
    struct weft_token pulled = token_pass(&side, child, ordinary, BUFFER_SIZE);
    if (!child && chunks) {
        for (size_t chunk = 4096; chunk <= PULL_SPAN; chunk *= 2) {
            double median, best = read_rate(&side, &pulled, 0, 0, chunk, ordinary, &median);
            printf("chunks: process_vm_readv of %6zu KiB: %.2f GB/s (median %.2f)\n", chunk / 1024, best,
                   median);
        }
    }
    for (size_t slice = 65536; !child && !chunks && slice <= PULL_SPAN; slice *= 2) {
        double map_median, pull_median;
        double map = read_rate(&side, &mapped, 1, 1, slice, ordinary, &map_median);
        double pull = read_rate(&side, &pulled, 0, 1, slice, ordinary, &pull_median);
        printf("reads: slices of %5zu KiB: map %.2f GB/s (median %.2f), pull %.2f GB/s (median %.2f)\n",
               slice / 1024, map, map_median, pull, pull_median);
    }
    if (!child)
        put(&side, "", 1);
    free(ordinary);
    pair_close(&side, child);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    int all = strcmp(what, "all") == 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (all || strcmp(what, "loop") == 0)
        loop_run();
    if (all || strcmp(what, "shm") == 0)
        shm_run();
    if (all || strcmp(what, "reads") == 0)
        reads_run(0);
    if (all || strcmp(what, "chunks") == 0)
        reads_run(1);
    return 0;
}
