/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a context: what drives it (comm/drive), and what each room has in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/struct.h"
#include "comm/core/driven.h"
#include "comm/core/work.h"
#include "comm/exec/stream.h"
#include "comm/form/arrange.h"
#include "comm/form/ports.h"
#include "comm/regions/device_memory.h"
#include "devmem/devices.h"
#include "topo/graph/graph.h"

static void tidy(struct weft_context *context)
{
    weft_memory_tidy(context);
    weft_where_tidy(context);
}

static const struct weft_context_hooks hooks = {
    .follow_streams = weft_streams_progress,
    .carry = weft_driven_carry,
    .tidy = tidy,
    .set_aside = weft_memory_set_aside,
};

static const struct weft_struct options_struct =
    WEFT_STRUCT(weft_context_options, WEFT_CONTEXT_OPTIONS_INIT, settings);

static int make_devices(struct weft_context *context)
{
    const struct weft_settings *settings = &context->settings;
    return weft_devices_create(settings->device_kinds, settings->device_plugins, settings->device_options,
                               &context->devices.kinds);
}

int weft_context_open(const weft_context_options *given, weft_context **opened)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!opened)
        return weft_fail(WEFT_INVALID, "context is NULL");
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    int status = weft_struct_read(&options_struct, &options, given);
    if (status != WEFT_OK)
        return status;
    struct weft_context *context = calloc(1, sizeof *context);
    if (!context)
        return weft_fail(WEFT_NOMEM, "no memory for a context");
    context->hooks = &hooks;
    status = weft_settings_read(&context->settings, options.settings);
    weft_settings_warn();
    if (status == WEFT_OK)
        status = weft_context_read_fabric(context);
    if (status == WEFT_OK)
        status = make_devices(context);
    if (status == WEFT_OK)
        status = weft_ports_open(context);
    if (status == WEFT_OK)
        status = weft_context_start(context);
    if (status != WEFT_OK)
        goto free_context;
    *opened = context;
    return WEFT_OK;

free_context:
    weft_ports_close(context);
    weft_devices_destroy(context->devices.kinds);
    weft_graph_free(context->form.fabric);
    free(context);
    return status;
}

int weft_context_close(weft_context *context)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context)
        return WEFT_OK;
    weft_fd_losses_drop();
    int users = atomic_load(&context->users), forming = atomic_load(&context->forming);
    if (forming)
        return weft_fail(WEFT_BUSY, "%d works of the context that make communicators have not been freed",
                         forming);
    if (users)
        return weft_fail(WEFT_BUSY, "%d communicators of the context still exist", users);
    weft_context_look(context);
    weft_context_lock(context);
    if (context->exec.stream_waits) {
        weft_context_unlock(context);
        return weft_fail(WEFT_BUSY, "calls of a group that has not been ended stand in streams");
    }
    int status = weft_memory_close(context);
    weft_context_unlock(context);
    if (status != WEFT_OK)
        return status;
    weft_context_stop(context); /* until then its thread notes what is lost */
    struct weft_fd_losses losses = context->losses;
    int is_robbed = context->is_robbed, lost_fd = context->lost_fd;
    weft_pmix_drop_hold(&context->form.holds_pmix);
    for (int slot = 0; slot < WEFT_USER_OPS; slot++)
        free(context->calls.user_ops[slot]);
    weft_works_free_spares(context);
    weft_devices_destroy(context->devices.kinds);
    weft_ports_close(context);
    weft_graph_free(context->form.fabric);
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
