/* SPDX-License-Identifier: Apache-2.0 */
/* weft-plan: look at plans, prove them, price them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "algos/choose.h"
#include "algos/cost.h"
#include "algos/hosts.h"
#include "algos/proof/cost_plan.h"
#include "algos/proof/dump.h"
#include "algos/proof/verify.h"
#include "base/clock.h"
#include "base/tool/version.h"

enum { EXIT_WRONG = 1, EXIT_USAGE = 2 };

struct arguments {
    const char *command;
    int collective;
    int algorithm; /* -1 when not given */
    uint64_t ranks, rank, root, window, bytes, interleavings, seed;
    const char *method, *link, *hosts_text;
    uint64_t order, rings;    /* rings: 0 when not given */
    struct weft_hosts *hosts; /* NULL without --hosts, --order and --rings */
    int rank_given, order_given, root_given, in_place, unequal, strict, json, steps, oversubscribed;
};

static const char help[] =
    "usage: weft-plan dump   COLLECTIVE --algo ALGO --ranks N [FORM] [--rank R] [--steps] [--json]\n"
    "       weft-plan verify COLLECTIVE --algo ALGO --ranks N [FORM] [--window W] [--method M]\n"
    "                        [--interleavings K] [--seed S] [--json]\n"
    "       weft-plan cost   COLLECTIVE --ranks N [FORM] [--algo ALGO] [--bytes B]\n"
    "                        [--link shm|network] [--oversubscribed] [--json]\n"
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
    "Exit status: 0, 1 when a plan is wrong or cannot be made, 2 for bad arguments.\n"
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

static void print_help(void)
{
    fputs(help, stdout);
    for (int i = 0; i < WEFT_COLLECTIVE_COUNT; i++) {
        printf("  %-15s ", weft_collective_name((enum weft_collective)i));
        print_algorithms(stdout, i, ", ");
        printf("\n");
    }
}

static int usage(const char *what, const char *argument)
{
    fprintf(stderr, "weft-plan: %s '%s' (weft-plan --help lists the arguments)\n", what, argument);
    return EXIT_USAGE;
}

/* --- arguments ----------------------------------------------------------------------------------------- */

enum kind { FLAG, NUMBER, SIZE, TEXT, ALGORITHM };

struct option {
    const char *name;
    const char *commands; /* first letters of those that know it */
    enum kind kind;
    size_t offset;
    uint64_t low, high;
};

#define AT(field) offsetof(struct arguments, field)

static const struct option options[] = {
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
        return EXIT_USAGE;
    }
    *number = value << shift;
    return 0;
}

static int read_option(const struct option *option, const char *text, struct arguments *arguments)
{
    void *field = (char *)arguments + option->offset;
    switch (option->kind) {
    case FLAG:
        *(int *)field = 1;
        return 0;
    case TEXT:
        *(const char **)field = text;
        return 0;
    case ALGORITHM:
        *(int *)field = weft_algorithm_parse(text);
        if (weft_algorithm_serves((enum weft_collective)arguments->collective,
                                  (enum weft_algorithm) * (int *)field))
            return 0;
        fprintf(stderr, "weft-plan: --algo is '%s', expected one of ", text);
        print_algorithms(stderr, arguments->collective, ", ");
        fprintf(stderr, "\n");
        return EXIT_USAGE;
    default:
        return read_number(option, text, field);
    }
}

static int read_options(int count, char **words, struct arguments *arguments)
{
    for (int i = 0; i < count; i++) {
        const struct option *option = NULL;
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            if (strcmp(words[i], options[k].name) == 0 && strchr(options[k].commands, arguments->command[0]))
                option = &options[k];
        }
        if (!option)
            return usage("unknown argument", words[i]);
        const char *text = NULL;
        if (option->kind != FLAG) {
            if (i + 1 == count)
                return usage("no value after", words[i]);
            text = words[++i];
        }
        int failed = read_option(option, text, arguments);
        if (failed)
            return failed;
        arguments->rank_given |= strcmp(option->name, "--rank") == 0;
        arguments->root_given |= strcmp(option->name, "--root") == 0;
        arguments->order_given |= strcmp(option->name, "--order") == 0;
    }
    return 0;
}

