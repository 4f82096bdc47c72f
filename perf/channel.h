/* SPDX-License-Identifier: Apache-2.0 */
/* The side channel: what ranks of weft-perf say to each other about the measurement.
 *
 * Times and counts of wrong elements must not travel through the library that is under test. Ranks that the
 * launcher started have a socket to rank 0, inherited and named by WEFT_PERF_CHANNEL: rank 0 has the sockets
 * of ranks 1, 2, ... in order, every other rank has one. Ranks of another launcher have no such socket and
 * use weft's own allreduce instead; each of them then also exits with its own verdict.
 */
#ifndef WEFT_PERF_CHANNEL_H
#define WEFT_PERF_CHANNEL_H

#include <stddef.h>
#include <weft/weft.h>

#define PERF_CHANNEL_VARIABLE "WEFT_PERF_CHANNEL"

struct perf_channel {
    weft_comm *comm; /* borrowed */
    int rank, ranks;
    int *sockets; /* rank 0: ranks - 1 of them; others: one; NULL: use the communicator */
};

/* Whether the launcher started this process. */
int perf_channel_inherited(void);

/* Takes over the inherited sockets, or falls back to the communicator. 0, or -1 after a message. */
int perf_channel_open(struct perf_channel *channel, weft_comm *comm);
void perf_channel_close(struct perf_channel *channel);

/* Everybody's size bytes at everybody, in the order of ranks. Blocks, asleep. 0, or -1 after a message. */
int perf_channel_allgather(struct perf_channel *channel, const void *mine, size_t size, void *all);

#endif
