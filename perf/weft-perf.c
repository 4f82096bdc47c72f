/* SPDX-License-Identifier: Apache-2.0 */
/* weft-perf: measures weft and checks its results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tool/settings_print.h"
#include "base/tool/version.h"
#include "perf/channel.h"
#include "perf/command.h"
#include "perf/device/memory.h"
#include "perf/devices.h"
#include "perf/file.h"
#include "perf/launch.h"
#include "perf/nccl.h"
#include "perf/operations.h"
#include "perf/options.h"
#include "perf/sweep.h"

enum {
    SAMPLES =
        PERF_TAKES_COUNTS | PERF_TAKES_WARMUPS | PERF_TAKES_CHECK | PERF_TAKES_MEMORY | PERF_TAKES_DEVICE
};

static const struct perf_command commands[] = {
    {"p2p-lat",
     "latency of a message: half a round trip between ranks 0 and 1, or all pairs",
     perf_p2p_latency,
     {.flags = SAMPLES | PERF_TAKES_SIZES | PERF_TAKES_TYPE | PERF_TAKES_CSV | PERF_TAKES_COLUMNS |
               PERF_TAKES_PAIRS,
      .least_ranks = 2}},
    {"p2p-bw",
     "bandwidth of a window of messages between ranks 0 and 1, or all pairs",
     perf_p2p_bandwidth,
     {.flags = SAMPLES | PERF_TAKES_SIZES | PERF_TAKES_TYPE | PERF_TAKES_CSV | PERF_TAKES_COLUMNS |
               PERF_TAKES_PAIRS | PERF_TAKES_WINDOW | PERF_TAKES_BOTH_WAYS,
      .least_ranks = 2}},
    {"matrix",
     "every pair's latency and bandwidth; slow links are named",
     perf_matrix,
     {.flags = SAMPLES | PERF_TAKES_SIZE | PERF_TAKES_WINDOW, .size_bytes = 1 << 20, .least_ranks = 2}},
    {"overlap",
     "whether messages wait for allreduces or for other messages; exit status 1 when they do",
     perf_overlap,
     {.flags = PERF_TAKES_COUNTS | PERF_TAKES_CHECK | PERF_TAKES_MEMORY | PERF_TAKES_DEVICE |
               PERF_TAKES_SIZE | PERF_TAKES_DELAY,
      .iterations = 11,
      .size_bytes = 64 << 20,
      .least_ranks = 2}},
    {"init",
     "how long each phase of a start and an end takes",
     perf_init,
     {.flags = PERF_TAKES_COUNTS, .iterations = 11, .least_ranks = 1}},
    {"reduce_local",
     "reductions by one device, beside its copies; no rank sends anything",
     perf_reduce_local,
     {.flags = PERF_TAKES_COUNTS | PERF_TAKES_WARMUPS | PERF_TAKES_CHECK | PERF_TAKES_SIZES |
               PERF_TAKES_TYPE | PERF_TAKES_OP | PERF_TAKES_CSV | PERF_TAKES_DEVICE | PERF_TAKES_INPUTS,
      .least_ranks = 1,
      .ranks = 1,
      .dtypes = 1u << WEFT_FLOAT32 | 1u << WEFT_FLOAT16 | 1u << WEFT_BFLOAT16}},
    {"register",
     "what registering memory with a transport costs, and a registration that was kept; no rank sends "
     "anything",
     perf_register,
     {.flags = PERF_TAKES_COUNTS | PERF_TAKES_WARMUPS | PERF_TAKES_SIZES | PERF_TAKES_CSV | PERF_TAKES_DEVICE,
      .least_ranks = 1,
      .ranks = 1}},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands, TYPOS = 2 };

/* What argv[1] names: one of the two. */
struct choice {
    const char *name, *help;
    const struct perf_operation *operation;
    const struct perf_command *command;
    struct perf_accepts accepts;
};

/* The index-th of all commands; 0 behind the last. */
static int choose(int index, struct choice *choice)
{
    if (index < perf_operation_count) {
        const struct perf_operation *operation = &perf_operations[index];
        *choice = (struct choice){.name = operation->name, .help = operation->help, .operation = operation};
        perf_operation_accepts(operation, &choice->accepts);
        return 1;
    }
    if (index >= perf_operation_count + COMMAND_COUNT)
        return 0;
    const struct perf_command *command = &commands[index - perf_operation_count];
    *choice = (struct choice){command->name, command->help, NULL, command, command->accepts};
    return 1;
}

static void print_help(FILE *out)
{
    static const struct perf_accepts everything = {.flags = PERF_TAKES_ALL};
    struct choice choice;
    fprintf(out, "usage: weft-perf COMMAND [flags]\n\ncommands:\n");
    for (int i = 0; choose(i, &choice); i++)
        fprintf(out, "  %-15s %s\n", choice.name, choice.help);
    fprintf(out, "\nflags (weft-perf COMMAND --help lists those of one command):\n");
    perf_options_help(&everything, out);
    fprintf(out,
            "      --devices            list kinds of devices, and why one is missing\n"
            "      --settings           list settings, their values and where these come from\n"
            "      --version            print the version and the libraries loaded at run time\n"
            "\nexample: weft-perf allreduce --ranks 4 -b 8 -e 64M\n"
            "exit status: 0 success, 1 wrong results, 2 bad arguments, 3 a rank failed or the output cannot\n"
            "be written\n");
}

