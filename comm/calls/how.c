/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/calls/how.h"

#include <stdio.h>

#include "base/struct.h"
#include "comm/calls/group.h"

static const struct weft_struct about = WEFT_STRUCT(weft_call_options, WEFT_CALL_OPTIONS_INIT, work);

static int take_algorithm(const char *name, struct weft_how *how)
{
    int algorithm = weft_algorithm_parse(name);
    if (algorithm < 0)
        return weft_fail(WEFT_INVALID,
                         "algorithm is '%.40s': expected a name as WEFT_ALGO has it, such as 'ring', or NULL",
                         name);
    how->algorithm = (enum weft_algorithm)algorithm;
    return WEFT_OK;
}

static int take_options(const weft_call_options *given, struct weft_how *how)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    int status = weft_struct_read(&about, &options, given);
    if (status != WEFT_OK)
        return status;
    how->work = options.work;
    how->timeout_ms = options.timeout_ms;
    how->is_ordered = options.stream || options.stream_kind || options.in_stream;
    how->kind = options.stream_kind;
    how->ordinal = options.stream_ordinal;
    how->handle = options.stream;
    how->starts |= how->work || how->is_ordered;
    weft_label_set(how->text, options.label);
    how->label = *how->text ? how->text : NULL;
    return options.algorithm ? take_algorithm(options.algorithm, how) : WEFT_OK;
}

int weft_how_read(const weft_call_options *given, struct weft_how *how)
{
    how->work = NULL;
    how->stream = NULL;
    how->timeout_ms = 0;
    how->algorithm = WEFT_ALGO_AUTO;
    how->starts = weft_group_is_open();
    how->is_ordered = 0;
    how->label = NULL;
    return given ? take_options(given, how) : WEFT_OK;
}

int weft_how_follow(const struct weft_comm *comm, const struct weft_where *where, struct weft_how *how)
{
    if (!how->is_ordered)
        return WEFT_OK;
    if (!how->kind && !where->kind)
        return weft_fail(WEFT_INVALID,
                         "stream is %p and stream_kind is NULL, but the call's memory is of no "
                         "device: expected stream_kind and stream_ordinal of the stream's device",
                         how->handle);
    return weft_stream_get(comm->context, how->kind ? how->kind : where->kind->name,
                           how->kind ? how->ordinal : where->ordinal, how->handle, &how->stream);
}

void weft_how_end(struct weft_how *how)
{
    weft_stream_put(how->stream);
    how->stream = NULL;
}

int weft_how_work(struct weft_comm *comm, const struct weft_how *how, struct weft_work **work)
{
    int status = weft_work_new(comm, how->timeout_ms, how->label, work);
    if (status == WEFT_OK)
        weft_work_own(*work, how->work != NULL, how->is_ordered);
    return status;
}

int weft_how_leave(const struct weft_how *how, struct weft_work *work)
{
    if (how->work) {
        weft_work_notify_at_once(work);
        *how->work = work;
    } else if (how->stream)
        return weft_work_free(work);
    else
        weft_group_defer(work);
    return WEFT_OK;
}
