/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the reductions are: every type, operation and instruction set on buffers of several sizes, beside
 * copies measured in the same run, which say what the caches and memory can feed.
 *
 * GB/s count every byte read and written once, so that a copy and a sum of two compare directly. Each figure
 * is the median of several rounds; a round repeats the call for about a millisecond or once. Tiny counts are
 * shown as nanoseconds per call.
 */
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "devmem/reduce.h"

#define SIZES_MAX  16
#define ROUNDS_MAX 101

static const char *const isas[] = {"portable", "avx2", "avx512"};

struct options {
    const char *isa, *dtype, *op;
    size_t sizes[SIZES_MAX];
    int size_count, sources, streaming, rounds, cpu, tiny;
    size_t skew;
};

static const struct options defaults = {
    .sizes = {12 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20, 32 << 20},
    .size_count = 6,
    .sources = 2,
    .rounds = 11,
    .tiny = 1,
};

/* One call to be timed: a copy when there is no kernel. */
struct work {
    weft_reduce_function *kernel;
    void (*copy)(void *, const void *, size_t);
    char *to;
    const void *sources[WEFT_REDUCE_SOURCES_MAX];
    int source_count;
    size_t size, count;
    uint32_t finish;
};

static void work_do(const struct work *work)
{
    if (work->kernel)
        work->kernel(work->to, work->sources, work->source_count, work->count, work->finish);
    else
        work->copy(work->to, work->sources[0], work->size);
    __asm__ volatile("" ::: "memory");
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median nanoseconds per call. */
static double work_time_ns(const struct work *work, int rounds)
{
    double times[ROUNDS_MAX];
    long repeats = 1;
    for (int round = -1; round < rounds; round++) {
        int64_t start = weft_clock_ns();
        for (long i = 0; i < repeats; i++)
            work_do(work);
        double time_ns = (double)(weft_clock_ns() - start);
        if (round < 0) { /* warm-up, and how often fits a millisecond */
            start = weft_clock_ns();
            work_do(work);
            int64_t once_ns = weft_clock_ns() - start;
            repeats = once_ns > 1000000 ? 1 : 1000000 / (once_ns > 20 ? once_ns : 20);
        } else {
            times[round] = time_ns / (double)repeats;
        }
    }
    qsort(times, (size_t)rounds, sizeof *times, compare);
    return times[rounds / 2];
}

static void rate_print(const struct work *work, int rounds, int streams)
{
    double gbs = (double)work->size * streams / work_time_ns(work, rounds);
    printf(" %8.1f", gbs);
    fflush(stdout);
}

static void header_print(const struct options *options)
{
    printf("# GB/s of bytes read + written, medians of %d, %d sources%s, buffers of\n%-36s", options->rounds,
           options->sources, options->streaming ? ", streaming stores" : "", "#");
    for (int i = 0; i < options->size_count; i++)
        printf(" %6zu K", options->sizes[i] >> 10);
    printf("%s\n", options->tiny ? "   1: ns  16: ns" : "");
}

static void copies_print(const struct options *options, struct work work)
{
    static const struct {
        const char *name;
        void (*copy)(void *, const void *, size_t);
    } copies[] = {{"copy weft", weft_copy}, {"copy weft streaming", weft_copy_streaming}};
    work.kernel = NULL;
    for (size_t c = 0; c < sizeof copies / sizeof *copies; c++) {
        printf("%-36s", copies[c].name);
        work.copy = copies[c].copy;
        for (int i = 0; i < options->size_count; i++) {
            work.size = options->sizes[i];
            rate_print(&work, options->rounds, 2);
        }
        printf("\n");
    }
}

static void row_print(const struct options *options, const char *isa, weft_dtype dtype, weft_op op,
                      struct work work)
{
    weft_reduce_function *(*find)(const char *, weft_dtype, weft_op) =
        options->streaming ? weft_reduce_find_streaming_isa : weft_reduce_find_isa;
    work.kernel = find(isa, dtype, op);
    if (!work.kernel)
        return;
    work.finish = op == WEFT_AVG ? 7 : 0;
    printf("%-10s %-11s %-13s", isa, weft_dtype_name(dtype), weft_op_name(op));
    for (int i = 0; i < options->size_count; i++) {
        work.size = options->sizes[i];
        work.count = work.size / weft_dtype_size(dtype);
        rate_print(&work, options->rounds, work.source_count + 1);
    }
    for (size_t count = 1; options->tiny && count <= 16; count += 15) {
        work.count = count;
        printf(" %7.1f", work_time_ns(&work, options->rounds));
    }
    printf("\n");
}

/* Ones in every type's float32 reading: no denormals, no overflow, whatever the operation. */
static void *buffer_make(size_t size, size_t skew)
{
    char *memory = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, size + 4096, MADV_HUGEPAGE);
    const uint32_t one = 0x3f803f80;
    for (size_t i = 0; i < size + 4096; i += 4)
        memcpy(memory + i, &one, 4);
    return memory + skew;
}

