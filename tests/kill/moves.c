/* SPDX-License-Identifier: Apache-2.0 */
/* A transport's table with counting in front of it. A rank of these tests uses one transport; a second one, opened
 * by the same context, is left alone. */
#include <string.h>

#include "tests/kill/point.h"
#include "transport/registry.h"

static struct weft_transport_ops real;

static int move_connect(struct weft_transport *transport, const void *address, size_t size,
                        void *link_context, struct weft_link **link)
{
    kill_at_move(0);
    int status = real.connect(transport, address, size, link_context, link);
    kill_at_move(1);
    return status;
}

static int move_send(struct weft_link *link, const void *header, size_t header_size, const void *payload,
                     size_t payload_size)
{
    kill_at_move(0);
    int status = real.send(link, header, header_size, payload, payload_size);
    kill_at_move(1);
    return status;
}

static int move_advertise(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                          uint64_t cookie, struct weft_token *token)
{
    kill_at_move(0);
    int status = real.advertise(link, region, memory, size, cookie, token);
    kill_at_move(1);
    return status;
}

static int move_put(struct weft_link *link, const struct weft_token *token, struct weft_region *region,
                    const void *memory, size_t size, uint64_t cookie)
{
    kill_at_move(0);
    int status = real.put(link, token, region, memory, size, cookie);
    kill_at_move(1);
    return status;
}

static int move_expose(struct weft_link *link, struct weft_region *region, const void *memory, size_t size,
                       struct weft_token *token)
{
    kill_at_move(0);
    int status = real.expose(link, region, memory, size, token);
    kill_at_move(1);
    return status;
}

static int move_map(struct weft_link *link, const struct weft_token *token, size_t size, const void **memory)
{
    kill_at_move(0);
    int status = real.map(link, token, size, memory);
    kill_at_move(1);
    return status;
}

static int move_pull(struct weft_link *link, const struct weft_token *token, uint64_t offset,
                     void *destination, size_t size, uint32_t flags)
{
    kill_at_move(0);
    int status = real.pull(link, token, offset, destination, size, flags);
    kill_at_move(1);
    return status;
}

static int move_notify(struct weft_link *link)
{
    kill_at_notify();
    return real.notify(link);
}

/* A poll counts when it has brought something. */
static int move_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    int events = real.poll(transport, budget, handler, arg);
    if (events > 0) {
        kill_at_move(0);
        kill_at_move(1);
    }
    return events;
}

int __real_weft_transport_complete(const struct weft_transport_ops *partial,
                                   struct weft_transport_ops *complete);
int __wrap_weft_transport_complete(const struct weft_transport_ops *partial,
                                   struct weft_transport_ops *complete);
int __wrap_weft_transport_complete(const struct weft_transport_ops *partial,
                                   struct weft_transport_ops *complete)
{
    int status = __real_weft_transport_complete(partial, complete);
    if (status != WEFT_OK || real.name)
        return status;
    real = *complete;
    complete->connect = move_connect;
    complete->send = move_send;
    complete->advertise = move_advertise;
    complete->put = move_put;
    complete->expose = move_expose;
    complete->map = move_map;
    complete->pull = move_pull;
    complete->notify = move_notify;
    complete->poll = move_poll;
    return status;
}
