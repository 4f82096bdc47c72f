/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of weft-perf beside the operations that it sweeps over sizes (operations.h). A new one is a file with a
 * run function and a line in the table (weft-perf.c). */
#ifndef WEFT_PERF_COMMAND_H
#define WEFT_PERF_COMMAND_H

#include "perf/report.h"
#include "perf/session.h"

struct perf_command {
    const char *name;
    const char *help;
    /* Runs on every rank; report is NULL but on rank 0. Fills *result; 0, or -1 after a message. */
    int (*run)(struct perf_session *session, struct perf_report *report, struct perf_result *result);
    struct perf_accepts accepts;
};

int perf_p2p_latency(struct perf_session *session, struct perf_report *report, struct perf_result *result);
int perf_p2p_bandwidth(struct perf_session *session, struct perf_report *report, struct perf_result *result);
int perf_matrix(struct perf_session *session, struct perf_report *report, struct perf_result *result);
int perf_overlap(struct perf_session *session, struct perf_report *report, struct perf_result *result);
int perf_reduce_local(struct perf_session *session, struct perf_report *report, struct perf_result *result);
int perf_register(struct perf_session *session, struct perf_report *report, struct perf_result *result);
int perf_init(struct perf_session *session, struct perf_report *report, struct perf_result *result);

#endif