static int check_rank(const char *name, uint64_t rank, uint64_t ranks)
{
    if (rank < ranks)
        return 0;
    fprintf(stderr, "weft-plan: %s is '%" PRIu64 "', expected a whole number from 0 to %" PRIu64 "\n", name,
            rank, ranks - 1);
    return EXIT_USAGE;
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
        uint64_t x = seed += 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        uint32_t other = (uint32_t)((x ^ (x >> 31)) % i), kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}

/* Ring 0 is the order; ring r begins each host with its rank number r. NULL without memory. */
static uint32_t *make_rings(const struct arguments *arguments, const uint32_t *sizes, uint32_t ranks,
                            uint32_t rings)
{
    uint32_t *order = calloc((size_t)rings * ranks, sizeof *order);
    for (uint32_t i = 0; order && i < ranks; i++)
        order[i] = i;
    if (order && arguments->order_given)
        shuffle(order, ranks, arguments->order);
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
static int read_hosts(struct arguments *arguments)
{
    uint32_t one = (uint32_t)arguments->ranks, count = 1, *sizes = &one, *rings = NULL;
    uint32_t ring_count = arguments->rings ? (uint32_t)arguments->rings : 1;
    uint64_t ranks = 0;
    int status = WEFT_NOMEM;
    if (arguments->hosts_text) {
        count = read_sizes(arguments->hosts_text, NULL);
        if (count == 0)
            return usage("--hosts is not like 8,8,4 or 16x8:", arguments->hosts_text);
        sizes = calloc(count, sizeof *sizes);
        if (sizes)
            read_sizes(arguments->hosts_text, sizes);
    }
    for (uint32_t i = 0; sizes && i < count; i++)
        ranks += sizes[i];
    if (sizes && arguments->ranks && ranks != arguments->ranks) {
        free(sizes);
        return usage("--ranks is not the sum of --hosts", arguments->hosts_text);
    }
    arguments->ranks = ranks;
    if (sizes && ranks > 0)
        rings = make_rings(arguments, sizes, (uint32_t)ranks, ring_count);
    if (rings)
        status = weft_hosts_make_rings(sizes, count, rings, ring_count, (uint32_t)arguments->rings,
                                       &arguments->hosts);
    free(rings);
    if (arguments->hosts_text)
        free(sizes);
    if (status == WEFT_OK || ranks == 0)
        return 0;
    fprintf(stderr, "weft-plan: %s\n",
            status == WEFT_INVALID ? weft_error_detail() : "no memory for so many ranks");
    return EXIT_WRONG;
}

static int read_arguments(int argc, char **argv, struct arguments *arguments)
{
    static const char *const commands[] = {"dump", "verify", "cost"};
    *arguments = (struct arguments){.algorithm = -1, .method = "auto", .link = "shm"};
    if (argc < 2)
        return usage("expected a command, got", "");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i]) == 0)
            arguments->command = commands[i];
    }
    if (!arguments->command)
        return usage("unknown command", argv[1]);
    arguments->collective = argc < 3 ? -1 : weft_collective_parse(argv[2]);
    if (arguments->collective < 0)
        return usage("expected a collective, got", argc < 3 ? "" : argv[2]);
    int failed = read_options(argc - 3, argv + 3, arguments);
    if (failed)
        return failed;
    if (arguments->hosts_text || arguments->order_given || arguments->rings)
        failed = read_hosts(arguments);
    if (failed)
        return failed;
    if (arguments->ranks == 0)
        return usage("missing argument", "--ranks");
    if (arguments->algorithm < 0 && arguments->command[0] != 'c')
        return usage("missing argument", "--algo");
    if (arguments->root_given && !weft_collective_has_root((enum weft_collective)arguments->collective))
        return usage("unknown argument", "--root");
    failed = check_rank("--rank", arguments->rank, arguments->ranks);
    return failed ? failed : check_rank("--root", arguments->root, arguments->ranks);
}

