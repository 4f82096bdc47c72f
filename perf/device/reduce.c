/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a kind of devices reduces, beside how fast it copies.
 *
 * A reduction of n inputs reads n buffers and writes one; the copy beside it reads and writes as many bytes in all, half each.
 * Both are queued in the same queue, one after the other as often as fills SAMPLE_NS, so that launching and
 * waiting do not show, and take turns, so that whatever else the machine does hits both. Events of queues have no time:
 * a sample is the host's time from before the first piece of work is queued until the mark behind the last has happened,
 * divided by how many there were.
 *
 * One block of the device's memory holds inputs, guards and the result:
 *
 *     input 0 | input 1 | ... | guard | result | guard
 *
 * A copy goes from the first half of what is before the last guard to the second half. Inputs that it changes are made of
 * inputs, so what is reduced stays harmless.
 *
 * Before it is timed a row is checked: fresh bits go to the device, and what comes back must be, bit for bit, what the
 * library's portable kernels make of them on the host, and the inputs and guards as they were.
 */
#include "perf/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devmem/devices.h"
#include "devmem/reduce.h"
#include "perf/corrupt.h"
#include "perf/device/bits.h"
#include "perf/device/memory.h"
#include "perf/measure.h"
#include "perf/values.h"

enum {
    SAMPLE_NS = 5000000,
    TRIALS = 3,
    ALIGN = 256, /* also the bytes of a guard */
    POISON = 0xa5,
    BLOCK_BYTES = 1 << 20, /* of a check at a time */
    LINE_MAX = 240
};

/* What a sample is of. */
enum work { COPY, REDUCTION, WORKS };

struct bench {
    struct perf_session *session;
    struct perf_report *report; /* rank 0 only */
    struct perf_result *result;
    struct perf_device device;
    char name[96], runtime[64];
    unsigned char *memory;
    unsigned char *expected, *found, *inputs[PERF_INPUTS_MAX]; /* BLOCK_BYTES each, on the host */
    double *samples_us[WORKS], *shares;
    size_t done, total; /* rows */
    uint64_t stream;
};

/* A row: one type and operation at one size. */
struct row {
    weft_dtype dtype;
    weft_op op;
    size_t element, count, bytes; /* bytes: of an input */
    size_t stride;                /* from one input to the next */
    size_t result_at;             /* in the block */
    size_t half;                  /* bytes that a copy reads */
    uint64_t wrong, damaged;
    int calls[WORKS];
    struct perf_summary summary[WORKS];
};

static const struct perf_options *options_of(const struct bench *bench)
{
    return bench->session->options;
}

static size_t inputs_of(const struct bench *bench)
{
    return (size_t)options_of(bench)->inputs;
}

