/* Compiled instead of the rest of this folder where rdma-core's headers are missing. */
#include "transport/verbs/verbs.h"

#include "base/error.h"

static int absent_open(const struct weft_transport_params *params, struct weft_transport **transport)
{
    (void)params, (void)transport;
    return weft_fail(WEFT_MISSING,
                     "verbs: this build of weft has no support for RDMA devices; install libibverbs-dev "
                     "(rdma-core 32 or later) and build again");
}

static void absent_close(struct weft_transport *transport)
{
    (void)transport;
}

static void absent_caps(const struct weft_transport *transport, struct weft_transport_caps *caps)
{
    (void)transport, (void)caps;
}

static int absent_address(struct weft_transport *transport, void *address, size_t *size)
{
    (void)transport, (void)address, (void)size;
    return WEFT_MISSING;
}

static int absent_reachable(struct weft_transport *transport, const void *address, size_t size)
{
    (void)transport, (void)address, (void)size;
    return 0;
}

static int absent_connect(struct weft_transport *transport, const void *address, size_t size,
                          void *link_context, struct weft_link **link)
{
    (void)transport, (void)address, (void)size, (void)link_context, (void)link;
    return WEFT_MISSING;
}

static void absent_disconnect(struct weft_link *link)
{
    (void)link;
}

static int absent_send(struct weft_link *link, const void *header, size_t header_size, const void *payload,
                       size_t payload_size)
{
    (void)link, (void)header, (void)header_size, (void)payload, (void)payload_size;
    return WEFT_MISSING;
}

static int absent_poll(struct weft_transport *transport, int budget, weft_event_handler *handler, void *arg)
{
    (void)transport, (void)budget, (void)handler, (void)arg;
    return WEFT_MISSING;
}

const struct weft_transport_ops weft_verbs_ops = {
    .size = sizeof weft_verbs_ops,
    .abi = WEFT_TRANSPORT_ABI,
    .name = "verbs",
    .open = absent_open,
    .close = absent_close,
    .caps = absent_caps,
    .address = absent_address,
    .reachable = absent_reachable,
    .connect = absent_connect,
    .disconnect = absent_disconnect,
    .send = absent_send,
    .poll = absent_poll,
};
