/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/drive/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "devmem/devices.h"
#include "transport/registry.h"

static const char *const transport_names[WEFT_TRANSPORT_COUNT] = {"shm", "ofi", "verbs", "tcp"};

static void contend(struct weft_context *context)
{
    atomic_fetch_add(&context->contenders, 1);
    pthread_mutex_lock(&context->lock);
    atomic_fetch_sub(&context->contenders, 1);
}

void weft_context_lock(struct weft_context *context)
{
    if (pthread_mutex_trylock(&context->lock) != 0)
        contend(context);
}

int64_t weft_context_lock_since(struct weft_context *context)
{
    if (pthread_mutex_trylock(&context->lock) == 0)
        return 0;
    int64_t since_ns = weft_clock_ns();
    contend(context);
    return since_ns;
}

/* In the midst of a call, perhaps: its error stays. */
static __attribute__((noinline)) void call_back(struct weft_notice *notices)
{
    char before[WEFT_DETAIL_MAX];
    snprintf(before, sizeof before, "%s", weft_error_detail());
    for (struct weft_notice *notice = notices, *next; notice; notice = next) {
        next = notice->next;
        notice->callback(notice->arg, notice->status, notice->detail);
        free(notice);
    }
    weft_error_set_detail(before);
}

void weft_context_unlock(struct weft_context *context)
{
    if (weft_fd_has_losses())
        weft_fd_losses_take(&context->losses);
    struct weft_notice *notices = context->notices;
    if (notices)
        context->notices = NULL;
    pthread_mutex_unlock(&context->lock);
    if (__builtin_expect(atomic_load_explicit(&context->is_missed, memory_order_relaxed), 0) &&
        atomic_exchange(&context->is_missed, 0))
        weft_service_wake(context->service);
    if (__builtin_expect(notices != NULL, 0))
        call_back(notices);
}

void weft_context_notify(struct weft_context *context, struct weft_notice *notice)
{
    notice->next = NULL;
    *(context->notices ? context->notices_end : &context->notices) = notice;
    context->notices_end = &notice->next;
}

/* What a call answers from then on. */
static const char loss_format[] = "the program has closed or replaced descriptor %d, which is weft's: a "
                                  "communicator cannot go on without it";

/* The program has closed descriptors of weft's, or put its own in their place. Nothing can be relied on from here on, and who waits
 * would wait for nothing. Libraries write to their descriptors without a look, so they are not called again. */
static void descriptors_lost(void *arg, int fd)
{
    struct weft_context *context = arg;
    char text[160];
    snprintf(text, sizeof text, loss_format, fd);
    weft_context_lock(context);
    if (!context->is_robbed) {
        context->is_robbed = 1;
        context->lost_fd = fd;
        for (int t = 0; t < WEFT_TRANSPORT_COUNT; t++)
            if ((t == WEFT_OFI || t == WEFT_VERBS) && context->transports[t].instance)
                weft_transport_abandon(&context->transports[t].ops);
        for (uint32_t i = 0; i < context->routes.count; i++)
            context->routes.all[i]->ops->fail(context->routes.all[i], WEFT_SYSTEM, text);
        weft_log(WEFT_LOG_WARN, "%s", text);
    }
    weft_context_unlock(context);
}

void weft_context_watch_losses(struct weft_context *context, struct weft_service *service)
{
    weft_service_set_lost(service, descriptors_lost, context);
}

void weft_context_look(struct weft_context *context)
{
    int fd = weft_fd_is_own(context->event_fd) ? weft_service_find_lost(context->service) : context->event_fd;
    weft_context_lock(context);
    struct weft_service *overlay = context->overlay; /* stays until the context is closed */
    weft_context_unlock(context);
    if (fd < 0 && overlay)
        fd = weft_service_find_lost(overlay);
    if (fd >= 0)
        descriptors_lost(context, fd);
}

int weft_context_check(struct weft_context *context)
{
    weft_context_look(context);
    weft_context_lock(context);
    int is_robbed = context->is_robbed, fd = context->lost_fd;
    weft_context_unlock(context);
    return is_robbed ? weft_fail(WEFT_SYSTEM, loss_format, fd) : WEFT_OK;
}

