/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/form/making.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/struct.h"
#include "comm/core/background.h"

static const struct weft_struct options_struct = WEFT_STRUCT(weft_call_options, WEFT_CALL_OPTIONS_INIT, work);

int weft_making_read(struct weft_making *making, const weft_call_options *given, weft_work ***work)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    int status = weft_struct_read(&options_struct, &options, given);
    if (status != WEFT_OK)
        return status;
    making->context = making->comm->context;
    making->timeout_ms = weft_comm_timeout_of(making->comm, options.timeout_ms);
    making->deadline_ns = weft_comm_deadline_of(making->comm, options.timeout_ms);
    weft_label_set(making->label, options.label);
    *work = options.work;
    return WEFT_OK;
}

int weft_making_begin(const struct weft_making *making)
{
    int status = weft_comm_check_free(making->comm);
    return status == WEFT_OK ? weft_comm_begin(making->comm) : status;
}

/* An error says for which of the program's calls, unless it does already. */
static int word_label(const struct weft_making *making, int status)
{
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "%.900s", weft_error_detail());
    return *making->label && !strstr(text, making->label) ? weft_fail(status, "'%s': %s", making->label, text)
                                                          : status;
}

static int make(struct weft_making *making)
{
    struct weft_comm *made = NULL;
    int status = making->make(making, &made);
    if (status == WEFT_OK)
        *making->out = made;
    if (making->release)
        making->release(making);
    return status == WEFT_OK ? WEFT_OK : word_label(making, status);
}

static int run(void *arg)
{
    int status = make(arg);
    free(arg);
    return status;
}

int weft_making_run(struct weft_making *making, size_t size, weft_work **work)
{
    if (!work)
        return make(making);
    struct weft_making *kept = malloc(size);
    int status = kept ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory for a call that goes on");
    if (status == WEFT_OK) {
        memcpy(kept, making, size);
        status = kept->keep ? kept->keep(kept) : WEFT_OK;
    }
    if (status == WEFT_OK)
        status = weft_background_start(kept->context, kept->comm, kept->is_collective, run, kept, work);
    if (status == WEFT_OK)
        return WEFT_OK;
    making = kept ? kept : making;
    if (making->release)
        making->release(making);
    free(kept);
    return status;
}
