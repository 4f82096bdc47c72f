/* SPDX-License-Identifier: Apache-2.0 */
/* One operation over a range of sizes.
 *
 * A row is measured in three steps: checked calls (fresh data each, results compared bit for bit, guards and
 * send buffers looked after), timed calls, and, out of place, one more comparison of what the last timed call
 * left, because only back-to-back calls meet each other's leftovers.
 */
#include "perf/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/barrier.h"
#include "perf/buffers.h"
#include "perf/corrupt.h"
#include "perf/data.h"
#include "perf/device/clock.h"
#include "perf/device/stream.h"
#include "perf/measure.h"

struct sweep {
    struct perf_session *session;
    const struct perf_operation *operation;
    struct perf_report *report; /* rank 0 only */
    struct perf_result *result;
    struct perf_buffer send, recv;
    struct perf_data data;
    double *samples_us[2]; /* out of place, in place */
    size_t shift;          /* where in the pattern the next call's data starts */
    size_t done, total;    /* rows of the table */
};

/* One call, as measured. */
struct call {
    struct sweep *sweep;
    struct perf_shape shape;
    unsigned char *send, *recv;
    int in_place;
    const weft_call_options *options; /* NULL but where a device's clock measures */
};

/* Calls that do not reduce pass any. */
static weft_op op_of(const struct perf_data *data)
{
    return data->op == PERF_OP_NONE ? WEFT_SUM : (weft_op)data->op;
}

static int run_call(void *arg)
{
    struct call *call = arg;
    const struct perf_data *data = &call->sweep->data;
    perf_watch_call(call->sweep->session->watch);
    return call->sweep->operation->call(call->sweep->session->comm, &call->shape, call->send, call->recv,
                                        data->dtype, op_of(data), call->options);
}

static int complain(const struct call *call, int status)
{
    const struct perf_data *data = &call->sweep->data;
    char what[128];
    int used = snprintf(what, sizeof what, "%s of %zu %s", call->sweep->operation->name, call->shape.count,
                        weft_dtype_name(data->dtype));
    if (data->op != PERF_OP_NONE)
        used += snprintf(what + used, sizeof what - (size_t)used, ", %s", perf_op_name(data->op));
    if (call->shape.root >= 0)
        snprintf(what + used, sizeof what - (size_t)used, ", root %d", call->shape.root);
    perf_session_complain(call->sweep->session, what, status);
    perf_watch_failed(call->sweep->session->watch);
    return -1;
}

/* Bytes of the result's buffer that a call uses: in place it holds what is sent as well. */
static size_t span_of(const struct sweep *sweep, const struct call *call)
{
    size_t got = call->shape.recv_at + call->shape.recv, sent = call->shape.send_at + call->shape.send;
    return (call->in_place && got < sent ? sent : got) * sweep->data.element_bytes;
}

/* Where the host finds what is sent, and what is received. */
static unsigned char *sent(const struct sweep *sweep, const struct call *call)
{
    const struct perf_buffer *buffer = call->in_place ? &sweep->recv : &sweep->send;
    return buffer->host + (call->send - buffer->bytes);
}

static unsigned char *received(const struct sweep *sweep, const struct call *call)
{
    return sweep->recv.host + (call->recv - sweep->recv.bytes);
}

/* Hands over to the calls what the host has put into the buffers; fetch() brings it back. 0, or -1 after a message. */
static int hand_over(struct sweep *sweep, const struct call *call)
{
    size_t size = call->shape.send * sweep->data.element_bytes;
    if (!call->in_place && perf_buffer_put(&sweep->send, size) != 0)
        return -1;
    return perf_buffer_put(&sweep->recv, span_of(sweep, call));
}

static int fetch(struct sweep *sweep, const struct call *call)
{
    size_t size = call->shape.send * sweep->data.element_bytes;
    if (!call->in_place && perf_buffer_get(&sweep->send, size) != 0)
        return -1;
    return perf_buffer_get(&sweep->recv, span_of(sweep, call));
}

/* Makes the buffers ready for one call with new data. In place only what is not sent is poisoned. 0, or -1 after a
 * message. */
static int arm(struct sweep *sweep, const struct call *call)
{
    sweep->shift = (sweep->shift + 4099) % PERF_PATTERN;
    perf_buffer_poison(&sweep->recv, span_of(sweep, call));
    if (!call->in_place)
        perf_buffer_guard(&sweep->send, call->shape.send * sweep->data.element_bytes);
    perf_data_fill(&sweep->data, sweep->shift, sent(sweep, call), call->shape.send);
    return hand_over(sweep, call);
}