int weft_context_overlay(struct weft_context *context, struct weft_service **service)
{
    weft_context_lock(context);
    int status = context->overlay ? WEFT_OK : weft_service_start("weft-overlay", &context->overlay);
    if (status == WEFT_OK) {
        *service = context->overlay;
        weft_context_watch_losses(context, context->overlay);
    }
    weft_context_unlock(context);
    return status;
}

static int watch(void *arg, int fd, weft_watch_callback *callback, void *callback_arg)
{
    return weft_service_watch(arg, fd, callback, callback_arg);
}

static void unwatch(void *arg, int fd)
{
    weft_service_unwatch(arg, fd);
}

/* Any communicator's overlay may lead to the rank of this address. */
static int oob_send(void *arg, const void *address, size_t address_size, const void *message, size_t size)
{
    struct weft_context *context = arg;
    int status = WEFT_PEER_FAILED, known = 0;
    for (uint32_t i = 0; i < context->routes.count && status != WEFT_OK && address_size; i++) {
        struct weft_driven *driven = context->routes.all[i];
        int result = driven->ops->oob_send(driven, address, address_size, message, size);
        if (result > 0)
            continue;
        if (!known || result != WEFT_PEER_FAILED) /* another's overlay may still lead there */
            status = result;
        known = 1;
    }
    return known ? status : weft_fail(status, "no communicator has a rank of this address");
}

/* The communicators of a broken instance have all failed, so nothing of it is in use; their links stay valid. */
static int set_aside(struct weft_context *context, enum weft_transport_index index)
{
    struct weft_open_transport *transport = &context->transports[index];
    struct weft_broken_transport *broken = malloc(sizeof *broken);
    if (!broken)
        return weft_fail(WEFT_NOMEM, "no memory to replace a broken transport");
    context->hooks->set_aside(context, index);
    *broken = (struct weft_broken_transport){transport->replaced, transport->instance};
    transport->replaced = broken;
    transport->instance = NULL;
    return WEFT_OK;
}

int weft_context_transport(struct weft_context *context, enum weft_transport_index index,
                           const char *local_address)
{
    struct weft_open_transport *transport = &context->transports[index];
    if (context->working & 1u << index)
        return WEFT_OK;
    int status = transport->instance ? set_aside(context, index) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    const struct weft_transport_ops *built_in = weft_transport_find(transport_names[index]);
    if (!built_in)
        return weft_fail(WEFT_NOT_FOUND, "this weft was built without the transport '%s'",
                         transport_names[index]);
    status = weft_transport_complete(built_in, &transport->ops);
    if (status != WEFT_OK)
        return status;
    struct weft_transport_params params = {
        .size = sizeof params,
        .provider = index == WEFT_OFI ? context->settings.provider : NULL,
        .local_address = local_address,
        .direct = context->settings.direct != 0,
        .instance = context->instance,
        .watch_arg = context->service,
        .watch = watch,
        .unwatch = unwatch,
        .fail = weft_fail,
        .log = weft_log_line,
        .oob_arg = context,
        .oob_send = oob_send,
        .devices = *context->form.chosen_ports ? context->form.chosen_ports : context->settings.devices,
        .verbs = &context->settings.verbs,
        .help = (int)context->settings.help_shm,
        .fed = context->settings.way_shm == WEFT_WAY_AUTO   ? WEFT_FED_AUTO
               : context->settings.way_shm == WEFT_WAY_FED  ? WEFT_FED_ALWAYS
               : context->settings.way_shm == WEFT_WAY_PAST ? WEFT_FED_PAST
                                                            : WEFT_FED_NEVER,
        .device_memory = index == WEFT_OFI && weft_devices_in_use(context->devices.kinds),
    };
    struct weft_transport *instance;
    status = transport->ops.open(&params, &instance);
    if (status != WEFT_OK)
        return status;
    transport->caps.size = sizeof transport->caps;
    transport->ops.caps(instance, &transport->caps);
    transport->instance = instance;
    context->working |= 1u << index;
    return WEFT_OK;
}

