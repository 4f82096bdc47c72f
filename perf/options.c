/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "perf/flags.h"

enum { FLAGS_MAX = 64, LONG_ONLY = 256, NAME_MAX_BYTES = 32, STEP_BYTES = 1 << 20 };

/* What getopt takes: short names, and each long name twice, as nccl-tests' names have _ where ours have -. */
struct spellings {
    char letters[2 * FLAGS_MAX + 2];
    char names[FLAGS_MAX][NAME_MAX_BYTES];
    struct option longs[2 * FLAGS_MAX + 1];
};

/* Builds getopt's two descriptions of the table. */
static void describe(struct spellings *spellings)
{
    char *letters = spellings->letters;
    struct option *longs = spellings->longs;
    *letters++ = ':';
    for (int i = 0; i < perf_flag_count; i++) {
        int has_argument = perf_flags[i].argument != NULL;
        char *name = spellings->names[i];
        snprintf(name, NAME_MAX_BYTES, "%s", perf_flags[i].name);
        for (char *dash = name; (dash = strchr(dash, '-'));)
            *dash = '_';
        *longs = (struct option){perf_flags[i].name, has_argument ? required_argument : no_argument, NULL,
                                 LONG_ONLY + i};
        longs[1] = longs[0];
        longs[1].name = name;
        longs += 2;
        if (perf_flags[i].letter) {
            *letters++ = perf_flags[i].letter;
            if (has_argument)
                *letters++ = ':';
        }
    }
    *letters = 0;
    memset(longs, 0, sizeof *longs);
}

static const struct perf_flag *find(int code)
{
    if (code >= LONG_ONLY && code < LONG_ONLY + perf_flag_count)
        return &perf_flags[code - LONG_ONLY];
    for (int i = 0; i < perf_flag_count; i++)
        if (code && perf_flags[i].letter == code)
            return &perf_flags[i];
    return NULL;
}

/* The flag as the user wrote it, for messages. */
static const char *spelled(const struct perf_flag *flag, int code, char *text, size_t capacity)
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
    const struct perf_flag *flag = find(optopt);
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

/* One of the words, with commas between them, whole. */
static int has_word(const char *value, const char *word)
{
    size_t size = strlen(word);
    for (;; value++) {
        size_t length = strcspn(value, ",");
        if (length == size && memcmp(value, word, size) == 0)
            return 1;
        value += length;
        if (!*value)
            return 0;
    }
}

/* A number has the answer to more than is taken: what is below is a mistake of another kind. */
static int has_answer(const struct perf_flag *flag, const char *value)
{
    if (!flag->answer)
        return 0;
    if (flag->answer_to)
        return has_word(value, flag->answer_to);
    return flag->kind != PERF_FLAG_NUMBER || (*value && strspn(value, "0123456789") == strlen(value) &&
                                              strtoull(value, NULL, 10) > (unsigned long long)flag->high);
}

static int refuse(const struct perf_flag *flag, const char *name, const char *value)
{
    fprintf(stderr, "weft-perf: %s '%s': ", name, value);
    if (!has_answer(flag, value)) {
        fprintf(stderr, "expected %s\n", flag->expected);
        return -1;
    }
    for (const char *at = flag->answer; *at; at++)
        if (*at == '@')
            fputs(value, stderr);
        else
            fputc(*at, stderr);
    fputc('\n', stderr);
    return -1;
}

static int takes(const struct perf_accepts *accepts, const struct perf_flag *flag)
{
    return !flag->groups || flag->groups & accepts->flags;
}

/* Reads the flag's value. What the command ignores is read all the same, so that a bad value is noticed. */
static int take(struct perf_options *parsed, const struct perf_accepts *accepts, const struct perf_flag *flag,
                int code)
{
    char name[64];
    struct perf_options scratch = *parsed;
    spelled(flag, code, name, sizeof name);
    int ignored = !takes(accepts, flag) && flag->groups & accepts->ignores;
    if (!takes(accepts, flag) && !ignored) {
        fprintf(stderr, "weft-perf: %s: %s has no use for it; weft-perf %s --help lists its flags\n", name,
                parsed->argv[1], parsed->argv[1]);
        return -1;
    }
    if (perf_flag_take(flag, ignored ? &scratch : parsed, optarg) != 0)
        return refuse(flag, name, optarg);
    return 0;
}

