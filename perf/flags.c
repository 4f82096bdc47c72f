/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/flags.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "perf/nccl.h"

enum { ORDINAL_MAX = 1023 };

/* Of the names of kinds of devices. */
static const char kind_letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";

/* A whole number from low to high. */
static int number(const char *value, long long low, long long high, long long *result)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(value, &end, 10);
    if (end == value || *end || errno || parsed < low || parsed > high)
        return -1;
    *result = parsed;
    return 0;
}

static int integer(const char *value, long long low, long long high, int *result)
{
    long long parsed;
    if (number(value, low, high, &parsed) != 0)
        return -1;
    *result = (int)parsed;
    return 0;
}

/* What is behind the point of 1.5K, in bytes, rounded down as nccl-tests does; *at is moved behind it. */
static size_t fraction(const char **at, const char *suffixes)
{
    const char *digits = *at + 1, *end = digits + strspn(digits, "0123456789");
    const char *suffix = *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
    double part = 0;
    if (end == digits || !suffix)
        return 0;
    for (const char *digit = end; digit > digits; digit--)
        part = (part + (digit[-1] - '0')) / 10;
    *at = end;
    return (size_t)(part * (double)((size_t)1 << 10 * (suffix - suffixes + 1)));
}

/* Bytes with an optional binary suffix: 8, 4K, 64M, 1G, also 64MB and 64MiB, 1.5K. */
static int bytes(const char *value, size_t *result)
{
    static const char suffixes[] = "KMGT";
    char *behind;
    errno = 0;
    if (!isdigit((unsigned char)*value))
        return -1;
    unsigned long long parsed = strtoull(value, &behind, 10);
    const char *end = behind;
    size_t part = *end == '.' ? fraction(&end, suffixes) : 0;
    const char *suffix = *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
    int shift = 0;
    if (suffix) {
        shift = 10 * (int)(suffix - suffixes + 1);
        end++;
        end += *end == 'i';
    }
    end += *end == 'B' || *end == 'b';
    if (*end || errno || parsed > (SIZE_MAX >> 2) >> shift)
        return -1;
    *result = ((size_t)parsed << shift) + part;
    return 0;
}

static int word(const char *value, const char *const *words, int *index)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(value, words[i]) == 0) {
            *index = i;
            return 0;
        }
    return -1;
}

static int take_transport(struct perf_options *options, const char *value)
{
    static const char *const words[] = {"auto", "shm", "ofi", "verbs", "tcp", NULL};
    int index;
    if (word(value, words, &index) != 0)
        return -1;
    options->transport = index == 0 ? "" : words[index];
    return 0;
}

static int take_algorithm(struct perf_options *options, const char *value)
{
    static const char *const words[] = {"auto",          "ring", "tree",   "rd",      "rab",    "binomial",
                                        "chain",         "sag",  "bruck",  "halving", "direct", "pairwise",
                                        "dissemination", "hier", "leader", NULL};
    int index;
    if (word(value, words, &index) != 0)
        return -1;
    options->algorithm = words[index];
    return 0;
}

static int take_factor(struct perf_options *options, const char *value)
{
    long long factor;
    if (number(value, 1, 1 << 30, &factor) != 0)
        return -1;
    options->factor = (size_t)factor;
    return 0;
}

/* A name, several with commas between them, or all, as bits. There are count names. */
static int names(const char *value, int count, int (*find)(const char *name), unsigned *bits, int *all)
{
    char one[32];
    unsigned found = 0;
    if (strcmp(value, "all") == 0) {
        *bits = (1u << count) - 1;
        *all = 1;
        return 0;
    }
    for (;;) {
        size_t length = strcspn(value, ",");
        if (length >= sizeof one)
            return -1;
        snprintf(one, sizeof one, "%.*s", (int)length, value);
        int index = find(one);
        if (index < 0)
            return -1;
        found |= 1u << index;
        if (!value[length])
            break;
        value += length + 1;
    }
    *bits = found;
    return 0;
}

