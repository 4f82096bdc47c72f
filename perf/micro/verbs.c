/* What the verbs transport costs: build/perf/micro/verbs [DEVICE [DEVICE]]
 *
 * Two processes pinned to CPUs 0 and 1, one device or two (default: chosen). One sends a message of N bytes, the other
 * answers: half of the time there and back, to be compared with ib_write_lat, which measures the same with nothing
 * around the writes. Best and median: on a busy machine the best is the transport's.
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
#include "tests/support/letters.h"
#include "transport/registry.h"

#define ROUNDS 1000
#define TURNS  15
#define HEADER 40 /* the executor's */

struct shared {
    uint8_t addresses[2][WEFT_ADDRESS_MAX];
    size_t sizes[2];
    _Atomic int ready[2];
};

struct side {
    struct weft_transport_ops ops;
    struct weft_transport *transport;
    struct test_letters *letters;
    struct weft_link *link;
    long messages;
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
    if (event->kind == WEFT_EVENT_MESSAGE)
        side->messages++;
    else
        must(event->status, "event");
}

static void turn(struct side *side)
{
    int events = side->ops.poll(side->transport, 16, note, side);
    must(events < 0 ? events : WEFT_OK, "poll");
}

static void send_all(struct side *side, const void *header, const void *payload, size_t size)
{
    int status;
    while ((status = side->ops.send(side->link, header, HEADER, payload, size)) == WEFT_AGAIN)
        turn(side);
    must(status, "send");
}

static void wait_one(struct side *side)
{
    while (side->messages == 0)
        turn(side);
    side->messages--;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void ping_pong(struct side *side, int me, size_t size)
{
    static uint8_t bytes[8192];
    double halves[TURNS];
    for (int t = 0; t < TURNS; t++) {
        int64_t start_ns = weft_clock_ns();
        for (int i = 0; i < ROUNDS; i++) {
            if (me == 1)
                wait_one(side);
            send_all(side, bytes, bytes, size);
            if (me == 0)
                wait_one(side);
        }
        halves[t] = (double)(weft_clock_ns() - start_ns) / ROUNDS / 2000;
    }
    qsort(halves, TURNS, sizeof halves[0], by_value);
    if (me == 0)
        printf("  %6zu bytes: best %7.2f us, median %7.2f us\n", size, halves[0], halves[TURNS / 2]);
}

static void side_run(struct shared *shared, const char *device, int me)
{
    struct side side;
    cpu_set_t cpus;
    memset(&side, 0, sizeof side);
    CPU_ZERO(&cpus);
    CPU_SET(me, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    struct weft_transport_params params = {.size = sizeof params, .devices = device};
    side.letters = test_letters_open(0);
    test_letters_params(side.letters, &params);
    must(weft_transport_complete(weft_transport_find("verbs"), &side.ops), "table");
    int64_t start_ns = weft_clock_ns();
    must(side.ops.open(&params, &side.transport), "open");
    if (me == 0)
        printf("opened in %.1f ms\n", (double)(weft_clock_ns() - start_ns) / 1e6);
    shared->sizes[me] = WEFT_ADDRESS_MAX;
    must(side.ops.address(side.transport, shared->addresses[me], &shared->sizes[me]), "address");
    test_letters_bind(side.letters, shared->addresses[me], shared->sizes[me]);
    shared->ready[me] = 1;
    while (!shared->ready[!me])
        usleep(100);
    must(side.ops.connect(side.transport, shared->addresses[!me], shared->sizes[!me], NULL, &side.link),
         "connect");
    uint32_t flags;
    int status;
    while ((status = side.ops.link_flags(side.link, &flags)) == WEFT_AGAIN) {
        test_letters_deliver(side.letters, &side.ops, side.transport);
        turn(&side);
    }
    must(status, "link");
    for (size_t size = 8; size <= 8000; size = size == 4096 ? 8000 : size * 8)
        ping_pong(&side, me, size);
    side.ops.close(side.transport);
    test_letters_close(side.letters);
}

int main(int argc, char **argv)
{
    const char *devices[2] = {argc > 1 ? argv[1] : NULL, argc > 1 ? argv[argc > 2 ? 2 : 1] : NULL};
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    if (shared == MAP_FAILED)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        side_run(shared, devices[1], 1);
        return 0;
    }
    side_run(shared, devices[0], 0);
    waitpid(child, &status, 0);
    return status != 0;
}
