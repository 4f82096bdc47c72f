/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/fork.h"
#include "base/limits.h"
#include "base/log.h"
#include "comm/arrange.h"
#include "comm/boot_pmix.h"
#include "comm/comm.h"
#include "comm/inbox.h"
#include "comm/op.h"
#include "comm/progress.h"
#include "devmem/devices.h"
#include "topo/graph.h"
#include "transport/registry.h"

#define ROOM 1280 /* descriptors: a start among a thousand strangers does not wait for the kernel's table */

static const char *const transport_names[WEFT_TRANSPORT_COUNT] = {"shm", "ofi", "verbs"};

void weft_context_lock(struct weft_context *context)
{
    if (pthread_mutex_trylock(&context->lock) == 0)
        return;
    atomic_fetch_add(&context->contenders, 1);
    pthread_mutex_lock(&context->lock);
    atomic_fetch_sub(&context->contenders, 1);
}

void weft_context_unlock(struct weft_context *context)
{
    if (weft_fd_has_losses())
        weft_fd_losses_take(&context->losses);
    pthread_mutex_unlock(&context->lock);
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
            if (t != WEFT_SHM && context->transports[t].instance)
                weft_transport_abandon(&context->transports[t].ops);
        for (uint32_t i = 0; i < context->comm_count; i++)
            weft_comm_fail(context->all[i], WEFT_SYSTEM, text);
        weft_log(WEFT_LOG_WARN, "%s", text);
    }
    weft_context_unlock(context);
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
        weft_service_set_lost(context->overlay, descriptors_lost, context);
    }
    weft_context_unlock(context);
    return status;
}

static int apply_options(struct weft_settings *settings, const weft_context_options *options)
{
    if (!options)
        return WEFT_OK;
    if (options->size < sizeof(size_t) + sizeof(char *))
        return weft_fail(WEFT_INVALID, "weft_context_options.size is %zu: use WEFT_CONTEXT_OPTIONS_INIT",
                         options->size);
    const char *transports = options->transports;
    const char *provider = options->size >= sizeof *options ? options->ofi_provider : NULL;
    if (transports) {
        int status = weft_settings_transports(settings, transports);
        if (status != WEFT_OK)
            return status;
    }
    if (provider) {
        if (strlen(provider) >= sizeof settings->provider)
            return weft_fail(WEFT_INVALID, "ofi_provider is longer than %zu characters",
                             sizeof settings->provider - 1);
        snprintf(settings->provider, sizeof settings->provider, "%s", provider);
    }
    return WEFT_OK;
}

static int make_devices(struct weft_context *context)
{
    const struct weft_settings *settings = &context->settings;
    return weft_devices_create(settings->device_kinds, settings->device_plugins, settings->device_options,
                               &context->devices);
}

int weft_context_open(const weft_context_options *options, weft_context **opened)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!opened)
        return weft_fail(WEFT_INVALID, "context is NULL");
    struct weft_context *context = calloc(1, sizeof *context);
    if (!context)
        return weft_fail(WEFT_NOMEM, "no memory for a context");
    int status = weft_settings_read(&context->settings);
    weft_settings_warn();
    if (status == WEFT_OK)
        status = apply_options(&context->settings, options);
    if (status == WEFT_OK)
        status = weft_context_read_fabric(context);
    if (status == WEFT_OK)
        status = make_devices(context);
    if (status != WEFT_OK)
        goto free_context;
    if (getrandom(&context->instance, sizeof context->instance, 0) != sizeof context->instance) {
        status = weft_fail_errno("getrandom");
        goto free_context;
    }
    context->event_fd = weft_fd_add(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (context->event_fd < 0) {
        status = weft_fail_errno("eventfd");
        goto free_context;
    }
    pthread_mutex_init(&context->lock, NULL);
    pthread_cond_init(&context->changed, NULL);
    weft_limits_make_room_early(context->event_fd, ROOM);
    status = weft_service_start("weft-service", &context->service);
    if (status != WEFT_OK)
        goto destroy_lock;
    weft_service_set_lost(context->service, descriptors_lost, context);
    weft_service_set_tick(context->service, weft_progress_tick, context);
    *opened = context;
    return WEFT_OK;

destroy_lock:
    pthread_cond_destroy(&context->changed);
    pthread_mutex_destroy(&context->lock);
    weft_fd_close(context->event_fd);
free_context:
    weft_devices_destroy(context->devices);
    weft_graph_free(context->fabric);
    free(context);
    return status;
}

static void close_transport(struct weft_open_transport *transport)
{
    if (transport->instance)
        transport->ops.close(transport->instance);
    while (transport->replaced) {
        struct weft_broken_transport *broken = transport->replaced;
        transport->replaced = broken->next;
        transport->ops.close(broken->instance);
        free(broken);
    }
}

