/* Stands in for landing.c, put.c and withdraw.c until they are there. */
#include "transport/verbs/region.h"
#include "transport/verbs/verbs_private.h"

int verbs_landings_open(struct weft_transport *transport)
{
    (void)transport;
    return WEFT_OK;
}

void verbs_landings_free(struct weft_transport *transport)
{
    (void)transport;
}

void verbs_landings_withdraw(struct weft_transport *transport)
{
    (void)transport;
}

int verbs_puts_open(struct weft_transport *transport)
{
    (void)transport;
    return WEFT_OK;
}

void verbs_puts_free(struct weft_transport *transport)
{
    (void)transport;
}

void verbs_put_retired(struct weft_transport *transport, struct verbs_put *put, int status)
{
    (void)transport, (void)put, (void)status;
}

void verbs_landing_bound(struct weft_transport *transport, struct verbs_landing *landing, int status)
{
    (void)transport, (void)landing, (void)status;
}

void verbs_landing_closed(struct weft_transport *transport, struct verbs_landing *landing, int status)
{
    (void)transport, (void)landing, (void)status;
}

void verbs_landing_arrived(struct verbs_queues *queues, uint32_t qp_number, uint32_t immediate)
{
    (void)queues, (void)qp_number, (void)immediate;
}

uint64_t verbs_put_told(struct weft_transport *transport, struct verbs_notice *event)
{
    (void)transport, (void)event;
    return 0;
}

uint64_t verbs_landing_told(struct weft_transport *transport, struct verbs_notice *event)
{
    (void)transport, (void)event;
    return 0;
}

void verbs_landings_link_failed(struct weft_link *link)
{
    (void)link;
}

void verbs_landings_link_freed(struct weft_link *link)
{
    (void)link;
}

void verbs_landings_poll(struct weft_transport *transport)
{
    (void)transport;
}

void verbs_region_settle(struct weft_region *region)
{
    (void)region;
}

uint64_t verbs_put_bytes(const struct weft_transport *transport)
{
    (void)transport;
    return 1 << 30;
}

int verbs_cancels_send(struct weft_link *link)
{
    (void)link;
    return WEFT_OK;
}

int verbs_answers_send(struct weft_link *link)
{
    (void)link;
    return WEFT_OK;
}

void verbs_cancel_receive(struct weft_link *link, uint32_t immediate, uint16_t lanes)
{
    (void)link, (void)immediate, (void)lanes;
}

int verbs_withdraw_busy(const struct weft_transport *transport)
{
    (void)transport;
    return 0;
}

int verbs_land(struct weft_link *link, struct weft_region *region, void *memory, size_t size, uint64_t cookie,
               struct weft_token *token)
{
    (void)link, (void)region, (void)memory, (void)size, (void)cookie, (void)token;
    return WEFT_UNSUPPORTED;
}

void verbs_unland(struct weft_link *link, const struct weft_token *token)
{
    (void)link, (void)token;
}

int verbs_put(struct weft_link *link, const struct weft_token *token, struct weft_region *region,
              const void *memory, size_t size, uint64_t cookie)
{
    (void)link, (void)token, (void)region, (void)memory, (void)size, (void)cookie;
    return WEFT_UNSUPPORTED;
}

int verbs_recall(struct weft_link *link, const struct weft_token *token, uint64_t cookie)
{
    (void)link, (void)token, (void)cookie;
    return WEFT_UNSUPPORTED;
}

void verbs_recall_wait(struct weft_transport *transport)
{
    (void)transport;
}
