/* SPDX-License-Identifier: Apache-2.0 */
/* Staging memory of an operation, which its device reads and writes if it has one. */
#include <stdio.h>

#include "base/error.h"
#include "comm/exec/internal.h"

uint8_t *weft_stage_get(struct weft_exec_op *op, uint32_t transport, size_t size)
{
    const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
    weft_error_clear(); /* what stands there then is why there is none */
    return hooks->buffer_get(hooks->arg, transport, size,
                             op->request.commands ? weft_command_queue_kind(op->request.commands) : NULL);
}

int weft_stage_missing(const char *what, size_t size, uint32_t rank)
{
    char why[WEFT_DETAIL_MAX];
    snprintf(why, sizeof why, "%s", weft_error_detail());
    return weft_fail(WEFT_NOMEM, "no %s memory of %zu bytes for rank %u%s%s", what, size, rank,
                     why[0] ? ": " : "", why);
}

void weft_stage_put(struct weft_exec_op *op, uint32_t transport, void *memory, size_t size)
{
    const struct weft_exec_hooks *hooks = &op->exec->options.hooks;
    if (op->phase == WEFT_PHASE_STOPPED)
        weft_command_queue_keep(op->request.commands, hooks->buffer_put, hooks->arg, transport, memory, size);
    else
        hooks->buffer_put(hooks->arg, transport, memory, size);
}
