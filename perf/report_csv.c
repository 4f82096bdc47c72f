#include "perf/report.h"

#include <stdio.h>
#include <stdlib.h>

#include "perf/file.h"
#include "perf/values.h"

struct perf_csv {
    FILE *stream; /* into text */
    char *text;
    size_t size;
};

struct perf_csv *perf_csv_open(void)
{
    struct perf_csv *csv = calloc(1, sizeof *csv);
    if (!csv)
        return NULL;
    csv->stream = open_memstream(&csv->text, &csv->size);
    if (!csv->stream) {
        free(csv);
        return NULL;
    }
    fputs("size_bytes,count,type,redop,root,algorithm,transport,in_place,time_us,p99_us,algbw_gbs,busbw_gbs,"
          "wrong,damaged,samples,calls_per_sample\n",
          csv->stream);
    return csv;
}

void perf_csv_row(struct perf_csv *csv, const struct perf_row *row)
{
    fprintf(csv->stream, "%zu,%zu,%s,%s,%d,%s,%s,%d,%.6g,%.6g,%.6g,%.6g,", row->size_bytes, row->count,
            weft_dtype_name(row->dtype), perf_op_name(row->op), row->root, row->algorithm, row->transport,
            row->in_place, row->time_us, row->p99_us, row->algbw_gbs, row->busbw_gbs);
    if (row->checked) /* an unchecked row has empty fields, not zeros */
        fprintf(csv->stream, "%llu,%llu", (unsigned long long)row->wrong, (unsigned long long)row->damaged);
    else
        fputc(',', csv->stream);
    fprintf(csv->stream, ",%zu,%d\n", row->sample_count, row->calls_per_sample);
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
