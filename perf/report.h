/* SPDX-License-Identifier: Apache-2.0 */
/* What is reported, and to whom: the table on stdout, a JSON file, a CSV file, a progress line. Only rank 0 has a
 * report. Each form lives in a file of its own and sees only the structs here. */
#ifndef WEFT_PERF_REPORT_H
#define WEFT_PERF_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#include "perf/field.h"
#include "perf/session.h"

/* One measurement. Sizes in bytes of one rank's buffer; bandwidths in 10^9 bytes per second. */
struct perf_row {
    size_t size_bytes, count;
    weft_dtype dtype;
    int op;   /* or PERF_OP_NONE */
    int root; /* -1: none */
    const char *algorithm, *transport;
    int in_place;
    double time_us, p99_us;
    double algbw_gbs, busbw_gbs;
    double
        line_percent; /* busbw_gbs of the line rate of rank 0's ports; negative: no ports. perf_report_rows() sets it */
    int checked;
    uint64_t wrong;     /* elements, over all ranks */
    uint64_t damaged;   /* guard bytes and elements of send buffers that changed, over all ranks */
    double *samples_us; /* in order of time */
    size_t sample_count;
    int calls_per_sample;
    const struct perf_field *extra; /* recorded behind these, in JSON only */
    size_t extra_count;
};

/* What is known at the end. */
struct perf_result {
    uint64_t wrong, damaged;
    int missed;       /* bounds that a command judges by */
    size_t rows;      /* of perf_report_rows(), both placements counted */
    double busbw_gbs; /* mean over them */
    weft_comm_stats stats;
};

struct perf_report;

/* Prints what the figures are taken with. NULL, after a message, when out of memory. The session and the command's name
 * must outlive it. */
struct perf_report *perf_report_open(const struct perf_session *session, const char *command);

/* Prints the heads of the columns that perf_report_rows() fills. */
void perf_report_columns(struct perf_report *report);

/* Says how far a long sweep is, on a terminal only. */
void perf_report_progress(struct perf_report *report, size_t done, size_t total, const char *what);

/* One line of the table; either may be NULL. */
void perf_report_rows(struct perf_report *report, struct perf_row *out_of_place, struct perf_row *in_place);

/* A remark between the rows. */
void perf_report_remark(struct perf_report *report, const char *text);

/* One line of a command's own table, and one record of its figures. */
void perf_report_line(struct perf_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void perf_report_record(struct perf_report *report, const struct perf_field *fields, size_t count);

/* Prints the table's end, writes the files and frees the report. result may be NULL after a failure: then no
 * file is written. 0, or -1 after a message. */
int perf_report_close(struct perf_report *report, const struct perf_result *result);

/* The forms, for report.c. */
void perf_table_head(const struct perf_session *session, const char *command);
void perf_table_columns(const struct perf_options *options, const struct perf_rails *rails);
void perf_table_rows(const struct perf_options *options, const struct perf_row *out_of_place,
                     const struct perf_row *in_place);
void perf_table_end(const struct perf_options *options, const char *command,
                    const struct perf_result *result);

struct perf_json;
struct perf_json *perf_json_open(const struct perf_session *session, const char *command);
int perf_json_row(struct perf_json *json, const struct perf_row *row);
int perf_json_record(struct perf_json *json, const struct perf_field *fields, size_t count);
int perf_json_write(struct perf_json *json, const struct perf_result *result, const char *path);
void perf_json_free(struct perf_json *json);

struct perf_csv;
struct perf_csv *perf_csv_open(const struct perf_options *options);
void perf_csv_row(struct perf_csv *csv, const struct perf_row *row);
void perf_csv_record(struct perf_csv *csv, const struct perf_field *fields, size_t count);
int perf_csv_write(struct perf_csv *csv, const char *path);
void perf_csv_free(struct perf_csv *csv);

#endif
