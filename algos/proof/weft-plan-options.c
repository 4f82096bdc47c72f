/* SPDX-License-Identifier: Apache-2.0 */
#include "algos/proof/weft-plan-options.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "algos/choose.h"
#include "algos/proof/verify.h"
#include "base/hash.h"

static const char help[] =
    "usage: weft-plan dump   COLLECTIVE --algo ALGO --ranks N [FORM] [--rank R] [--steps] [--json]\n"
    "       weft-plan verify COLLECTIVE --algo ALGO --ranks N [FORM] [--window W] [--method M]\n"
    "                        [--interleavings K] [--seed S] [--json]\n"
    "       weft-plan cost   COLLECTIVE --ranks N [FORM] [--algo ALGO] [--bytes B]\n"
    "                        [--link shm|network] [--oversubscribed] [--json]\n"
    "       weft-plan --help | --version\n"
    "\n"
    "dump    prints the plan of rank R (default: every rank), --steps with loops expanded\n"
    "verify  proves that the plans of all ranks compute the collective, without deadlock\n"
    "cost    prints the time by the cost model, for one size or a range of sizes\n"
    "\n"
    "FORM: [--root R] (default 0) [--in-place] [--unequal] [--strict] [--hosts SIZES] [--order SEED]\n"
    "      [--rings K].\n"
    "SIZES: ranks of each host: 8,8,4 or 16x8 (16 hosts of 8) or 15x8,4; --ranks is then their sum.\n"
    "--order joins the ranks in a random order, and not as they are numbered.\n"
    "--rings gives the hosts K rings and ports, one per rail, each entering a host at another rank.\n"
    "verify and cost take all ranks together; --rank is accepted, and only checked.\n"
    "M: auto, full, rotation. W: plan steps in flight, 1 to 64, default 32.\n"
    "B: bytes per rank, of all blocks together; suffixes K, M, G are powers of 1024.\n"
    "Exit status: 0, 1 when a plan is wrong or cannot be made, 2 for bad options.\n"
    "\n"
    "Collectives and their algorithms:\n";

/* The algorithms that serve the collective, separated. */
static void print_algorithms(FILE *file, int collective, const char *separator)
{
    const char *between = "";
    for (int i = WEFT_ALGO_AUTO + 1; i < WEFT_ALGO_COUNT; i++) {
        if (!weft_algorithm_serves((enum weft_collective)collective, (enum weft_algorithm)i))
            continue;
        fprintf(file, "%s%s", between, weft_algorithm_name((enum weft_algorithm)i));
        between = separator;
    }
}

void plan_options_help(void)
{
    fputs(help, stdout);
    for (int i = 0; i < WEFT_COLLECTIVE_COUNT; i++) {
        printf("  %-15s ", weft_collective_name((enum weft_collective)i));
        print_algorithms(stdout, i, ", ");
        printf("\n");
    }
}

int plan_options_refuse(const char *what, const char *argument)
{
    fprintf(stderr, "weft-plan: %s '%s' (weft-plan --help lists the arguments)\n", what, argument);
    return PLAN_EXIT_USAGE;
}

enum kind { FLAG, NUMBER, SIZE, TEXT, ALGORITHM };

struct option {
    const char *name;
    const char *commands; /* first letters of those that know it */
    enum kind kind;
    size_t offset;
    uint64_t low, high;
};

#define AT(field) offsetof(struct plan_options, field)

static const struct option known[] = {
    {"--algo", "dvc", ALGORITHM, AT(algorithm), 0, 0},
    {"--ranks", "dvc", NUMBER, AT(ranks), 1, INT32_MAX},
    {"--rank", "dvc", NUMBER, AT(rank), 0, INT32_MAX},
    {"--root", "dvc", NUMBER, AT(root), 0, INT32_MAX},
    {"--unequal", "dvc", FLAG, AT(unequal), 0, 0},
    {"--strict", "dvc", FLAG, AT(strict), 0, 0},
    {"--in-place", "dvc", FLAG, AT(in_place), 0, 0},
    {"--hosts", "dvc", TEXT, AT(hosts_text), 0, 0},
    {"--order", "dvc", NUMBER, AT(order), 0, UINT64_MAX},
    {"--rings", "dvc", NUMBER, AT(rings), 1, WEFT_HOSTS_RINGS_MAX},
    {"--json", "dvc", FLAG, AT(json), 0, 0},
    {"--steps", "d", FLAG, AT(steps), 0, 0},
    {"--window", "v", NUMBER, AT(window), 1, WEFT_VERIFY_WINDOW_MAX},
    {"--method", "v", TEXT, AT(method), 0, 0},
    {"--interleavings", "v", NUMBER, AT(interleavings), 0, UINT32_MAX},
    {"--seed", "v", NUMBER, AT(seed), 0, UINT64_MAX},
    {"--bytes", "c", SIZE, AT(bytes), 1, (uint64_t)1 << 50},
    {"--link", "c", TEXT, AT(link), 0, 0},
    {"--oversubscribed", "c", FLAG, AT(oversubscribed), 0, 0},
};

