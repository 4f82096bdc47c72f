/* SPDX-License-Identifier: Apache-2.0 */
/* weft itself. PEERS_MEMORY=malloc|weft says where the buffers live. */
#include "perf/peers/loop.h"

#include <weft/weft.h>

struct job {
    weft_context *context;
    weft_comm *comm;
    int rank;
};

static int complain(const char *what, int status)
{
    fprintf(stderr, "%s: %s: %s\n", what, weft_strerror(status), weft_error_detail());
    return 1;
}

static int allreduce(void *self, const struct peers_call *call)
{
    struct job *job = self;
    int status = weft_allreduce(job->comm, call->send, call->recv, call->count, WEFT_FLOAT32, WEFT_SUM, NULL);
    return status == 0 ? 0 : complain("weft_allreduce", status);
}

static int alltoall(void *self, const struct peers_call *call)
{
    struct job *job = self;
    int status = weft_alltoall(job->comm, call->send, call->recv, call->count, WEFT_FLOAT32, NULL);
    return status == 0 ? 0 : complain("weft_alltoall", status);
}

static int allgather(void *self, const struct peers_call *call)
{
    struct job *job = self;
    int status = weft_allgather(job->comm, call->send, call->recv, call->count, WEFT_FLOAT32, NULL);
    return status == 0 ? 0 : complain("weft_allgather", status);
}

static int broadcast(void *self, const struct peers_call *call)
{
    struct job *job = self;
    /* In place at the root, like MPI's: elsewhere weft would copy. */
    void *recv = job->rank == call->root ? (void *)call->send : call->recv;
    int status = weft_broadcast(job->comm, call->send, recv, call->count, WEFT_FLOAT32, call->root, NULL);
    return status == 0 ? 0 : complain("weft_broadcast", status);
}

static int pingpong(void *self, const struct peers_call *call)
{
    struct job *job = self;
    int status = 0, first = job->rank == 0, peer = !job->rank;
    if (job->rank > 1)
        return 0;
    if (first)
        status = weft_send(job->comm, call->send, call->count, WEFT_FLOAT32, peer, 0, NULL);
    if (status == 0)
        status = weft_recv(job->comm, call->recv, call->count, WEFT_FLOAT32, peer, 0, NULL, NULL);
    if (status == 0 && !first)
        status = weft_send(job->comm, call->send, call->count, WEFT_FLOAT32, peer, 0, NULL);
    return status == 0 ? 0 : complain("weft_send or weft_recv", status);
}

/* Waits for the works from `from` to `to`, all of them even where one has failed: their buffers are weft's until then. */
static int wait_all(weft_work **works, int from, int to, int status)
{
    for (; from < to; from++) {
        int ended = weft_work_wait(works[from], -1);
        status = status ? status : ended;
        weft_work_free(works[from]);
    }
    return status;
}

/* Rank 1 waits for the oldest receive before a new one takes its place. */
static int window(void *self, const struct peers_call *call)
{
    struct job *job = self;
    weft_work *works[PEERS_WINDOW_MESSAGES];
    char answer = 0;
    int status = 0, all = PEERS_WINDOW_MESSAGES, started = 0, ended = 0;
    if (job->rank > 1)
        return 0;
    for (; started < all && status == 0; started += status == 0) {
        size_t at = peers_message_at(call, started);
        if (job->rank == 0) {
            status = weft_send(job->comm, call->send + at, call->count, WEFT_FLOAT32, 1, 0,
                               WEFT_START(&works[started]));
            continue;
        }
        if (started - ended == call->places) {
            status = wait_all(works, ended, ended + 1, status);
            ended++;
        }
        if (status == 0)
            status = weft_recv(job->comm, call->recv + at, call->count, WEFT_FLOAT32, 0, 0, NULL,
                               WEFT_START(&works[started]));
    }
    status = wait_all(works, ended, started, status);
    if (status == 0)
        status = job->rank == 0 ? weft_recv(job->comm, &answer, 1, WEFT_UINT8, 1, 0, NULL, NULL)
                                : weft_send(job->comm, &answer, 1, WEFT_UINT8, 0, 0, NULL);
    return status == 0 ? 0 : complain("a window of weft_send or weft_recv", status);
}

static void *allocate(void *self, size_t size)
{
    struct job *job = self;
    void *memory = NULL;
    int status = weft_mem_alloc(job->context, size, &memory);
    if (status != 0)
        complain("weft_mem_alloc", status);
    return memory;
}

int main(void)
{
    struct job job;
    char version[64];
    int64_t start_ns = peers_now_ns();
    peers_pin();
    int status = weft_context_open(NULL, &job.context);
    if (status != 0)
        return complain("weft_context_open", status);
    status = weft_comm_create(job.context, NULL, &job.comm);
    if (status != 0)
        return complain("weft_comm_create", status);
    job.rank = weft_comm_rank(job.comm);
    snprintf(version, sizeof version, "weft %s", weft_version());
    int own = strcmp(peers_environment("PEERS_MEMORY", "malloc"), "weft") == 0;
    struct peers_library library = {.version = version,
                                    .rank = job.rank,
                                    .ranks = weft_comm_size(job.comm),
                                    .allocate = own ? allocate : NULL,
                                    .self = &job,
                                    .start_ns = start_ns,
                                    .functions = {[PEERS_ALLREDUCE] = allreduce,
                                                  [PEERS_ALLTOALL] = alltoall,
                                                  [PEERS_ALLGATHER] = allgather,
                                                  [PEERS_BROADCAST] = broadcast,
                                                  [PEERS_PINGPONG] = pingpong,
                                                  [PEERS_WINDOW] = window}};
    int failed = peers_serve(&library);
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    if (weft_comm_get_stats(job.comm, &stats) == 0)
        fprintf(stderr,
                "rank %d: bytes eager %llu, direct %llu, staged %llu; %llu of %llu by the fast path\n",
                library.rank, (unsigned long long)stats.bytes_eager, (unsigned long long)stats.bytes_direct,
                (unsigned long long)stats.bytes_staged, (unsigned long long)stats.fast_path,
                (unsigned long long)stats.operations);
    return failed; /* the process ends here; the kernel takes the memory back */
}