/* Adds what is wrong with this rank's buffers to the row. */
static void inspect(struct sweep *sweep, const struct call *call, struct perf_row *row)
{
    const struct perf_data *data = &sweep->data;
    const struct perf_shape *shape = &call->shape;
    size_t element = data->element_bytes;
    for (int i = 0; i < perf_shape_stretches(shape, sweep->operation); i++) {
        struct perf_stretch stretch;
        perf_shape_stretch(shape, sweep->operation, i, &stretch);
        row->wrong += perf_data_check(data, stretch.source, sweep->shift + stretch.position,
                                      received(sweep, call) + stretch.at * element, stretch.count);
    }
    row->damaged += perf_buffer_damage(&sweep->recv, span_of(sweep, call));
    if (call->in_place)
        return;
    row->damaged += perf_buffer_damage(&sweep->send, shape->send * element);
    row->damaged += perf_data_check(data, data->rank, sweep->shift, sent(sweep, call), shape->send);
}

static int check(struct sweep *sweep, struct call *call, struct perf_row *row)
{
    for (int i = 0; i < sweep->session->options->checks; i++) {
        if (arm(sweep, call) != 0)
            return -1;
        int status = sweep->operation->content == PERF_FROM_NOBODY
                         ? perf_barrier_check(sweep->session, run_call, call, i, &row->wrong)
                         : run_call(call);
        if (status != 0)
            return status < 0 ? complain(call, status) : -1;
        if (fetch(sweep, call) != 0)
            return -1;
        if (i == 0)
            perf_corrupt(sweep->session->rank, received(sweep, call), call->shape.recv,
                         sweep->data.element_bytes);
        inspect(sweep, call, row);
    }
    return 0;
}

static int measure(struct sweep *sweep, struct call *call, struct perf_row *row)
{
    const struct perf_options *options = sweep->session->options;
    struct perf_timing timing = {row->samples_us, row->sample_count, options->aggregate, 1};
    struct perf_summary summary;
    if (arm(sweep, call) != 0)
        return -1;
    if (row->in_place && sweep->data.op != PERF_OP_NONE) {
        perf_data_fill_fixed(&sweep->data, sent(sweep, call), call->shape.send);
        if (hand_over(sweep, call) != 0)
            return -1;
    }
    weft_call_options in_stream = WEFT_CALL_OPTIONS_INIT;
    if (options->device_clock)
        in_stream = perf_clock_stream(&sweep->send.device);
    call->options = options->device_clock ? &in_stream : NULL;
    int status = options->device_clock
                     ? perf_clock_measure(&sweep->send.device, sweep->session, run_call, call,
                                          options->warmups, &timing)
                     : perf_measure(&sweep->session->channel, run_call, call, options->warmups, &timing);
    call->options = NULL;
    if (status < 0)
        complain(call, status);
    if (status != 0 || perf_summarise(row->samples_us, row->sample_count, &summary) != 0)
        return -1;
    if (options->checks && !row->in_place) {
        if (fetch(sweep, call) != 0)
            return -1;
        inspect(sweep, call, row);
    }
    row->calls_per_sample = timing.calls_per_sample;
    row->time_us = summary.median_us;
    row->p99_us = summary.p99_us;
    row->algbw_gbs = row->time_us > 0 ? (double)row->size_bytes / row->time_us / 1e3 : 0;
    row->busbw_gbs = row->algbw_gbs * sweep->operation->bus_factor(sweep->session->ranks);
    return 0;
}

/* What weft says that it would do; "-" where it does not say. It is asked for equal blocks, and so does not know which
 * algorithm takes others. */
static int describe(const struct call *call, struct perf_row *row)
{
    const struct perf_operation *operation = call->sweep->operation;
    const struct perf_data *data = &call->sweep->data;
    row->algorithm = row->transport = "-";
    if (!operation->collective)
        return 0;
    weft_description description = WEFT_DESCRIPTION_INIT;
    int status = weft_comm_describe(call->sweep->session->comm, operation->collective, NULL, NULL,
                                    call->shape.count, data->dtype, op_of(data),
                                    call->shape.root < 0 ? 0 : call->shape.root, &description);
    if (status != 0)
        return complain(call, status);
    row->algorithm = operation->traits & PERF_UNEQUAL ? "-" : description.algorithm;
    row->transport = description.transport;
    return 0;
}

