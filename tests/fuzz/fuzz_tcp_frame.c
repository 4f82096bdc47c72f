/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what a peer writes to a connection of the tcp transport once it has proven itself.
 *
 * The first byte says how many bytes arrive at a time, and the second how many events a turn takes. The rest is the connection.
 * Three receive buffers are open, whose names the input may know. The peer hears nothing that depends on more than the input, and
 * no byte lies outside of the buffers.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/tcp_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const size_t sizes[] = {0, 64, 100000};
#define RBUFS (sizeof sizes / sizeof sizes[0])

static unsigned filled[RBUFS];

static void check(int good)
{
    if (!good)
        __builtin_trap();
}

static void heard(void *arg, const struct weft_event *event)
{
    static volatile uint8_t sum; /* so that all is read */
    (void)arg;
    if (event->kind == WEFT_EVENT_MESSAGE) {
        check(event->data_size <= TCP_EAGER_BYTES && ((uintptr_t)event->data & 7) == 0);
        for (size_t i = 0; i < event->data_size; i++)
            sum = (uint8_t)(sum + ((const uint8_t *)event->data)[i]);
    } else if (event->kind == WEFT_EVENT_FILLED) {
        check(event->cookie < RBUFS && !filled[event->cookie]++); /* once each */
    }
}

static void feed(struct weft_transport *transport, struct weft_link *link, int fd, const uint8_t *data,
                 size_t size)
{
    size_t piece = size ? (size_t)data[0] * data[0] + 1 : 1;
    int budget = size > 1 ? data[1] % 5 + 1 : 1;
    for (size_t at = 2; at < size && link->state == TCP_LINK_UP;) {
        size_t now = size - at < piece ? size - at : piece;
        ssize_t sent = send(fd, data + at, now, MSG_DONTWAIT | MSG_NOSIGNAL);
        at += sent > 0 ? (size_t)sent : 0;
        check(tcp_poll(transport, budget, heard, NULL) <= budget);
    }
    for (int i = 0; i < 1000 && link->state == TCP_LINK_UP; i++)
        tcp_poll(transport, budget, heard, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct weft_transport_params params = {
        .size = sizeof params, .fail = weft_fail, .log = weft_log_line};
    const struct tcp_address peer = {.instance = 7};
    struct weft_transport *transport;
    struct weft_link *link;
    uint8_t *memory[RBUFS] = {0};
    int ends[2];
    if (weft_tcp_ops.open(&params, &transport) != WEFT_OK)
        return 0;
    memset(filled, 0, sizeof filled);
    if (tcp_link_new(transport, &peer, &link) == WEFT_OK && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0) {
        tcp_link_up(link, weft_fd_add(ends[0]));
        for (size_t i = 0; i < RBUFS; i++) {
            struct weft_token token;
            memory[i] = malloc(sizes[i] + !sizes[i]);
            check(memory[i] && tcp_advertise(link, NULL, memory[i], sizes[i], i, &token) == WEFT_OK);
            transport->rbufs[i]->nonce = i;
        }
        feed(transport, link, ends[1], data, size);
        tcp_link_fail(link, WEFT_PEER_FAILED, "the end of the input");
        close(ends[1]);
    }
    weft_tcp_ops.close(transport);
    for (size_t i = 0; i < RBUFS; i++)
        free(memory[i]);
    return 0;
}
