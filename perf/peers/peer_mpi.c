/* SPDX-License-Identifier: Apache-2.0 */
/* MPI's calls; built once with Open MPI's compiler wrapper and once with MPICH's. */
#include "perf/peers/loop.h"

#include <mpi.h>

static int allreduce(void *self, const struct peers_call *call)
{
    (void)self;
    return MPI_Allreduce(call->send, call->recv, (int)call->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int alltoall(void *self, const struct peers_call *call)
{
    (void)self;
    return MPI_Alltoall(call->send, (int)call->count, MPI_FLOAT, call->recv, (int)call->count, MPI_FLOAT,
                        MPI_COMM_WORLD);
}

static int allgather(void *self, const struct peers_call *call)
{
    (void)self;
    return MPI_Allgather(call->send, (int)call->count, MPI_FLOAT, call->recv, (int)call->count, MPI_FLOAT,
                         MPI_COMM_WORLD);
}

static int broadcast(void *self, const struct peers_call *call)
{
    struct peers_library *library = self;
    void *buffer = library->rank == call->root ? (void *)call->send : call->recv;
    return MPI_Bcast(buffer, (int)call->count, MPI_FLOAT, call->root, MPI_COMM_WORLD);
}

static int pingpong(void *self, const struct peers_call *call)
{
    struct peers_library *library = self;
    int status = 0, first = library->rank == 0, peer = !library->rank;
    if (library->rank > 1)
        return 0;
    if (first)
        status = MPI_Send(call->send, (int)call->count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
    if (status == 0)
        status =
            MPI_Recv(call->recv, (int)call->count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (status == 0 && !first)
        status = MPI_Send(call->send, (int)call->count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
    return status;
}

/* Rank 1 waits for the oldest receive before a new one takes its place. */
static int window(void *self, const struct peers_call *call)
{
    struct peers_library *library = self;
    MPI_Request requests[PEERS_WINDOW_MESSAGES];
    char answer = 0;
    int status = 0, all = PEERS_WINDOW_MESSAGES, started = 0, ended = 0, count = (int)call->count;
    if (library->rank > 1)
        return 0;
    if (library->rank == 0) {
        for (; started < all && status == 0; started++)
            status = MPI_Isend(call->send + peers_message_at(call, started), count, MPI_FLOAT, 1, 0,
                               MPI_COMM_WORLD, &requests[started]);
        if (status == 0)
            status = MPI_Waitall(all, requests, MPI_STATUSES_IGNORE);
        return status ? status : MPI_Recv(&answer, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (; started < all && status == 0; started++) {
        if (started - ended == call->places)
            status = MPI_Wait(&requests[ended++], MPI_STATUS_IGNORE);
        if (status == 0)
            status = MPI_Irecv(call->recv + peers_message_at(call, started), count, MPI_FLOAT, 0, 0,
                               MPI_COMM_WORLD, &requests[started]);
    }
    if (status == 0)
        status = MPI_Waitall(all - ended, requests + ended, MPI_STATUSES_IGNORE);
    return status ? status : MPI_Send(&answer, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    struct peers_library library = {version,
                                    0,
                                    0,
                                    NULL,
                                    &library,
                                    peers_now_ns(),
                                    {allreduce, alltoall, allgather, broadcast, pingpong, window}};
    peers_pin();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &library.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &library.ranks);
    MPI_Get_library_version(version, &length);
    for (char *at = version; *at; at++) /* first line, tabs out */
        *at = *at == '\n' ? 0 : *at == '\t' ? ' ' : *at;
    int failed = peers_serve(&library);
    if (failed)
        MPI_Abort(MPI_COMM_WORLD, failed);
    MPI_Finalize();
    return 0;
}