/* A whole number in range, for sizes with a suffix; 0 when it is one. */
static int read_number(const struct option *option, const char *text, uint64_t *number)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    unsigned shift = 0;
    if (option->kind == SIZE && *end && !end[1])
        shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (shift)
        end++;
    if (text[0] < '0' || text[0] > '9' || *end || errno || value > option->high >> shift ||
        value << shift < option->low) {
        fprintf(stderr, "weft-plan: %s is '%s', expected a whole number from %" PRIu64 " to %" PRIu64 "\n",
                option->name, text, option->low, option->high);
        return PLAN_EXIT_USAGE;
    }
    *number = value << shift;
    return 0;
}

static int read_option(const struct option *option, const char *text, struct plan_options *options)
{
    void *field = (char *)options + option->offset;
    switch (option->kind) {
    case FLAG:
        *(int *)field = 1;
        return 0;
    case TEXT:
        *(const char **)field = text;
        return 0;
    case ALGORITHM:
        *(int *)field = weft_algorithm_parse(text);
        if (weft_algorithm_serves((enum weft_collective)options->collective,
                                  (enum weft_algorithm) * (int *)field))
            return 0;
        fprintf(stderr, "weft-plan: --algo is '%s', expected one of ", text);
        print_algorithms(stderr, options->collective, ", ");
        fprintf(stderr, "\n");
        return PLAN_EXIT_USAGE;
    default:
        return read_number(option, text, field);
    }
}

static int read_options(int count, char **words, struct plan_options *options)
{
    for (int i = 0; i < count; i++) {
        const struct option *option = NULL;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            if (strcmp(words[i], known[k].name) == 0 && strchr(known[k].commands, options->command[0]))
                option = &known[k];
        }
        if (!option)
            return plan_options_refuse("unknown argument", words[i]);
        const char *text = NULL;
        if (option->kind != FLAG) {
            if (i + 1 == count)
                return plan_options_refuse("no value after", words[i]);
            text = words[++i];
        }
        int failed = read_option(option, text, options);
        if (failed)
            return failed;
        options->rank_given |= strcmp(option->name, "--rank") == 0;
        options->root_given |= strcmp(option->name, "--root") == 0;
        options->order_given |= strcmp(option->name, "--order") == 0;
    }
    return 0;
}

static int check_rank(const char *name, uint64_t rank, uint64_t ranks)
{
    if (rank < ranks)
        return 0;
    fprintf(stderr, "weft-plan: %s is '%" PRIu64 "', expected a whole number from 0 to %" PRIu64 "\n", name,
            rank, ranks - 1);
    return PLAN_EXIT_USAGE;
}

/* "8,8,4", "16x8", "15x8,4": how many ranks each host has. Into sizes, where that is not NULL; how many hosts there are,
 * 0 where it is no such text or they have too many ranks. */
static uint32_t read_sizes(const char *text, uint32_t *sizes)
{
    uint64_t hosts = 0, ranks = 0;
    for (;;) {
        uint64_t numbers[2] = {1, 1};
        int count = 0;
        do {
            char *end;
            if (*text < '0' || *text > '9' || count == 2)
                return 0;
            numbers[count++] = strtoull(text, &end, 10);
            text = end;
        } while (*text == 'x' && *text++);
        uint64_t size = numbers[count - 1], times = count == 2 ? numbers[0] : 1;
        if (times < 1 || times > INT32_MAX || size < 1 || size > INT32_MAX ||
            times * size > INT32_MAX - ranks)
            return 0;
        for (uint64_t i = 0; sizes && i < times; i++)
            sizes[hosts + i] = (uint32_t)size;
        hosts += times;
        ranks += times * size;
        if (*text == '\0')
            return (uint32_t)hosts;
        if (*text++ != ',')
            return 0;
    }
}

