/* weft-perf: measures weft and checks its results. */
#include <stdio.h>
#include <string.h>

#include "perf/channel.h"
#include "perf/command.h"
#include "perf/file.h"
#include "perf/launch.h"
#include "perf/options.h"

static const struct perf_command commands[] = {
    {"allreduce", "every rank gets the reduction of all ranks' data", perf_allreduce},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void print_help(FILE *out)
{
    fprintf(out, "usage: weft-perf COMMAND [flags]\n\ncommands:\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].help);
    fprintf(out, "\nflags:\n");
    perf_options_help(out);
    fprintf(out, "      --version            print the version\n"
                 "\nexample: weft-perf allreduce --ranks 4 -b 8 -e 64M\n"
                 "exit status: 0 success, 1 wrong results, 2 bad arguments, 3 a rank failed\n");
}

static const struct perf_command *find_command(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

static int run_rank(const struct perf_command *command, const struct perf_options *options)
{
    struct perf_session session;
    struct perf_report *report = NULL;
    struct perf_result result = {.stats = WEFT_COMM_STATS_INIT};
    if (perf_session_open(&session, options) != 0)
        return PERF_EXIT_FAILED;
    int failed = 0;
    if (session.rank == 0) {
        report = perf_report_open(&session, command->name);
        failed = report == NULL;
    }
    if (!failed)
        failed = command->run(&session, report, &result) != 0;
    if (report)
        failed |= perf_report_close(report, failed ? NULL : &result) != 0;
    failed |= perf_session_close(&session) != 0;
    if (failed)
        return PERF_EXIT_FAILED;
    return result.wrong || result.damaged ? PERF_EXIT_WRONG : PERF_EXIT_OK;
}

int main(int argc, char **argv)
{
    struct perf_options options;
    const char *first = argc > 1 ? argv[1] : "";
    if (strcmp(first, "--version") == 0) {
        printf("weft-perf %s\n", weft_version());
        return PERF_EXIT_OK;
    }
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0) {
        print_help(stdout);
        return PERF_EXIT_OK;
    }
    const struct perf_command *command = find_command(first);
    if (!command) {
        fprintf(stderr, "weft-perf: command '%s': expected", first);
        for (int i = 0; i < COMMAND_COUNT; i++)
            fprintf(stderr, "%s %s", i ? "," : "", commands[i].name);
        fprintf(stderr, "; weft-perf --help says more\n");
        return PERF_EXIT_USAGE;
    }
    if (perf_options_parse(&options, argc, argv) != 0)
        return PERF_EXIT_USAGE;
    if (options.help) {
        print_help(stdout);
        return PERF_EXIT_OK;
    }
    if (perf_channel_inherited() || perf_launched() || options.ranks == 0)
        return run_rank(command, &options);
    if ((options.json_path && perf_file_probe(options.json_path) != 0) ||
        (options.csv_path && perf_file_probe(options.csv_path) != 0))
        return PERF_EXIT_FAILED;
    return perf_launch(&options);
}
