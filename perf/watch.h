/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's watcher: a thread that sleeps beside the measurement and sends the launcher what its rank waits for.
 *
 * The launcher hands down one end of a SOCK_SEQPACKET pair, named by WEFT_PERF_WATCH. Each message starts with a
 * byte: to the rank PERF_ASK (say what you wait for), PERF_END (the job has failed, do not stay away any
 * longer) and PERF_GONE with a text (a rank has ended before it had joined), from the rank PERF_JOINED, and PERF_SAYS,
 * PERF_HANGS and PERF_FAILED, each followed by the text of weft_comm_dump(). Without a launcher the text goes to stderr
 * instead.
 *
 * A rank that waits in weft_comm_create() cannot know that another one has died before it was heard of: that one may
 * as well be late. The launcher knows. So a rank that gets PERF_GONE and has not joined yet ends.
 */
#ifndef WEFT_PERF_WATCH_H
#define WEFT_PERF_WATCH_H

#include <stdatomic.h>
#include <stdint.h>
#include <weft/weft.h>

#include "perf/options.h"

#define PERF_WATCH_VARIABLE "WEFT_PERF_WATCH"

enum {
    PERF_ASK = 'A',
    PERF_END = 'E',
    PERF_GONE = 'G',
    PERF_JOINED = 'J',
    PERF_SAYS = 'S',
    PERF_HANGS = 'H',
    PERF_FAILED = 'F'
};
enum { PERF_GONE_TEXT = 200 };

struct perf_watch;

/* Before the rank joins the job. 0, or -1 after a message. */
int perf_watch_start(int rank, const struct perf_options *options, struct perf_watch **watch);
/* It has joined: watches comm, which must outlive the watcher. */
void perf_watch_joined(struct perf_watch *watch, weft_comm *comm);
/* NULL is allowed. */
void perf_watch_stop(struct perf_watch *watch);

/* Before each measured call. Where this is the one at which the rank shall stay away (--stay-away), it returns only
 * when the job has failed. watch may be NULL. */
void perf_watch_call(struct perf_watch *watch);

/* A call has failed: sends what the rank waited for then. watch may be NULL. */
void perf_watch_failed(struct perf_watch *watch);

#endif
