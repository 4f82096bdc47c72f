/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks that send each other messages, as calls for perf_measure(): all ranks make them, and those that do not belong to
 * the pair return at once. */
#ifndef WEFT_PERF_PAIR_H
#define WEFT_PERF_PAIR_H

#include <stddef.h>
#include <stdint.h>

#include "perf/buffers.h"
#include "perf/data.h"
#include "perf/measure.h"
#include "perf/session.h"

struct perf_pair {
    struct perf_session *session;
    int first, second;             /* ranks */
    size_t count;                  /* elements of a message */
    size_t window;                 /* messages in flight, of perf_pair_stream() */
    int bidirectional;             /* likewise */
    struct perf_data data;         /* moved only */
    struct perf_buffer send, recv; /* window messages, one behind the other */
    size_t shift;                  /* in the pattern, of what the buffers hold */
    weft_work **works;             /* room for two windows */
    const char *delay;             /* of a test, or NULL */
};

/* Makes buffers of capacity bytes and room for window messages. 0, or -1 after a message. End with perf_pair_close(),
 * also after a failure. */
int perf_pair_open(struct perf_pair *pair, struct perf_session *session, weft_dtype dtype, size_t window,
                   size_t capacity);
void perf_pair_close(struct perf_pair *pair);

/* Calls: a message to the second rank and one back; a window of messages to it, and, when it has them, an empty one back
 * (bidirectional: a window each way). arg is the pair. */
int perf_pair_ping(void *pair);
int perf_pair_stream(void *pair);

/* How many messages of so many bytes are in flight when the window is as given: what is in flight at a rank stays
 * within PERF_IN_FLIGHT_BYTES, but for the first message. */
enum { PERF_IN_FLIGHT_BYTES = 256 << 20 };
size_t perf_pair_window(size_t window, size_t size_bytes);

/* Measures: checked calls with fresh data (as many as options say), then the timed ones, of which the last is checked
 * too. Adds what was wrong to *wrong and *damaged, all ranks' together. Collective over all ranks. 0, or -1 after a
 * message. */
int perf_pair_measure(struct perf_pair *pair, perf_call *call, struct perf_timing *timing, uint64_t *wrong,
                      uint64_t *damaged);

#endif