static int usage(int status)
{
    fprintf(status ? stderr : stdout,
            "usage: reduce [options]: speed of weft's reductions on host memory\n"
            "  -i, --isa NAME       portable, avx2 or avx512 (all that run here)\n"
            "  -d, --dtype NAME     as weft_dtype_name() has it (all)\n"
            "  -o, --op NAME        sum, prod, max, min, avg, and, or, xor (all)\n"
            "  -b, --sizes A,B,...  bytes per buffer, suffix K or M (12K,128K,256K,1M,4M,32M)\n"
            "  -s, --sources N      inputs, 1 to 8 (2)\n"
            "  -t, --streaming      kernels with streaming stores\n"
            "  -k, --skew BYTES     start of the buffers behind a page's, below 4096 (0)\n"
            "  -n, --rounds N       rounds per figure, 1 to 101 (11)\n"
            "  -c, --cpu N          processor to stay on (0)\n"
            "  -h, --help           this text\n");
    return status;
}

static int sizes_read(struct options *options, const char *text)
{
    options->size_count = 0;
    while (*text && options->size_count < SIZES_MAX) {
        char *end;
        size_t size = strtoul(text, &end, 10);
        size <<= *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
        end += *end == 'K' || *end == 'M';
        if (!size || (*end && *end != ','))
            return -1;
        options->sizes[options->size_count++] = size;
        text = end + (*end == ',');
    }
    return options->size_count ? 0 : -1;
}

static int options_read(struct options *options, int argc, char **argv)
{
    static const struct option names[] = {
        {"isa", 1, NULL, 'i'},   {"dtype", 1, NULL, 'd'},   {"op", 1, NULL, 'o'},
        {"sizes", 1, NULL, 'b'}, {"sources", 1, NULL, 's'}, {"streaming", 0, NULL, 't'},
        {"skew", 1, NULL, 'k'},  {"rounds", 1, NULL, 'n'},  {"cpu", 1, NULL, 'c'},
        {"help", 0, NULL, 'h'},  {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "i:d:o:b:s:tk:n:c:h", names, NULL)) != -1;) {
        switch (c) {
        case 'i':
            options->isa = optarg;
            break;
        case 'd':
            options->dtype = optarg;
            break;
        case 'o':
            options->op = optarg;
            break;
        case 'b':
            if (sizes_read(options, optarg))
                return usage(2);
            break;
        case 's':
            options->sources = atoi(optarg);
            break;
        case 't':
            options->streaming = 1;
            break;
        case 'k':
            options->skew = strtoul(optarg, NULL, 10);
            break;
        case 'n':
            options->rounds = atoi(optarg);
            break;
        case 'c':
            options->cpu = atoi(optarg);
            break;
        case 'h':
            return usage(0) - 1;
        default:
            return usage(2);
        }
    }
    if (options->sources < 1 || options->sources > WEFT_REDUCE_SOURCES_MAX || options->rounds < 1 ||
        options->rounds > ROUNDS_MAX || options->skew >= 4096 || optind < argc)
        return usage(2);
    return 0;
}

static void rows_print(const struct options *options, const struct work *work)
{
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        if (options->isa && strcmp(options->isa, isas[i]) != 0)
            continue;
        for (weft_dtype dtype = 0; dtype < WEFT_DTYPE_COUNT; dtype++) {
            if (options->dtype && strcmp(options->dtype, weft_dtype_name(dtype)) != 0)
                continue;
            for (weft_op op = 0; op < WEFT_OP_COUNT; op++)
                if (!options->op || strcmp(options->op, weft_op_name(op)) == 0)
                    row_print(options, isas[i], dtype, op, *work);
        }
    }
}

int main(int argc, char **argv)
{
    struct options options = defaults;
    int status = options_read(&options, argc, argv);
    if (status)
        return status < 0 ? 0 : status;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((unsigned)options.cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus))
        fprintf(stderr, "reduce: cannot stay on processor %d: timings may jump\n", options.cpu);
    size_t largest = 0;
    for (int i = 0; i < options.size_count; i++)
        largest = options.sizes[i] > largest ? options.sizes[i] : largest;
    struct work work = {.source_count = options.sources};
    work.to = buffer_make(largest, options.skew);
    int made = work.to != NULL;
    for (int i = 0; i < options.sources; i++)
        made &= (work.sources[i] = buffer_make(largest, options.skew)) != NULL;
    if (!made) {
        fprintf(stderr, "reduce: no memory for %d buffers of %zu bytes\n", options.sources + 1, largest);
        return 1;
    }
    header_print(&options);
    copies_print(&options, work);
    rows_print(&options, &work);
    return 0;
}
