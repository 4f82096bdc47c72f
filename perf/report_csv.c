/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/file.h"
#include "perf/values.h"

struct perf_csv {
    const char *clock;
    FILE *stream; /* into text */
    char *text;
    size_t size;
    int has_head; /* the names of the columns, which the first row knows */
};

struct perf_csv *perf_csv_open(const struct perf_options *options)
{
    struct perf_csv *csv = calloc(1, sizeof *csv);
    if (!csv)
        return NULL;
    csv->clock = options->device_clock ? "device" : "host";
    csv->stream = open_memstream(&csv->text, &csv->size);
    if (!csv->stream) {
        free(csv);
        return NULL;
    }
    return csv;
}

void perf_csv_row(struct perf_csv *csv, const struct perf_row *row)
{
    if (!csv->has_head)
        fputs("size_bytes,count,type,redop,root,algorithm,transport,in_place,time_us,p99_us,algbw_gbs,busbw_"
              "gbs,"
              "wrong,damaged,samples,calls_per_sample,clock\n",
              csv->stream);
    csv->has_head = 1;
    fprintf(csv->stream, "%zu,%zu,%s,%s,%d,%s,%s,%d,%.6g,%.6g,%.6g,%.6g,", row->size_bytes, row->count,
            weft_dtype_name(row->dtype), perf_op_name(row->op), row->root, row->algorithm, row->transport,
            row->in_place, row->time_us, row->p99_us, row->algbw_gbs, row->busbw_gbs);
    if (row->checked) /* an unchecked row has empty fields, not zeros */
        fprintf(csv->stream, "%llu,%llu", (unsigned long long)row->wrong, (unsigned long long)row->damaged);
    else
        fputc(',', csv->stream);
    fprintf(csv->stream, ",%zu,%d,%s\n", row->sample_count, row->calls_per_sample, csv->clock);
}

/* Names of devices may hold anything: then in quotes, with quotes doubled. What is not known is an empty field. */
static void write_text(struct perf_csv *csv, const char *text)
{
    if (!text || !strpbrk(text, ",\"\r\n")) {
        fputs(text ? text : "", csv->stream);
        return;
    }
    fputc('"', csv->stream);
    for (; *text; text++)
        fputs(*text == '"' ? "\"\"" : (char[]){*text, 0}, csv->stream);
    fputc('"', csv->stream);
}

void perf_csv_record(struct perf_csv *csv, const struct perf_field *fields, size_t count)
{
    for (int is_head = !csv->has_head; is_head >= 0; is_head--) {
        const char *separator = "";
        for (size_t i = 0; i < count; i++) {
            const struct perf_field *field = &fields[i];
            if (field->kind == PERF_REALS)
                continue;
            fputs(separator, csv->stream);
            separator = ",";
            if (is_head)
                fputs(field->name, csv->stream);
            else if (field->kind == PERF_TEXT)
                write_text(csv, field->text);
            else if (field->kind == PERF_REAL)
                fprintf(csv->stream, "%.6g", field->real);
            else
                fprintf(csv->stream, "%lld", field->integer);
        }
        fputc('\n', csv->stream);
    }
    csv->has_head = 1;
}

int perf_csv_write(struct perf_csv *csv, const char *path)
{
    if (fflush(csv->stream) != 0 || ferror(csv->stream)) {
        fprintf(stderr, "weft-perf: out of memory: '%s' would lack rows\n", path);
        return -1;
    }
    return perf_file_write(path, csv->text, csv->size);
}

void perf_csv_free(struct perf_csv *csv)
{
    if (!csv)
        return;
    fclose(csv->stream);
    free(csv->text);
    free(csv);
}