/* --- commands ------------------------------------------------------------------------------------------ */

static int failed_with_detail(void)
{
    fprintf(stderr, "weft-plan: %s\n", weft_error_detail());
    return EXIT_WRONG;
}

static struct weft_plan_request request_of(const struct arguments *arguments, int algorithm, uint64_t rank)
{
    enum weft_collective collective = (enum weft_collective)arguments->collective;
    return (struct weft_plan_request){collective,
                                      (enum weft_algorithm)algorithm,
                                      (uint32_t)arguments->ranks,
                                      (uint32_t)rank,
                                      arguments->in_place,
                                      weft_collective_has_root(collective) ? (int)arguments->root : -1,
                                      arguments->unequal,
                                      arguments->strict,
                                      arguments->hosts};
}

static int dump(const struct arguments *arguments)
{
    uint64_t first = arguments->rank_given ? arguments->rank : 0;
    uint64_t last = arguments->rank_given ? arguments->rank : arguments->ranks - 1;
    for (uint64_t rank = first; rank <= last; rank++) {
        struct weft_plan_request request = request_of(arguments, arguments->algorithm, rank);
        struct weft_plan *plan;
        if (weft_plan_make(&request, &plan) != WEFT_OK)
            return failed_with_detail();
        if (arguments->json)
            weft_plan_dump_json(plan, stdout);
        else if (arguments->steps)
            weft_plan_dump_steps(plan, stdout, 0);
        else
            weft_plan_dump(plan, stdout);
        weft_plan_free(plan);
    }
    return 0;
}

/* A JSON string; the verifier's texts are plain ASCII. */
static void print_quoted(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('"');
}

/* ", in place, root 3" */
static void print_form(const struct arguments *arguments)
{
    if (weft_collective_has_root((enum weft_collective)arguments->collective))
        printf(", root %" PRIu64, arguments->root);
    printf("%s%s%s", arguments->in_place ? ", in place" : "", arguments->unequal ? ", unequal" : "",
           arguments->strict ? ", strict" : "");
}

static const char *truth(int yes)
{
    return yes ? "true" : "false";
}

static void print_verdict_json(const struct arguments *arguments, int status,
                               const struct weft_verify_report *report, double seconds)
{
    printf("{\"collective\": \"%s\", \"algorithm\": \"%s\", \"ranks\": %" PRIu64 ", ",
           weft_collective_name((enum weft_collective)arguments->collective),
           weft_algorithm_name((enum weft_algorithm)arguments->algorithm), arguments->ranks);
    if (weft_collective_has_root((enum weft_collective)arguments->collective))
        printf("\"root\": %" PRIu64 ", ", arguments->root);
    printf("\"in_place\": %s, \"unequal\": %s, \"strict\": %s, \"window\": %u, \"proven\": %s, \"method\": "
           "\"%s\", "
           "\"steps\": %" PRIu64 ", \"messages\": %" PRIu64
           ", \"in_flight_max\": %u, \"exact_sets\": %s, \"seconds\": %.3f",
           truth(arguments->in_place), truth(arguments->unequal), truth(arguments->strict), report->window,
           truth(status == WEFT_OK), report->method == WEFT_VERIFY_ROTATION ? "rotation" : "full",
           report->steps, report->messages, report->in_flight_max, truth((int)report->exact), seconds);
    if (status != WEFT_OK) {
        printf(", \"rank\": %u, \"step\": %" PRIu64 ", \"error\": ", report->rank, report->step);
        print_quoted(weft_error_detail());
    }
    printf("}\n");
}