/* As nccl-tests has it: a factor above 1 wins over -i, and one of 1 means steps, of 1 MiB where -i does not say. */
static void settle_steps(struct perf_options *options)
{
    if (options->factor > 1)
        options->step_bytes = 0;
    else if (options->factor == 1 && options->step_bytes == 0)
        options->step_bytes = STEP_BYTES;
    if (options->factor < 2)
        options->factor = 2;
}

/* What no single flag can decide. */
static int validate(const struct perf_options *options, const struct perf_accepts *accepts)
{
    if (options->ranks && options->ranks < accepts->least_ranks) {
        fprintf(stderr, "weft-perf: --ranks '%d': %s needs at least %d ranks\n", options->ranks,
                options->argv[1], accepts->least_ranks);
        return -1;
    }
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
    for (int i = 0; options->device_clock && i < options->place_count; i++) {
        const char *kind = options->places[i].kind;
        if (strcmp(kind, "malloc") == 0 || strcmp(kind, "weft") == 0) {
            fprintf(stderr,
                    "weft-perf: --clock 'device': --memory '%s' has no clock: expected kinds of devices\n",
                    kind);
            return -1;
        }
    }
    return 0;
}

int perf_options_parse(struct perf_options *options, const struct perf_accepts *accepts, int argc,
                       char **argv)
{
    struct spellings spellings;
    struct perf_options parsed = {.begin_bytes = 8,
                                  .end_bytes = (size_t)64 << 20,
                                  .dtypes = accepts->dtypes ? accepts->dtypes : 1u << WEFT_FLOAT32,
                                  .ops = 1u << WEFT_SUM,
                                  .iterations = accepts->iterations ? accepts->iterations : 20,
                                  .warmups = 5,
                                  .checks = 1,
                                  .aggregate = 1,
                                  .cycles = 1,
                                  .placements = PERF_OUT_OF_PLACE | PERF_IN_PLACE,
                                  .accepts = accepts->flags,
                                  .window = 64,
                                  .inputs = 2,
                                  .size_bytes = accepts->size_bytes,
                                  .delay_ms = 40,
                                  .pin = -1,
                                  .hang_s = 10,
                                  .stay_rank = -1,
                                  .argc = argc,
                                  .argv = argv};
    parsed.memory = accepts->flags & PERF_TAKES_MEMORY ? "malloc" : "host";
    snprintf(parsed.places[0].kind, sizeof parsed.places[0].kind, "%s", parsed.memory);
    parsed.places[0].ordinal = PERF_ORDINAL_OF_RANK;
    parsed.place_count = 1;
    describe(&spellings);
    opterr = 0;
    optind = 0; /* anew, even behind a command line that was left in the middle of a word */
    for (int code;
         (code = getopt_long(argc - 1, argv + 1, spellings.letters, spellings.longs, NULL)) != -1;) {
        const struct perf_flag *flag = code == ':' || code == '?' ? NULL : find(code);
        if (!flag)
            return complain(code, argv + 1);
        if (take(&parsed, accepts, flag, code) != 0)
            return -1;
        if (parsed.help)
            break;
    }
    if (!parsed.help && optind < argc - 1) {
        fprintf(stderr, "weft-perf: unexpected argument '%s': expected flags only\n", argv[optind + 1]);
        return -1;
    }
    settle_steps(&parsed);
    if (!parsed.help && validate(&parsed, accepts) != 0)
        return -1;
    *options = parsed;
    return 0;
}

void perf_options_help(const struct perf_accepts *accepts, FILE *out)
{
    for (int i = 0; i < perf_flag_count; i++) {
        if (!takes(accepts, &perf_flags[i]))
            continue;
        char left[64];
        const char *argument = perf_flags[i].argument ? perf_flags[i].argument : "";
        if (perf_flags[i].letter)
            snprintf(left, sizeof left, "-%c, --%s %s", perf_flags[i].letter, perf_flags[i].name, argument);
        else
            snprintf(left, sizeof left, "    --%s %s", perf_flags[i].name, argument);
        fprintf(out, "  %-24s %s\n", left, perf_flags[i].help);
    }
}

const struct perf_place *perf_options_place(const struct perf_options *options, int rank)
{
    return &options->places[rank % options->place_count];
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
