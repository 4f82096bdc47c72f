/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks agree upon the end by the allreduces themselves: the first element counts the ranks that want to stop, and
 * everybody leaves after the call in which it is all of them. */
#include "perf/load.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = PERF_LOAD_BYTES / 4 };

struct perf_load {
    weft_comm *comm;
    pthread_t thread;
    atomic_int stopping;
    uint64_t calls, wrong;
    int status;
    char detail[512]; /* of status, which belongs to the thread */
    uint32_t send[COUNT], recv[COUNT];
};

static void *load_main(void *arg)
{
    struct perf_load *load = arg;
    const uint32_t rank = (uint32_t)weft_comm_rank(load->comm), ranks = (uint32_t)weft_comm_size(load->comm);
    for (;;) {
        const uint32_t call = (uint32_t)load->calls;
        load->send[0] = (uint32_t)atomic_load(&load->stopping);
        for (uint32_t i = 1; i < COUNT; i++)
            load->send[i] = call + i + rank;
        load->status = weft_allreduce(load->comm, load->send, load->recv, COUNT, WEFT_UINT32, WEFT_SUM, NULL);
        if (load->status != 0) {
            snprintf(load->detail, sizeof load->detail, "%s", weft_error_detail());
            return NULL;
        }
        load->calls++;
        for (uint32_t i = 1; i < COUNT; i++)
            load->wrong += load->recv[i] != ranks * (call + i) + ranks * (ranks - 1) / 2;
        if (load->recv[0] == ranks)
            return NULL;
    }
}

int perf_load_start(weft_comm *comm, struct perf_load **started)
{
    struct perf_load *load = calloc(1, sizeof *load);
    sigset_t all, before;
    if (!load) {
        fprintf(stderr, "weft-perf: out of memory\n");
        return -1;
    }
    load->comm = comm;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&load->thread, NULL, load_main, load);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        fprintf(stderr, "weft-perf: cannot start the thread that calls allreduces\n");
        free(load);
        return -1;
    }
    *started = load;
    return 0;
}

int perf_load_stop(struct perf_load *load, uint64_t *calls, uint64_t *wrong)
{
    atomic_store(&load->stopping, 1);
    pthread_join(load->thread, NULL);
    *calls = load->calls;
    *wrong += load->wrong;
    int status = load->status;
    if (status != 0)
        fprintf(stderr, "weft-perf: rank %d: allreduces beside messages: %s: %s\n",
                weft_comm_rank(load->comm), weft_strerror(status), load->detail);
    free(load);
    return status == 0 ? 0 : -1;
}
