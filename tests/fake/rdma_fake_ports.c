/* The ports of the fake RDMA device: in place of transport/verbs/device.c, and of load.c below it. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "tests/fake/rdma_fake_private.h"
#include "transport/verbs/device.h"
#include "transport/verbs/window.h"

#define PORTS    8
#define CONTEXTS 256

struct fake_context {
    struct ibv_context base;
    int number;
    uint32_t events; /* of the port that have not been taken */
    int is_last_up;  /* they alternate */
};

static atomic_uint next_lid;
static atomic_int port_down[PORTS], port_silent[PORTS];
static atomic_long carried[PORTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and the contexts' events */
static struct fake_context *contexts[CONTEXTS];

static int number_of(const struct ibv_context *context)
{
    return ((const struct fake_context *)(const void *)context)->number;
}

int rdma_fake_carries(const struct ibv_context *context)
{
    return !port_down[number_of(context)];
}

void rdma_fake_carry(const struct ibv_context *context)
{
    carried[number_of(context)]++;
}

int rdma_fake_next_event(struct ibv_context *base, struct ibv_async_event *event)
{
    struct fake_context *context = (struct fake_context *)(void *)base;
    uint64_t one;
    pthread_mutex_lock(&lock);
    int is_any = context->events != 0 && read(base->async_fd, &one, sizeof one) == sizeof one;
    if (is_any) {
        context->events--;
        int is_up = context->is_last_up ^ (int)(context->events & 1);
        event->event_type = is_up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
        event->element.port_num = context->number + 1;
    }
    pthread_mutex_unlock(&lock);
    if (!is_any)
        errno = EAGAIN;
    return is_any ? 0 : -1;
}

void rdma_fake_event_end(struct ibv_async_event *event)
{
    (void)event;
}

void rdma_fake_port(int number, int is_up, int silent)
{
    pthread_mutex_lock(&lock);
    int was_down = atomic_exchange(&port_down[number], !is_up);
    port_silent[number] = silent;
    for (int i = 0; i < CONTEXTS && !silent && was_down == is_up; i++) {
        struct fake_context *context = contexts[i];
        uint64_t one = 1;
        if (!context || context->number != number || write(context->base.async_fd, &one, sizeof one) < 0)
            continue;
        context->events++;
        context->is_last_up = is_up;
    }
    pthread_mutex_unlock(&lock);
}

long rdma_fake_carried(int number)
{
    return atomic_exchange(&carried[number], 0);
}

/* A device for port `number`. */
static struct ibv_context *context_make(int number)
{
    struct fake_context *context = rdma_fake_make(sizeof *context);
    context->number = number;
    context->base.async_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    int place = 0;
    pthread_mutex_lock(&lock);
    while (place < CONTEXTS && contexts[place])
        place++;
    if (place == CONTEXTS)
        abort();
    contexts[place] = context;
    pthread_mutex_unlock(&lock);
    return &context->base;
}

static void context_end(struct ibv_context *base)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < CONTEXTS; i++) {
        if (contexts[i] && &contexts[i]->base == base)
            contexts[i] = NULL;
    }
    pthread_mutex_unlock(&lock);
    close(base->async_fd);
    rdma_fake_drop(base);
}

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
    rail->context = context_make(number);
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
        context_end(rails[i].context);
    }
}

int verbs_rail_refresh(struct verbs_rail *rail)
{
    int number = number_of(rail->context), is_up = !port_down[number] || port_silent[number];
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
