/* The allreduce sweep.
 *
 * A row is measured in three steps: checked calls (fresh data each, results compared bit for bit, guards and
 * send buffers looked after), timed calls, and, out of place, one more comparison of what the last timed call
 * left, because only back-to-back calls meet each other's leftovers.
 */
#include "perf/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/buffers.h"
#include "perf/data.h"
#include "perf/measure.h"

struct sweep {
    struct perf_session *session;
    struct perf_report *report; /* rank 0 only */
    struct perf_result *result;
    struct perf_buffer send, recv;
    struct perf_data data;
    double *samples_us[2]; /* out of place, in place */
    size_t shift;          /* where in the pattern the next call's data starts */
    size_t done, total;    /* rows of the table */
    size_t measurements;   /* behind result->busbw_gbs */
    long corrupt_index;    /* tests: which element of this rank's results to damage, -1 none */
};

/* One call, as measured. */
struct call {
    struct sweep *sweep;
    const void *send;
    void *recv;
    size_t count;
};

static int run_call(void *arg)
{
    struct call *call = arg;
    const struct perf_data *data = &call->sweep->data;
    perf_watch_call(call->sweep->session->watch);
    return weft_allreduce(call->sweep->session->comm, call->send, call->recv, call->count, data->dtype,
                          data->op);
}

static int complain(const struct call *call, int status)
{
    const struct perf_data *data = &call->sweep->data;
    char what[128];
    snprintf(what, sizeof what, "allreduce of %zu %s, %s", call->count, weft_dtype_name(data->dtype),
             weft_op_name(data->op));
    perf_session_complain(call->sweep->session, what, status);
    perf_watch_failed(call->sweep->session->watch);
    return -1;
}

/* Tests set WEFT_PERF_CORRUPT=rank:index to see that a wrong element is noticed. */
static long corrupt_index(int rank)
{
    const char *text = getenv("WEFT_PERF_CORRUPT");
    int wanted;
    long index;
    return text && sscanf(text, "%d:%ld", &wanted, &index) == 2 && wanted == rank ? index : -1;
}

/* Makes the buffers ready for one call with new data. */
static void arm(struct sweep *sweep, const struct call *call)
{
    size_t size_bytes = call->count * sweep->data.element_bytes;
    sweep->shift = (sweep->shift + 4099) % PERF_PATTERN;
    perf_buffer_poison(&sweep->recv, size_bytes);
    if (call->send == call->recv) {
        perf_data_fill(&sweep->data, sweep->shift, call->recv, call->count);
    } else {
        perf_buffer_guard(&sweep->send, size_bytes);
        perf_data_fill(&sweep->data, sweep->shift, sweep->send.bytes, call->count);
    }
}

/* Adds what is wrong with this rank's buffers to the row. */
static void inspect(struct sweep *sweep, const struct call *call, struct perf_row *row)
{
    size_t size_bytes = call->count * sweep->data.element_bytes;
    row->wrong += perf_data_check(&sweep->data, sweep->shift, call->recv, call->count);
    row->damaged += perf_buffer_damage(&sweep->recv, size_bytes);
    if (call->send == call->recv)
        return;
    row->damaged += perf_buffer_damage(&sweep->send, size_bytes);
    row->damaged += perf_data_changed(&sweep->data, sweep->shift, call->send, call->count);
}

static int check(struct sweep *sweep, struct call *call, struct perf_row *row)
{
    for (int i = 0; i < sweep->session->options->checks; i++) {
        arm(sweep, call);
        int status = run_call(call);
        if (status != 0)
            return complain(call, status);
        if (i == 0 && sweep->corrupt_index >= 0 && (size_t)sweep->corrupt_index < call->count)
            ((unsigned char *)call->recv)[(size_t)sweep->corrupt_index * sweep->data.element_bytes] ^= 1;
        inspect(sweep, call, row);
    }
    return 0;
}

static int measure(struct sweep *sweep, struct call *call, struct perf_row *row)
{
    const struct perf_options *options = sweep->session->options;
    struct perf_timing timing = {row->samples_us, row->sample_count, 1};
    struct perf_summary summary;
    arm(sweep, call);
    if (row->in_place)
        perf_data_fill_fixed(&sweep->data, call->recv, call->count);
    int status = perf_measure(&sweep->session->channel, run_call, call, options->warmups, &timing);
    if (status < 0)
        return complain(call, status);
    if (status > 0 || perf_summarise(row->samples_us, row->sample_count, &summary) != 0)
        return -1;
    if (options->checks && !row->in_place)
        inspect(sweep, call, row);
    row->calls_per_sample = timing.calls_per_sample;
    row->time_us = summary.median_us;
    row->p99_us = summary.p99_us;
    row->algbw_gbs = row->time_us > 0 ? (double)row->size_bytes / row->time_us / 1e3 : 0;
    row->busbw_gbs = row->algbw_gbs * 2 * (sweep->session->ranks - 1) / sweep->session->ranks;
    return 0;
}

/* Adds up over the ranks what each found wrong with its own buffers. */
static int add_up(struct sweep *sweep, struct perf_row *row)
{
    uint64_t mine[2] = {row->wrong, row->damaged};
    uint64_t(*all)[2] = malloc((size_t)sweep->session->ranks * sizeof *all);
    if (!all || perf_channel_allgather(&sweep->session->channel, mine, sizeof mine, all) != 0) {
        free(all);
        return -1;
    }
    row->wrong = row->damaged = 0;
    for (int rank = 0; rank < sweep->session->ranks; rank++) {
        row->wrong += all[rank][0];
        row->damaged += all[rank][1];
    }
    free(all);
    return 0;
}

