#include "perf/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

/* One row per flag: the parser, its messages and --help all come from this table. take() returns 0, or -1
 * when the value is not what expected says. */
struct flag {
    char letter;      /* 0: only the long name */
    const char *name; /* long name, as nccl-tests has it where it has one */
    const char *argument;
    const char *expected;
    const char *help;
    int (*take)(struct perf_options *options, const char *value);
};

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

/* Bytes with an optional binary suffix: 8, 4K, 64M, 1G, also 64MB and 64MiB. */
static int bytes(const char *value, size_t *result)
{
    static const char suffixes[] = "KMGT";
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)*value))
        return -1;
    unsigned long long parsed = strtoull(value, &end, 10);
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
    *result = (size_t)parsed << shift;
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

static int take_ranks(struct perf_options *options, const char *value)
{
    return integer(value, 1, PERF_RANKS_MAX, &options->ranks);
}

static int take_transport(struct perf_options *options, const char *value)
{
    static const char *const words[] = {"auto", "shm", "ofi", NULL};
    int index;
    if (word(value, words, &index) != 0)
        return -1;
    options->transport = index == 0 ? "" : words[index];
    return 0;
}

static int take_provider(struct perf_options *options, const char *value)
{
    options->provider = value;
    return *value ? 0 : -1;
}

static int take_algorithm(struct perf_options *options, const char *value)
{
    static const char *const words[] = {"auto", "ring", "tree", "rd", "rab", NULL};
    int index;
    if (word(value, words, &index) != 0)
        return -1;
    options->algorithm = words[index];
    return 0;
}

static int take_begin(struct perf_options *options, const char *value)
{
    return bytes(value, &options->begin_bytes);
}

static int take_end(struct perf_options *options, const char *value)
{
    return bytes(value, &options->end_bytes);
}

static int take_step(struct perf_options *options, const char *value)
{
    return bytes(value, &options->step_bytes) != 0 || options->step_bytes == 0 ? -1 : 0;
}

static int take_factor(struct perf_options *options, const char *value)
{
    long long factor;
    if (number(value, 2, 1 << 30, &factor) != 0)
        return -1;
    options->factor = (size_t)factor;
    return 0;
}

/* nccl-tests' names for types where they differ from weft's. */
static const char *dtype_alias(const char *value)
{
    static const char *const aliases[][2] = {{"half", "float16"}, {"float", "float32"}, {"double", "float64"},
                                             {"int", "int32"},    {"bf16", "bfloat16"}, {NULL, NULL}};
    for (int i = 0; aliases[i][0]; i++)
        if (strcmp(value, aliases[i][0]) == 0)
            return aliases[i][1];
    return value;
}

static int take_dtype(struct perf_options *options, const char *value)
{
    if (strcmp(value, "all") == 0) {
        options->dtypes = (1u << WEFT_DTYPE_COUNT) - 1;
        options->skip_unsupported = 1;
        return 0;
    }
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++)
        if (strcmp(dtype_alias(value), weft_dtype_name(i)) == 0) {
            options->dtypes = 1u << i;
            return 0;
        }
    return -1;
}

static int take_op(struct perf_options *options, const char *value)
{
    if (strcmp(value, "all") == 0) {
        options->ops = (1u << WEFT_OP_COUNT) - 1;
        options->skip_unsupported = 1;
        return 0;
    }
    for (int i = 0; i < WEFT_OP_COUNT; i++)
        if (strcmp(value, weft_op_name(i)) == 0) {
            options->ops = 1u << i;
            return 0;
        }
    return -1;
}

static int take_iterations(struct perf_options *options, const char *value)
{
    return integer(value, 1, PERF_ITERATIONS_MAX, &options->iterations);
}

static int take_warmups(struct perf_options *options, const char *value)
{
    return integer(value, 0, PERF_ITERATIONS_MAX, &options->warmups);
}

static int take_checks(struct perf_options *options, const char *value)
{
    return integer(value, 0, PERF_ITERATIONS_MAX, &options->checks);
}

static int take_root(struct perf_options *options, const char *value)
{
    if (strcmp(value, "all") == 0) {
        options->root = -1;
        return 0;
    }
    return integer(value, 0, PERF_RANKS_MAX - 1, &options->root);
}

