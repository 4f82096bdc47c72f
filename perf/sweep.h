/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps an operation of the table over sizes, types, reductions and roots. */
#ifndef WEFT_PERF_SWEEP_H
#define WEFT_PERF_SWEEP_H

#include "perf/operations.h"
#include "perf/report.h"
#include "perf/session.h"

/* Runs on every rank; report is NULL but on rank 0. Fills *result; 0, or -1 after a message. */
int perf_sweep(const struct perf_operation *operation, struct perf_session *session,
               struct perf_report *report, struct perf_result *result);

#endif