static int run_row(struct sweep *sweep, size_t count, int in_place, struct perf_row *row)
{
    const struct perf_session *session = sweep->session;
    const struct perf_data *data = &sweep->data;
    *row = (struct perf_row){.size_bytes = count * data->element_bytes,
                             .count = count,
                             .dtype = data->dtype,
                             .op = data->op,
                             .root = -1,
                             .in_place = in_place,
                             .checked = session->options->checks > 0,
                             .samples_us = sweep->samples_us[in_place],
                             .sample_count = (size_t)session->options->iterations};
    struct call call = {sweep, in_place ? sweep->recv.bytes : sweep->send.bytes, sweep->recv.bytes, count};
    int status = weft_allreduce_describe(session->comm, call.send, call.recv, count, data->dtype, data->op,
                                         &row->algorithm, &row->transport);
    if (status != 0)
        return complain(&call, status);
    if (check(sweep, &call, row) != 0 || measure(sweep, &call, row) != 0 || add_up(sweep, row) != 0)
        return -1;
    sweep->result->wrong += row->wrong;
    sweep->result->damaged += row->damaged;
    sweep->result->busbw_gbs += row->busbw_gbs;
    sweep->measurements++;
    return 0;
}

static int run_size(struct sweep *sweep, size_t size_bytes)
{
    int placements = sweep->session->options->placements;
    struct perf_row rows[2];
    char what[128];
    snprintf(what, sizeof what, "%s %s %zu bytes", weft_dtype_name(sweep->data.dtype),
             weft_op_name(sweep->data.op), size_bytes);
    if (sweep->report)
        perf_report_progress(sweep->report, sweep->done, sweep->total, what);
    for (int in_place = 0; in_place < 2; in_place++)
        if (placements & (in_place ? PERF_IN_PLACE : PERF_OUT_OF_PLACE))
            if (run_row(sweep, size_bytes / sweep->data.element_bytes, in_place, &rows[in_place]) != 0)
                return -1;
    if (sweep->report)
        perf_report_rows(sweep->report, placements & PERF_OUT_OF_PLACE ? &rows[0] : NULL,
                         placements & PERF_IN_PLACE ? &rows[1] : NULL);
    sweep->done++;
    return 0;
}

/* Whether weft reduces this pair at all. Every rank gets the same answer, without sending anything. */
static int is_supported(struct sweep *sweep, weft_dtype dtype, weft_op op)
{
    const char *algorithm, *transport;
    return weft_allreduce_describe(sweep->session->comm, sweep->recv.bytes, sweep->recv.bytes, 1, dtype, op,
                                   &algorithm, &transport) != WEFT_UNSUPPORTED;
}

static int run_pair(struct sweep *sweep, weft_dtype dtype, weft_op op)
{
    const struct perf_options *options = sweep->session->options;
    int failed = 0;
    if (options->skip_unsupported && !is_supported(sweep, dtype, op)) {
        char remark[80];
        snprintf(remark, sizeof remark, "%s %s: not supported by this version", weft_dtype_name(dtype),
                 weft_op_name(op));
        if (sweep->report)
            perf_report_remark(sweep->report, remark);
        sweep->done += perf_options_sizes(options);
        return 0;
    }
    if (perf_data_prepare(&sweep->data, dtype, op, sweep->session->rank, sweep->session->ranks) != 0) {
        fprintf(stderr, "weft-perf: out of memory\n");
        return -1;
    }
    size_t size_bytes = options->begin_bytes;
    do
        failed = run_size(sweep, size_bytes);
    while (!failed && (size_bytes = perf_options_next_size(options, size_bytes)) != 0);
    perf_data_release(&sweep->data);
    return failed;
}

static int run_pairs(struct sweep *sweep)
{
    const struct perf_options *options = sweep->session->options;
    int pairs = __builtin_popcount(options->dtypes) * __builtin_popcount(options->ops);
    sweep->total = (size_t)pairs * perf_options_sizes(options);
    for (int dtype = 0; dtype < WEFT_DTYPE_COUNT; dtype++)
        for (int op = 0; op < WEFT_OP_COUNT; op++)
            if ((options->dtypes >> dtype & 1) && (options->ops >> op & 1))
                if (run_pair(sweep, dtype, op) != 0)
                    return -1;
    if (sweep->measurements)
        sweep->result->busbw_gbs /= (double)sweep->measurements;
    return perf_session_stats(sweep->session, &sweep->result->stats);
}

int perf_allreduce(struct perf_session *session, struct perf_report *report, struct perf_result *result)
{
    const struct perf_options *options = session->options;
    struct sweep sweep = {.session = session,
                          .report = report,
                          .result = result,
                          .corrupt_index = corrupt_index(session->rank)};
    size_t samples_bytes = (size_t)options->iterations * sizeof(double);
    int failed = -1;
    sweep.samples_us[0] = malloc(samples_bytes);
    sweep.samples_us[1] = malloc(samples_bytes);
    if (!sweep.samples_us[0] || !sweep.samples_us[1]) {
        fprintf(stderr, "weft-perf: out of memory\n");
        goto free_samples;
    }
    if (perf_buffer_make(&sweep.send, session->context, options->memory, options->end_bytes) != 0)
        goto free_samples;
    if (perf_buffer_make(&sweep.recv, session->context, options->memory, options->end_bytes) != 0)
        goto release_send;
    failed = run_pairs(&sweep);
    perf_buffer_release(&sweep.recv);
release_send:
    perf_buffer_release(&sweep.send);
free_samples:
    free(sweep.samples_us[0]);
    free(sweep.samples_us[1]);
    return failed;
}
