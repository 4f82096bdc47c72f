/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs transport: opening, closing, and its table of operations. */
#include "transport/verbs/verbs.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/crypto.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/region.h"
#include "transport/verbs/verbs_private.h"

#define CLOSE_NS 1000000000

static void verbs_dereg(struct weft_region *region)
{
    verbs_region_settle(region);
    if (region->previous)
        region->previous->next = region->next;
    else
        region->transport->regions = region->next;
    if (region->next)
        region->next->previous = region->previous;
    verbs_region_end(region);
    free(region);
}

static void instance_free(struct weft_transport *transport)
{
    uint32_t count = transport->links_count;
    transport->links_count = 0; /* a device that breaks now finds none that is freed (verbs_break()) */
    for (uint32_t i = 0; i < count; i++)
        verbs_link_free(transport->links[i]);
    free(transport->links);
    verbs_puts_free(transport);
    verbs_rbufs_free(transport);
    while (transport->regions)
        verbs_dereg(transport->regions);
    for (int i = 0; i < transport->rails_count; i++)
        verbs_queues_close(&transport->queues[i]);
    if (transport->rails_count)
        verbs_rails_close(transport->rails, transport->rails_count);
    free(transport->qps);
    free(transport->qp_generations);
    free(transport);
}

static int open_rails(const struct weft_transport_params *params, struct weft_transport *transport)
{
    int count = 0;
    int status = verbs_rails_open(params, transport->rails, &count);
    if (status)
        return status;
    transport->rails_count = count;
    for (int i = 0; i < count && !status; i++)
        status = verbs_queues_open(transport, &transport->queues[i], &transport->rails[i]);
    if (!status)
        status = verbs_rbufs_open(transport);
    if (!status)
        status = verbs_puts_open(transport);
    if (status)
        return status;
    uint64_t instance;
    weft_crypto_random(&instance, sizeof instance);
    verbs_rails_address(transport->rails, count, instance, &transport->own);
    transport->address_size = verbs_address_encode(&transport->own, transport->address);
    transport->put_bytes = verbs_put_bytes(transport);
    /* As peers see it: an address holds as many GIDs as fit. */
    return verbs_address_decode(transport->address, transport->address_size, &transport->own);
}

static int verbs_open(const struct weft_transport_params *params, struct weft_transport **result)
{
    int status = weft_crypto_init();
    if (status)
        return status;
    struct weft_transport *transport = calloc(1, sizeof *transport);
    if (!transport)
        return weft_fail(WEFT_NOMEM, "verbs: no memory for an instance");
    transport->notices_last = &transport->notices;
    if (params->size >= offsetof(struct weft_transport_params, oob_send) + sizeof params->oob_send) {
        transport->oob_arg = params->oob_arg;
        transport->oob_send = params->oob_send;
    }
    status = verbs_settings(params, &transport->settings);
    if (!status)
        status = open_rails(params, transport);
    if (status) {
        instance_free(transport);
        return status;
    }
    *result = transport;
    return WEFT_OK;
}

/* Messages that arrive now are nobody's any more. */
static void discard(void *arg, const struct weft_event *event)
{
    (void)arg, (void)event;
}

/* Whether something that was sent may not have reached its peer yet, or good-bye has not been said. */
static int is_leaving(const struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->links_count; i++) {
        const struct weft_link *link = transport->links[i];
        if (link->state == VERBS_LINK_CONNECTING)
            return 1; /* its rails change */
        const struct verbs_qp *qp = link->qps[link->first];
        if (link->state == VERBS_LINK_UP && (link->pending || qp->posted != qp->retired))
            return 1;
    }
    return 0;
}

/* Says good-bye behind everything that was sent, and waits until it has arrived: a completion says that the peer's
 * queue holds it, whether it polls or not. */
static void drain(struct weft_transport *transport)
{
    int64_t deadline_ns = weft_clock_ns() + CLOSE_NS;
    transport->closing = 1;
    for (uint32_t i = 0; i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        if (link->state == VERBS_LINK_CONNECTING && (!link->round || link->sent == link->acked))
            verbs_link_fail(link, WEFT_CANCELLED, "verbs: the instance closes");
        else if (link->leave < VERBS_LEAVE_PARTING)
            verbs_link_want(link, VERBS_PENDING_BYE);
    }
    verbs_links_flush(transport);
    for (int turns = 1; is_leaving(transport) && !transport->broken && weft_clock_ns() < deadline_ns;
         turns++) {
        verbs_poll(transport, VERBS_BATCH, discard, NULL);
        if (turns % 64 == 0)
            sched_yield();
    }
    for (uint32_t i = 0; i < transport->links_count; i++) {
        if (transport->links[i]->state == VERBS_LINK_CONNECTING)
            verbs_link_fail(transport->links[i], WEFT_CANCELLED, "verbs: the instance closes");
    }
}

