/* SPDX-License-Identifier: Apache-2.0 */
/* What registering memory costs, and what a registration costs that the context has kept.
 *
 * Memory of one kind of devices, ordinary memory with host, is registered with one transport as the library does it for an
 * operation (comm/regions/memory.c), and nothing is sent. Three things are timed:
 *   register    the first region of memory that has just been given to weft_mem_register(), which nothing is kept of
 *   deregister  weft_mem_deregister(), which ends that region
 *   hit         the region of memory that an operation has used before, and giving it back
 * Whether there are hits is up to the transport and WEFT_CACHE_BYTES; what is registered for each operation anew has none. All pages
 * have been written to before.
 */
#include "perf/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/drive/context.h"
#include "comm/regions/cache.h"
#include "devmem/devices.h"
#include "perf/device/memory.h"
#include "perf/measure.h"

#define WATCH_NS INT64_C(30000000000) /* how long the kernel may take to say what memory has gone */

enum { CALLS_PER_SAMPLE = 100, FILL_BYTES = 1 << 20 };

enum phase { REGISTER, DEREGISTER, HIT, PHASES };

struct bench {
    struct perf_session *session;
    struct perf_report *report; /* rank 0 only */
    struct perf_device device;
    enum weft_transport_index transport;
    double *samples_us[PHASES];
    unsigned char *zeros; /* FILL_BYTES */
};

struct row {
    void *memory;
    size_t bytes;
    int is_kept;
    struct perf_summary summary[PHASES];
};

static const struct perf_options *options_of(const struct bench *bench)
{
    return bench->session->options;
}

static const struct weft_open_transport *transport_of(const struct bench *bench)
{
    return &bench->session->context->transports[bench->transport];
}

/* --- the transport */

/* The first of those that register, and that the settings allow. */
static int open_transport(struct bench *bench)
{
    static const struct {
        enum weft_transport_index index;
        const char *name;
    } known[] = {{WEFT_VERBS, "verbs"}, {WEFT_OFI, "ofi"}};
    weft_context *context = bench->session->context;
    const char *allowed = context->settings.transports;
    char why[1024] = "the settings allow none";
    size_t used = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (*allowed && !strstr(allowed, known[i].name))
            continue;
        weft_context_lock(context);
        int status = weft_context_transport(context, known[i].index, NULL);
        weft_context_unlock(context);
        bench->transport = known[i].index;
        if (status == 0)
            return 0;
        int length = snprintf(why + used, sizeof why - used, "%s%s", used ? "; " : "", weft_error_detail());
        used = used + (size_t)length < sizeof why ? used + (size_t)length : sizeof why - 1;
    }
    fprintf(stderr, "weft-perf: no transport that registers memory can be opened: %s\n", why);
    return -1;
}

static int registers(const struct bench *bench)
{
    uint32_t wanted = strcmp(bench->device.kind->name, "host") == 0
                          ? WEFT_CAP_REG_LOCAL | WEFT_CAP_REG_REMOTE
                          : WEFT_CAP_DMABUF | WEFT_CAP_DEVICE_POINTER;
    if (transport_of(bench)->caps.flags & wanted)
        return 1;
    fprintf(stderr,
            "weft-perf: transport %s registers no memory of kind %s as it is used here: expected another "
            "--transport or --provider\n",
            transport_of(bench)->ops.name, bench->device.kind->name);
    return 0;
}

/* --- one row */

static int complain(const struct bench *bench, const char *what, const struct row *row, int status)
{
    char text[64];
    snprintf(text, sizeof text, "%s %zu bytes", what, row->bytes);
    return perf_device_complain(&bench->device, text, status);
}

/* The region, for so many operations one after the other; the time of them all. 0, or -1 after a message. */
static int use(struct bench *bench, const struct row *row, int operations, double *time_us)
{
    weft_context *context = bench->session->context;
    struct weft_region *region;
    int status = 0;
    perf_watch_call(bench->session->watch);
    weft_context_lock(context);
    int64_t start_ns = perf_now_ns();
    for (int i = 0; i < operations && status == 0; i++) {
        status = weft_memory_region_get(context, bench->transport, row->memory, row->bytes, &region);
        if (status == 0)
            weft_memory_region_put(context, bench->transport, region);
    }
    *time_us = (double)(perf_now_ns() - start_ns) / 1e3;
    weft_context_unlock(context);
    return status == 0 ? 0 : complain(bench, "registering", row, status);
}

