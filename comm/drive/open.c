/* SPDX-License-Identifier: Apache-2.0 */
/* The bare context: what drives it, from its lock to its service thread. comm/form/open.c gives it the rest. */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/limits.h"
#include "comm/drive/progress.h"

#define ROOM 1280 /* descriptors: a start among a thousand strangers does not wait for the kernel's table */

int weft_context_start(struct weft_context *context)
{
    int status;
    context->signal_fd = -1;
    if (getrandom(&context->instance, sizeof context->instance, 0) != sizeof context->instance)
        return weft_fail_errno("getrandom");
    context->event_fd = weft_fd_add(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (context->event_fd < 0)
        return weft_fail_errno("eventfd");
    pthread_mutex_init(&context->lock, NULL);
    weft_clock_condition(&context->progress.changed);
    weft_limits_make_room_early(context->event_fd, ROOM);
    status = weft_service_start("weft-service", &context->service);
    if (status != WEFT_OK)
        goto destroy_lock;
    weft_context_watch_losses(context, context->service);
    weft_service_set_tick(context->service, weft_progress_tick, context);
    return WEFT_OK;

destroy_lock:
    pthread_cond_destroy(&context->progress.changed);
    pthread_mutex_destroy(&context->lock);
    weft_fd_close(context->event_fd);
    return status;
}

int weft_context_signal_fd(struct weft_context *context)
{
    int status = WEFT_OK;
    weft_context_lock(context);
    if (context->signal_fd < 0) {
        context->signal_fd = weft_fd_add(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        status = context->signal_fd < 0 ? weft_fail_errno("eventfd") : WEFT_OK;
    }
    weft_context_unlock(context);
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

void weft_context_stop(struct weft_context *context)
{
    weft_service_set_lost(context->service, NULL, NULL);
    if (context->overlay)
        weft_service_set_lost(context->overlay, NULL, NULL);
    weft_service_set_tick(context->service, NULL, NULL);
    for (int t = 0; t < WEFT_TRANSPORT_COUNT; t++)
        close_transport(&context->transports[t]);
    weft_service_stop(context->service);
    weft_service_stop(context->overlay);
    pthread_cond_destroy(&context->progress.changed);
    pthread_mutex_destroy(&context->lock);
    weft_fd_close(context->event_fd);
    weft_fd_close(context->signal_fd);
    free(context->routes.by_id);
    free(context->routes.all);
}