int weft_context_close(weft_context *context)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context)
        return WEFT_OK;
    weft_fd_losses_drop();
    int users = atomic_load(&context->users);
    if (users)
        return weft_fail(WEFT_BUSY, "%d communicators of the context still exist", users);
    int scopes = atomic_load(&context->scopes);
    if (scopes)
        return weft_fail(WEFT_BUSY, "%d scopes of weft_stream_begin() on the context have not been ended",
                         scopes);
    weft_context_look(context);
    weft_context_lock(context);
    if (context->holds) {
        weft_context_unlock(context);
        return weft_fail(WEFT_BUSY, "calls of a group that has not been ended stand in streams");
    }
    int status = weft_memory_close(context);
    weft_context_unlock(context);
    if (status != WEFT_OK)
        return status;
    struct weft_fd_losses losses = context->losses;
    int is_robbed = context->is_robbed, lost_fd = context->lost_fd;
    weft_service_set_lost(context->service, NULL, NULL);
    if (context->overlay)
        weft_service_set_lost(context->overlay, NULL, NULL);
    weft_service_set_tick(context->service, NULL, NULL);
    for (int t = 0; t < WEFT_TRANSPORT_COUNT; t++)
        close_transport(&context->transports[t]);
    weft_service_stop(context->service);
    weft_service_stop(context->overlay);
    weft_pmix_drop_hold(&context->holds_pmix);
    pthread_cond_destroy(&context->changed);
    pthread_mutex_destroy(&context->lock);
    weft_fd_close(context->event_fd);
    weft_ops_close(context);
    free(context->comms);
    free(context->all);
    weft_devices_destroy(context->devices);
    weft_ports_close(&context->ports);
    weft_graph_free(context->fabric);
    free(context);
    weft_fd_losses_take(&losses);
    if (!losses.count && !is_robbed)
        return WEFT_OK;
    return weft_fail(
        WEFT_SYSTEM,
        "the context is closed, but the program had closed or replaced descriptors of weft's, number %d "
        "among them: what has their numbers now was left alone",
        is_robbed ? lost_fd : losses.first);
}

static int watch(void *arg, int fd, weft_watch_callback *callback, void *callback_arg)
{
    return weft_service_watch(arg, fd, callback, callback_arg);
}

static void unwatch(void *arg, int fd)
{
    weft_service_unwatch(arg, fd);
}

/* The communicators of a broken instance have all failed, so nothing of it is in use; their links stay valid. */
static int set_aside(struct weft_context *context, enum weft_transport_index index)
{
    struct weft_open_transport *transport = &context->transports[index];
    struct weft_broken_transport *broken = malloc(sizeof *broken);
    if (!broken)
        return weft_fail(WEFT_NOMEM, "no memory to replace a broken transport");
    weft_memory_set_aside(context, index);
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
        return weft_fail(WEFT_MISSING, "this weft was built without the transport '%s'",
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
        .tell_arg = context,
        .tell = weft_inbox_tell,
        .devices = *context->ports.chosen ? context->ports.chosen : context->settings.devices,
        .verbs = &context->settings.verbs,
        .device_memory = index == WEFT_OFI && weft_devices_in_use(context->devices),
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
    uint32_t slot = id & (context->comm_capacity - 1);
    while (context->comms[slot] && context->comms[slot]->id != id)
        slot = (slot + 1) & (context->comm_capacity - 1);
    return slot;
}

struct weft_comm *weft_context_find(const struct weft_context *context, uint32_t id)
{
    return context->comm_capacity ? context->comms[route_slot(context, id)] : NULL;
}

static int route_grow(struct weft_context *context)
{
    uint32_t old_capacity = context->comm_capacity;
    struct weft_comm **old = context->comms;
    uint32_t capacity = old_capacity ? 2 * old_capacity : 8;
    struct weft_comm **comms = calloc(capacity, sizeof(struct weft_comm *));
    struct weft_comm **all = comms ? realloc(context->all, capacity * sizeof(struct weft_comm *)) : NULL;
    if (!all) {
        free(comms);
        return weft_fail(WEFT_NOMEM, "no memory for %u communicators", capacity);
    }
    context->all = all;
    context->comms = comms;
    context->comm_capacity = capacity;
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old[i])
            comms[route_slot(context, old[i]->id)] = old[i];
    }
    free(old);
    return WEFT_OK;
}

int weft_context_route(struct weft_context *context, uint32_t id, struct weft_comm *comm)
{
    if (2 * context->comm_count >= context->comm_capacity) {
        int status = route_grow(context);
        if (status != WEFT_OK)
            return status;
    }
    uint32_t slot = route_slot(context, id);
    if (context->comms[slot])
        return weft_fail(WEFT_BUSY, "communicator id %08x is taken", id);
    context->comms[slot] = comm;
    context->all[context->comm_count++] = comm;
    return WEFT_OK;
}

void weft_context_unroute(struct weft_context *context, uint32_t id)
{
    uint32_t slot = route_slot(context, id), mask = context->comm_capacity - 1;
    if (!context->comms[slot])
        return;
    uint32_t at = 0;
    while (context->all[at] != context->comms[slot])
        at++;
    context->all[at] = context->all[--context->comm_count];
    context->comms[slot] = NULL;
    /* Entries behind the gap move up, so that probing still finds them. */
    for (uint32_t i = (slot + 1) & mask; context->comms[i]; i = (i + 1) & mask) {
        struct weft_comm *comm = context->comms[i];
        context->comms[i] = NULL;
        context->comms[route_slot(context, comm->id)] = comm;
    }
}
