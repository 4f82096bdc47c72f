/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/support/letters.c */
/* What the ofi transport costs: build/perf/micro/ofi [PROVIDER ...] (default: net, tcp;ofi_rxm)
 *
 * Two processes pinned to CPUs 0 and 1, over loopback:
 *   exchange  both send a message of N bytes and wait for the other's: what a two-rank allreduce of N bytes waits for at
 *             least
 *   put       both put 32 MiB in pieces, a few in flight, as a ring allreduce does; bytes per second each way
 *
 * Best and median: on a busy machine the best is the transport's.
 */
#include "perf/micro/pair.h"

#define ROUNDS    2000
#define TURNS     15
#define PUT_TOTAL ((size_t)32 << 20)
#define IN_FLIGHT 4
#define HEADER    32

struct side {
    struct pair_side pair; /* first, so that one is the other */
    long landed, done;
    struct weft_token tokens[IN_FLIGHT * 4]; /* from the peer */
    long tokens_seen, tokens_in, tokens_out; /* now in the array, and where */
};

static void note(void *arg, const struct weft_event *event)
{
    struct side *side = arg;
    pair_must(event->status, "event");
    if (event->kind == WEFT_EVENT_LANDED) {
        side->landed++;
    } else if (event->kind == WEFT_EVENT_PUT_DONE) {
        side->done++;
    } else if (event->kind == WEFT_EVENT_MESSAGE && event->data_size == sizeof(struct weft_token)) {
        memcpy(&side->tokens[side->tokens_in++ % (IN_FLIGHT * 4)], event->data, event->data_size);
        side->tokens_seen++;
    } else if (event->kind == WEFT_EVENT_MESSAGE) {
        side->pair.messages++;
    } else {
        pair_must(WEFT_TRANSPORT, "link");
    }
}

static void exchange(struct side *side, int me, size_t size)
{
    static uint8_t bytes[65536];
    double best[TURNS];
    for (int t = 0; t < TURNS; t++) {
        int64_t start_ns = weft_clock_ns();
        for (int i = 0; i < ROUNDS; i++) {
            pair_send(&side->pair, bytes, HEADER, bytes, size);
            pair_wait(&side->pair);
        }
        best[t] = (double)(weft_clock_ns() - start_ns) / ROUNDS / 1000;
    }
    qsort(best, TURNS, sizeof best[0], pair_by_value);
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
            pair_must(side->pair.ops.land(side->pair.link, regions[1], target + (size_t)offered * piece,
                                          piece, (uint64_t)offered, &token),
                      "land");
            pair_send(&side->pair, &token, sizeof token, NULL, 0);
            offered++;
        }
        while (put < side->tokens_seen) {
            int status =
                side->pair.ops.put(side->pair.link, &side->tokens[side->tokens_out % (IN_FLIGHT * 4)],
                                   regions[0], source + (size_t)put * piece, piece, (uint64_t)put);
            if (status == WEFT_AGAIN)
                break;
            pair_must(status, "put");
            side->tokens_out++;
            put++;
        }
        pair_turn(&side->pair);
    }
    double seconds = (double)(weft_clock_ns() - start_ns) / 1e9;
    pair_send(&side->pair, "end of a turn", 13, NULL, 0);
    pair_wait(&side->pair);
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
    pair_must(side->pair.ops.reg(side->pair.transport, source, PUT_TOTAL, &regions[0]), "reg");
    pair_must(side->pair.ops.reg(side->pair.transport, target, PUT_TOTAL, &regions[1]), "reg");
    for (int t = 0; t < TURNS; t++)
        rates[t] = put_all(side, source, target, regions, piece);
    qsort(rates, TURNS, sizeof rates[0], pair_by_value);
    if (me == 0)
        printf("  put 32 MiB both ways in pieces of %5zu KiB: best %5.2f GB/s, median %5.2f GB/s\n",
               piece >> 10, rates[TURNS - 1], rates[TURNS / 2]);
    side->pair.ops.dereg(regions[0]);
    side->pair.ops.dereg(regions[1]);
    free(source);
    free(target);
}

static void side_run(struct pair_shared *shared, void *arg, int me)
{
    struct weft_transport_params params = {.size = sizeof params, .provider = arg};
    struct side side = {.pair = {.note = note}};
    pair_open(&side.pair, shared, "ofi", &params, me);
    for (size_t size = 8; size <= 16384 - HEADER; size = size == 4096 ? 16384 - HEADER : size * 8)
        exchange(&side, me, size);
    for (size_t piece = 128 << 10; piece <= 4 << 20; piece *= 2)
        puts_measure(&side, me, piece);
    pair_close(&side.pair, shared, me);
}

int main(int argc, char **argv)
{
    static char *usual[] = {"net", "tcp;ofi_rxm"};
    int count = argc > 1 ? argc - 1 : 2, failed = 0;
    for (int i = 0; i < count; i++)
        failed |= pair_run(side_run, argc > 1 ? argv[i + 1] : usual[i]);
    return failed;
}
