/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two ranks over a range of sizes: their latency, half of a round trip, and their bandwidth with a window
 * of them in flight. */
#include "perf/command.h"

#include <stdio.h>
#include <stdlib.h>

#include "perf/pair.h"

struct p2p {
    struct perf_pair pair;
    struct perf_report *report; /* rank 0 only */
    struct perf_result *result;
    perf_call *call;
    double *samples_us;
    size_t done, total;
};

/* What weft says that collectives go by, which is what messages go by; "-" where it does not say. */
static const char *transport_of(const struct perf_pair *pair)
{
    weft_description description = WEFT_DESCRIPTION_INIT;
    int status = weft_comm_describe(pair->session->comm, "allreduce", pair->send.bytes, pair->recv.bytes, 1,
                                    WEFT_FLOAT32, WEFT_SUM, 0, &description);
    return status == 0 ? description.transport : "-";
}

/* And which way they go, once some have; "-" where this rank sends none. */
static const char *way_of(const struct perf_pair *pair)
{
    const struct perf_session *session = pair->session;
    weft_description description = WEFT_DESCRIPTION_INIT;
    if (session->rank != pair->first)
        return "-";
    int status = weft_comm_describe(session->comm, "send", pair->send.bytes, NULL, pair->count,
                                    pair->data.dtype, WEFT_SUM, pair->second, &description);
    return status == 0 ? description.algorithm : "-";
}

static int run_size(struct p2p *p2p, size_t size_bytes)
{
    struct perf_pair *pair = &p2p->pair;
    const struct perf_options *options = pair->session->options;
    int streams = p2p->call == perf_pair_stream, ways = pair->bidirectional ? 2 : 1;
    pair->count = size_bytes / pair->data.element_bytes;
    pair->window = streams ? perf_pair_window((size_t)options->window, size_bytes) : 1;
    const struct perf_field extra[] = {PERF_FIELD_INTEGER("source", pair->first),
                                       PERF_FIELD_INTEGER("destination", pair->second),
                                       PERF_FIELD_INTEGER("window", (long long)pair->window),
                                       PERF_FIELD_FLAG("bidirectional", pair->bidirectional)};
    struct perf_row row = {.size_bytes = pair->count * pair->data.element_bytes,
                           .count = pair->count,
                           .dtype = pair->data.dtype,
                           .op = PERF_OP_NONE,
                           .root = -1,
                           .algorithm = "-",
                           .transport = transport_of(pair),
                           .checked = options->checks > 0,
                           .samples_us = p2p->samples_us,
                           .sample_count = (size_t)options->iterations,
                           .extra = extra,
                           .extra_count = sizeof extra / sizeof *extra};
    struct perf_timing timing = {row.samples_us, row.sample_count, 1, 1};
    struct perf_summary summary;
    if (p2p->report)
        perf_report_progress(p2p->report, p2p->done++, p2p->total, "sizes");
    if (perf_pair_measure(pair, p2p->call, &timing, &row.wrong, &row.damaged) != 0)
        return -1;
    row.algorithm = way_of(pair);
    for (size_t i = 0; i < row.sample_count; i++) /* of one message */
        row.samples_us[i] /= streams ? (double)pair->window : 2;
    if (perf_summarise(row.samples_us, row.sample_count, &summary) != 0)
        return -1;
    row.calls_per_sample = timing.calls_per_sample;
    row.time_us = summary.median_us;
    row.p99_us = summary.p99_us;
    row.busbw_gbs = row.time_us > 0 ? (double)row.size_bytes / row.time_us / 1e3 : 0;
    row.algbw_gbs = row.busbw_gbs * ways;
    p2p->result->wrong += row.wrong;
    p2p->result->damaged += row.damaged;
    p2p->result->busbw_gbs += row.busbw_gbs;
    p2p->result->rows++;
    if (p2p->report)
        perf_report_rows(p2p->report, &row, NULL);
    return 0;
}

static int run_pair(struct p2p *p2p, int first, int second)
{
    const struct perf_options *options = p2p->pair.session->options;
    size_t size_bytes = options->begin_bytes;
    char remark[64];
    int failed = 0;
    p2p->pair.first = first;
    p2p->pair.second = second;
    snprintf(remark, sizeof remark, "between ranks %d and %d", first, second);
    if (p2p->report)
        perf_report_remark(p2p->report, remark);
    do
        failed = run_size(p2p, size_bytes);
    while (!failed && (size_bytes = perf_options_next_size(options, size_bytes)) != 0);
    return failed;
}

static int run_type(struct p2p *p2p, int ranks, int all_pairs)
{
    int failed = 0;
    for (int first = 0; first < (all_pairs ? ranks - 1 : 1); first++)
        for (int second = first + 1; !failed && second < (all_pairs ? ranks : 2); second++)
            failed = run_pair(p2p, first, second);
    return failed;
}

/* The largest room that a size of the sweep needs. */
static size_t capacity(const struct perf_options *options, int streams)
{
    size_t largest = options->end_bytes, in_flight = (size_t)options->window * options->end_bytes;
    if (streams && options->end_bytes <= PERF_IN_FLIGHT_BYTES)
        largest =
            in_flight / (size_t)options->window == options->end_bytes && in_flight < PERF_IN_FLIGHT_BYTES
                ? in_flight
                : PERF_IN_FLIGHT_BYTES;
    return largest;
}

static int run(struct perf_session *session, struct perf_report *report, struct perf_result *result,
               perf_call *call)
{
    const struct perf_options *options = session->options;
    size_t ranks = (size_t)session->ranks;
    struct p2p p2p = {.report = report, .result = result, .call = call};
    p2p.total = perf_options_sizes(options) * (size_t)__builtin_popcount(options->dtypes) *
                (options->pairs ? ranks * (ranks - 1) / 2 : 1);
    p2p.samples_us = malloc((size_t)options->iterations * sizeof *p2p.samples_us);
    int failed = p2p.samples_us == NULL;
    if (failed)
        fprintf(stderr, "weft-perf: out of memory\n");
    if (report)
        perf_report_columns(report);
    for (int dtype = 0; !failed && dtype < WEFT_DTYPE_COUNT; dtype++) {
        if (!(options->dtypes >> dtype & 1))
            continue;
        failed = perf_pair_open(&p2p.pair, session, dtype, (size_t)options->window,
                                capacity(options, call == perf_pair_stream));
        p2p.pair.bidirectional = options->bidirectional;
        if (!failed)
            failed = run_type(&p2p, session->ranks, options->pairs);
        perf_pair_close(&p2p.pair);
    }
    free(p2p.samples_us);
    if (result->rows)
        result->busbw_gbs /= (double)result->rows;
    return failed ? -1 : perf_session_stats(session, &result->stats);
}

int perf_p2p_latency(struct perf_session *session, struct perf_report *report, struct perf_result *result)
{
    return run(session, report, result, perf_pair_ping);
}

int perf_p2p_bandwidth(struct perf_session *session, struct perf_report *report, struct perf_result *result)
{
    return run(session, report, result, perf_pair_stream);
}