static int run_row(struct sweep *sweep, size_t elements, int root, int in_place, struct perf_row *row)
{
    const struct perf_session *session = sweep->session;
    const struct perf_data *data = &sweep->data;
    struct call call = {.sweep = sweep, .in_place = in_place};
    int failed = -1;
    if (perf_shape_make(&call.shape, sweep->operation, elements, session->rank, session->ranks, root) != 0) {
        fprintf(stderr, "weft-perf: out of memory\n");
        return -1;
    }
    call.send = in_place ? sweep->recv.bytes + call.shape.send_at * data->element_bytes : sweep->send.bytes;
    call.recv = sweep->recv.bytes;
    if (in_place)
        call.recv += call.shape.recv_at * data->element_bytes;
    else
        call.shape.send_at = call.shape.recv_at = 0;
    *row = (struct perf_row){.size_bytes = call.shape.total * data->element_bytes,
                             .count = sweep->operation->traits & PERF_UNEQUAL ? call.shape.total
                                                                              : call.shape.count,
                             .dtype = data->dtype,
                             .op = data->op,
                             .root = call.shape.root,
                             .in_place = in_place,
                             .checked = session->options->checks > 0,
                             .samples_us = sweep->samples_us[in_place],
                             .sample_count = (size_t)session->options->iterations};
    if (describe(&call, row) == 0 && check(sweep, &call, row) == 0 && measure(sweep, &call, row) == 0)
        failed = perf_session_add_up(sweep->session, &row->wrong, &row->damaged);
    perf_shape_release(&call.shape);
    sweep->result->wrong += row->wrong;
    sweep->result->damaged += row->damaged;
    sweep->result->busbw_gbs += row->busbw_gbs;
    sweep->result->rows++;
    return failed;
}

static int placements(const struct sweep *sweep)
{
    return sweep->operation->traits & PERF_HAS_IN_PLACE ? sweep->session->options->placements
                                                        : PERF_OUT_OF_PLACE;
}

static int run_size(struct sweep *sweep, size_t size_bytes, int root)
{
    struct perf_row rows[2];
    char what[128];
    snprintf(what, sizeof what, "%s %s %zu bytes", weft_dtype_name(sweep->data.dtype),
             perf_op_name(sweep->data.op), size_bytes);
    if (sweep->report)
        perf_report_progress(sweep->report, sweep->done, sweep->total, what);
    for (int in_place = 0; in_place < 2; in_place++)
        if (placements(sweep) & (in_place ? PERF_IN_PLACE : PERF_OUT_OF_PLACE))
            if (run_row(sweep, size_bytes / sweep->data.element_bytes, root, in_place, &rows[in_place]) != 0)
                return -1;
    if (sweep->report)
        perf_report_rows(sweep->report, placements(sweep) & PERF_OUT_OF_PLACE ? &rows[0] : NULL,
                         placements(sweep) & PERF_IN_PLACE ? &rows[1] : NULL);
    sweep->done++;
    return 0;
}

/* A barrier has one size, which is none. */
static size_t next_size(const struct sweep *sweep, size_t size_bytes)
{
    return sweep->operation->content == PERF_FROM_NOBODY
               ? 0
               : perf_options_next_size(sweep->session->options, size_bytes);
}

static int run_sizes(struct sweep *sweep, int root)
{
    int failed = 0;
    size_t size_bytes =
        sweep->operation->content == PERF_FROM_NOBODY ? 0 : sweep->session->options->begin_bytes;
    do
        failed = run_size(sweep, size_bytes, root);
    while (!failed && (size_bytes = next_size(sweep, size_bytes)) != 0);
    return failed;
}

static size_t roots(const struct sweep *sweep)
{
    int all = sweep->operation->traits & PERF_ROOTED && sweep->session->options->root < 0;
    return all ? (size_t)sweep->session->ranks : 1;
}

/* Whether weft reduces this pair at all. Every rank gets the same answer, without sending anything. */
static int is_supported(struct sweep *sweep, weft_dtype dtype, int op)
{
    weft_description description = WEFT_DESCRIPTION_INIT;
    return op == PERF_OP_NONE ||
           weft_comm_describe(sweep->session->comm, sweep->operation->collective, NULL, NULL, 1, dtype,
                              (weft_op)op, 0, &description) != WEFT_UNSUPPORTED;
}

