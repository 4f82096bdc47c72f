/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/support/ranks.c */
/* What it costs at 8 bytes that ranks compare their calls: weft_allreduce() with the comparison (numbering and
 * describing the call, the digest, comparing every peer's) against the same without it. Two ranks, two
 * processes. Blocks of calls alternate between the two in the order ABBA, so that drift of the machine cancels; the
 * price is the median over pairs of blocks. Budget: 2 %.
 *
 *     build/perf/micro/checks [PAIRS]
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/fastpath.h"
#include "tests/support/ranks.h"

enum { CALLS = 200, RANKS = 2, LIMIT_S = 300 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

/* Nanoseconds per call of a block. */
static int measure(weft_comm *comm, int checked, double *ns)
{
    float send[2] = {1, 2}, recv[2];
    int64_t start_ns = weft_clock_ns();
    for (int i = 0; i < CALLS && checked; i++)
        CHECK_OK(weft_allreduce(comm, send, recv, 2, WEFT_FLOAT32, WEFT_SUM));
    for (int i = 0; i < CALLS && !checked; i++)
        CHECK_OK(weft_allreduce_unchecked(comm, send, recv, 2, WEFT_FLOAT32, WEFT_SUM));
    *ns = (double)(weft_clock_ns() - start_ns) / CALLS;
    return 0;
}

/* A processor of its own, where there are enough. */
static void pin(int rank)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < RANKS)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || rank-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

static int body(int rank, int ranks, void *arg)
{
    const int pairs = *(const int *)arg;
    weft_context *context;
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    double *with = calloc((size_t)pairs, sizeof *with), *without = calloc((size_t)pairs, sizeof *without);
    double *price = calloc((size_t)pairs, sizeof *price), first, second;
    test_ranks_options(&options);
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK_OK(weft_comm_create(context, &options, &comm));
    CHECK(with && without && price && comm->fastpath && ranks == RANKS);
    pin(rank);
    for (int i = -5; i < pairs; i++) {
        int turn = i & 1; /* the order within a pair turns: AB, BA */
        CHECK(measure(comm, turn, &first) == 0);
        CHECK(measure(comm, !turn, &second) == 0);
        if (i < 0)
            continue;
        with[i] = turn ? first : second;
        without[i] = turn ? second : first;
        price[i] = (with[i] / without[i] - 1) * 100;
    }
    if (rank == 0) {
        qsort(price, (size_t)pairs, sizeof *price, compare);
        printf("8 bytes, %d ranks, %d pairs of %d calls\n", RANKS, pairs, CALLS);
        printf("with the comparison %.1f ns, without %.1f ns (medians)\n", median(with, pairs),
               median(without, pairs));
        printf("price %+.2f %% (median of the pairs; quartiles %+.2f, %+.2f)\n", price[pairs / 2],
               price[pairs / 4], price[pairs * 3 / 4]);
    }
    free(with);
    free(without);
    free(price);
    CHECK_OK(weft_comm_destroy(comm));
    CHECK_OK(weft_context_close(context));
    return 0;
}

int main(int argc, char **argv)
{
    int pairs = argc > 1 ? atoi(argv[1]) : 8000;
    if (pairs < 4) {
        fprintf(stderr, "usage: checks [PAIRS], at least 4\n");
        return 2;
    }
    test_ranks_limit(LIMIT_S);
    return test_ranks_fork(RANKS, body, &pairs) != 0;
}