static size_t aligned(size_t size)
{
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

static void shape_row(const struct bench *bench, size_t size, struct row *row)
{
    row->element = weft_dtype_size(row->dtype);
    row->count = size / row->element;
    row->bytes = row->count * row->element;
    row->stride = aligned(row->bytes);
    row->result_at = inputs_of(bench) * row->stride + ALIGN;
    row->half = row->bytes * (inputs_of(bench) + 1) / 2;
}

/* --- the device's work */

static int queue_reduction(struct bench *bench, const struct row *row)
{
    const void *sources[PERF_INPUTS_MAX];
    void *destination = bench->memory + row->result_at;
    for (size_t i = 0; i < inputs_of(bench); i++)
        sources[i] = bench->memory + i * row->stride;
    struct weft_device_reduction reduction = {
        .size = sizeof reduction,
        .dtype = row->dtype,
        .op = row->op,
        .source_count = (uint32_t)inputs_of(bench),
        .destination_count = 1,
        .sources = sources,
        .destinations = &destination,
        .count = row->count,
        .finish = row->op == WEFT_AVG ? (uint32_t)inputs_of(bench) : 0,
    };
    return bench->device.kind->ops.reduce(bench->device.queue, &reduction);
}

static int queue_copy(struct bench *bench, const struct row *row)
{
    size_t middle = aligned(row->half);
    return bench->device.kind->ops.copy(bench->device.queue, bench->memory + middle, bench->memory,
                                        row->half);
}

static int run(struct bench *bench, const struct row *row, enum work work, int calls, double *time_us)
{
    int status = 0;
    perf_watch_call(bench->session->watch);
    int64_t start_ns = perf_now_ns();
    for (int i = 0; status == 0 && i < calls; i++)
        status = work == COPY ? queue_copy(bench, row) : queue_reduction(bench, row);
    if (status == 0)
        status = perf_device_finish(&bench->device);
    *time_us = (double)(perf_now_ns() - start_ns) / 1e3 / calls;
    return status == 0
               ? 0
               : perf_device_complain(&bench->device, work == COPY ? "a copy" : "a reduction", status);
}

/* --- checking */

/* A stream for each input and block; those of one call are not those of the next. */
static uint64_t stream_of(const struct bench *bench, size_t at, size_t input)
{
    return (bench->stream << 40) + (at / BLOCK_BYTES) * PERF_INPUTS_MAX + input;
}

static int fill(struct bench *bench, const struct row *row, enum perf_bits bits)
{
    size_t step = BLOCK_BYTES / row->element * row->element;
    for (size_t input = 0; input < inputs_of(bench); input++)
        for (size_t at = 0, piece; at < row->bytes; at += piece) {
            piece = row->bytes - at < step ? row->bytes - at : step;
            perf_bits_fill(row->dtype, bits, stream_of(bench, at, input), bench->inputs[0],
                           piece / row->element);
            if (perf_device_put(&bench->device, bench->memory + input * row->stride + at, bench->inputs[0],
                                piece) != 0)
                return -1;
        }
    return 0;
}

/* The guards and what is between them. */
static int poison(struct bench *bench, const struct row *row)
{
    size_t size = row->bytes + 2 * ALIGN;
    memset(bench->expected, POISON, BLOCK_BYTES);
    for (size_t at = 0, piece; at < size; at += piece) {
        piece = size - at < BLOCK_BYTES ? size - at : BLOCK_BYTES;
        if (perf_device_put(&bench->device, bench->memory + row->result_at - ALIGN + at, bench->expected,
                            piece) != 0)
            return -1;
    }
    return 0;
}

static uint64_t differences(const unsigned char *a, const unsigned char *b, size_t size, size_t element)
{
    uint64_t different = 0;
    if (memcmp(a, b, size) != 0)
        for (size_t i = 0; i < size; i += element)
            different += memcmp(a + i, b + i, element) != 0;
    return different;
}

static int inspect_block(struct bench *bench, struct row *row, weft_reduce_function *reference, size_t at,
                         size_t piece)
{
    const void *sources[PERF_INPUTS_MAX];
    unsigned char *expected = bench->expected, *found = bench->found;
    size_t count = piece / row->element;
    for (size_t i = 0; i < inputs_of(bench); i++) {
        perf_bits_fill(row->dtype, PERF_BITS_ANY, stream_of(bench, at, i), bench->inputs[i], count);
        sources[i] = bench->inputs[i];
        if (perf_device_get(&bench->device, found, bench->memory + i * row->stride + at, piece) != 0)
            return -1;
        row->damaged += differences(found, bench->inputs[i], piece, row->element);
    }
    reference(expected, sources, (int)inputs_of(bench), count,
              row->op == WEFT_AVG ? (uint32_t)inputs_of(bench) : 0);
    if (perf_device_get(&bench->device, found, bench->memory + row->result_at + at, piece) != 0)
        return -1;
    if (at == 0)
        perf_corrupt(bench->session->rank, found, count, row->element);
    row->wrong += differences(found, expected, piece, row->element);
    return 0;
}

static int inspect_guards(struct bench *bench, struct row *row)
{
    const unsigned char *guards[] = {bench->memory + row->result_at - ALIGN,
                                     bench->memory + row->result_at + row->bytes};
    for (int i = 0; i < 2; i++) {
        if (perf_device_get(&bench->device, bench->found, guards[i], ALIGN) != 0)
            return -1;
        for (size_t at = 0; at < ALIGN; at++)
            row->damaged += bench->found[at] != POISON;
    }
    return 0;
}

static int check(struct bench *bench, struct row *row)
{
    weft_reduce_function *reference = weft_reduce_find_isa("portable", row->dtype, row->op);
    size_t step = BLOCK_BYTES / row->element * row->element;
    double time_us = 0;
    bench->stream++;
    if (fill(bench, row, PERF_BITS_ANY) != 0 || poison(bench, row) != 0 ||
        run(bench, row, REDUCTION, 1, &time_us) != 0)
        return -1;
    for (size_t at = 0, piece; at < row->bytes; at += piece) {
        piece = row->bytes - at < step ? row->bytes - at : step;
        if (inspect_block(bench, row, reference, at, piece) != 0)
            return -1;
    }
    return inspect_guards(bench, row);
}

/* --- timing */

/* How many calls fill a sample, from the fastest of a few; the ranks agree on the slowest rank's. */
static int choose_calls(struct bench *bench, struct row *row, enum work work)
{
    double fastest_us = 0, time_us;
    for (int i = 0; i < TRIALS; i++) {
        if (run(bench, row, work, 1, &time_us) != 0)
            return -1;
        fastest_us = i == 0 || time_us < fastest_us ? time_us : fastest_us;
    }
    return perf_agree_calls(&bench->session->channel, (int64_t)(fastest_us * 1e3), SAMPLE_NS,
                            &row->calls[work]);
}

static int measure(struct bench *bench, struct row *row)
{
    size_t samples = (size_t)options_of(bench)->iterations;
    double time_us;
    bench->stream++;
    if (fill(bench, row, PERF_BITS_TAME) != 0)
        return -1;
    for (int work = 0; work < WORKS; work++)
        for (int i = 0; i < options_of(bench)->warmups; i++)
            if (run(bench, row, work, 1, &time_us) != 0)
                return -1;
    for (int work = 0; work < WORKS; work++)
        if (choose_calls(bench, row, work) != 0)
            return -1;
    for (size_t i = 0; i < samples; i++)
        for (int work = 0; work < WORKS; work++)
            if (run(bench, row, work, row->calls[work], &bench->samples_us[work][i]) != 0)
                return -1;
    for (int work = 0; work < WORKS; work++)
        if (perf_take_slowest(&bench->session->channel, bench->samples_us[work], samples) != 0 ||
            perf_summarise(bench->samples_us[work], samples, &row->summary[work]) != 0)
            return -1;
    for (size_t i = 0; i < samples; i++)
        bench->shares[i] = 100 * bench->samples_us[COPY][i] / bench->samples_us[REDUCTION][i];
    return 0;
}

/* --- reporting */

static void print_head(struct bench *bench)
{
    char line[LINE_MAX];
    snprintf(line, sizeof line, "Device %s:%d %s%s%s", bench->device.kind->name, bench->device.ordinal,
             bench->name, *bench->runtime ? ", " : "", bench->runtime);
    perf_report_remark(bench->report, line);
    perf_report_remark(bench->report,
                       "GB/s count bytes read and written, of reductions and of copies of as many "
                       "bytes beside them");
    perf_report_line(
        bench->report,
        "#\n# %10s  %12s  %11s  %5s  %6s  %9s  %9s  %8s  %8s  %6s  %6s\n# %10s  %12s  %11s  %5s  "
        "%6s  %9s  %9s  %8s  %8s  %6s",
        "size", "count", "type", "redop", "inputs", "time", "p99", "reduce", "copy", "share", "#wrong", "(B)",
        "(elements)", "", "", "", "(us)", "(us)", "(GB/s)", "(GB/s)", "(%)");
}

static void report(struct bench *bench, const struct row *row)
{
    const struct perf_options *options = options_of(bench);
    size_t samples = (size_t)options->iterations;
    double reduce_us = row->summary[REDUCTION].median_us, copy_us = row->summary[COPY].median_us;
    double reduce_gbs = (double)row->bytes * (double)(inputs_of(bench) + 1) / reduce_us / 1e3;
    double copy_gbs = 2 * (double)row->half / copy_us / 1e3;
    struct perf_summary share = {0, 0};
    char wrong[24] = "N/A";
    struct perf_field wrong_field = PERF_FIELD_TEXT("wrong", NULL); /* not known without a check */
    struct perf_field damaged_field = PERF_FIELD_TEXT("damaged", NULL);
    perf_summarise(bench->shares, samples, &share);
    if (options->checks) {
        snprintf(wrong, sizeof wrong, "%" PRIu64, row->wrong);
        wrong_field = (struct perf_field)PERF_FIELD_INTEGER("wrong", (long long)row->wrong);
        damaged_field = (struct perf_field)PERF_FIELD_INTEGER("damaged", (long long)row->damaged);
    }
    perf_report_line(bench->report, "%12zu  %12zu  %11s  %5s  %6d  %9.2f  %9.2f  %8.2f  %8.2f  %6.1f  %6s",
                     row->bytes, row->count, weft_dtype_name(row->dtype), weft_op_name(row->op),
                     options->inputs, reduce_us, row->summary[REDUCTION].p99_us, reduce_gbs, copy_gbs,
                     share.median_us, wrong);
    const struct perf_field fields[] = {
        PERF_FIELD_INTEGER("size_bytes", (long long)row->bytes),
        PERF_FIELD_INTEGER("count", (long long)row->count),
        PERF_FIELD_TEXT("type", weft_dtype_name(row->dtype)),
        PERF_FIELD_TEXT("redop", weft_op_name(row->op)),
        PERF_FIELD_INTEGER("inputs", options->inputs),
        PERF_FIELD_TEXT("kind", bench->device.kind->name),
        PERF_FIELD_INTEGER("ordinal", bench->device.ordinal),
        PERF_FIELD_TEXT("device", bench->name),
        PERF_FIELD_TEXT("runtime", bench->runtime),
        PERF_FIELD_REAL("time_us", reduce_us),
        PERF_FIELD_REAL("p99_us", row->summary[REDUCTION].p99_us),
        PERF_FIELD_REAL("reduce_gbs", reduce_gbs),
        PERF_FIELD_REAL("copy_us", copy_us),
        PERF_FIELD_REAL("copy_gbs", copy_gbs),
        PERF_FIELD_REAL("share_percent", share.median_us),
        PERF_FIELD_INTEGER("calls_per_sample", row->calls[REDUCTION]),
        PERF_FIELD_INTEGER("copies_per_sample", row->calls[COPY]),
        wrong_field,
        damaged_field,
        PERF_FIELD_REALS("samples_us", bench->samples_us[REDUCTION], samples),
        PERF_FIELD_REALS("copy_samples_us", bench->samples_us[COPY], samples),
    };
    perf_report_record(bench->report, fields, sizeof fields / sizeof *fields);
}

/* --- rows */

static int run_row(struct bench *bench, weft_dtype dtype, weft_op op, size_t size)
{
    struct row row = {.dtype = dtype, .op = op};
    shape_row(bench, size, &row);
    if (bench->report) {
        char what[LINE_MAX];
        snprintf(what, sizeof what, "%s %s %zu bytes", weft_dtype_name(dtype), weft_op_name(op), size);
        perf_report_progress(bench->report, bench->done, bench->total, what);
    }
    for (int i = 0; i < options_of(bench)->checks; i++)
        if (check(bench, &row) != 0)
            return -1;
    if (measure(bench, &row) != 0 || perf_session_add_up(bench->session, &row.wrong, &row.damaged) != 0)
        return -1;
    bench->result->wrong += row.wrong;
    bench->result->damaged += row.damaged;
    bench->done++;
    if (bench->report)
        report(bench, &row);
    return 0;
}

/* Whether the kind reduces this pair: 1, 0, or -1 after a message. */
static int is_supported(struct bench *bench, weft_dtype dtype, weft_op op)
{
    struct row row = {.dtype = dtype, .op = op};
    shape_row(bench, weft_dtype_size(dtype), &row);
    int status = weft_reduce_find(dtype, op) ? queue_reduction(bench, &row) : WEFT_UNSUPPORTED;
    if (status == 0)
        status = perf_device_finish(&bench->device);
    if (status == WEFT_UNSUPPORTED && options_of(bench)->skip_unsupported)
        return 0;
    if (status == 0)
        return 1;
    char what[LINE_MAX];
    snprintf(what, sizeof what, "%s of %s", weft_op_name(op), weft_dtype_name(dtype));
    return perf_device_complain(&bench->device, what, status);
}

static int run_pair(struct bench *bench, weft_dtype dtype, weft_op op)
{
    const struct perf_options *options = options_of(bench);
    int supported = is_supported(bench, dtype, op);
    if (supported < 0)
        return -1;
    if (!supported) {
        char remark[LINE_MAX];
        snprintf(remark, sizeof remark, "%s %s: not supported by %s", weft_dtype_name(dtype),
                 weft_op_name(op), bench->device.kind->name);
        if (bench->report)
            perf_report_remark(bench->report, remark);
        bench->done += perf_options_sizes(options);
        return 0;
    }
    size_t size = options->begin_bytes;
    do /* what holds not even one element is passed over */
        if (size >= weft_dtype_size(dtype) && run_row(bench, dtype, op, size) != 0)
            return -1;
    while ((size = perf_options_next_size(options, size)) != 0);
    return 0;
}

static int run_pairs(struct bench *bench)
{
    const struct perf_options *options = options_of(bench);
    bench->total = (size_t)(__builtin_popcount(options->dtypes) * __builtin_popcount(options->ops)) *
                   perf_options_sizes(options);
    if (bench->report)
        print_head(bench);
    for (int dtype = 0; dtype < WEFT_DTYPE_COUNT; dtype++)
        for (int op = 0; op < WEFT_OP_COUNT; op++)
            if ((options->dtypes >> dtype & 1) && (options->ops >> op & 1) &&
                run_pair(bench, (weft_dtype)dtype, (weft_op)op) != 0)
                return -1;
    return 0;
}

/* --- what all of it needs */

static void describe(struct bench *bench)
{
    struct weft_device_info info = {.size = sizeof info};
    const struct weft_device_kind *kind = bench->device.kind;
    if (kind->ops.describe(kind->device, bench->device.ordinal, &info) != 0)
        return;
    snprintf(bench->name, sizeof bench->name, "%.*s", (int)sizeof info.name - 1, info.name);
    snprintf(bench->runtime, sizeof bench->runtime, "%.*s", (int)sizeof info.runtime - 1, info.runtime);
}

static int allocate(struct bench *bench)
{
    size_t samples_bytes = (size_t)options_of(bench)->iterations * sizeof(double);
    size_t largest = aligned(options_of(bench)->end_bytes) + ALIGN;
    void *memory;
    int made = (bench->shares = malloc(samples_bytes)) != NULL;
    for (int work = 0; work < WORKS; work++)
        made &= (bench->samples_us[work] = malloc(samples_bytes)) != NULL;
    made &= (bench->expected = malloc(BLOCK_BYTES)) != NULL;
    made &= (bench->found = malloc(BLOCK_BYTES)) != NULL;
    for (size_t i = 0; i < inputs_of(bench); i++)
        made &= (bench->inputs[i] = malloc(BLOCK_BYTES)) != NULL;
    if (!made) {
        fprintf(stderr, "weft-perf: out of memory\n");
        return -1;
    }
    /* Each input, the guards, the result, and what the halves of a copy are aligned by. */
    if (perf_device_allocate(&bench->device, (inputs_of(bench) + 1) * largest + 4 * ALIGN, &memory) != 0)
        return -1;
    bench->memory = memory;
    return 0;
}

static void release(struct bench *bench)
{
    if (bench->memory)
        perf_device_release(&bench->device, bench->memory);
    for (size_t i = 0; i < inputs_of(bench); i++)
        free(bench->inputs[i]);
    free(bench->expected);
    free(bench->found);
    for (int work = 0; work < WORKS; work++)
        free(bench->samples_us[work]);
    free(bench->shares);
}

int perf_reduce_local(struct perf_session *session, struct perf_report *report, struct perf_result *result)
{
    struct bench bench = {.session = session, .report = report, .result = result};
    if (perf_device_open(&bench.device, session->context,
                         perf_options_place(session->options, session->rank)) != 0)
        return -1;
    describe(&bench);
    int failed = allocate(&bench);
    if (!failed)
        failed = run_pairs(&bench);
    release(&bench);
    perf_device_close(&bench.device);
    return failed;
}
