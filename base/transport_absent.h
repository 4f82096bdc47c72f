/* SPDX-License-Identifier: Apache-2.0 */
/* What a transport answers that this build does without (transport/ofi/absent.c, transport/verbs/absent.c). */
#ifndef WEFT_BASE_TRANSPORT_ABSENT_H
#define WEFT_BASE_TRANSPORT_ABSENT_H

#include <weft/transport.h>

static inline void absent_close(struct weft_transport *transport)
{
    (void)transport;
}

static inline void absent_caps(const struct weft_transport *transport, struct weft_transport_caps *caps)
{
    (void)transport, (void)caps;
}

static inline int absent_address(struct weft_transport *transport, void *address, size_t *size)
{
    (void)transport, (void)address, (void)size;
    return WEFT_NOT_FOUND;
}

static inline int absent_reachable(struct weft_transport *transport, const void *address, size_t size)
{
    (void)transport, (void)address, (void)size;
    return 0;
}

static inline int absent_connect(struct weft_transport *transport, const void *address, size_t size,
                                 void *link_context, struct weft_link **link)
{
    (void)transport, (void)address, (void)size, (void)link_context, (void)link;
    return WEFT_NOT_FOUND;
}

static inline void absent_disconnect(struct weft_link *link)
{
    (void)link;
}

static inline int absent_send(struct weft_link *link, const void *header, size_t header_size,
                              const void *payload, size_t payload_size)
{
    (void)link, (void)header, (void)header_size, (void)payload, (void)payload_size;
    return WEFT_NOT_FOUND;
}

static inline int absent_poll(struct weft_transport *transport, int budget, weft_event_handler *handler,
                              void *arg)
{
    (void)transport, (void)budget, (void)handler, (void)arg;
    return WEFT_NOT_FOUND;
}

/* All of its table but name and open. */
#define WEFT_ABSENT_OPS                                                                                      \
    .size = sizeof(struct weft_transport_ops), .abi = WEFT_TRANSPORT_ABI, .close = absent_close,             \
    .caps = absent_caps, .address = absent_address, .reachable = absent_reachable,                           \
    .connect = absent_connect, .disconnect = absent_disconnect, .send = absent_send, .poll = absent_poll

#endif
