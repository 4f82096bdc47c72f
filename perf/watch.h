/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's watcher: a thread that sleeps beside the measurement and tells the launcher what its rank waits for.
 *
 * The launcher hands down one end of a SOCK_SEQPACKET pair, named by WEFT_PERF_WATCH. Each message starts with a
 * letter: to the rank PERF_ASK (say what you wait for) and PERF_END (the job has failed, do not stay away any
 * longer), from the rank PERF_SAYS, PERF_HANGS and PERF_FAILED, each followed by the text of weft_comm_dump(). Without
 * a launcher the text goes to stderr instead.
 */
#ifndef WEFT_PERF_WATCH_H
#define WEFT_PERF_WATCH_H

#include <stdatomic.h>
#include <stdint.h>
#include <weft/weft.h>

#include "perf/options.h"

#define PERF_WATCH_VARIABLE "WEFT_PERF_WATCH"

enum { PERF_ASK = 'A', PERF_END = 'E', PERF_SAYS = 'S', PERF_HANGS = 'H', PERF_FAILED = 'F' };

struct perf_watch;

/* Starts watching comm, which must outlive the watcher. 0, or -1 after a message. */
int perf_watch_start(weft_comm *comm, const struct perf_options *options, struct perf_watch **watch);
/* NULL is allowed. */
void perf_watch_stop(struct perf_watch *watch);

/* Before each measured call. Where this is the one at which the rank shall stay away (--stay-away), it returns only
 * when the job has failed. watch may be NULL. */
void perf_watch_call(struct perf_watch *watch);

/* A call has failed: tells what the rank waited for then. watch may be NULL. */
void perf_watch_failed(struct perf_watch *watch);

#endif
