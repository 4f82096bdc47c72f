/* MPI's MPI_Allreduce; built once with Open MPI's compiler wrapper and once with MPICH's. */
#include "perf/peers/loop.h"

#include <mpi.h>

static int allreduce(void *self, const float *send, float *recv, size_t count, int variant)
{
    (void)self;
    (void)variant;
    return MPI_Allreduce(send, recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    struct peers_library library = {version, 0, 0, allreduce, NULL, NULL};
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