static void print_verdict(const struct arguments *arguments, int status,
                          const struct weft_verify_report *report, double seconds)
{
    if (arguments->json) {
        print_verdict_json(arguments, status, report, seconds);
        return;
    }
    printf("%s %s, %" PRIu64 " ranks", weft_collective_name((enum weft_collective)arguments->collective),
           weft_algorithm_name((enum weft_algorithm)arguments->algorithm), arguments->ranks);
    print_form(arguments);
    if (status != WEFT_OK) {
        printf(": WRONG: %s\n", weft_error_detail());
        return;
    }
    printf(": correct; window %u, %" PRIu64 " steps, %" PRIu64
           " messages, at most %u in flight per rank, %s method, %s sets, %.3f s\n",
           report->window, report->steps, report->messages, report->in_flight_max,
           report->method == WEFT_VERIFY_ROTATION ? "rotation" : "full", report->exact ? "exact" : "hashed",
           seconds);
}

static int verify(const struct arguments *arguments)
{
    static const char *const methods[] = {"auto", "full", "rotation"};
    int strict = arguments->strict && weft_collective_reduces((enum weft_collective)arguments->collective);
    struct weft_verify_options how = {.window = (uint32_t)arguments->window,
                                      .method = WEFT_VERIFY_AUTO,
                                      .interleavings = (uint32_t)arguments->interleavings,
                                      .expect = strict ? WEFT_VERIFY_EXPECT_STRICT : 0,
                                      .seed = arguments->seed};
    int known = 0;
    for (int i = 0; i < 3; i++) {
        if (strcmp(arguments->method, methods[i]) != 0)
            continue;
        how.method = (enum weft_verify_method)i;
        known = 1;
    }
    if (!known)
        return usage("--method is not auto, full or rotation:", arguments->method);
    int64_t start_ns = weft_clock_ns();
    struct weft_plan_request request = request_of(arguments, arguments->algorithm, 0);
    struct weft_plan **plans;
    if (weft_plans_make(&request, &plans) != WEFT_OK)
        return failed_with_detail();
    struct weft_verify_report report;
    int status = weft_plans_verify((const struct weft_plan *const *)plans, request.ranks, &how, &report);
    print_verdict(arguments, status, &report, (double)(weft_clock_ns() - start_ns) / 1e9);
    weft_plans_free(plans, request.ranks);
    return status == WEFT_OK ? 0 : EXIT_WRONG;
}

/* Between hosts there are two links: messages within one go by shared memory. */
static struct weft_hosts_cost cost_on_hosts(const struct arguments *arguments)
{
    return (struct weft_hosts_cost){weft_link_cost_of(1, arguments->oversubscribed),
                                    weft_link_cost_of(0, arguments->oversubscribed),
                                    arguments->hosts ? arguments->hosts->ports : 0};
}

static int on_hosts(const struct arguments *arguments)
{
    return arguments->hosts && arguments->hosts->count > 1;
}

/* The plan evaluated step by step, in nanoseconds; negative where that is too large to do. */
static double evaluate(const struct arguments *arguments, int algorithm, uint64_t bytes,
                       const struct weft_link_cost *link)
{
    struct weft_plan_request request = request_of(arguments, algorithm, 0);
    struct weft_plan **plans;
    double time_ns = -1;
    if (arguments->ranks > 1024 || weft_plans_make(&request, &plans) != WEFT_OK)
        return -1;
    struct weft_hosts_cost cost = cost_on_hosts(arguments);
    const struct weft_plan *const *made = (const struct weft_plan *const *)plans;
    int status = on_hosts(arguments) ? weft_plans_cost_hosts(made, arguments->hosts, bytes, &cost, &time_ns)
                                     : weft_plans_cost(made, request.ranks, bytes, link, &time_ns);
    if (status != WEFT_OK)
        time_ns = -1;
    weft_plans_free(plans, request.ranks);
    return time_ns;
}

static double estimate(const struct arguments *arguments, int algorithm, uint64_t bytes,
                       const struct weft_link_cost *link)
{
    enum weft_collective collective = (enum weft_collective)arguments->collective;
    struct weft_hosts_cost cost = cost_on_hosts(arguments);
    if (on_hosts(arguments))
        return weft_cost_hosts_ns(collective, (enum weft_algorithm)algorithm, arguments->hosts, bytes, &cost);
    return weft_cost_estimate_ns(collective, (enum weft_algorithm)algorithm, (uint32_t)arguments->ranks,
                                 bytes, link);
}

