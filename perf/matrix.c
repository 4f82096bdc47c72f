/* SPDX-License-Identifier: Apache-2.0 */
/* Every pair's latency and bandwidth, one pair at a time, and which of them are slow.
 *
 * A link is slow when its latency is SLOW times the median of all pairs', or its bandwidth the median divided by that. The
 * median, not the best: on a machine whose links are of two kinds, most are not wrong.
 */
#include "perf/command.h"

#include <stdio.h>
#include <stdlib.h>

#include "perf/cables.h"
#include "perf/pair.h"

enum { SLOW = 2, LATENCY_BYTES = 8, SQUARE_RANKS = 64 };

/* One pair's figures. */
struct link {
    int first, second;
    double latency_us, latency_p99_us, bandwidth_gbs;
    uint64_t wrong, damaged;
};

struct matrix {
    struct perf_pair pair;
    struct perf_report *report; /* rank 0 only */
    double *samples_us;
    struct link *links;
    size_t link_count;
    struct perf_cables cables;
};

/* Microseconds per call. */
static int measure(struct matrix *matrix, perf_call *call, size_t size_bytes, struct link *link,
                   struct perf_summary *summary)
{
    const struct perf_options *options = matrix->pair.session->options;
    struct perf_timing timing = {matrix->samples_us, (size_t)options->iterations, 1, 1};
    matrix->pair.count = size_bytes / matrix->pair.data.element_bytes;
    if (perf_pair_measure(&matrix->pair, call, &timing, &link->wrong, &link->damaged) != 0)
        return -1;
    return perf_summarise(timing.samples_us, timing.sample_count, summary);
}

static int run_link(struct matrix *matrix, struct link *link)
{
    const struct perf_options *options = matrix->pair.session->options;
    struct perf_summary ping, stream;
    matrix->pair.first = link->first;
    matrix->pair.second = link->second;
    matrix->pair.window = perf_pair_window((size_t)options->window, options->size_bytes);
    if (measure(matrix, perf_pair_ping, LATENCY_BYTES, link, &ping) != 0 ||
        measure(matrix, perf_pair_stream, options->size_bytes, link, &stream) != 0)
        return -1;
    link->latency_us = ping.median_us / 2;
    link->latency_p99_us = ping.p99_us / 2;
    link->bandwidth_gbs =
        (double)(matrix->pair.window * options->size_bytes) / stream.median_us / 1e3; /* one way */
    return 0;
}

/* Medians of both figures; values is room for as many as there are links. */
static void find_medians(const struct matrix *matrix, double *values, double *latency_us,
                         double *bandwidth_gbs)
{
    size_t count = matrix->link_count;
    struct perf_summary latency = {0, 0}, bandwidth = {0, 0};
    for (size_t i = 0; i < count; i++)
        values[i] = matrix->links[i].latency_us;
    perf_summarise(values, count, &latency);
    for (size_t i = 0; i < count; i++)
        values[i] = matrix->links[i].bandwidth_gbs;
    perf_summarise(values, count, &bandwidth);
    *latency_us = latency.median_us;
    *bandwidth_gbs = bandwidth.median_us;
}

static const struct link *find_link(const struct matrix *matrix, int a, int b)
{
    for (size_t i = 0; i < matrix->link_count; i++)
        if (matrix->links[i].first == (a < b ? a : b) && matrix->links[i].second == (a < b ? b : a))
            return &matrix->links[i];
    return NULL;
}

#define NUMBER_MAX 24 /* characters; mostly 9, but a link can be slower than anybody thought */

/* One square: a line and a column per rank. */
static void print_square(const struct matrix *matrix, const char *title, int latency)
{
    int ranks = matrix->pair.session->ranks;
    if (ranks > SQUARE_RANKS)
        return;
    perf_report_line(matrix->report, "#\n# %s", title);
    for (int a = -1; a < ranks; a++) {
        char line[16 + NUMBER_MAX * SQUARE_RANKS] = "";
        int used = snprintf(line, sizeof line, a < 0 ? "# rank" : "%6d", a);
        for (int b = 0; b < ranks && used < (int)sizeof line - NUMBER_MAX; b++) {
            const struct link *link = a < 0 || a == b ? NULL : find_link(matrix, a, b);
            if (a < 0)
                used += snprintf(line + used, sizeof line - (size_t)used, " %8d", b);
            else if (!link)
                used += snprintf(line + used, sizeof line - (size_t)used, " %8s", "-");
            else
                used += snprintf(line + used, sizeof line - (size_t)used, " %8.2f",
                                 latency ? link->latency_us : link->bandwidth_gbs);
        }
        perf_report_line(matrix->report, "%s", line);
    }
}

