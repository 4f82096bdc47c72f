/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/registry.h"

#include <string.h>
#include "base/error.h"
#include "transport/ofi/ofi.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"
#include "transport/verbs/verbs.h"

static const struct weft_transport_ops *const built_in[] = {&weft_shm_ops, &weft_verbs_ops, &weft_tcp_ops,
                                                            &weft_ofi_ops};

const struct weft_transport_ops *weft_transport_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof built_in / sizeof built_in[0]; i++) {
        if (strcmp(built_in[i]->name, name) == 0)
            return built_in[i];
    }
    return NULL;
}

static int absent_reg(struct weft_transport *transport, void *memory, size_t size,
                      struct weft_region **region)
{
    (void)transport, (void)memory, (void)size, (void)region;
    return WEFT_UNSUPPORTED;
}

static void absent_dereg(struct weft_region *region)
{
    (void)region;
}

static int absent_alloc(struct weft_transport *transport, size_t size, void **memory)
{
    (void)transport, (void)size, (void)memory;
    return WEFT_UNSUPPORTED;
}

static void absent_free(struct weft_transport *transport, void *memory)
{
    (void)transport, (void)memory;
}

static int absent_advertise(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                            uint64_t cookie, struct weft_token *token)
{
    (void)link, (void)region, (void)memory, (void)size, (void)cookie, (void)token;
    return WEFT_UNSUPPORTED;
}

static void absent_withdraw(struct weft_link *link, const struct weft_token *token)
{
    (void)link, (void)token;
}

static int absent_put(struct weft_link *link, const struct weft_token *token, struct weft_region *region,
                      const void *memory, size_t size, uint64_t cookie)
{
    (void)link, (void)token, (void)region, (void)memory, (void)size, (void)cookie;
    return WEFT_UNSUPPORTED;
}

static int absent_expose(struct weft_link *link, struct weft_region *region, const void *memory, size_t size,
                         struct weft_token *token)
{
    (void)link, (void)region, (void)memory, (void)size, (void)token;
    return WEFT_UNSUPPORTED;
}

static int absent_map(struct weft_link *link, const struct weft_token *token, size_t size,
                      const void **memory)
{
    (void)link, (void)token, (void)size, (void)memory;
    return WEFT_UNSUPPORTED;
}

static int absent_pull(struct weft_link *link, const struct weft_token *token, uint64_t offset,
                       void *destination, size_t size, uint32_t flags)
{
    (void)link, (void)token, (void)offset, (void)destination, (void)size, (void)flags;
    return WEFT_UNSUPPORTED;
}

static int absent_fds(struct weft_transport *transport, int *fds, int capacity)
{
    (void)transport, (void)fds, (void)capacity;
    return 0;
}

static int absent_arm(struct weft_transport *transport)
{
    (void)transport;
    return WEFT_OK;
}

static void absent_disarm(struct weft_transport *transport)
{
    (void)transport;
}

static int absent_notify(struct weft_link *link)
{
    (void)link;
    return WEFT_UNSUPPORTED;
}

static int absent_busy(struct weft_transport *transport)
{
    (void)transport;
    return 0;
}

static int absent_recall(struct weft_link *link, const struct weft_token *token, uint64_t cookie)
{
    (void)link, (void)token, (void)cookie;
    return WEFT_UNSUPPORTED;
}

static void absent_recall_wait(struct weft_transport *transport)
{
    (void)transport;
}

/* Nobody's: a transport that does not know sends events without a sender. */
static int absent_sent_by(struct weft_transport *transport, const void *sender, const void *address,
                          size_t size)
{
    (void)transport, (void)sender, (void)address, (void)size;
    return 0;
}

static void absent_unexpose(struct weft_link *link, const struct weft_token *token, int taken)
{
    (void)link, (void)token, (void)taken;
}

static int absent_exposed(struct weft_link *link, const struct weft_token *token)
{
    (void)link, (void)token;
    return WEFT_OK;
}

static void absent_oob_receive(struct weft_transport *transport, const void *from, size_t from_size,
                               const void *message, size_t size)
{
    (void)transport, (void)from, (void)from_size, (void)message, (void)size;
}

static const char *absent_why(struct weft_link *link)
{
    (void)link;
    return NULL;
}

static int absent_rails(struct weft_transport *transport, weft_rail *rails, int capacity)
{
    (void)transport, (void)rails, (void)capacity;
    return 0;
}

static int absent_reg_source(struct weft_transport *transport, void *memory, size_t size,
                             struct weft_region **region)
{
    (void)transport, (void)memory, (void)size, (void)region;
    return WEFT_UNSUPPORTED;
}

static int absent_reg_device(struct weft_transport *transport, const struct weft_device_memory *memory,
                             struct weft_region **region)
{
    (void)transport, (void)memory, (void)region;
    return weft_fail(WEFT_UNSUPPORTED, "the transport registers no device memory");
}

static void absent_expose_whole(struct weft_link *link, struct weft_token *token)
{
    (void)link, (void)token;
}

static void absent_look(struct weft_link *link, uint64_t bytes)
{
    (void)link, (void)bytes;
}

static int absent_link_help(struct weft_link *link, struct weft_link_help *help)
{
    (void)link, (void)help;
    return WEFT_UNSUPPORTED;
}

static int absent_link_flags(struct weft_link *link, uint32_t *flags)
{
    (void)link;
    *flags = 0;
    return WEFT_OK;
}