static int take_memory(struct perf_options *options, const char *value)
{
    static const char *const words[] = {"malloc", "weft", NULL};
    int index;
    if (word(value, words, &index) != 0)
        return -1;
    options->memory = index == 0 ? PERF_MEMORY_MALLOC : PERF_MEMORY_WEFT;
    return 0;
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

static int take_pin(struct perf_options *options, const char *value)
{
    return integer(value, 0, 1, &options->pin);
}

static int take_json(struct perf_options *options, const char *value)
{
    options->json_path = value;
    return *value ? 0 : -1;
}

static int take_csv(struct perf_options *options, const char *value)
{
    options->csv_path = value;
    return *value ? 0 : -1;
}

static int take_hang(struct perf_options *options, const char *value)
{
    return integer(value, 0, 86400, &options->hang_s);
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
    return number(value + length + 1, 1, INT64_MAX, &options->stay_call);
}

static int take_help(struct perf_options *options, const char *value)
{
    (void)value;
    options->help = 1;
    return 0;
}

static const struct flag flags[] = {
    {0, "ranks", "N", "a number of ranks from 1 to 4096",
     "launch N ranks on this host (without it: take part in a job by the environment)", take_ranks},
    {0, "transport", "T", "auto, shm or ofi", "how bytes move: auto, shm, ofi", take_transport},
    {0, "provider", "P", "the name of a libfabric provider such as tcp", "libfabric provider for ofi",
     take_provider},
    {0, "algo", "A", "auto, ring, tree, rd or rab", "algorithm: auto, ring, tree, rd, rab", take_algorithm},
    {'b', "minbytes", "SIZE", "a size in bytes such as 8, 4K or 64M", "smallest size (8)", take_begin},
    {'e', "maxbytes", "SIZE", "a size in bytes such as 8, 4K or 64M", "largest size (64M)", take_end},
    {'i', "stepbytes", "SIZE", "a size in bytes above 0, such as 1M",
     "add SIZE from one row to the next, instead of -f", take_step},
    {'f', "stepfactor", "N", "a whole number from 2 up",
     "multiply the size by N from one row to the next (2)", take_factor},
    {'d', "datatype", "TYPE",
     "int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16 or all",
     "element type, or all (float32)", take_dtype},
    {'o', "op", "OP", "sum, prod, max, min, avg or all", "reduction: sum, prod, max, min, avg, or all (sum)",
     take_op},
    {'r', "root", "RANK", "a rank or all", "root of commands that have one (0); allreduce has none",
     take_root},
    {'n', "iters", "N", "a whole number from 1 to 1000000", "timed samples per row (20)", take_iterations},
    {'w', "warmup-iters", "N", "a whole number from 0 to 1000000", "calls before the timed ones (5)",
     take_warmups},
    {'c', "check", "N", "a whole number from 0 to 1000000",
     "checked calls per row, compared bit for bit; 0: no check (1)", take_checks},
    {0, "memory", "M", "malloc or weft", "where buffers live: malloc, or weft for weft_mem_alloc (malloc)",
     take_memory},
    {0, "in-place", "W", "0, 1 or both", "0: out of place only, 1: in place only, both (both)",
     take_placement},
    {0, "pin", "0|1", "0 or 1", "pin launched ranks to processors (1 when there are enough of them)",
     take_pin},
    {0, "json", "FILE", "the path of a file to write", "write everything measured to FILE as JSON",
     take_json},
    {0, "csv", "FILE", "the path of a file to write", "write the rows to FILE as CSV", take_csv},
    {0, "hang", "S", "a whole number of seconds from 0 to 86400",
     "say who waits for whom when a call takes longer; 0: never (10)", take_hang},
    {0, "stay-away", "RANK:CALL", "a rank and the number of a call from 1 up, such as 2:100",
     "for trying it out: that rank stays away from its CALL-th call", take_stay_away},
    {'h', "help", NULL, "", "this text", take_help},
};
enum { FLAG_COUNT = sizeof flags / sizeof *flags, LONG_ONLY = 256 };

/* Builds getopt's two descriptions of the table. */
static void describe(char *letters, struct option *longs)
{
    *letters++ = ':';
    for (int i = 0; i < FLAG_COUNT; i++) {
        int has_argument = flags[i].argument != NULL;
        longs[i] = (struct option){flags[i].name, has_argument ? required_argument : no_argument, NULL,
                                   LONG_ONLY + i};
        if (flags[i].letter) {
            *letters++ = flags[i].letter;
            if (has_argument)
                *letters++ = ':';
        }
    }
    *letters = 0;
    memset(&longs[FLAG_COUNT], 0, sizeof *longs);
}

static const struct flag *find(int code)
{
    if (code >= LONG_ONLY && code < LONG_ONLY + FLAG_COUNT)
        return &flags[code - LONG_ONLY];
    for (int i = 0; i < FLAG_COUNT; i++)
        if (code && flags[i].letter == code)
            return &flags[i];
    return NULL;
}

/* The flag as the user wrote it, for messages. */
static const char *spelled(const struct flag *flag, int code, char *text, size_t capacity)
{
    if (code >= LONG_ONLY)
        snprintf(text, capacity, "--%s", flag->name);
    else
        snprintf(text, capacity, "-%c", flag->letter);
    return text;
}

static int complain(int code, char **argv)
{
    char text[64];
    const struct flag *flag = find(optopt);
    if (code == ':' && flag)
        fprintf(stderr, "weft-perf: %s needs a value: expected %s\n",
                spelled(flag, optopt, text, sizeof text), flag->expected);
    else if (optopt >= LONG_ONLY && flag)
        fprintf(stderr, "weft-perf: --%s takes no value\n", flag->name);
    else if (optopt)
        fprintf(stderr, "weft-perf: unknown flag '-%c'; weft-perf --help lists the flags\n", optopt);
    else
        fprintf(stderr, "weft-perf: unknown or ambiguous flag '%s'; weft-perf --help lists the flags\n",
                argv[optind - 1]);
    return -1;
}

/* What no single flag can decide. */
static int validate(const struct perf_options *options)
{
    if (options->end_bytes < options->begin_bytes) {
        fprintf(stderr, "weft-perf: -e '%zu' is below -b '%zu': expected -e to be at least -b\n",
                options->end_bytes, options->begin_bytes);
        return -1;
    }
    if (options->begin_bytes == 0 && options->end_bytes > 0 && options->step_bytes == 0) {
        fprintf(stderr, "weft-perf: -b '0' cannot be multiplied by -f: expected -i, or a size above 0\n");
        return -1;
    }
    if (options->ranks && options->root >= options->ranks) {
        fprintf(stderr, "weft-perf: -r '%d': expected a rank below --ranks %d\n", options->root,
                options->ranks);
        return -1;
    }
    return 0;
}

int perf_options_parse(struct perf_options *options, int argc, char **argv)
{
    char letters[2 * FLAG_COUNT + 2], text[64];
    struct option longs[FLAG_COUNT + 1];
    struct perf_options parsed = {.begin_bytes = 8,
                                  .end_bytes = (size_t)64 << 20,
                                  .factor = 2,
                                  .dtypes = 1u << WEFT_FLOAT32,
                                  .ops = 1u << WEFT_SUM,
                                  .iterations = 20,
                                  .warmups = 5,
                                  .checks = 1,
                                  .placements = PERF_OUT_OF_PLACE | PERF_IN_PLACE,
                                  .pin = -1,
                                  .hang_s = 10,
                                  .stay_rank = -1,
                                  .argc = argc,
                                  .argv = argv};
    describe(letters, longs);
    opterr = 0;
    optind = 0; /* anew, even behind a command line that was left in the middle of a word */
    for (int code; (code = getopt_long(argc - 1, argv + 1, letters, longs, NULL)) != -1;) {
        const struct flag *flag = code == ':' || code == '?' ? NULL : find(code);
        if (!flag)
            return complain(code, argv + 1);
        if (flag->take(&parsed, optarg) != 0) {
            fprintf(stderr, "weft-perf: %s '%s': expected %s\n", spelled(flag, code, text, sizeof text),
                    optarg, flag->expected);
            return -1;
        }
        if (parsed.help)
            break;
    }
    if (!parsed.help && optind < argc - 1) {
        fprintf(stderr, "weft-perf: unexpected argument '%s': expected flags only\n", argv[optind + 1]);
        return -1;
    }
    if (!parsed.help && validate(&parsed) != 0)
        return -1;
    *options = parsed;
    return 0;
}

void perf_options_help(FILE *out)
{
    for (int i = 0; i < FLAG_COUNT; i++) {
        char left[64];
        const char *argument = flags[i].argument ? flags[i].argument : "";
        if (flags[i].letter)
            snprintf(left, sizeof left, "-%c, --%s %s", flags[i].letter, flags[i].name, argument);
        else
            snprintf(left, sizeof left, "    --%s %s", flags[i].name, argument);
        fprintf(out, "  %-24s %s\n", left, flags[i].help);
    }
}

size_t perf_options_next_size(const struct perf_options *options, size_t size_bytes)
{
    size_t next;
    if (options->step_bytes)
        next = size_bytes + options->step_bytes;
    else if (size_bytes == 0 || size_bytes > options->end_bytes / options->factor)
        return 0;
    else
        next = size_bytes * options->factor;
    return next <= options->end_bytes ? next : 0;
}

size_t perf_options_sizes(const struct perf_options *options)
{
    size_t sizes = 1;
    for (size_t at = options->begin_bytes; (at = perf_options_next_size(options, at)) != 0;)
        sizes++;
    return sizes;
}
