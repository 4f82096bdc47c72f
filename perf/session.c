/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/session.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/device/memory.h"
#include "perf/launch.h"

int perf_session_complain(const struct perf_session *session, const char *what, int status)
{
    const char *detail = weft_error_detail();
    fprintf(stderr, "weft-perf: rank %d: %s: %s%s%s\n", session->rank, what, weft_strerror(status),
            *detail ? ": " : "", detail);
    return -1;
}

/* Flags become settings, so that weft itself compares them between ranks. */
static void export_settings(const struct perf_options *options)
{
    if (options->transport)
        setenv("WEFT_TRANSPORT", options->transport, 1);
    if (options->provider)
        setenv("WEFT_OFI_PROVIDER", options->provider, 1);
    if (options->device)
        setenv("WEFT_VERBS_DEVICE", options->device, 1);
    if (options->algorithm)
        setenv("WEFT_ALGO", options->algorithm, 1);
    if (options->timeout_s) {
        char text[32];
        snprintf(text, sizeof text, "%lld", options->timeout_s * 1000ll);
        setenv("WEFT_TIMEOUT_MS", text, 1);
    }
}

static int only_cpu(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) != 1)
        return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            return cpu;
    return -1;
}

static int meet(struct perf_session *session)
{
    struct perf_member mine;
    memset(&mine, 0, sizeof mine);
    gethostname(mine.host, sizeof mine.host - 1);
    mine.pid = (int32_t)getpid();
    mine.cpu = only_cpu();
    weft_rank_info info = WEFT_RANK_INFO_INIT;
    int status = weft_comm_get_rank_info(session->comm, session->rank, &info);
    if (status != 0)
        return perf_session_complain(session, "asking where this rank runs", status);
    mine.node = info.node;
    mine.host_index = info.host_index;
    perf_device_name(session->context, perf_options_place(session->options, session->rank), mine.device,
                     sizeof mine.device);
    session->members = calloc((size_t)session->ranks, sizeof mine);
    if (!session->members) {
        fprintf(stderr, "weft-perf: out of memory\n");
        return -1;
    }
    return perf_channel_allgather(&session->channel, &mine, sizeof mine, session->members);
}

/* What a rank of a communicator needs beside it. */
static int join(struct perf_session *session)
{
    int expected = session->options->ranks;
    int status = perf_rails_read(session->context, &session->rails);
    if (status != 0)
        return perf_session_complain(session, "asking for the RDMA ports in use", status);
    session->rank = weft_comm_rank(session->comm);
    session->ranks = weft_comm_size(session->comm);
    if (expected && expected != session->ranks) {
        fprintf(stderr,
                "weft-perf: --ranks '%d': expected %d, as many as the launcher has started, or no --ranks\n",
                expected, session->ranks);
        return -1;
    }
    if (perf_channel_open(&session->channel, session->comm) != 0)
        return -1;
    if (meet(session) == 0)
        return 0;
    free(session->members);
    perf_channel_close(&session->channel);
    return -1;
}

int perf_session_open(struct perf_session *session, const struct perf_options *options)
{
    const char *rank = getenv("RANK");
    memset(session, 0, sizeof *session);
    session->options = options;
    session->rank = rank ? atoi(rank) : perf_launched() ? atoi(getenv("PMIX_RANK")) : -1;
    if (session->rank < 0) {
        fprintf(
            stderr,
            "weft-perf: RANK is not set: expected --ranks N, or a launcher with PMIx (mpirun of Open MPI, "
            "srun --mpi=pmix), or one that sets RANK, WORLD_SIZE, MASTER_ADDR and WEFT_PORT (and "
            "WEFT_SECRET_FILE)\n");
        return -1;
    }
    export_settings(options);
    if (options->stay_rank == session->rank && options->stay_call == 0)
        raise(SIGKILL);
    if (perf_watch_start(session->rank, options, &session->watch) != 0)
        return -1;
    int status = weft_context_open(NULL, &session->context);
    if (status != 0) {
        perf_session_complain(session, "opening a context", status);
        goto stop_watch;
    }
    status = weft_comm_create(session->context, NULL, &session->comm);
    if (status != 0) {
        perf_session_complain(session, "creating the communicator", status);
        goto close_context;
    }
    perf_watch_joined(session->watch, session->comm);
    if (join(session) == 0)
        return 0;
    perf_watch_stop(session->watch);
    session->watch = NULL;
    weft_comm_destroy(session->comm);
close_context:
    weft_context_close(session->context);
stop_watch:
    perf_watch_stop(session->watch);
    return -1;
}

int perf_session_close(struct perf_session *session)
{
    int failed = 0;
    perf_watch_stop(session->watch);
    int status = weft_comm_destroy(session->comm);
    if (status != 0)
        failed = perf_session_complain(session, "ending the communicator", status);
    perf_channel_close(&session->channel);
    status = weft_context_close(session->context);
    if (status != 0)
        failed = perf_session_complain(session, "closing the context", status);
    free(session->members);
    return failed;
}

int perf_session_stats(struct perf_session *session, weft_comm_stats *total)
{
    weft_comm_stats mine = WEFT_COMM_STATS_INIT, sum = WEFT_COMM_STATS_INIT;
    int status = weft_comm_get_stats(session->comm, &mine);
    if (status != 0)
        return perf_session_complain(session, "reading the counters", status);
    weft_comm_stats *all = calloc((size_t)session->ranks, sizeof *all);
    if (!all || perf_channel_allgather(&session->channel, &mine, sizeof mine, all) != 0) {
        free(all);
        return -1;
    }
    for (int rank = 0; rank < session->ranks; rank++) {
        sum.operations += all[rank].operations;
        sum.bytes_eager += all[rank].bytes_eager;
        sum.bytes_direct += all[rank].bytes_direct;
        sum.bytes_staged += all[rank].bytes_staged;
        sum.bytes_mapped += all[rank].bytes_mapped;
        sum.bytes_pulled += all[rank].bytes_pulled;
        sum.bytes_offered += all[rank].bytes_offered;
        sum.bytes_helped += all[rank].bytes_helped;
        sum.bytes_fed += all[rank].bytes_fed;
        sum.messages += all[rank].messages;
        sum.fast_path += all[rank].fast_path;
    }
    free(all);
    *total = sum;
    return 0;
}

int perf_session_add_up(struct perf_session *session, uint64_t *wrong, uint64_t *damaged)
{
    uint64_t mine[2] = {*wrong, *damaged};
    uint64_t(*all)[2] = malloc((size_t)session->ranks * sizeof *all);
    if (!all || perf_channel_allgather(&session->channel, mine, sizeof mine, all) != 0) {
        free(all);
        return -1;
    }
    *wrong = *damaged = 0;
    for (int rank = 0; rank < session->ranks; rank++) {
        *wrong += all[rank][0];
        *damaged += all[rank][1];
    }
    free(all);
    return 0;
}