static void verbs_close(struct weft_transport *transport)
{
    if (!transport)
        return;
    drain(transport);
    if (transport->stale_frames || transport->stale_completions || transport->stale_oob ||
        transport->stale_immediates)
        weft_log(
            WEFT_LOG_INFO,
            "verbs: dropped %llu stale frames, %llu completions, %llu out-of-band messages, %llu immediates",
            (unsigned long long)transport->stale_frames, (unsigned long long)transport->stale_completions,
            (unsigned long long)transport->stale_oob, (unsigned long long)transport->stale_immediates);
    instance_free(transport);
}

static void verbs_caps(const struct weft_transport *transport, struct weft_transport_caps *caps)
{
    struct weft_transport_caps own = {
        .size = sizeof own,
        .flags = WEFT_CAP_PUT | WEFT_CAP_REG_LOCAL | WEFT_CAP_REG_REMOTE | WEFT_CAP_DEVICE_POINTER,
        .eager_bytes = VERBS_FRAME_BYTES - sizeof(struct verbs_frame),
        .put_bytes = transport->put_bytes,
    };
    int windowed = 1; /* on all rails: else peers get the keys of regions */
    for (int i = 0; i < transport->rails_count; i++)
        windowed &= transport->rails[i].limits.memory_windows > 0;
    if (windowed)
        own.flags |= WEFT_CAP_REG_KEEP;
    if (transport->rails[0].verbs->reg_dmabuf_mr)
        own.flags |= WEFT_CAP_DMABUF;
    size_t size = caps->size && caps->size < sizeof own ? caps->size : sizeof own;
    memcpy(caps, &own, size);
    caps->size = size;
}

static int verbs_address(struct weft_transport *transport, void *address, size_t *size)
{
    if (*size < transport->address_size)
        return weft_fail(WEFT_INVALID, "verbs: address needs %zu bytes, there are %zu",
                         transport->address_size, *size);
    memcpy(address, transport->address, transport->address_size);
    *size = transport->address_size;
    return WEFT_OK;
}

/* Lists a region, or frees it if it could not be made. */
static int region_add(struct weft_transport *transport, struct weft_region *region, int status,
                      struct weft_region **result)
{
    if (!region)
        return weft_fail(WEFT_NOMEM, "verbs: no memory for a region");
    if (status) {
        free(region);
        return status;
    }
    region->transport = transport;
    region->previous = NULL;
    region->next = transport->regions;
    if (region->next)
        region->next->previous = region;
    transport->regions = region;
    *result = region;
    return WEFT_OK;
}

static int verbs_reg(struct weft_transport *transport, void *memory, size_t size, struct weft_region **result)
{
    struct weft_region *made = calloc(1, sizeof *made);
    int status =
        made ? verbs_region_make(transport->rails, transport->rails_count, memory, size, made) : WEFT_NOMEM;
    return region_add(transport, made, status, result);
}

static int verbs_reg_source(struct weft_transport *transport, void *memory, size_t size,
                            struct weft_region **result)
{
    struct weft_region *made = calloc(1, sizeof *made);
    int status =
        made ? verbs_region_source(transport->rails, transport->rails_count, memory, size, made) : WEFT_NOMEM;
    return region_add(transport, made, status, result);
}

static int verbs_reg_device(struct weft_transport *transport, const struct weft_device_memory *memory,
                            struct weft_region **result)
{
    struct weft_region *made = calloc(1, sizeof *made);
    int status =
        made ? verbs_region_device(transport->rails, transport->rails_count, memory, made) : WEFT_NOMEM;
    return region_add(transport, made, status, result);
}

static int verbs_rails(struct weft_transport *transport, weft_rail *infos, int capacity)
{
    return verbs_rails_info(transport->rails, transport->rails_count, infos, capacity);
}

const struct weft_transport_ops weft_verbs_ops = {
    .size = sizeof weft_verbs_ops,
    .abi = WEFT_TRANSPORT_ABI,
    .name = "verbs",
    .open = verbs_open,
    .close = verbs_close,
    .busy = verbs_busy,
    .caps = verbs_caps,
    .address = verbs_address,
    .reachable = verbs_reachable,
    .connect = verbs_connect,
    .disconnect = verbs_disconnect,
    .reg = verbs_reg,
    .dereg = verbs_dereg,
    .send = verbs_send,
    .advertise = verbs_advertise,
    .withdraw = verbs_withdraw,
    .put = verbs_put,
    .poll = verbs_poll,
    .fds = verbs_fds,
    .arm = verbs_arm,
    .disarm = verbs_disarm,
    .link_flags = verbs_link_flags,
    .recall = verbs_recall,
    .recall_wait = verbs_recall_wait,
    .sent_by = verbs_sent_by,
    .oob_receive = verbs_oob_receive,
    .why = verbs_link_why,
    .rails = verbs_rails,
    .reg_source = verbs_reg_source,
    .reg_device = verbs_reg_device,
};
