/* SPDX-License-Identifier: Apache-2.0 */
/* What every command of weft-perf starts from: a context, a communicator, the side channel, who takes part.
 */
#ifndef WEFT_PERF_SESSION_H
#define WEFT_PERF_SESSION_H

#include <stdint.h>

#include "perf/channel.h"
#include "perf/options.h"
#include "perf/rails.h"
#include "perf/watch.h"

struct perf_member {
    char host[64];
    int32_t pid;
    int32_t cpu;        /* the one processor that the rank may use, -1 when it may use several */
    int32_t node;       /* the launcher's number for the host, -1 when it has none */
    int32_t host_index; /* weft's number for the host: names may be the same */
    char device[160];   /* where its buffers live, "" for ordinary memory: perf_device_name() */
};

struct perf_session {
    const struct perf_options *options; /* borrowed */
    weft_context *context;
    weft_comm *comm;
    struct perf_channel channel;
    struct perf_watch *watch;
    int rank, ranks;
    struct perf_rails rails;     /* this rank's */
    struct perf_member *members; /* by rank */
};

/* Joins the job. 0, or -1 after a message. End with perf_session_close(). */
int perf_session_open(struct perf_session *session, const struct perf_options *options);

/* Leaves it. 0, or -1 after a message; everything is released either way. */
int perf_session_close(struct perf_session *session);

/* Says on stderr which rank's call failed how. Returns -1. */
int perf_session_complain(const struct perf_session *session, const char *what, int status);

/* Adds up over the ranks what each has found wrong with its buffers. 0, or -1 after a message. */
int perf_session_add_up(struct perf_session *session, uint64_t *wrong, uint64_t *damaged);

/* What all ranks together have moved so far; collective. 0, or -1 after a message. */
int perf_session_stats(struct perf_session *session, weft_comm_stats *total);

#endif