static int run_pair(struct sweep *sweep, weft_dtype dtype, int op)
{
    const struct perf_options *options = sweep->session->options;
    int failed = 0;
    if (options->skip_unsupported && !is_supported(sweep, dtype, op)) {
        char remark[80];
        snprintf(remark, sizeof remark, "%s %s: not supported by this version", weft_dtype_name(dtype),
                 perf_op_name(op));
        if (sweep->report)
            perf_report_remark(sweep->report, remark);
        sweep->done += perf_options_sizes(options) * roots(sweep);
        return 0;
    }
    if (perf_data_prepare(&sweep->data, dtype, op, sweep->session->rank, sweep->session->ranks) != 0) {
        fprintf(stderr, "weft-perf: out of memory\n");
        return -1;
    }
    for (size_t i = 0; !failed && i < roots(sweep); i++)
        failed = run_sizes(sweep, options->root < 0 ? (int)i : options->root);
    perf_data_release(&sweep->data);
    return failed;
}

static int run_cycle(struct sweep *sweep, int reduces)
{
    const struct perf_options *options = sweep->session->options;
    for (int dtype = 0; dtype < WEFT_DTYPE_COUNT; dtype++)
        for (int op = reduces ? 0 : PERF_OP_NONE; op < (reduces ? WEFT_OP_COUNT : 0); op++)
            if ((options->dtypes >> dtype & 1) && (op == PERF_OP_NONE || (options->ops >> op & 1)))
                if (run_pair(sweep, dtype, op) != 0)
                    return -1;
    return 0;
}

static int run_pairs(struct sweep *sweep)
{
    const struct perf_options *options = sweep->session->options;
    int reduces = (sweep->operation->traits & PERF_REDUCES) != 0;
    int pairs = __builtin_popcount(options->dtypes) * (reduces ? __builtin_popcount(options->ops) : 1);
    sweep->total = (size_t)pairs * roots(sweep) * (size_t)options->cycles;
    if (sweep->operation->content != PERF_FROM_NOBODY)
        sweep->total *= perf_options_sizes(options);
    for (int cycle = 0; cycle < options->cycles; cycle++)
        if (run_cycle(sweep, reduces) != 0)
            return -1;
    if (sweep->result->rows)
        sweep->result->busbw_gbs /= (double)sweep->result->rows;
    return perf_session_stats(sweep->session, &sweep->result->stats);
}

/* By the device's clock, in a stream of its own. */
static int run_in_stream(struct sweep *sweep)
{
    struct perf_device *device = &sweep->send.device;
    struct perf_stream stream;
    if (perf_stream_open(&stream, device) != 0)
        return -1;
    device->stream = stream.handle;
    int failed = perf_clock_check(device, sweep->session);
    if (!failed)
        failed = run_pairs(sweep);
    device->stream = NULL;
    perf_stream_close(&stream, device);
    return failed;
}

int perf_sweep(const struct perf_operation *operation, struct perf_session *session,
               struct perf_report *report, struct perf_result *result)
{
    const struct perf_options *options = session->options;
    struct sweep sweep = {.session = session, .operation = operation, .report = report, .result = result};
    size_t samples_bytes = (size_t)options->iterations * sizeof(double);
    int failed = -1;
    if (operation->traits & PERF_ROOTED && options->root >= session->ranks) {
        fprintf(stderr, "weft-perf: -r '%d': expected a rank below %d\n", options->root, session->ranks);
        return -1;
    }
    if (report)
        perf_report_columns(report);
    sweep.samples_us[0] = malloc(samples_bytes);
    sweep.samples_us[1] = malloc(samples_bytes);
    if (!sweep.samples_us[0] || !sweep.samples_us[1]) {
        fprintf(stderr, "weft-perf: out of memory\n");
        goto free_samples;
    }
    const struct perf_place *place = perf_options_place(options, session->rank);
    if (perf_buffer_make(&sweep.send, session->context, place, options->end_bytes) != 0)
        goto free_samples;
    if (perf_buffer_make(&sweep.recv, session->context, place, options->end_bytes) != 0)
        goto release_send;
    failed = options->device_clock ? run_in_stream(&sweep) : run_pairs(&sweep);
    perf_buffer_release(&sweep.recv);
release_send:
    perf_buffer_release(&sweep.send);
free_samples:
    free(sweep.samples_us[0]);
    free(sweep.samples_us[1]);
    return failed;
}