static void report_link(struct matrix *matrix, const struct link *link, double latency_us,
                        double bandwidth_gbs)
{
    int late = link->latency_us >= SLOW * latency_us, narrow = link->bandwidth_gbs <= bandwidth_gbs / SLOW;
    const struct perf_field fields[] = {
        PERF_FIELD_INTEGER("source", link->first),
        PERF_FIELD_INTEGER("destination", link->second),
        PERF_FIELD_REAL("latency_us", link->latency_us),
        PERF_FIELD_REAL("latency_p99_us", link->latency_p99_us),
        PERF_FIELD_INTEGER("size_bytes", (long long)matrix->pair.session->options->size_bytes),
        PERF_FIELD_INTEGER("window", (long long)matrix->pair.window),
        PERF_FIELD_REAL("bandwidth_gbs", link->bandwidth_gbs),
        PERF_FIELD_FLAG("slow", late || narrow),
        PERF_FIELD_INTEGER("wrong", (long long)link->wrong),
        PERF_FIELD_INTEGER("damaged", (long long)link->damaged)};
    perf_report_record(matrix->report, fields, sizeof fields / sizeof *fields);
    if (late)
        perf_report_line(
            matrix->report, "# slow link: ranks %d and %d: latency %.2f us, %.1f times the median of %.2f us",
            link->first, link->second, link->latency_us, link->latency_us / latency_us, latency_us);
    if (narrow)
        perf_report_line(matrix->report,
                         "# slow link: ranks %d and %d: bandwidth %.2f GB/s, %.2f of the median of %.2f GB/s",
                         link->first, link->second, link->bandwidth_gbs, link->bandwidth_gbs / bandwidth_gbs,
                         bandwidth_gbs);
    if (late || narrow)
        perf_cables_name(&matrix->cables, matrix->pair.session, link->first, link->second, matrix->report);
}

static int print(struct matrix *matrix)
{
    const struct perf_options *options = matrix->pair.session->options;
    double *values = malloc(matrix->link_count * sizeof *values), latency_us, bandwidth_gbs;
    char title[128];
    if (!values) {
        fprintf(stderr, "weft-perf: out of memory\n");
        return -1;
    }
    find_medians(matrix, values, &latency_us, &bandwidth_gbs);
    free(values);
    if (matrix->pair.session->ranks > SQUARE_RANKS)
        perf_report_line(matrix->report, "#\n# no tables of more than %d ranks: --json has all pairs",
                         SQUARE_RANKS);
    snprintf(title, sizeof title, "latency of %d bytes, half a round trip (us)", LATENCY_BYTES);
    print_square(matrix, title, 1);
    snprintf(title, sizeof title, "bandwidth of %zu bytes, %zu in flight (GB/s)", options->size_bytes,
             matrix->pair.window);
    print_square(matrix, title, 0);
    perf_report_line(matrix->report, "#\n# medians: %.2f us, %.2f GB/s", latency_us, bandwidth_gbs);
    for (size_t i = 0; i < matrix->link_count; i++)
        report_link(matrix, &matrix->links[i], latency_us, bandwidth_gbs);
    return 0;
}

static int run_links(struct matrix *matrix, struct perf_result *result)
{
    int ranks = matrix->pair.session->ranks;
    for (int first = 0; first < ranks; first++)
        for (int second = first + 1; second < ranks; second++) {
            struct link *link = &matrix->links[matrix->link_count];
            *link = (struct link){.first = first, .second = second};
            if (matrix->report)
                perf_report_progress(matrix->report, matrix->link_count,
                                     (size_t)ranks * (size_t)(ranks - 1) / 2, "pairs");
            if (run_link(matrix, link) != 0)
                return -1;
            result->wrong += link->wrong;
            result->damaged += link->damaged;
            matrix->link_count++;
        }
    return 0;
}

int perf_matrix(struct perf_session *session, struct perf_report *report, struct perf_result *result)
{
    const struct perf_options *options = session->options;
    size_t ranks = (size_t)session->ranks,
           window = perf_pair_window((size_t)options->window, options->size_bytes);
    struct matrix matrix = {.report = report};
    matrix.samples_us = malloc((size_t)options->iterations * sizeof *matrix.samples_us);
    matrix.links = calloc(ranks * ranks, sizeof *matrix.links);
    int failed = !matrix.samples_us || !matrix.links;
    if (failed)
        fprintf(stderr, "weft-perf: out of memory\n");
    if (!failed) {
        size_t room = window * options->size_bytes;
        failed = perf_pair_open(&matrix.pair, session, WEFT_UINT8, window,
                                room > LATENCY_BYTES ? room : LATENCY_BYTES);
        if (!failed)
            failed = run_links(&matrix, result);
        if (!failed && report)
            failed = print(&matrix);
        perf_cables_release(&matrix.cables);
        perf_pair_close(&matrix.pair);
    }
    free(matrix.samples_us);
    free(matrix.links);
    return failed ? -1 : perf_session_stats(session, &result->stats);
}