static int find_dtype(const char *name)
{
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++)
        if (strcmp(perf_nccl_dtype(name), weft_dtype_name(i)) == 0)
            return i;
    return -1;
}

static int find_op(const char *name)
{
    for (int i = 0; i < WEFT_OP_COUNT; i++)
        if (strcmp(name, weft_op_name(i)) == 0)
            return i;
    return -1;
}

static int take_dtype(struct perf_options *options, const char *value)
{
    return names(value, WEFT_DTYPE_COUNT, find_dtype, &options->dtypes, &options->skip_unsupported);
}

static int take_op(struct perf_options *options, const char *value)
{
    return names(value, WEFT_OP_COUNT, find_op, &options->ops, &options->skip_unsupported);
}

static int take_root(struct perf_options *options, const char *value)
{
    if (strcmp(value, "all") == 0) {
        options->root = -1;
        return 0;
    }
    return integer(value, 0, PERF_RANKS_MAX - 1, &options->root);
}

/* "malloc", "weft", or a kind of devices with the device behind a colon, as the command takes them. */
static int read_place(const struct perf_options *options, const char *text, struct perf_place *place)
{
    size_t length = strcspn(text, ":");
    if (length == 0 || length >= sizeof place->kind || strspn(text, kind_letters) < length)
        return -1;
    snprintf(place->kind, sizeof place->kind, "%.*s", (int)length, text);
    place->ordinal = PERF_ORDINAL_OF_RANK;
    int is_kind = strcmp(place->kind, "malloc") != 0 && strcmp(place->kind, "weft") != 0;
    if (!(options->accepts & (is_kind ? PERF_TAKES_DEVICE : PERF_TAKES_MEMORY)))
        return -1;
    return text[length] && (!is_kind || integer(text + length + 1, 0, ORDINAL_MAX, &place->ordinal) != 0) ? -1
                                                                                                          : 0;
}

static int take_memory(struct perf_options *options, const char *value)
{
    char one[64];
    options->memory = value;
    for (options->place_count = 0; options->place_count < PERF_PLACES_MAX;) {
        size_t length = strcspn(value, ",");
        if (length >= sizeof one)
            return -1;
        snprintf(one, sizeof one, "%.*s", (int)length, value);
        if (read_place(options, one, &options->places[options->place_count++]) != 0)
            return -1;
        if (!value[length])
            return 0;
        value += length + 1;
    }
    return -1;
}

static int take_clock(struct perf_options *options, const char *value)
{
    static const char *const words[] = {"host", "device", NULL};
    return word(value, words, &options->device_clock);
}

static int take_placement(struct perf_options *options, const char *value)
{
    static const char *const words[] = {"0", "1", "both", NULL};
    int index;
    if (word(value, words, &index) != 0)
        return -1;
    options->placements = index + 1;
    return 0;
}

/* Every rank's mean is not there; of calls that block it is close to the slowest one's, and scripts write the default. */
static int take_average(struct perf_options *options, const char *value)
{
    return integer(value, 1, 3, &options->ignored) != 0 || options->ignored == 2 ? -1 : 0;
}

static int take_none(struct perf_options *options, const char *value)
{
    (void)options;
    (void)value;
    return -1;
}

static int take_columns(struct perf_options *options, const char *value)
{
    static const char *const words[] = {"nccl", "weft", NULL};
    return word(value, words, &options->own_columns);
}

static int take_stay_away(struct perf_options *options, const char *value)
{
    char rank[16];
    size_t length = strcspn(value, ":");
    if (!value[length] || length >= sizeof rank)
        return -1;
    snprintf(rank, sizeof rank, "%.*s", (int)length, value);
    if (integer(rank, 0, PERF_RANKS_MAX - 1, &options->stay_rank) != 0)
        return -1;
    return number(value + length + 1, 0, INT64_MAX, &options->stay_call);
}