static const struct weft_transport_ops absent = {
    .reg = absent_reg,
    .dereg = absent_dereg,
    .alloc = absent_alloc,
    .free = absent_free,
    .advertise = absent_advertise,
    .withdraw = absent_withdraw,
    .put = absent_put,
    .expose = absent_expose,
    .map = absent_map,
    .pull = absent_pull,
    .fds = absent_fds,
    .arm = absent_arm,
    .disarm = absent_disarm,
    .notify = absent_notify,
    .link_flags = absent_link_flags,
    .busy = absent_busy,
    .recall = absent_recall,
    .recall_wait = absent_recall_wait,
    .sent_by = absent_sent_by,
    .unexpose = absent_unexpose,
    .exposed = absent_exposed,
    .oob_receive = absent_oob_receive,
    .why = absent_why,
    .rails = absent_rails,
    .reg_source = absent_reg_source,
    .reg_device = absent_reg_device,
    .link_help = absent_link_help,
    .expose_whole = absent_expose_whole,
    .look = absent_look,
};

static void abandoned_close(struct weft_transport *transport)
{
    (void)transport;
}

static void abandoned_disconnect(struct weft_link *link)
{
    (void)link;
}

static int abandoned(void)
{
    return weft_fail(WEFT_TRANSPORT, "the transport has lost its descriptors");
}

static int abandoned_connect(struct weft_transport *transport, const void *address, size_t size, void *cookie,
                             struct weft_link **link)
{
    (void)transport, (void)address, (void)size, (void)cookie, (void)link;
    return abandoned();
}

static int abandoned_send(struct weft_link *link, const void *header, size_t header_size, const void *payload,
                          size_t payload_size)
{
    (void)link, (void)header, (void)header_size, (void)payload, (void)payload_size;
    return abandoned();
}

static int abandoned_poll(struct weft_transport *transport, int budget, weft_event_handler *handler,
                          void *arg)
{
    (void)transport, (void)budget, (void)handler, (void)arg;
    return 0;
}

/* Takes the default for every operation that the table lacks. */
static void fill(struct weft_transport_ops *ops)
{
    ops->reg = ops->reg ? ops->reg : absent.reg;
    ops->dereg = ops->dereg ? ops->dereg : absent.dereg;
    ops->alloc = ops->alloc ? ops->alloc : absent.alloc;
    ops->free = ops->free ? ops->free : absent.free;
    ops->advertise = ops->advertise ? ops->advertise : absent.advertise;
    ops->withdraw = ops->withdraw ? ops->withdraw : absent.withdraw;
    ops->put = ops->put ? ops->put : absent.put;
    ops->expose = ops->expose ? ops->expose : absent.expose;
    ops->map = ops->map ? ops->map : absent.map;
    ops->pull = ops->pull ? ops->pull : absent.pull;
    ops->fds = ops->fds ? ops->fds : absent.fds;
    ops->arm = ops->arm ? ops->arm : absent.arm;
    ops->disarm = ops->disarm ? ops->disarm : absent.disarm;
    ops->notify = ops->notify ? ops->notify : absent.notify;
    ops->link_flags = ops->link_flags ? ops->link_flags : absent.link_flags;
    ops->busy = ops->busy ? ops->busy : absent.busy;
    ops->recall = ops->recall ? ops->recall : absent.recall;
    ops->recall_wait = ops->recall_wait ? ops->recall_wait : absent.recall_wait;
    ops->sent_by = ops->sent_by ? ops->sent_by : absent.sent_by;
    ops->unexpose = ops->unexpose ? ops->unexpose : absent.unexpose;
    ops->exposed = ops->exposed ? ops->exposed : absent.exposed;
    ops->oob_receive = ops->oob_receive ? ops->oob_receive : absent.oob_receive;
    ops->why = ops->why ? ops->why : absent.why;
    ops->rails = ops->rails ? ops->rails : absent.rails;
    ops->reg_source = ops->reg_source ? ops->reg_source : absent.reg_source;
    ops->reg_device = ops->reg_device ? ops->reg_device : absent.reg_device;
    ops->link_help = ops->link_help ? ops->link_help : absent.link_help;
    ops->expose_whole = ops->expose_whole ? ops->expose_whole : absent.expose_whole;
    ops->look = ops->look ? ops->look : absent.look;
}

int weft_transport_complete(const struct weft_transport_ops *partial, struct weft_transport_ops *complete)
{
    if (partial->abi != WEFT_TRANSPORT_ABI)
        return weft_fail(WEFT_INVALID, "transport %s has ABI %u, expected %u",
                         partial->name ? partial->name : "?", (unsigned)partial->abi, WEFT_TRANSPORT_ABI);
    struct weft_transport_ops ops;
    memset(&ops, 0, sizeof ops);
    memcpy(&ops, partial, partial->size < sizeof ops ? partial->size : sizeof ops);
    ops.size = sizeof ops;
    if (!ops.name || !ops.open || !ops.close || !ops.caps || !ops.address || !ops.reachable || !ops.connect ||
        !ops.disconnect || !ops.send || !ops.poll)
        return weft_fail(WEFT_INVALID,
                         "transport %s lacks one of open, close, caps, address, reachable, connect, "
                         "disconnect, send, poll",
                         ops.name ? ops.name : "?");
    fill(&ops);
    *complete = ops;
    return WEFT_OK;
}

void weft_transport_abandon(struct weft_transport_ops *ops)
{
    struct weft_transport_ops dead = {
        .size = ops->size,
        .abi = ops->abi,
        .name = ops->name,
        .open = ops->open,
        .close = abandoned_close,
        .caps = ops->caps,
        .address = ops->address,
        .reachable = ops->reachable,
        .connect = abandoned_connect,
        .disconnect = abandoned_disconnect,
        .send = abandoned_send,
        .poll = abandoned_poll,
    };
    fill(&dead);
    *ops = dead;
}