int weft_context_link(struct weft_context *context, enum weft_transport_index index, const void *address,
                      size_t size, struct weft_link **link)
{
    struct weft_open_transport *transport = &context->transports[index];
    struct weft_shared_link *made = calloc(1, sizeof *made + size);
    if (!made)
        return weft_fail(WEFT_NOMEM, "no memory for a link");
    made->transport = (uint16_t)index;
    made->address_size = (uint16_t)size;
    memcpy(made->address, address, size);
    int status = transport->ops.connect(transport->instance, address, size, made, &made->link);
    if (status != WEFT_OK) {
        free(made);
        return status;
    }
    struct weft_shared_link *shared = context->links;
    while (shared && shared->link != made->link)
        shared = shared->next;
    if (shared) { /* the transport knows better than we whether a link still serves */
        transport->ops.disconnect(made->link);
        free(made);
    } else {
        shared = made;
        shared->next = context->links;
        context->links = shared;
    }
    shared->users++;
    *link = shared->link;
    return WEFT_OK;
}

void weft_context_unlink(struct weft_context *context, struct weft_link *link)
{
    for (struct weft_shared_link **at = &context->links; *at; at = &(*at)->next) {
        struct weft_shared_link *shared = *at;
        if (shared->link != link)
            continue;
        if (--shared->users == 0) {
            *at = shared->next;
            context->transports[shared->transport].ops.disconnect(link);
            free(shared);
        }
        return;
    }
}

static uint32_t route_slot(const struct weft_context *context, uint32_t id)
{
    uint32_t slot = id & (context->routes.capacity - 1);
    while (context->routes.by_id[slot] && context->routes.by_id[slot]->id != id)
        slot = (slot + 1) & (context->routes.capacity - 1);
    return slot;
}

struct weft_driven *weft_context_find(const struct weft_context *context, uint32_t id)
{
    return context->routes.capacity ? context->routes.by_id[route_slot(context, id)] : NULL;
}

static int route_grow(struct weft_context *context)
{
    uint32_t old_capacity = context->routes.capacity;
    struct weft_driven **old = context->routes.by_id;
    uint32_t capacity = old_capacity ? 2 * old_capacity : 8;
    struct weft_driven **comms = calloc(capacity, sizeof(struct weft_driven *));
    struct weft_driven **all =
        comms ? realloc(context->routes.all, capacity * sizeof(struct weft_driven *)) : NULL;
    if (!all) {
        free(comms);
        return weft_fail(WEFT_NOMEM, "no memory for %u communicators", capacity);
    }
    context->routes.all = all;
    context->routes.by_id = comms;
    context->routes.capacity = capacity;
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old[i])
            comms[route_slot(context, old[i]->id)] = old[i];
    }
    free(old);
    return WEFT_OK;
}

int weft_context_route(struct weft_context *context, struct weft_driven *driven)
{
    if (2 * context->routes.count >= context->routes.capacity) {
        int status = route_grow(context);
        if (status != WEFT_OK)
            return status;
    }
    uint32_t slot = route_slot(context, driven->id);
    if (context->routes.by_id[slot])
        return weft_fail(WEFT_BUSY, "communicator id %08x is taken", driven->id);
    context->routes.by_id[slot] = driven;
    context->routes.all[context->routes.count++] = driven;
    return WEFT_OK;
}

void weft_context_unroute(struct weft_context *context, uint32_t id)
{
    uint32_t slot = route_slot(context, id), mask = context->routes.capacity - 1;
    if (!context->routes.by_id[slot])
        return;
    uint32_t at = 0;
    while (context->routes.all[at] != context->routes.by_id[slot])
        at++;
    context->routes.all[at] = context->routes.all[--context->routes.count];
    context->routes.by_id[slot] = NULL;
    /* Entries behind the gap move up, so that probing still finds them. */
    for (uint32_t i = (slot + 1) & mask; context->routes.by_id[i]; i = (i + 1) & mask) {
        struct weft_driven *driven = context->routes.by_id[i];
        context->routes.by_id[i] = NULL;
        context->routes.by_id[route_slot(context, driven->id)] = driven;
    }
}