int perf_flag_take(const struct perf_flag *flag, struct perf_options *options, const char *value)
{
    void *field = (char *)options + flag->offset;
    switch (flag->kind) {
    case PERF_FLAG_NUMBER:
        return integer(value, flag->low, flag->high, field);
    case PERF_FLAG_BYTES:
        return bytes(value, field) != 0 || *(size_t *)field < (size_t)flag->low ? -1 : 0;
    case PERF_FLAG_TEXT:
        *(const char **)field = value;
        return *value ? 0 : -1;
    case PERF_FLAG_SWITCH:
        *(int *)field = 1;
        return 0;
    default:
        return flag->take(options, value);
    }
}

#define FIELD(field)            .offset = offsetof(struct perf_options, field)
#define NUMBER(field, from, to) PERF_FLAG_NUMBER, FIELD(field), .low = from, .high = to
#define BYTES(field, from)      PERF_FLAG_BYTES, FIELD(field), .low = from
#define TEXT(field)             PERF_FLAG_TEXT, FIELD(field)
#define SWITCH(field)           PERF_FLAG_SWITCH, FIELD(field)
#define IGNORED(from, to)       NUMBER(ignored, from, to)
#define OTHER(function)         PERF_FLAG_OTHER, .take = function

#define MORE_RANKS                                                                                           \
    "one rank per GPU: start @ times as many ranks (mpirun -n, srun -n, or --ranks on one host)"

