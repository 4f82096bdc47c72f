/* weft-plan: look at plans, prove them, price them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "algos/choose.h"
#include "algos/cost.h"
#include "algos/dump.h"
#include "algos/verify.h"
#include "base/clock.h"

enum { EXIT_WRONG = 1, EXIT_USAGE = 2 };

struct arguments {
    const char *command;
    int algorithm; /* -1 when not given */
    uint64_t ranks, rank, window, bytes, interleavings, seed;
    const char *method, *link;
    int rank_given, in_place, json, steps, oversubscribed;
};

static const char help[] =
    "usage: weft-plan dump   allreduce --algo ALGO --ranks N [--rank R] [--in-place] [--steps] [--json]\n"
    "       weft-plan verify allreduce --algo ALGO --ranks N [--in-place] [--window W] [--method M]\n"
    "                        [--interleavings K] [--seed S] [--json]\n"
    "       weft-plan cost   allreduce --ranks N [--algo ALGO] [--bytes B] [--link shm|network]\n"
    "                        [--oversubscribed] [--in-place] [--json]\n"
    "\n"
    "dump    prints the plan of rank R (default: every rank), --steps with loops expanded\n"
    "verify  proves that the plans of all ranks compute the collective, without deadlock\n"
    "cost    prints the time by the cost model, for one size or a range of sizes\n"
    "\n"
    "verify and cost take all ranks together; --rank is accepted, and only checked.\n"
    "ALGO: ring, tree, rd, rab. M: auto, full, rotation. W: plan steps in flight, 1 to 64, default 32.\n"
    "B: bytes per rank, suffixes K, M, G are powers of 1024.\n"
    "Exit status: 0, 1 when a plan is wrong or cannot be made, 2 for bad arguments.\n";

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
    {"--in-place", "dvc", FLAG, AT(in_place), 0, 0},
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
        if (*(int *)field > WEFT_ALGO_AUTO)
            return 0;
        fprintf(stderr, "weft-plan: --algo is '%s', expected ring, tree, rd or rab\n", text);
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
    }
    return 0;
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
    if (argc < 3 || strcmp(argv[2], "allreduce") != 0)
        return usage("expected the collective 'allreduce', got", argc < 3 ? "" : argv[2]);
    int failed = read_options(argc - 3, argv + 3, arguments);
    if (failed)
        return failed;
    if (arguments->ranks == 0)
        return usage("missing argument", "--ranks");
    if (arguments->algorithm < 0 && arguments->command[0] != 'c')
        return usage("missing argument", "--algo");
    if (arguments->rank >= arguments->ranks) {
        fprintf(stderr, "weft-plan: --rank is '%" PRIu64 "', expected a whole number from 0 to %" PRIu64 "\n",
                arguments->rank, arguments->ranks - 1);
        return EXIT_USAGE;
    }
    return 0;
}

/* --- commands ------------------------------------------------------------------------------------------ */

static int failed_with_detail(void)
{
    fprintf(stderr, "weft-plan: %s\n", weft_error_detail());
    return EXIT_WRONG;
}

