/* SPDX-License-Identifier: Apache-2.0 */
/* Bare sockets to compare with over TCP: one connection of two processes over loopback, without any library. A message
 * is one send(), and is received when recv() has brought all of it; the receiver knows how long it is.
 * Variants:
 *   0  the receiver sleeps in recv() until there is something;
 *   1  it asks again and again, and never sleeps.
 * The coordinator takes the faster for each size.
 */
#include "perf/peers/loop.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

struct job {
    int rank, connection;
};

/* One send() where the socket takes the message as a whole, as it does while it may sleep. */
static int send_whole(const struct job *job, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t sent = send(job->connection, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            fprintf(stderr, "send: %s\n", strerror(errno));
            return 1;
        }
        at += sent;
        size -= (size_t)sent;
    }
    return 0;
}

static int recv_whole(const struct job *job, void *data, size_t size, int polls)
{
    char *at = data;
    while (size > 0) {
        ssize_t received = recv(job->connection, at, size, polls ? MSG_DONTWAIT : 0);
        if (received < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (received <= 0) {
            fprintf(stderr, "recv: %s\n", received < 0 ? strerror(errno) : "the other process has hung up");
            return 1;
        }
        at += received;
        size -= (size_t)received;
    }
    return 0;
}

static int pingpong(void *self, const struct peers_call *call)
{
    struct job *job = self;
    size_t bytes = call->count * sizeof(float);
    int status = 0, first = job->rank == 0;
    if (first)
        status = send_whole(job, call->send, bytes);
    if (status == 0)
        status = recv_whole(job, call->recv, bytes, call->variant);
    if (status == 0 && !first)
        status = send_whole(job, call->send, bytes);
    return status;
}

static int window(void *self, const struct peers_call *call)
{
    struct job *job = self;
    size_t bytes = call->count * sizeof(float);
    char answer = 0;
    int status = 0;
    for (int i = 0; i < PEERS_WINDOW_MESSAGES && status == 0; i++)
        status = job->rank == 0
                     ? send_whole(job, call->send + peers_message_at(call, i), bytes)
                     : recv_whole(job, call->recv + peers_message_at(call, i), bytes, call->variant);
    if (status == 0)
        status = job->rank == 0 ? recv_whole(job, &answer, 1, call->variant) : send_whole(job, &answer, 1);
    return status;
}

/* Rank 0 accepts at the listener that the coordinator handed to both, rank 1 connects to it. -1 after a message. */
static int meet(int rank)
{
    int listener = atoi(peers_environment("PEERS_LISTENER_FD", "-1")), one = 1, connection;
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    if (rank == 0)
        connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    else {
        connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connection >= 0 && (getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
                                connect(connection, (struct sockaddr *)&address, length) != 0)) {
            close(connection);
            connection = -1;
        }
    }
    if (connection < 0 || setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
        fprintf(stderr, "PEERS_LISTENER_FD: no connection: %s\n", strerror(errno));
    return connection;
}

int main(void)
{
    struct job job = {.rank = peers_pin()};
    job.connection = meet(job.rank);
    if (job.connection < 0)
        return 1;
    struct peers_library library = {.version = "bare sockets",
                                    .rank = job.rank,
                                    .ranks = 2,
                                    .self = &job,
                                    .functions = {[PEERS_PINGPONG] = pingpong, [PEERS_WINDOW] = window}};
    return peers_serve(&library);
}