static void print_command_help(const struct choice *choice, FILE *out)
{
    fprintf(out, "usage: weft-perf %s [flags]\n\n%s\n\nflags:\n", choice->name, choice->help);
    perf_options_help(&choice->accepts, out);
}

/* The command that is spelled nearly like this; NULL. */
static const char *nearest(const char *name, struct choice *choice)
{
    const char *best = NULL;
    size_t least = TYPOS + 1;
    for (int i = 0; choose(i, choice); i++) {
        size_t apart = perf_nccl_distance(name, choice->name);
        if (apart < least) {
            least = apart;
            best = choice->name;
        }
    }
    return best;
}

static int find(const char *name, struct choice *choice)
{
    const char *near;
    for (int i = 0; choose(i, choice); i++)
        if (perf_nccl_is_command(name, choice->name))
            return 0;
    if (*name == '-') {
        fprintf(stderr,
                "weft-perf: command '%s': expected a command in front of the flags, such as weft-perf "
                "allreduce -b 8; weft-perf --help lists them\n",
                name);
        return -1;
    }
    fprintf(stderr, "weft-perf: command '%s': expected", name);
    for (int i = 0; choose(i, choice); i++)
        fprintf(stderr, "%s %s", i ? "," : "", choice->name);
    if ((near = nearest(name, choice)))
        fprintf(stderr, " (did you mean %s?)", near);
    fprintf(stderr, "; weft-perf --help says more\n");
    return -1;
}

static int run_rank(const struct choice *choice, const struct perf_options *options)
{
    struct perf_session session;
    struct perf_report *report = NULL;
    struct perf_result result = {.stats = WEFT_COMM_STATS_INIT};
    if (perf_session_open(&session, options) != 0)
        return PERF_EXIT_FAILED;
    int failed = session.ranks < choice->accepts.least_ranks;
    if (failed && session.rank == 0)
        fprintf(stderr, "weft-perf: %s needs at least %d ranks, there are %d\n", choice->name,
                choice->accepts.least_ranks, session.ranks);
    if (!failed)
        failed = perf_device_check(session.context, perf_options_place(options, session.rank)) != 0;
    if (!failed && session.rank == 0) {
        report = perf_report_open(&session, choice->name);
        failed = report == NULL;
    }
    if (!failed && choice->operation)
        failed = perf_sweep(choice->operation, &session, report, &result) != 0;
    else if (!failed)
        failed = choice->command->run(&session, report, &result) != 0;
    if (report)
        failed |= perf_report_close(report, failed ? NULL : &result) != 0;
    failed |= perf_session_close(&session) != 0;
    if (failed)
        return PERF_EXIT_FAILED;
    return result.wrong || result.damaged || result.missed ? PERF_EXIT_WRONG : PERF_EXIT_OK;
}

static int print_settings(const char *form)
{
    int refused;
    if (weft_tool_settings(form, &refused) == WEFT_OK)
        return refused ? PERF_EXIT_USAGE : PERF_EXIT_OK;
    fprintf(stderr, "weft-perf: --settings=%s: expected --settings, --settings=md or --settings=man\n", form);
    return PERF_EXIT_USAGE;
}

static int run(int argc, char **argv)
{
    struct perf_options options;
    const char *first = argc > 1 ? argv[1] : "";
    if (strcmp(first, "--version") == 0) {
        weft_tool_version("weft-perf", stdout);
        return PERF_EXIT_OK;
    }
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0) {
        print_help(stdout);
        return PERF_EXIT_OK;
    }
    int lists_settings = strcmp(first, "--settings") == 0 || strncmp(first, "--settings=", 11) == 0;
    if ((strcmp(first, "--devices") == 0 || lists_settings) && argc > 2) {
        fprintf(stderr, "weft-perf: unexpected argument '%s': expected nothing behind %s\n", argv[2], first);
        return PERF_EXIT_USAGE;
    }
    if (lists_settings)
        return print_settings(first[10] ? first + 11 : "");
    if (strcmp(first, "--devices") == 0)
        return perf_devices();
    struct choice choice;
    if (find(first, &choice) != 0 || perf_options_parse(&options, &choice.accepts, argc, argv) != 0)
        return PERF_EXIT_USAGE;
    if (options.help) {
        print_command_help(&choice, stdout);
        return PERF_EXIT_OK;
    }
    int is_rank = perf_channel_inherited() || perf_launched();
    if (options.ranks == 0 && !is_rank && !getenv("RANK"))
        options.ranks = choice.accepts.ranks;
    if (is_rank || options.ranks == 0)
        return run_rank(&choice, &options);
    if ((options.json_path && perf_file_probe(options.json_path) != 0) ||
        (options.csv_path && perf_file_probe(options.csv_path) != 0))
        return PERF_EXIT_FAILED;
    return perf_launch(&options);
}

/* Whoever reads the figures later must be able to distinguish a full disk from a short run. */
int main(int argc, char **argv)
{
    int result = run(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return result;
    fprintf(stderr, "weft-perf: cannot write the output\n");
    return result > PERF_EXIT_FAILED ? result : PERF_EXIT_FAILED;
}