static struct weft_plan_request request_of(const struct arguments *arguments, int algorithm, uint64_t rank)
{
    return (struct weft_plan_request){WEFT_ALLREDUCE,
                                      (enum weft_algorithm)algorithm,
                                      (uint32_t)arguments->ranks,
                                      (uint32_t)rank,
                                      arguments->in_place,
                                      -1,
                                      0,
                                      0};
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

static void print_verdict(const struct arguments *arguments, int status,
                          const struct weft_verify_report *report, double seconds)
{
    const char *name = weft_algorithm_name((enum weft_algorithm)arguments->algorithm);
    const char *method = report->method == WEFT_VERIFY_ROTATION ? "rotation" : "full";
    if (arguments->json) {
        printf("{\"collective\": \"allreduce\", \"algorithm\": \"%s\", \"ranks\": %" PRIu64
               ", \"in_place\": %s, \"window\": %u, \"proven\": %s, \"method\": \"%s\", \"steps\": %" PRIu64
               ", \"messages\": %" PRIu64 ", \"in_flight_max\": %u, \"exact_sets\": %s, \"seconds\": %.3f",
               name, arguments->ranks, arguments->in_place ? "true" : "false", report->window,
               status == WEFT_OK ? "true" : "false", method, report->steps, report->messages,
               report->in_flight_max, report->exact ? "true" : "false", seconds);
        if (status != WEFT_OK) {
            printf(", \"rank\": %u, \"step\": %" PRIu64 ", \"error\": ", report->rank, report->step);
            print_quoted(weft_error_detail());
        }
        printf("}\n");
        return;
    }
    if (status != WEFT_OK) {
        printf("allreduce %s, %" PRIu64 " ranks%s: WRONG: %s\n", name, arguments->ranks,
               arguments->in_place ? ", in place" : "", weft_error_detail());
        return;
    }
    printf("allreduce %s, %" PRIu64 " ranks%s: correct; window %u, %" PRIu64 " steps, %" PRIu64
           " messages, at most %u in flight per rank, %s method, %s sets, %.3f s\n",
           name, arguments->ranks, arguments->in_place ? ", in place" : "", report->window, report->steps,
           report->messages, report->in_flight_max, method, report->exact ? "exact" : "hashed", seconds);
}

static int verify(const struct arguments *arguments)
{
    static const char *const methods[] = {"auto", "full", "rotation"};
    struct weft_verify_options how = {.window = (uint32_t)arguments->window,
                                      .method = WEFT_VERIFY_AUTO,
                                      .interleavings = (uint32_t)arguments->interleavings,
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

/* The plan evaluated step by step, in nanoseconds; negative where that is too large to do. */
static double evaluate(const struct arguments *arguments, int algorithm, uint64_t bytes,
                       const struct weft_link_cost *link)
{
    struct weft_plan_request request = request_of(arguments, algorithm, 0);
    struct weft_plan **plans;
    double time_ns = -1;
    if (arguments->ranks > 1024 || weft_plans_make(&request, &plans) != WEFT_OK)
        return -1;
    if (weft_plans_cost((const struct weft_plan *const *)plans, request.ranks, bytes, link, &time_ns) !=
        WEFT_OK)
        time_ns = -1;
    weft_plans_free(plans, request.ranks);
    return time_ns;
}

static void print_cost(const struct arguments *arguments, uint64_t bytes, const struct weft_link_cost *link,
                       int *rows)
{
    struct weft_choice choice = {.ranks = (uint32_t)arguments->ranks,
                                 .bytes = bytes,
                                 .one_host = link->receiver_copies,
                                 .oversubscribed = arguments->oversubscribed};
    int chosen = weft_algorithm_choose(&choice);
    for (int i = WEFT_ALGO_AUTO + 1; i < WEFT_ALGO_COUNT; i++) {
        if (!weft_algorithm_serves(WEFT_ALLREDUCE, (enum weft_algorithm)i))
            continue;
        if (arguments->algorithm > 0 && arguments->algorithm != i)
            continue;
        const char *name = weft_algorithm_name((enum weft_algorithm)i);
        double us = weft_cost_estimate_ns((enum weft_algorithm)i, choice.ranks, bytes, link) / 1000;
        double evaluated_ns = evaluate(arguments, i, bytes, link);
        if (arguments->json) {
            printf("%s\n  {\"size_bytes\": %" PRIu64 ", \"algorithm\": \"%s\", \"estimate_us\": %.3f, ",
                   (*rows)++ ? "," : "", bytes, name, us);
            if (evaluated_ns >= 0)
                printf("\"plan_us\": %.3f, ", evaluated_ns / 1000);
            printf("\"chosen\": %s}", i == chosen ? "true" : "false");
        } else {
            printf("%12" PRIu64 "  %-5s %14.3f", bytes, name, us);
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
    struct weft_link_cost link = weft_link_cost_of(one_host, arguments->oversubscribed);
    if (arguments->json)
        printf("{\"collective\": \"allreduce\", \"ranks\": %" PRIu64 ", \"link\": \"%s\", \"rows\": [",
               arguments->ranks, link.name);
    else
        printf("allreduce, %" PRIu64
               " ranks, %s: latency %.0f ns, %.3g ns per byte, %.3g ns per byte reduced\n"
               "%12s  %-5s %14s %14s\n",
               arguments->ranks, link.name, link.latency_ns, link.byte_ns, link.reduce_byte_ns, "bytes",
               "algo", "estimate us", "plan us");
    uint64_t first = arguments->bytes ? arguments->bytes : 8;
    uint64_t last = arguments->bytes ? arguments->bytes : 128 << 20;
    for (uint64_t bytes = first; bytes <= last; bytes *= 4)
        print_cost(arguments, bytes, &link, &rows);
    if (arguments->json)
        printf("\n]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(help, stdout);
            return 0;
        }
    }
    int failed = read_arguments(argc, argv, &arguments);
    if (!failed)
        failed = arguments.command[0] == 'd'   ? dump(&arguments)
                 : arguments.command[0] == 'v' ? verify(&arguments)
                                               : cost(&arguments);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "weft-plan: cannot write the output\n");
        return EXIT_WRONG;
    }
    return failed;
}
