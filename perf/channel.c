/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int perf_channel_inherited(void)
{
    return getenv(PERF_CHANNEL_VARIABLE) != NULL;
}

/* Reads the list of descriptors. They must not leak into anything that this rank might start. */
static int parse_sockets(int *sockets, int count)
{
    const char *text = getenv(PERF_CHANNEL_VARIABLE);
    for (int i = 0; i < count; i++) {
        char *end;
        long descriptor = strtol(text, &end, 10);
        if (end == text || descriptor < 0 || fcntl((int)descriptor, F_SETFD, FD_CLOEXEC) != 0) {
            fprintf(stderr, "weft-perf: " PERF_CHANNEL_VARIABLE " is '%s': expected %d open descriptors\n",
                    getenv(PERF_CHANNEL_VARIABLE), count);
            return -1;
        }
        sockets[i] = (int)descriptor;
        text = end + (*end == ',');
    }
    return 0;
}

int perf_channel_open(struct perf_channel *channel, weft_comm *comm)
{
    struct perf_channel opened = {.comm = comm, .rank = weft_comm_rank(comm), .ranks = weft_comm_size(comm)};
    int count = opened.rank == 0 ? opened.ranks - 1 : 1;
    if (perf_channel_inherited() && count > 0) {
        opened.sockets = calloc((size_t)count, sizeof *opened.sockets);
        if (!opened.sockets) {
            fprintf(stderr, "weft-perf: out of memory\n");
            return -1;
        }
        if (parse_sockets(opened.sockets, count) != 0) {
            free(opened.sockets);
            return -1;
        }
    }
    *channel = opened;
    return 0;
}

void perf_channel_close(struct perf_channel *channel)
{
    int count = channel->rank == 0 ? channel->ranks - 1 : 1;
    for (int i = 0; channel->sockets && i < count; i++)
        close(channel->sockets[i]);
    free(channel->sockets);
    channel->sockets = NULL;
}

/* Sends or receives exactly size bytes; peer is for the message. */
static int transfer(int descriptor, void *bytes, size_t size, int sending, int peer)
{
    char *at = bytes;
    while (size > 0) {
        ssize_t moved =
            sending ? send(descriptor, at, size, MSG_NOSIGNAL) : recv(descriptor, at, size, MSG_WAITALL);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0) {
            fprintf(stderr, "weft-perf: rank %d is gone (side channel: %s)\n", peer,
                    moved == 0 ? "closed" : strerror(errno));
            return -1;
        }
        at += moved;
        size -= (size_t)moved;
    }
    return 0;
}

static int gather_sockets(struct perf_channel *channel, const void *mine, size_t size, char *all)
{
    size_t total = size * (size_t)channel->ranks;
    memcpy(all + size * (size_t)channel->rank, mine, size);
    if (channel->rank != 0) {
        char *slot = all + size * (size_t)channel->rank;
        if (transfer(channel->sockets[0], slot, size, 1, 0) != 0)
            return -1;
        return transfer(channel->sockets[0], all, total, 0, 0);
    }
    for (int peer = 1; peer < channel->ranks; peer++)
        if (transfer(channel->sockets[peer - 1], all + size * (size_t)peer, size, 0, peer) != 0)
            return -1;
    for (int peer = 1; peer < channel->ranks; peer++)
        if (transfer(channel->sockets[peer - 1], all, total, 1, peer) != 0)
            return -1;
    return 0;
}

static int gather_weft(struct perf_channel *channel, const void *mine, size_t size, char *all)
{
    int status = weft_allgather(channel->comm, mine, all, size, WEFT_UINT8, NULL);
    if (status != 0)
        fprintf(stderr, "weft-perf: rank %d: collecting figures: %s: %s\n", channel->rank,
                weft_strerror(status), weft_error_detail());
    return status == 0 ? 0 : -1;
}

int perf_channel_allgather(struct perf_channel *channel, const void *mine, size_t size, void *all)
{
    if (channel->ranks == 1) {
        memcpy(all, mine, size);
        return 0;
    }
    return channel->sockets ? gather_sockets(channel, mine, size, all)
                            : gather_weft(channel, mine, size, all);
}
