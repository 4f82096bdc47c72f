/* What the ofi transport costs: build/perf/micro/ofi [PROVIDER ...] (default: net, tcp;ofi_rxm)
 *
 * Two processes pinned to CPUs 0 and 1, over loopback:
 *   exchange  both send a message of N bytes and wait for the other's: what a two-rank allreduce of N bytes
 * waits for at least put       both put 32 MiB in pieces, a few in flight, as a ring allreduce does; bytes
 * per second each way Best and median: on a busy machine the best is the transport's.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>
#include "base/clock.h"
#include "transport/registry.h"

#define ROUNDS    2000
#define TURNS     15
#define PUT_TOTAL ((size_t)32 << 20)
#define IN_FLIGHT 4
#define HEADER    32

struct shared {
    uint8_t addresses[2][WEFT_ADDRESS_MAX];
    size_t sizes[2];
    _Atomic int ready[2];
};

struct side {
    struct weft_transport_ops ops;
    struct weft_transport *transport;
    struct weft_link *link;
    long messages, landed, done;
    struct weft_token tokens[IN_FLIGHT * 4]; /* from the peer */
    long tokens_seen, tokens_in, tokens_out; /* now in the array, and where */
};

static void must(int status, const char *what)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, weft_strerror(status), weft_error_detail());
    exit(1);
}

static void note(void *arg, const struct weft_event *event)
{
    struct side *side = arg;
    must(event->status, "event");
    if (event->kind == WEFT_EVENT_LANDED) {
        side->landed++;
    } else if (event->kind == WEFT_EVENT_PUT_DONE) {
        side->done++;
    } else if (event->kind == WEFT_EVENT_MESSAGE && event->data_size == sizeof(struct weft_token)) {
        memcpy(&side->tokens[side->tokens_in++ % (IN_FLIGHT * 4)], event->data, event->data_size);
        side->tokens_seen++;
    } else if (event->kind == WEFT_EVENT_MESSAGE) {
        side->messages++;
    } else {
        must(WEFT_TRANSPORT, "link");
    }
}

static void turn(struct side *side)
{
    int events = side->ops.poll(side->transport, 16, note, side);
    must(events < 0 ? events : WEFT_OK, "poll");
}

