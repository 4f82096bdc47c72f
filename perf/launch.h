/* SPDX-License-Identifier: Apache-2.0 */
/* Starting local ranks and waiting for them. */
#ifndef WEFT_PERF_LAUNCH_H
#define WEFT_PERF_LAUNCH_H

#include "perf/options.h"

/* Runs this program again options->ranks times, as the ranks of one job, and waits for all of them. Returns
 * the exit status for the whole: the worst of the ranks'. Blocks SIGCHLD, SIGINT and SIGTERM in the calling
 * process for good. */
int perf_launch(const struct perf_options *options);

/* Whether another launcher has started this process as one rank of a job, by PMIx: then all ranks exist already. */
int perf_launched(void);

#endif
