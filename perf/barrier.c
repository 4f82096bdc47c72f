/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks are compared on one host only: CLOCK_MONOTONIC is the same for all its processes. */
#include "perf/barrier.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "perf/corrupt.h"

enum { LATE_US = 2000 };

int perf_barrier_check(struct perf_session *session, perf_call *call, void *arg, int index, uint64_t *wrong)
{
    if (session->rank == index % session->ranks)
        usleep(LATE_US);
    int64_t entered_ns = perf_now_ns();
    int status = call(arg);
    int64_t left_ns = perf_now_ns();
    if (status != 0)
        return status;
    int64_t *all_ns = malloc((size_t)session->ranks * sizeof *all_ns);
    if (!all_ns || perf_channel_allgather(&session->channel, &entered_ns, sizeof entered_ns, all_ns) != 0) {
        free(all_ns);
        return 1;
    }
    if (perf_corrupt(session->rank, &left_ns, sizeof left_ns, 1))
        left_ns = 0;
    for (int rank = 0; rank < session->ranks; rank++)
        *wrong += session->members[rank].host_index == session->members[session->rank].host_index &&
                  all_ns[rank] > left_ns;
    free(all_ns);
    return 0;
}