static void send_all(struct side *side, const void *header, size_t header_size, const void *payload,
                     size_t size)
{
    int status;
    while ((status = side->ops.send(side->link, header, header_size, payload, size)) == WEFT_AGAIN)
        turn(side);
    must(status, "send");
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void exchange(struct side *side, int me, size_t size)
{
    static uint8_t bytes[65536];
    double best[TURNS];
    for (int t = 0; t < TURNS; t++) {
        int64_t start_ns = weft_clock_ns();
        for (int i = 0; i < ROUNDS; i++) {
            send_all(side, bytes, HEADER, bytes, size);
            while (side->messages == 0)
                turn(side);
            side->messages--;
        }
        best[t] = (double)(weft_clock_ns() - start_ns) / ROUNDS / 1000;
    }
    qsort(best, TURNS, sizeof best[0], by_value);
    if (me == 0)
        printf("  exchange %6zu bytes: best %7.2f us, median %7.2f us\n", size, best[0], best[TURNS / 2]);
}

/* Lands its own pieces, puts the peer's as their tokens come. */
static double put_all(struct side *side, uint8_t *source, uint8_t *target, struct weft_region *regions[2],
                      size_t piece)
{
    long count = (long)(PUT_TOTAL / piece), offered = 0, put = 0;
    int64_t start_ns = weft_clock_ns();
    while (side->landed < count || side->done < count) {
        while (offered < count && offered - side->landed < IN_FLIGHT) {
            struct weft_token token;
            must(side->ops.land(side->link, regions[1], target + (size_t)offered * piece, piece,
                                (uint64_t)offered, &token),
                 "land");
            send_all(side, &token, sizeof token, NULL, 0);
            offered++;
        }
        while (put < side->tokens_seen) {
            int status = side->ops.put(side->link, &side->tokens[side->tokens_out % (IN_FLIGHT * 4)],
                                       regions[0], source + (size_t)put * piece, piece, (uint64_t)put);
            if (status == WEFT_AGAIN)
                break;
            must(status, "put");
            side->tokens_out++;
            put++;
        }
        turn(side);
    }
    double seconds = (double)(weft_clock_ns() - start_ns) / 1e9;
    send_all(side, "end of a turn", 13, NULL, 0);
    while (side->messages == 0)
        turn(side);
    side->messages--;
    side->landed -= count;
    side->done -= count;
    side->tokens_seen -= count;
    return (double)PUT_TOTAL / seconds / 1e9;
}

static void puts_measure(struct side *side, int me, size_t piece)
{
    uint8_t *source = aligned_alloc(4096, PUT_TOTAL), *target = aligned_alloc(4096, PUT_TOTAL);
    struct weft_region *regions[2] = {NULL, NULL};
    double rates[TURNS];
    if (!source || !target)
        exit(1);
    memset(source, 1, PUT_TOTAL);
    memset(target, 2, PUT_TOTAL);
    must(side->ops.reg(side->transport, source, PUT_TOTAL, &regions[0]), "reg");
    must(side->ops.reg(side->transport, target, PUT_TOTAL, &regions[1]), "reg");
    for (int t = 0; t < TURNS; t++)
        rates[t] = put_all(side, source, target, regions, piece);
    qsort(rates, TURNS, sizeof rates[0], by_value);
    if (me == 0)
        printf("  put 32 MiB both ways in pieces of %5zu KiB: best %5.2f GB/s, median %5.2f GB/s\n",
               piece >> 10, rates[TURNS - 1], rates[TURNS / 2]);
    side->ops.dereg(regions[0]);
    side->ops.dereg(regions[1]);
    free(source);
    free(target);
}

static void side_run(struct shared *shared, const char *provider, int me)
{
    struct side side;
    cpu_set_t cpus;
    memset(&side, 0, sizeof side);
    CPU_ZERO(&cpus);
    CPU_SET(me, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    struct weft_transport_params params = {.size = sizeof params, .provider = provider};
    must(weft_transport_complete(weft_transport_find("ofi"), &side.ops), "table");
    int64_t start_ns = weft_clock_ns();
    must(side.ops.open(&params, &side.transport), "open");
    if (me == 0)
        printf("%s: opened in %.0f ms\n", provider, (double)(weft_clock_ns() - start_ns) / 1e6);
    shared->sizes[me] = WEFT_ADDRESS_MAX;
    must(side.ops.address(side.transport, shared->addresses[me], &shared->sizes[me]), "address");
    shared->ready[me] = 1;
    while (!shared->ready[!me])
        usleep(100);
    must(side.ops.connect(side.transport, shared->addresses[!me], shared->sizes[!me], NULL, &side.link),
         "connect");
    for (size_t size = 8; size <= 16384 - HEADER; size = size == 4096 ? 16384 - HEADER : size * 8)
        exchange(&side, me, size);
    for (size_t piece = 128 << 10; piece <= 4 << 20; piece *= 2)
        puts_measure(&side, me, piece);
    side.ops.close(side.transport);
}

int main(int argc, char **argv)
{
    const char *const usual[] = {"net", "tcp;ofi_rxm"};
    int count = argc > 1 ? argc - 1 : 2, failed = 0;
    for (int i = 0; i < count; i++) {
        const char *provider = argc > 1 ? argv[i + 1] : usual[i];
        struct shared *shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
            return 1;
        fflush(stdout);
        pid_t children[2];
        for (int me = 0; me < 2; me++) {
            children[me] = fork();
            if (children[me] == 0) {
                side_run(shared, provider, me);
                fflush(stdout);
                _exit(0);
            }
        }
        for (int me = 0; me < 2; me++) {
            int status;
            failed |= waitpid(children[me], &status, 0) != children[me] || status != 0;
        }
        munmap(shared, sizeof *shared);
    }
    return failed;
}
