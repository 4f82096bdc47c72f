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
    int status = weft_allreduce(job->comm, call->send, call->recv, call->count, WEFT_FLOAT32, WEFT_SUM);
    return status == 0 ? 0 : complain("weft_allreduce", status);
}

static int alltoall(void *self, const struct peers_call *call)
{
    struct job *job = self;
    int status = weft_alltoall(job->comm, call->send, call->recv, call->count, WEFT_FLOAT32);
    return status == 0 ? 0 : complain("weft_alltoall", status);
}

static int allgather(void *self, const struct peers_call *call)
{
    struct job *job = self;
    int status = weft_allgather(job->comm, call->send, call->recv, call->count, WEFT_FLOAT32);
    return status == 0 ? 0 : complain("weft_allgather", status);
}

static int broadcast(void *self, const struct peers_call *call)
{
    struct job *job = self;
    /* In place at the root, like MPI's: elsewhere weft would copy. */
    void *recv = job->rank == call->root ? (void *)call->send : call->recv;
    int status = weft_broadcast(job->comm, call->send, recv, call->count, WEFT_FLOAT32, call->root);
    return status == 0 ? 0 : complain("weft_broadcast", status);
}

static int pingpong(void *self, const struct peers_call *call)
{
    struct job *job = self;
    int status = 0, first = job->rank == 0, peer = !job->rank;
    if (job->rank > 1)
        return 0;
    if (first)
        status = weft_send(job->comm, call->send, call->count, WEFT_FLOAT32, peer, 0);
    if (status == 0)
        status = weft_recv(job->comm, call->recv, call->count, WEFT_FLOAT32, peer, 0, NULL);
    if (status == 0 && !first)
        status = weft_send(job->comm, call->send, call->count, WEFT_FLOAT32, peer, 0);
    return status == 0 ? 0 : complain("weft_send or weft_recv", status);
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
                                                  [PEERS_PINGPONG] = pingpong}};
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
