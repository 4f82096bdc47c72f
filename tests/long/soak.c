/* SPDX-License-Identifier: Apache-2.0 */
/* No false deaths: 8 ranks run allreduces on two processors beside a process that does nothing but compute, with the
 * heartbeat at its default. Nobody may be declared dead, and every bit must be right.
 *
 * WEFT_SOAK_S: seconds (3600). WEFT_SOAK_TRANSPORT: shm or ofi (shm). WEFT_SOAK_HOGS: processes beside (1).
 * Says every minute how far it is; the last line is the count.
 */
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/clock.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define RANKS      8
#define PROCESSORS 2
#define COUNT_MAX  (256 * 1024)
#define HOGS_MAX   16
#define MINUTE_NS  INT64_C(60000000000)

struct soak {
    int64_t seconds;
    const char *transport;
    _Atomic long rounds, last_round; /* all stop before last_round */
    _Atomic int64_t call_ns;         /* the longest, over all ranks */
};

static void raise_to(_Atomic int64_t *longest, int64_t value)
{
    int64_t before = atomic_load(longest);
    while (value > before && !atomic_compare_exchange_weak(longest, &before, value))
        ;
}

static int32_t element(long round, size_t index)
{
    return (int32_t)((size_t)round * 31 + index % 251);
}

static int run_round(struct soak *soak, weft_comm *comm, int rank, long round, int32_t *send, int32_t *recv)
{
    static const size_t counts[] = {2, 1000, 20000, COUNT_MAX};
    size_t count = counts[round % 4];
    for (size_t i = 0; i < count; i++)
        send[i] = element(round, i) + rank;
    int64_t start_ns = weft_clock_ns();
    CHECK_OK(weft_allreduce(comm, send, recv, count, WEFT_INT32, WEFT_SUM, NULL));
    raise_to(&soak->call_ns, weft_clock_ns() - start_ns);
    for (size_t i = 0; i < count; i++)
        CHECK_BITS(recv[i] == RANKS * element(round, i) + RANKS * (RANKS - 1) / 2);
    return 0;
}

static void say(struct soak *soak, int64_t start_ns)
{
    printf("soak: %.1f minutes, %ld rounds, longest call %.0f ms\n",
           (double)(weft_clock_ns() - start_ns) / MINUTE_NS, atomic_load(&soak->rounds),
           (double)soak->call_ns / 1e6);
    fflush(stdout);
}

static int soak_body(int rank, int ranks, void *arg)
{
    struct soak *soak = arg;
    struct job job;
    (void)ranks;
    CHECK_OK(job_open(&job, soak->transport, NULL));
    int32_t *send = malloc(COUNT_MAX * sizeof *send), *recv = malloc(COUNT_MAX * sizeof *recv);
    CHECK(send && recv);
    int64_t start_ns = weft_clock_ns(), end_ns = start_ns + soak->seconds * 1000000000, said_ns = start_ns;
    for (long round = 0; round < atomic_load(&soak->last_round); round++) {
        if (run_round(soak, job.comm, rank, round, send, recv))
            return 1;
        if (rank != 0)
            continue;
        soak->rounds = round + 1;
        if (weft_clock_ns() - said_ns >= MINUTE_NS) {
            said_ns += MINUTE_NS;
            say(soak, start_ns);
        }
        /* The others are in the next round at most: everybody does that one still. */
        if (weft_clock_ns() >= end_ns && soak->last_round > round + 2)
            soak->last_round = round + 2;
    }
    if (rank == 0)
        say(soak, start_ns);
    free(send);
    free(recv);
    CHECK_OK(job_close(&job));
    return 0;
}

/* The process and its children on two of the processors that it may use. */
static void confine(void)
{
    cpu_set_t allowed, two;
    CPU_ZERO(&two);
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < PROCESSORS; cpu++) {
        if (CPU_ISSET(cpu, &allowed))
            CPU_SET(cpu, &two);
    }
    sched_setaffinity(0, sizeof two, &two);
}

static pid_t start_hog(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    for (volatile unsigned long i = 0;; i++)
        ;
}

static long number(const char *name, long fallback)
{
    const char *text = getenv(name);
    return text && *text ? atol(text) : fallback;
}

int main(void)
{
    struct soak *soak = test_ranks_shared(sizeof *soak);
    pid_t hogs[HOGS_MAX];
    long hog_count = number("WEFT_SOAK_HOGS", 1);
    if (hog_count < 0 || hog_count > HOGS_MAX)
        return 2;
    const char *transport = getenv("WEFT_SOAK_TRANSPORT");
    soak->seconds = number("WEFT_SOAK_S", 3600);
    soak->transport = transport ? transport : "shm";
    soak->last_round = LONG_MAX;
    setenv("WEFT_HEARTBEAT_MS", "2000", 1); /* tests/support/heartbeat.h has set it longer */
    confine();
    for (long i = 0; i < hog_count; i++)
        hogs[i] = start_hog();
    test_ranks_limit((int)soak->seconds + 120);
    printf("soak: %d ranks over %s for %lld s on %d processors beside %ld hogs\n", RANKS, soak->transport,
           (long long)soak->seconds, PROCESSORS, hog_count);
    fflush(stdout);
    int bad = test_ranks_fork(RANKS, soak_body, soak);
    for (long i = 0; i < hog_count; i++) {
        kill(hogs[i], SIGKILL);
        waitpid(hogs[i], NULL, 0);
    }
    if (soak->rounds == 0)
        bad = 1;
    printf("%d passed, %d failed, 0 skipped\n", bad == 0, bad != 0);
    return bad != 0;
}