static void print_cost(const struct arguments *arguments, uint64_t bytes, const struct weft_link_cost *link,
                       int *rows)
{
    enum weft_collective collective = (enum weft_collective)arguments->collective;
    struct weft_choice choice = {.collective = collective,
                                 .unequal = arguments->unequal,
                                 .strict = arguments->strict,
                                 .ranks = (uint32_t)arguments->ranks,
                                 .bytes = bytes,
                                 .one_host = link->receiver_copies && !on_hosts(arguments),
                                 .oversubscribed = arguments->oversubscribed,
                                 .hosts = arguments->hosts};
    int chosen = weft_algorithm_choose(&choice);
    for (int i = WEFT_ALGO_AUTO + 1; i < WEFT_ALGO_COUNT; i++) {
        if (!weft_algorithm_serves(collective, (enum weft_algorithm)i) ||
            (arguments->algorithm > 0 && arguments->algorithm != i))
            continue;
        const char *name = weft_algorithm_name((enum weft_algorithm)i);
        double us = estimate(arguments, i, bytes, link) / 1000;
        double evaluated_ns = evaluate(arguments, i, bytes, link);
        if (arguments->json) {
            printf("%s\n  {\"size_bytes\": %" PRIu64 ", \"algorithm\": \"%s\", \"estimate_us\": %.3f, ",
                   (*rows)++ ? "," : "", bytes, name, us);
            if (evaluated_ns >= 0)
                printf("\"plan_us\": %.3f, ", evaluated_ns / 1000);
            printf("\"chosen\": %s}", i == chosen ? "true" : "false");
        } else {
            printf("%12" PRIu64 "  %-13s %14.3f", bytes, name, us);
            if (evaluated_ns >= 0)
                printf(" %14.3f", evaluated_ns / 1000);
            else
                printf(" %14s", "-");
            printf("%s\n", i == chosen ? "  chosen" : "");
        }
    }
}

static int cost(const struct arguments *arguments)
{
    int one_host = strcmp(arguments->link, "shm") == 0, rows = 0;
    if (!one_host && strcmp(arguments->link, "network") != 0)
        return usage("--link is not shm or network:", arguments->link);
    const char *name = weft_collective_name((enum weft_collective)arguments->collective);
    struct weft_link_cost link = weft_link_cost_of(one_host, arguments->oversubscribed);
    if (arguments->json)
        printf("{\"collective\": \"%s\", \"ranks\": %" PRIu64 ", \"link\": \"%s\", \"rows\": [", name,
               arguments->ranks, link.name);
    else
        printf("%s, %" PRIu64 " ranks, %s: latency %.0f ns, %.3g ns per byte, %.3g ns per byte reduced\n"
               "%12s  %-13s %14s %14s\n",
               name, arguments->ranks, link.name, link.latency_ns, link.byte_ns, link.reduce_byte_ns, "bytes",
               "algo", "estimate us", "plan us");
    uint64_t first = arguments->bytes ? arguments->bytes : 8;
    uint64_t last = arguments->bytes ? arguments->bytes : 128 << 20;
    for (uint64_t bytes = first; bytes <= last; bytes *= 4)
        print_cost(arguments, bytes, &link, &rows);
    if (arguments->json)
        printf("\n]}\n");
    return 0;
}

static int run(int argc, char **argv)
{
    struct arguments arguments;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help();
            return 0;
        }
        if (strcmp(argv[i], "--version") == 0) {
            weft_tool_version("weft-plan", stdout);
            return 0;
        }
    }
    int failed = read_arguments(argc, argv, &arguments);
    if (!failed)
        failed = arguments.command[0] == 'd'   ? dump(&arguments)
                 : arguments.command[0] == 'v' ? verify(&arguments)
                                               : cost(&arguments);
    weft_hosts_free(arguments.hosts);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = run(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "weft-plan: cannot write the output\n");
        return EXIT_WRONG;
    }
    return failed;
}
