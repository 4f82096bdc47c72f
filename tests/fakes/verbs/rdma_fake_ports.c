/* SPDX-License-Identifier: Apache-2.0 */
/* The ports of the fake RDMA device, and what counts its objects: in place of transport/verbs/device.c, and of load.c below it. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "tests/fakes/verbs/rdma_fake_private.h"
#include "transport/verbs/device.h"
#include "transport/verbs/window.h"

#define PORTS    8
#define CONTEXTS 256
#define EVENTS   1024

struct fake_context {
    struct ibv_context base;
    int number, binds_again;
    atomic_int is_down, is_silent;
    struct ibv_async_event events[EVENTS]; /* that have not been taken */
    int events_count;
};

static atomic_uint next_lid;
static atomic_int port_down[PORTS], port_silent[PORTS], port_swallows[PORTS], port_delays[PORTS];
static atomic_long carried[PORTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and the contexts' events */
static struct fake_context *contexts[CONTEXTS];

static atomic_int objects;

void *rdma_fake_make(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory)
        abort();
    objects++;
    return memory;
}

void rdma_fake_drop(void *memory)
{
    free(memory);
    objects--;
}

int rdma_fake_count(void)
{
    return objects;
}

static int number_of(const struct ibv_context *context)
{
    return ((const struct fake_context *)(const void *)context)->number;
}

static struct fake_context *context_of(const struct ibv_context *context)
{
    return (struct fake_context *)(uintptr_t)context;
}

int rdma_fake_carries(const struct ibv_context *context)
{
    return !port_down[number_of(context)] && !context_of(context)->is_down;
}

int rdma_fake_swallows(const struct ibv_context *context)
{
    return port_swallows[number_of(context)];
}

int rdma_fake_delays(const struct ibv_context *context)
{
    return port_delays[number_of(context)];
}

int rdma_fake_binds_again(const struct ibv_context *context)
{
    return ((const struct fake_context *)(const void *)context)->binds_again;
}

void rdma_fake_carry(const struct ibv_context *context)
{
    carried[number_of(context)]++;
}

/* Locked. */
static void event_add(struct fake_context *context, const struct ibv_async_event *event)
{
    uint64_t one = 1;
    if (context->events_count == EVENTS || write(context->base.async_fd, &one, sizeof one) != sizeof one)
        abort();
    context->events[context->events_count++] = *event;
}

/* Locked. */
static void event_remove(struct fake_context *context, int place)
{
    uint64_t one;
    if (read(context->base.async_fd, &one, sizeof one) != sizeof one)
        abort();
    context->events_count--;
    memmove(context->events + place, context->events + place + 1,
            (size_t)(context->events_count - place) * sizeof context->events[0]);
}

int rdma_fake_next_event(struct ibv_context *base, struct ibv_async_event *event)
{
    struct fake_context *context = context_of(base);
    pthread_mutex_lock(&lock);
    int is_any = context->events_count != 0;
    if (is_any) {
        *event = context->events[0];
        event_remove(context, 0);
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

void rdma_fake_last(struct ibv_qp *qp)
{
    struct ibv_async_event event = {.event_type = IBV_EVENT_QP_LAST_WQE_REACHED, .element.qp = qp};
    pthread_mutex_lock(&lock);
    event_add(context_of(qp->context), &event);
    pthread_mutex_unlock(&lock);
}

void rdma_fake_forget(const struct ibv_qp *qp)
{
    struct fake_context *context = context_of(qp->context);
    pthread_mutex_lock(&lock);
    for (int i = context->events_count - 1; i >= 0; i--) {
        if (context->events[i].event_type == IBV_EVENT_QP_LAST_WQE_REACHED &&
            context->events[i].element.qp == qp)
            event_remove(context, i);
    }
    pthread_mutex_unlock(&lock);
}

/* Locked. The port has gone down or come back. */
static void port_report(struct fake_context *context, int is_up)
{
    struct ibv_async_event event = {.event_type = is_up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR,
                                    .element.port_num = context->number + 1};
    event_add(context, &event);
}

void rdma_fake_port(int number, int is_up, int silent)
{
    pthread_mutex_lock(&lock);
    int was_down = atomic_exchange(&port_down[number], !is_up);
    port_silent[number] = silent;
    for (int i = 0; i < CONTEXTS && !silent && was_down == is_up; i++) {
        if (contexts[i] && contexts[i]->number == number)
            port_report(contexts[i], is_up);
    }
    pthread_mutex_unlock(&lock);
}

void rdma_fake_plug(int instance, int number, int is_up, int silent)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < CONTEXTS; i++) {
        struct fake_context *context = contexts[i];
        if (!context || context->number != number || instance-- != 0)
            continue;
        int was_down = atomic_exchange(&context->is_down, !is_up);
        context->is_silent = silent;
        if (!silent && was_down == is_up)
            port_report(context, is_up);
    }
    pthread_mutex_unlock(&lock);
}

void rdma_fake_swallow(int number, int is_on)
{
    port_swallows[number] = is_on;
}

void rdma_fake_delay(int number, int is_on)
{
    port_delays[number] = is_on;
}

long rdma_fake_carried(int number)
{
    return atomic_exchange(&carried[number], 0);
}

/* A device for port `number`. */
static struct ibv_context *context_make(int number, int binds_again)
{
    struct fake_context *context = rdma_fake_make(sizeof *context);
    context->number = number;
    context->binds_again = binds_again;
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

static void rail_open(struct verbs_rail *rail, int number, int has_windows, int binds_again)
{
    memset(rail, 0, sizeof *rail);
    rail->verbs = &rdma_fake_library;
    rail->number = number;
    rail->state = IBV_PORT_ACTIVE;
    rail->physical_state = 5;
    snprintf(rail->device, sizeof rail->device, "fake%d", number);
    rail->context = context_make(number, binds_again);
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
                                         .binds_again = binds_again,
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
    struct weft_verbs_settings settings;
    int status = verbs_settings(params, &settings);
    if (status)
        return status;
    *count = params->devices && params->devices[0] == '2' ? 2 : 1;
    int binds_again = params->devices && strstr(params->devices, "soft");
    for (int i = 0; i < *count; i++)
        rail_open(&rails[i], i, settings.windows != 0, binds_again);
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
    int number = number_of(rail->context);
    const struct fake_context *context = context_of(rail->context);
    int is_up = (!port_down[number] || port_silent[number]) && (!context->is_down || context->is_silent);
    rail->state = is_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    rail->physical_state = is_up ? 5 : 3;
    return WEFT_OK;
}
