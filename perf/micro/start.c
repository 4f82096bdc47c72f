/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/support/attack.c tests/support/ranks.c */
/* How long a start takes, and how much longer among strangers: build/perf/micro/start [RANKS]
 *
 * A start is weft_context_open() and weft_comm_create() in RANKS processes (8), from when all are ready until the last
 * is through. One more process attacks rank 0's listener:
 *
 *   nobody   does nothing
 *   scan     connects and closes every millisecond, half of the times after random bytes
 *   silent   holds 1,000 connections that say nothing, all of them made before the first rank connects
 *   half     the same, with bytes short of a handshake on each
 *   replay   the same, with the proof and a frame of another connection on each
 *
 * All kinds take turns, so that other work on the machine hits each alike. Printed are the median and the least of the
 * turns in milliseconds, and the median's ratio to that of nobody.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/weft.h>
#include "base/clock.h"
#include "tests/support/attack.h"
#include "tests/support/ranks.h"

#define TURNS     41
#define STRANGERS 1000
#define RANKS_MAX 64

enum kind { NOBODY, SCAN, SILENT, HALF, REPLAY, KINDS };

static const char *const names[] = {"nobody", "scan", "silent", "half", "replay"};

/* What the processes of a turn share. */
struct turn {
    enum kind kind;
    int ready, through; /* atomic: processes */
    int64_t start_ns, end_ns[RANKS_MAX];
    struct attack_record record;
};

static struct turn *turn;

static void wait_for(const int *value, int wanted)
{
    while (__atomic_load_n(value, __ATOMIC_ACQUIRE) < wanted)
        poll(NULL, 0, 1);
}

/* The last to be ready is where the time starts. */
static void line_up(int processes)
{
    if (__atomic_add_fetch(&turn->ready, 1, __ATOMIC_ACQ_REL) == processes) {
        turn->start_ns = weft_clock_ns();
        __atomic_add_fetch(&turn->ready, 1, __ATOMIC_RELEASE);
    }
    wait_for(&turn->ready, processes + 1);
}

static int start(int rank, int processes)
{
    weft_context *context;
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    test_ranks_options(&options);
    options.ranks = processes - 1;
    line_up(processes);
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK_OK(weft_comm_create(context, &options, &comm));
    turn->end_ns[rank] = weft_clock_ns();
    __atomic_add_fetch(&turn->through, 1, __ATOMIC_ACQ_REL);
    CHECK_OK(weft_comm_destroy(comm));
    CHECK_OK(weft_context_close(context));
    return 0;
}

static int attack(int processes)
{
    static int fds[STRANGERS];
    uint16_t port = (uint16_t)atoi(strchr(test_ranks_address(), ':') + 1);
    CHECK(attack_may_have(STRANGERS));
    memset(fds, 0xff, sizeof fds);
    if (turn->kind == SILENT)
        attack_silent(port, fds, STRANGERS);
    if (turn->kind == HALF)
        attack_half(port, fds, STRANGERS);
    if (turn->kind == REPLAY)
        attack_replay(port, &turn->record, fds, STRANGERS);
    line_up(processes);
    for (int i = 0; turn->kind == SCAN && __atomic_load_n(&turn->through, __ATOMIC_ACQUIRE) < processes - 1;
         i++) {
        attack_scan(port, 1 + i % 2);
        poll(NULL, 0, 1);
    }
    wait_for(&turn->through, processes - 1);
    attack_end(fds, STRANGERS);
    return 0;
}

static int body(int rank, int processes, void *arg)
{
    (void)arg;
    return rank < processes - 1 ? start(rank, processes) : attack(processes);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double run(enum kind kind, int ranks)
{
    turn->kind = kind;
    turn->ready = turn->through = 0;
    if (test_ranks_fork(ranks + 1, body, NULL) != 0)
        exit(1);
    int64_t end_ns = 0;
    for (int rank = 0; rank < ranks; rank++)
        end_ns = turn->end_ns[rank] > end_ns ? turn->end_ns[rank] : end_ns;
    return (double)(end_ns - turn->start_ns) / 1e6;
}

int main(int argc, char **argv)
{
    static double took_ms[KINDS][TURNS];
    int ranks = argc > 1 ? atoi(argv[1]) : 8;
    if (ranks < 2 || ranks > RANKS_MAX) {
        fprintf(stderr, "usage: start [RANKS], from 2 to %d\n", RANKS_MAX);
        return 2;
    }
    turn = mmap(NULL, sizeof *turn, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (turn == MAP_FAILED)
        return 1;
    setenv("WEFT_LOG", "error", 1);
    attack_make_record(&turn->record);
    for (int i = 0; i < TURNS; i++)
        for (int kind = 0; kind < KINDS; kind++)
            took_ms[kind][i] = run((enum kind)kind, ranks);
    printf("start of %d ranks, %d turns      median ms   least ms   ratio\n", ranks, TURNS);
    for (int kind = 0; kind < KINDS; kind++) {
        qsort(took_ms[kind], TURNS, sizeof **took_ms, by_value);
        printf("  %-28s %9.2f %10.2f %7.2f\n", names[kind], took_ms[kind][TURNS / 2], took_ms[kind][0],
               took_ms[kind][TURNS / 2] / took_ms[NOBODY][TURNS / 2]);
    }
    return 0;
}