const struct perf_flag perf_flags[] = {
    {0, 0, "ranks", "N", "a number of ranks from 1 to 4096",
     "launch N ranks on this host (without it: take part in a job by the environment)",
     NUMBER(ranks, 1, PERF_RANKS_MAX)},
    {0, 0, "transport", "T", "auto, shm, ofi, verbs or tcp", "how bytes move: auto, shm, ofi, verbs, tcp",
     OTHER(take_transport)},
    {0, 0, "provider", "P", "the name of a libfabric provider such as tcp", "libfabric provider for ofi",
     TEXT(provider)},
    {0, 0, "device", "LIST", "RDMA devices such as mlx5_0:1,mlx5_1, or ^mlx5_2",
     "RDMA devices for verbs, or, behind ^, those not to use", TEXT(device)},
    {PERF_TAKES_ALGORITHM, 0, "algo", "A",
     "auto, ring, tree, rd, rab, binomial, chain, sag, bruck, halving, direct, pairwise, dissemination, hier "
     "or leader",
     "the algorithm where it serves, by the setting WEFT_ALGO (auto)", OTHER(take_algorithm)},
    {PERF_TAKES_SIZES, 'b', "minbytes", "SIZE", "a size in bytes such as 8, 4K or 64M", "smallest size (8)",
     BYTES(begin_bytes, 0)},
    {PERF_TAKES_SIZES, 'e', "maxbytes", "SIZE", "a size in bytes such as 8, 4K or 64M", "largest size (64M)",
     BYTES(end_bytes, 0)},
    {PERF_TAKES_SIZES, 'i', "stepbytes", "SIZE", "a size in bytes above 0, such as 1M",
     "add SIZE from one row to the next, instead of -f", BYTES(step_bytes, 1)},
    {PERF_TAKES_SIZES, 'f', "stepfactor", "N", "a whole number from 1 up",
     "multiply the size by N from one row to the next (2)", OTHER(take_factor)},
    {PERF_TAKES_TYPE, 'd', "datatype", "TYPE",
     "int8, uint8, int16, uint16, int32, uint32, int64, uint64, float8_e4m3, float8_e5m2, float16, bfloat16, "
     "float32, float64, complex64, complex128, bool, several with commas between them, or all",
     "element type, several with commas, or all (float32)", OTHER(take_dtype)},
    {PERF_TAKES_OP, 'o', "op", "OP",
     "sum, prod, max, min, avg, and, or, xor, several with commas between them, or all",
     "reduction: sum, prod, max, min, avg, and, or, xor, several with commas, or all (sum)", OTHER(take_op),
     .answer = "mulsum is not measured: -o sum moves the same; weft_op_create(3) has it for programs",
     .answer_to = "mulsum"},
    {PERF_TAKES_ROOT, 'r', "root", "RANK", "a rank or all", "root, or all: every rank in turn (0)",
     OTHER(take_root)},
    {PERF_TAKES_COUNTS, 'n', "iters", "N", "a whole number from 1 to 1000000",
     "timed samples (20; 11 for overlap and init)", NUMBER(iterations, 1, PERF_ITERATIONS_MAX)},
    {PERF_TAKES_WARMUPS, 'w', "warmup-iters", "N", "a whole number from 0 to 1000000",
     "calls before the timed ones (5)", NUMBER(warmups, 0, PERF_ITERATIONS_MAX)},
    {PERF_TAKES_CHECK, 'c', "check", "N", "a whole number from 0 to 1000000",
     "checked calls per row, compared bit for bit; 0: no check (1)", NUMBER(checks, 0, PERF_ITERATIONS_MAX)},
    {PERF_TAKES_MEMORY | PERF_TAKES_DEVICE, 0, "memory", "M",
     "malloc, weft or a kind of devices such as cuda or cuda:1 (reduce_local and register: only a kind), or "
     "several with commas between them for one rank after the other",
     "where buffers live: malloc, weft (weft_mem_alloc) or a kind of devices (cuda:1); several with commas: "
     "of each rank in turn (malloc; host for reduce_local and register)",
     OTHER(take_memory)},
    {PERF_TAKES_CLOCK, 0, "clock", "C", "host or device",
     "host: blocking calls by the host's clock; device: stream-ordered calls, timed by the device's "
     "events (host)",
     OTHER(take_clock)},
    {PERF_TAKES_INPUTS, 0, "inputs", "N", "a whole number from 1 to 8", "inputs of a reduction (2)",
     NUMBER(inputs, 1, PERF_INPUTS_MAX)},
    {PERF_TAKES_PLACEMENT, 0, "in-place", "W", "0, 1 or both",
     "0: out of place only, 1: in place only, both (both)", OTHER(take_placement)},
    {PERF_TAKES_COLUMNS, 0, "columns", "C", "nccl or weft",
     "of the table: those of nccl-tests, or weft's behind them: p99, algorithm, transport (nccl)",
     OTHER(take_columns)},
    {PERF_TAKES_WINDOW, 0, "window", "W", "a whole number from 1 to 4096", "sends in flight (64)",
     NUMBER(window, 1, PERF_WINDOW_MAX)},
    {PERF_TAKES_BOTH_WAYS, 0, "bidirectional", NULL, "", "both ranks of a pair send at once",
     SWITCH(bidirectional)},
    {PERF_TAKES_PAIRS, 0, "pairs", NULL, "", "every pair of ranks in turn (ranks 0 and 1)", SWITCH(pairs)},
    {PERF_TAKES_SIZE, 0, "size", "SIZE", "a size in bytes above 0, such as 1M",
     "bytes of a message (1M for matrix, 64M for overlap)", BYTES(size_bytes, 1)},
    {PERF_TAKES_DELAY, 0, "delay", "MS", "a whole number of milliseconds from 0 to 10000",
     "between the receives that are posted late (40)", NUMBER(delay_ms, 0, 10000)},
    {0, 0, "pin", "0|1", "0 or 1", "pin launched ranks to processors (1 when there are enough of them)",
     NUMBER(pin, 0, 1)},
    {0, 0, "json", "FILE", "the path of a file to write", "write everything measured to FILE as JSON",
     TEXT(json_path)},
    {PERF_TAKES_CSV, 0, "csv", "FILE", "the path of a file to write", "write the rows to FILE as CSV",
     TEXT(csv_path)},
    {0, 0, "hang", "S", "a whole number of seconds from 0 to 86400",
     "say who waits for whom when a call takes longer; 0: never (10)", NUMBER(hang_s, 0, 86400)},
    {0, 0, "stay-away", "RANK:CALL", "a rank and the number of a call, such as 2:100",
     "for trying it out: that rank stays away from its CALL-th call; 0: it dies before it joins",
     OTHER(take_stay_away)},
    {PERF_TAKES_NCCL, 'm', "agg-iters", "N", "a whole number from 1 to 1000",
     "calls back to back in a sample, at least (1)", NUMBER(aggregate, 1, PERF_AGGREGATE_MAX)},
    {PERF_TAKES_NCCL, 'N', "run-cycles", "N", "a whole number from 1 to 1000000",
     "measure and print all sizes N times (1)", NUMBER(cycles, 1, PERF_ITERATIONS_MAX),
     .answer = "0 cycles go on for ever in nccl-tests, and weft-perf ends: give a large number, or write a "
               "loop in the shell",
     .answer_to = "0"},
    {PERF_TAKES_NCCL, 'T', "timeout", "S", "a whole number of seconds from 0 to 2000000",
     "a call's deadline, by the setting WEFT_TIMEOUT_MS; 0: that of the setting (0)",
     NUMBER(timeout_s, 0, 2000000)},
    {PERF_TAKES_NCCL, 'g', "ngpus", "1", "1", "GPUs of a rank, for scripts of nccl-tests", IGNORED(1, 1),
     .answer = MORE_RANKS},
    {PERF_TAKES_NCCL, 't', "nthreads", "1", "1", "threads of a rank, likewise", IGNORED(1, 1),
     .answer = MORE_RANKS},
    {PERF_TAKES_NCCL, 'a', "average", "1|3", "1 or 3",
     "likewise: a sample's time is the slowest rank's, which is 3", OTHER(take_average),
     .answer = "times are the slowest rank's: leave it out, or write -a 3"},
    {PERF_TAKES_NCCL, 'C', "report-cputime", "0", "0", "likewise", IGNORED(0, 0),
     .answer = "calls block, so there is no time of the host alone: leave it out", .answer_to = "1"},
    {PERF_TAKES_NCCL, 'G', "cudagraph", "0", "0", "likewise", IGNORED(0, 0),
     .answer = "calls cannot be captured into graphs: leave it out; --clock device makes calls ahead of the "
               "device"},
    {PERF_TAKES_NCCL, 'R', "local-register", "0|1", "0 or 1", "likewise: registrations are kept anyway",
     IGNORED(0, 1),
     .answer = "there are no symmetric windows: --memory weft has memory that ranks of a host read in place"},
    {PERF_TAKES_NCCL, 'D', "device-implementation", "0", "0", "likewise", IGNORED(0, 0),
     .answer = "the tests of device collectives are tests/gpu/run.sh of the source: leave it out"},
    {PERF_TAKES_NCCL, 'M', "memory-report", "0", "0", "likewise", IGNORED(0, 0),
     .answer = "memory is not reported: leave it out"},
    {PERF_TAKES_NCCL, 'S', "report-timestamps", "0", "0", "likewise", IGNORED(0, 0),
     .answer = "rows have no time of day: leave it out, and pipe the output into ts"},
    {PERF_TAKES_NCCL, 'J', "output-file", "FILE", "a file; write --json FILE instead",
     "answered: write --json FILE", OTHER(take_none),
     .answer = "write --json @: the file is laid out in another way, see weft-perf-json.md"},
    {PERF_TAKES_NCCL, 'z', "blocking", "0|1", "0 or 1", "without effect, as the next: calls block",
     IGNORED(0, 1)},
    {PERF_TAKES_NCCL, 'p', "parallel-init", "0|1", "0 or 1", "without effect", IGNORED(0, 1)},
    {PERF_TAKES_NCCL, 'y', "stream-null", "0|1", "0 or 1", "without effect", IGNORED(0, 1)},
    {PERF_TAKES_NCCL, 'x', "cta-policy", "0|1|2", "0, 1 or 2", "without effect", IGNORED(0, 2)},
    {PERF_TAKES_NCCL, 'V', "device-cta-count", "N", "a whole number from 1 to 128", "without effect",
     IGNORED(1, 128)},
    {0, 'h', "help", NULL, "", "this text", SWITCH(help)},
};
const int perf_flag_count = sizeof perf_flags / sizeof *perf_flags;