static int sample_registration(struct bench *bench, const struct row *row, size_t sample)
{
    weft_context *context = bench->session->context;
    int status = weft_mem_register(context, row->memory, row->bytes);
    if (status != 0)
        return complain(bench, "noting", row, status);
    int failed = use(bench, row, 1, &bench->samples_us[REGISTER][sample]);
    int64_t start_ns = perf_now_ns();
    status = weft_mem_deregister(context, row->memory);
    bench->samples_us[DEREGISTER][sample] = (double)(perf_now_ns() - start_ns) / 1e3;
    return failed || status == 0 ? failed : complain(bench, "deregistering", row, status);
}

static struct weft_region_cache_stats cache_stats(const struct bench *bench)
{
    weft_context *context = bench->session->context;
    struct weft_region_cache_stats stats = {0};
    weft_context_lock(context);
    if (context->regions.cache)
        weft_region_cache_get_stats(context->regions.cache, &stats);
    weft_context_unlock(context);
    return stats;
}

static int sample_hits(struct bench *bench, struct row *row)
{
    double time_us;
    int may_come = 1;
    /* Nothing is kept while the kernel's word of memory that has gone is on its way, which a busy machine delays. */
    int64_t until_ns = perf_now_ns() + WATCH_NS;
    while (may_come && !row->is_kept && perf_now_ns() < until_ns) {
        struct weft_region_cache_stats before = cache_stats(bench);
        if (use(bench, row, 2, &time_us) != 0)
            return -1;
        struct weft_region_cache_stats after = cache_stats(bench);
        row->is_kept = after.hits > before.hits;
        may_come = after.delayed > before.delayed || after.misses > before.misses;
    }
    for (int i = 0; i < options_of(bench)->iterations && row->is_kept; i++) {
        if (use(bench, row, CALLS_PER_SAMPLE, &time_us) != 0)
            return -1;
        bench->samples_us[HIT][i] = time_us / CALLS_PER_SAMPLE;
    }
    return 0;
}

static int measure(struct bench *bench, struct row *row)
{
    size_t samples = (size_t)options_of(bench)->iterations;
    for (int i = 0; i < options_of(bench)->warmups; i++)
        if (sample_registration(bench, row, 0) != 0)
            return -1;
    for (size_t i = 0; i < samples; i++)
        if (sample_registration(bench, row, i) != 0)
            return -1;
    if (sample_hits(bench, row) != 0)
        return -1;
    for (int phase = 0; phase < PHASES; phase++) {
        if (phase == HIT && !row->is_kept)
            continue;
        if (perf_take_slowest(&bench->session->channel, bench->samples_us[phase], samples) != 0 ||
            perf_summarise(bench->samples_us[phase], samples, &row->summary[phase]) != 0)
            return -1;
    }
    return 0;
}

/* --- reporting */

static void print_head(const struct bench *bench)
{
    perf_report_line(bench->report,
                     "# Memory of %s:%d with transport %s\n#\n# %10s  %12s  %9s  %10s  %11s  %8s\n# %10s  "
                     "%12s  %9s  %10s  %11s  %8s",
                     bench->device.kind->name, bench->device.ordinal, transport_of(bench)->ops.name, "size",
                     "register", "p99", "rate", "deregister", "hit", "(B)", "(us)", "(us)", "(GB/s)", "(us)",
                     "(us)");
}

