/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured, as all drivers understand it: names, sizes of buffers, and the data in them.
 *
 * count is the size of one block in elements: a rank's whole buffer for allreduce, broadcast and the ping-pong, one
 * message of a window, what it has for one other rank for alltoall, what it contributes for allgather. So "1 MB" is always what MPI's and weft's
 * count argument says.
 *
 * Calls follow each other without barrier and without a look at the clock in between. For that to measure how long a
 * call takes, and not how far a sender can run ahead of its receivers, each call must need something that the rank
 * got from the one before. allreduce, alltoall and allgather need something of everybody. A broadcast from a fixed
 * root does not wait for anybody, so the root changes with every call: the next root has to receive first, and with
 * two ranks a call takes as long as the data needs to be across. The ping-pong is such a chain by nature.
 *
 * Data: rank r's element i is (r + 1) * weight, which is 1 everywhere while time is taken, and a number that depends
 * on i in the one call per size whose result is looked at as a whole. All are integers far below 2^24, so that
 * float32 sums are exact in every order.
 */
#ifndef WEFT_PEERS_OPERATIONS_H
#define WEFT_PEERS_OPERATIONS_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum peers_operation {
    PEERS_ALLREDUCE,
    PEERS_ALLTOALL,
    PEERS_ALLGATHER,
    PEERS_BROADCAST,
    PEERS_PINGPONG, /* rank 0 sends and receives, rank 1 receives and sends: a round trip, half of which counts */
    PEERS_WINDOW, /* rank 0 sends PEERS_WINDOW_MESSAGES messages, rank 1 answers all with one byte: one of them counts */
    PEERS_OPERATIONS
};

enum { PEERS_WINDOW_MESSAGES = 64 };

struct peers_call {
    const float *send;
    float *recv; /* a broadcast's root sends from send, the others receive into recv */
    size_t count;
    int root;
    int variant; /* picks between the library's own ways, as the driver says */
    int places;  /* of a window: how many of its messages have a place of their own in the buffers */
};

/* Sums count floats or moves them. 0 on success. */
typedef int peers_function(void *self, const struct peers_call *call);

static inline const char *peers_operation_name(int operation)
{
    static const char *const names[] = {"allreduce", "alltoall", "allgather",
                                        "broadcast", "pingpong", "window"};
    return names[operation];
}

/* PEERS_OPERATIONS for a name that nobody knows. */
static inline int peers_operation_find(const char *name)
{
    int operation = 0;
    while (operation < PEERS_OPERATIONS && strcmp(name, peers_operation_name(operation)) != 0)
        operation++;
    return operation;
}

/* How many blocks the two buffers have. places is that of the call. */
static inline size_t peers_blocks_sent(int operation, int ranks, int places)
{
    return operation == PEERS_ALLTOALL ? (size_t)ranks : operation == PEERS_WINDOW ? (size_t)places : 1;
}

static inline size_t peers_blocks_received(int operation, int ranks, int places)
{
    return operation == PEERS_ALLGATHER ? (size_t)ranks : peers_blocks_sent(operation, ranks, places);
}

/* Where the i-th message of a window lies, in floats from the buffer's start. A receive that takes the place of an
 * earlier message must wait for that one. */
static inline size_t peers_message_at(const struct peers_call *call, int i)
{
    return (size_t)(i % call->places) * call->count;
}

static inline float peers_value(int rank, size_t i, int weighted)
{
    return (float)((size_t)(rank + 1) * (weighted ? 1 + i % 1009 : 1));
}

/* What rank has to find in element i of its receive buffer. */
static inline float peers_expected(int operation, int rank, int ranks, const struct peers_call *call,
                                   size_t i, int weighted)
{
    size_t block = i / call->count, at = i % call->count;
    switch (operation) {
    case PEERS_ALLTOALL:
        return peers_value((int)block, (size_t)rank * call->count + at, weighted);
    case PEERS_ALLGATHER:
        return peers_value((int)block, at, weighted);
    case PEERS_BROADCAST:
        return peers_value(call->root, i, weighted);
    case PEERS_PINGPONG:
        return peers_value(!rank, i, weighted);
    case PEERS_WINDOW:
        return peers_value(0, i, weighted);
    default:
        return (float)(ranks * (ranks + 1) / 2) * peers_value(0, i, weighted);
    }
}

/* 1 where every step-th element of the result, and the last one, is what it has to be. */
static inline int peers_is_right(int operation, int rank, int ranks, const struct peers_call *call,
                                 int weighted, size_t step)
{
    size_t total = call->count * peers_blocks_received(operation, ranks, call->places);
    if ((operation == PEERS_BROADCAST && call->root == rank) || (operation == PEERS_WINDOW && rank == 0))
        return 1;
    for (size_t i = 0; i < total; i = i < total - 1 && i + step >= total ? total - 1 : i + step)
        if (call->recv[i] != peers_expected(operation, rank, ranks, call, i, weighted)) {
            fprintf(stderr, "rank %d, %s of %zu elements: element %zu is %g, expected %g\n", rank,
                    peers_operation_name(operation), call->count, i, (double)call->recv[i],
                    (double)peers_expected(operation, rank, ranks, call, i, weighted));
            return 0;
        }
    return 1;
}

#endif
