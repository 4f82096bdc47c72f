/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/support/letters.c */
/* What the verbs transport costs: build/perf/micro/verbs [DEVICE [DEVICE]]
 *
 * Two processes pinned to CPUs 0 and 1, one device or two (default: chosen). One sends a message of N bytes, the other
 * answers: half of the time there and back, to be compared with ib_write_lat, which measures the same with nothing
 * around the writes. Best and median: on a busy machine the best is the transport's.
 */
#include "perf/micro/pair.h"

#define ROUNDS 1000
#define TURNS  15
#define HEADER 40 /* the executor's */

static void note(void *arg, const struct weft_event *event)
{
    struct pair_side *side = arg;
    if (event->kind == WEFT_EVENT_MESSAGE)
        side->messages++;
    else
        pair_must(event->status, "event");
}

static void ping_pong(struct pair_side *side, int me, size_t size)
{
    static uint8_t bytes[8192];
    double halves[TURNS];
    for (int t = 0; t < TURNS; t++) {
        int64_t start_ns = weft_clock_ns();
        for (int i = 0; i < ROUNDS; i++) {
            if (me == 1)
                pair_wait(side);
            pair_send(side, bytes, HEADER, bytes, size);
            if (me == 0)
                pair_wait(side);
        }
        halves[t] = (double)(weft_clock_ns() - start_ns) / ROUNDS / 2000;
    }
    qsort(halves, TURNS, sizeof halves[0], pair_by_value);
    if (me == 0)
        printf("  %6zu bytes: best %7.2f us, median %7.2f us\n", size, halves[0], halves[TURNS / 2]);
}

static void side_run(struct pair_shared *shared, void *arg, int me)
{
    char **devices = arg;
    struct weft_transport_params params = {.size = sizeof params, .devices = devices[me]};
    struct pair_side side = {.note = note};
    pair_open(&side, shared, "verbs", &params, me);
    for (size_t size = 8; size <= 8000; size = size == 4096 ? 8000 : size * 8)
        ping_pong(&side, me, size);
    pair_close(&side, shared, me);
}

int main(int argc, char **argv)
{
    char *devices[2] = {argc > 1 ? argv[1] : NULL, argc > 1 ? argv[argc > 2 ? 2 : 1] : NULL};
    return pair_run(side_run, devices);
}