static void report(const struct bench *bench, const struct row *row)
{
    size_t samples = (size_t)options_of(bench)->iterations;
    const struct perf_summary *summary = row->summary;
    double rate_gbs = (double)row->bytes / summary[REGISTER].median_us / 1e3;
    char hit[24] = "N/A";
    struct perf_field hit_field = PERF_FIELD_TEXT("hit_us", NULL);
    if (row->is_kept) {
        snprintf(hit, sizeof hit, "%.3f", summary[HIT].median_us);
        hit_field = (struct perf_field)PERF_FIELD_REAL("hit_us", summary[HIT].median_us);
    }
    perf_report_line(bench->report, "%12zu  %12.2f  %9.2f  %10.3f  %11.2f  %8s", row->bytes,
                     summary[REGISTER].median_us, summary[REGISTER].p99_us, rate_gbs,
                     summary[DEREGISTER].median_us, hit);
    const struct perf_field fields[] = {
        PERF_FIELD_INTEGER("size_bytes", (long long)row->bytes),
        PERF_FIELD_TEXT("kind", bench->device.kind->name),
        PERF_FIELD_INTEGER("ordinal", bench->device.ordinal),
        PERF_FIELD_TEXT("transport", transport_of(bench)->ops.name),
        PERF_FIELD_REAL("time_us", summary[REGISTER].median_us),
        PERF_FIELD_REAL("p99_us", summary[REGISTER].p99_us),
        PERF_FIELD_REAL("register_gbs", rate_gbs),
        PERF_FIELD_REAL("deregister_us", summary[DEREGISTER].median_us),
        hit_field,
        PERF_FIELD_REALS("samples_us", bench->samples_us[REGISTER], samples),
        PERF_FIELD_REALS("deregister_samples_us", bench->samples_us[DEREGISTER], samples),
        PERF_FIELD_REALS("hit_samples_us", bench->samples_us[HIT], row->is_kept ? samples : 0),
    };
    perf_report_record(bench->report, fields, sizeof fields / sizeof *fields);
}

/* --- rows */

static int fill(struct bench *bench, const struct row *row)
{
    for (size_t at = 0, piece; at < row->bytes; at += piece) {
        piece = row->bytes - at < FILL_BYTES ? row->bytes - at : FILL_BYTES;
        if (perf_device_put(&bench->device, (unsigned char *)row->memory + at, bench->zeros, piece) != 0)
            return -1;
    }
    return 0;
}

static int run_row(struct bench *bench, size_t size)
{
    struct row row = {.bytes = size};
    if (perf_device_allocate(&bench->device, size, &row.memory) != 0)
        return -1;
    int failed = fill(bench, &row) != 0 || measure(bench, &row) != 0;
    perf_device_release(&bench->device, row.memory);
    if (!failed && bench->report)
        report(bench, &row);
    return failed ? -1 : 0;
}

static int run_rows(struct bench *bench)
{
    size_t size = options_of(bench)->begin_bytes, done = 0, total = perf_options_sizes(options_of(bench));
    if (bench->report)
        print_head(bench);
    do {
        char what[32];
        snprintf(what, sizeof what, "%zu bytes", size);
        if (bench->report)
            perf_report_progress(bench->report, done++, total, what);
        if (run_row(bench, size) != 0)
            return -1;
    } while ((size = perf_options_next_size(options_of(bench), size)) != 0);
    return 0;
}

int perf_register(struct perf_session *session, struct perf_report *report, struct perf_result *result)
{
    struct bench bench = {.session = session, .report = report};
    size_t samples_bytes = (size_t)session->options->iterations * sizeof(double);
    int failed = -1, made = (bench.zeros = calloc(1, FILL_BYTES)) != NULL;
    (void)result;
    for (int phase = 0; phase < PHASES; phase++)
        made &= (bench.samples_us[phase] = malloc(samples_bytes)) != NULL;
    if (!made)
        fprintf(stderr, "weft-perf: out of memory\n");
    else if (perf_device_open(&bench.device, session->context,
                              perf_options_place(session->options, session->rank)) == 0) {
        failed = open_transport(&bench);
        if (!failed)
            failed = registers(&bench) ? run_rows(&bench) : -1;
        perf_device_close(&bench.device);
    }
    for (int phase = 0; phase < PHASES; phase++)
        free(bench.samples_us[phase]);
    free(bench.zeros);
    return failed;
}