/* A random permutation (R. Durstenfeld, "Algorithm 235: random permutation", CACM 7 (1964)). */
static void shuffle(uint32_t *order, uint32_t ranks, uint64_t seed)
{
    for (uint32_t i = 0; i < ranks; i++)
        order[i] = i;
    for (uint32_t i = ranks; i > 1; i--) {
        uint32_t other = (uint32_t)(weft_random(&seed) % i), kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}

/* Ring 0 is the order; ring r begins each host with its rank number r. NULL without memory. */
static uint32_t *make_rings(const struct plan_options *options, const uint32_t *sizes, uint32_t ranks,
                            uint32_t rings)
{
    uint32_t *order = calloc((size_t)rings * ranks, sizeof *order);
    for (uint32_t i = 0; order && i < ranks; i++)
        order[i] = i;
    if (order && options->order_given)
        shuffle(order, ranks, options->order);
    for (uint32_t r = 1; order && r < rings; r++) {
        uint32_t *ring = order + (size_t)r * ranks;
        for (uint32_t first = 0, host = 0; first < ranks; first += sizes[host++]) {
            for (uint32_t i = 0; i < sizes[host]; i++)
                ring[first + i] = order[first + (i + r) % sizes[host]];
        }
    }
    return order;
}

/* What --hosts, --order and --rings say, with --ranks as the sum of the hosts'. */
static int read_hosts(struct plan_options *options)
{
    uint32_t one = (uint32_t)options->ranks, count = 1, *sizes = &one, *rings = NULL;
    uint32_t ring_count = options->rings ? (uint32_t)options->rings : 1;
    uint64_t ranks = 0;
    int status = WEFT_NOMEM;
    if (options->hosts_text) {
        count = read_sizes(options->hosts_text, NULL);
        if (count == 0)
            return plan_options_refuse("--hosts is not like 8,8,4 or 16x8:", options->hosts_text);
        sizes = calloc(count, sizeof *sizes);
        if (sizes)
            read_sizes(options->hosts_text, sizes);
    }
    for (uint32_t i = 0; sizes && i < count; i++)
        ranks += sizes[i];
    if (sizes && options->ranks && ranks != options->ranks) {
        free(sizes);
        return plan_options_refuse("--ranks is not the sum of --hosts", options->hosts_text);
    }
    options->ranks = ranks;
    if (sizes && ranks > 0)
        rings = make_rings(options, sizes, (uint32_t)ranks, ring_count);
    if (rings)
        status =
            weft_hosts_make_rings(sizes, count, rings, ring_count, (uint32_t)options->rings, &options->hosts);
    free(rings);
    if (options->hosts_text)
        free(sizes);
    if (status == WEFT_OK || ranks == 0)
        return 0;
    fprintf(stderr, "weft-plan: %s\n",
            status == WEFT_INVALID ? weft_error_detail() : "no memory for so many ranks");
    return PLAN_EXIT_WRONG;
}

int plan_options_read(int argc, char **argv, struct plan_options *options)
{
    static const char *const commands[] = {"dump", "verify", "cost"};
    *options = (struct plan_options){.algorithm = -1, .method = "auto", .link = "shm"};
    if (argc < 2)
        return plan_options_refuse("expected a command, got", "");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i]) == 0)
            options->command = commands[i];
    }
    if (!options->command)
        return plan_options_refuse("unknown command", argv[1]);
    options->collective = argc < 3 ? -1 : weft_collective_parse(argv[2]);
    if (options->collective < 0)
        return plan_options_refuse("expected a collective, got", argc < 3 ? "" : argv[2]);
    int failed = read_options(argc - 3, argv + 3, options);
    if (failed)
        return failed;
    if (options->hosts_text || options->order_given || options->rings)
        failed = read_hosts(options);
    if (failed)
        return failed;
    if (options->ranks == 0)
        return plan_options_refuse("missing argument", "--ranks");
    if (options->algorithm < 0 && options->command[0] != 'c')
        return plan_options_refuse("missing argument", "--algo");
    if (options->root_given && !weft_collective_has_root((enum weft_collective)options->collective))
        return plan_options_refuse("unknown argument", "--root");
    failed = check_rank("--rank", options->rank, options->ranks);
    return failed ? failed : check_rank("--root", options->root, options->ranks);
}
