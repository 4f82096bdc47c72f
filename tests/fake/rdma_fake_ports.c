/* The ports of the fake RDMA device: in place of transport/verbs/device.c, and of load.c below it. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "tests/fake/rdma_fake_private.h"
#include "transport/verbs/device.h"
#include "transport/verbs/window.h"

static atomic_uint next_lid;

const struct weft_verbs_settings verbs_default_settings = {
    .qps = 1,
    .rails = VERBS_RAILS,
    .stripe_bytes = 1 << 18,
    .gid_index = -1,
    .timeout = 18,
    .retry = 7,
    .windows = 1,
};

const struct weft_verbs_settings *verbs_settings(const struct weft_transport_params *params)
{
    return params->verbs ? params->verbs : &verbs_default_settings;
}

static void rail_open(struct verbs_rail *rail, int number, int has_windows)
{
    memset(rail, 0, sizeof *rail);
    rail->verbs = &rdma_fake_library;
    rail->number = number;
    rail->state = IBV_PORT_ACTIVE;
    rail->physical_state = 5;
    snprintf(rail->device, sizeof rail->device, "fake%d", number);
    rail->context = rdma_fake_context(number);
    rdma_fake_fill(&rail->context->ops);
    rail->domain = rdma_fake_make(sizeof *rail->domain);
    rail->domain->context = rail->context;
    rail->limits = (struct verbs_limits){.queue_pairs = RDMA_FAKE_PAIRS,
                                         .queue_entries = 1024,
                                         .queue_segments = 4,
                                         .completion_entries = RDMA_FAKE_ENTRIES,
                                         .shared_queues = 16,
                                         .shared_entries = 16384,
                                         .memory_windows = has_windows ? 8192 : 0,
                                         .reads = 16,
                                         .message_bytes = 1 << 20,
                                         .region_bytes = UINT64_C(1) << 40};
    rail->window_limit = rail->limits.memory_windows;
    rail->port = (struct verbs_port){.guid = 0x57,
                                     .speed_mbps = 10000,
                                     .lid = (uint16_t)(1 + atomic_fetch_add(&next_lid, 1)),
                                     .number = (uint8_t)(number + 1),
                                     .layer = IBV_LINK_LAYER_INFINIBAND,
                                     .partition = 0xffff,
                                     .mtu = IBV_MTU_4096,
                                     .gid_count = 1};
    rail->port.gids[0].raw[0] = 0xfe;
    rail->port.gids[0].raw[1] = 0x80;
    rail->port.gids[0].raw[15] = (uint8_t)rail->port.lid;
}

int verbs_rails_open(const struct weft_transport_params *params, struct verbs_rail rails[VERBS_RAILS],
                     int *count)
{
    *count = params->devices && strcmp(params->devices, "2") == 0 ? 2 : 1;
    for (int i = 0; i < *count; i++)
        rail_open(&rails[i], i, verbs_settings(params)->windows != 0);
    return WEFT_OK;
}

void verbs_rails_close(struct verbs_rail *rails, int count)
{
    for (int i = 0; i < count; i++) {
        verbs_windows_end(&rails[i]);
        rdma_fake_drop(rails[i].domain);
        rdma_fake_context_end(rails[i].context);
    }
}

int verbs_rail_refresh(struct verbs_rail *rail)
{
    int is_up = rdma_fake_is_up(rail->context);
    rail->state = is_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    rail->physical_state = is_up ? 5 : 3;
    return WEFT_OK;
}

void verbs_rails_address(const struct verbs_rail *rails, int count, uint64_t instance,
                         struct verbs_address *address)
{
    memset(address, 0, sizeof *address);
    address->instance = instance;
    address->version_min = VERBS_VERSION_MIN;
    address->version_max = VERBS_VERSION;
    address->port_count = (uint8_t)count;
    for (int i = 0; i < count; i++)
        address->ports[i] = rails[i].port;
}

int verbs_rails_info(const struct verbs_rail *rails, int count, struct weft_rail_info *infos, int capacity)
{
    (void)rails, (void)infos, (void)capacity;
    return count;
}
