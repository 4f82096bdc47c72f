/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct perf_report {
    const struct perf_options *options;
    const char *command;
    const struct perf_rails *rails;
    struct perf_json *json; /* NULL: not asked for */
    struct perf_csv *csv;
    int failed;      /* a row could not be recorded */
    int on_terminal; /* stderr */
    int showing;     /* a progress line is on the screen */
};

static void clear_progress(struct perf_report *report)
{
    if (report->showing)
        fputs("\r\033[K", stderr);
    report->showing = 0;
}

struct perf_report *perf_report_open(const struct perf_session *session, const char *command)
{
    struct perf_report *report = calloc(1, sizeof *report);
    if (!report)
        goto say;
    report->options = session->options;
    report->command = command;
    report->rails = &session->rails;
    report->on_terminal = isatty(STDERR_FILENO);
    if (session->options->json_path && !(report->json = perf_json_open(session, command)))
        goto free_report;
    if (session->options->csv_path && !(report->csv = perf_csv_open(session->options)))
        goto free_json;
    perf_table_head(session, command);
    return report;
free_json:
    perf_json_free(report->json);
free_report:
    free(report);
say:
    fprintf(stderr, "weft-perf: out of memory\n");
    return NULL;
}

void perf_report_progress(struct perf_report *report, size_t done, size_t total, const char *what)
{
    if (!report->on_terminal)
        return;
    fprintf(stderr, "\r\033[K[%zu/%zu] %s", done + 1, total, what);
    fflush(stderr);
    report->showing = 1;
}

void perf_report_columns(struct perf_report *report)
{
    perf_table_columns(report->options, report->rails);
}

static void record(struct perf_report *report, const struct perf_row *row)
{
    if (row && report->json && perf_json_row(report->json, row) != 0)
        report->failed = 1;
    if (row && report->csv)
        perf_csv_row(report->csv, row);
}

void perf_report_rows(struct perf_report *report, struct perf_row *out_of_place, struct perf_row *in_place)
{
    if (out_of_place)
        out_of_place->line_percent = perf_rails_percent(report->rails, out_of_place->busbw_gbs);
    if (in_place)
        in_place->line_percent = perf_rails_percent(report->rails, in_place->busbw_gbs);
    clear_progress(report);
    perf_table_rows(report->options, out_of_place, in_place);
    record(report, out_of_place);
    record(report, in_place);
}

void perf_report_remark(struct perf_report *report, const char *text)
{
    clear_progress(report);
    printf("# %s\n", text);
    fflush(stdout);
}

void perf_report_line(struct perf_report *report, const char *format, ...)
{
    va_list arguments;
    clear_progress(report);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
}

void perf_report_record(struct perf_report *report, const struct perf_field *fields, size_t count)
{
    if (report->json && perf_json_record(report->json, fields, count) != 0)
        report->failed = 1;
    if (report->csv)
        perf_csv_record(report->csv, fields, count);
}

int perf_report_close(struct perf_report *report, const struct perf_result *result)
{
    int failed = 0;
    clear_progress(report);
    if (result) {
        perf_table_end(report->options, report->command, result);
        if (report->failed)
            fprintf(stderr, "weft-perf: out of memory: '%s' would lack rows\n", report->options->json_path);
        failed = report->failed;
        if (report->json && !report->failed)
            failed |= perf_json_write(report->json, result, report->options->json_path) != 0;
        if (report->csv)
            failed |= perf_csv_write(report->csv, report->options->csv_path) != 0;
    }
    perf_json_free(report->json);
    perf_csv_free(report->csv);
    free(report);
    return failed ? -1 : 0;
}
