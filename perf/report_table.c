/* SPDX-License-Identifier: Apache-2.0 */
/* The table as nccl-tests prints it: its thirteen columns, its names of types, its lines around the rows, so that what
 * reads theirs by word, from the left or from the right reads ours. --columns weft has weft's names, and columns of its
 * own behind: the 99th percentiles, the algorithm, the transport, and, over RDMA, the share of the line rate. */
#include "perf/report.h"

#include <stdio.h>

#include "perf/nccl.h"
#include "perf/values.h"

/* The step between sizes as nccl-tests words it. */
static void print_step(const struct perf_options *options)
{
    if (options->step_bytes)
        printf("%zu(bytes)", options->step_bytes);
    else
        printf("%zu(factor)", options->factor);
}

/* "2 hosts, 4 ranks on each", or "2 hosts, 1 to 3 ranks on each". */
static void print_hosts(const struct perf_session *session)
{
    int hosts = 0, least = session->ranks, most = 0;
    for (int rank = 0; rank < session->ranks; rank++) {
        int here = 0, first = 1;
        for (int other = 0; other < session->ranks; other++) {
            int same = session->members[rank].host_index == session->members[other].host_index;
            first &= !(same && other < rank);
            here += same;
        }
        hosts += first;
        least = here < least ? here : least;
        most = here > most ? here : most;
    }
    printf("# %d host%s, %d", hosts, hosts == 1 ? "" : "s", least);
    if (most != least)
        printf(" to %d", most);
    printf(" rank%s on each\n", most == 1 ? "" : "s");
}

/* Rank 0's: on a cluster the others' are alike. */
static void print_rails(const struct perf_rails *rails)
{
    for (int i = 0; i < rails->count; i++) {
        const weft_rail *rail = &rails->list[i];
        printf("#  Port %s:%d %s %s GID %d MTU %d%s\n", rail->device, rail->port, rail->link_layer, rail->gid,
               rail->gid_index, rail->mtu_bytes, rail->active ? "" : ", down");
    }
    if (rails->line_gbs > 0)
        printf("#  Line rate of rank 0's ports %.3f GB/s\n", rails->line_gbs);
}

void perf_table_head(const struct perf_session *session, const char *command)
{
    const struct perf_options *options = session->options;
    setvbuf(stdout, NULL, _IOLBF, 0);
    char name[64];
    int is_nccl = (options->accepts & PERF_TAKES_NCCL) && !options->own_columns;
    printf("# weft-perf %s, weft %s, %d ranks\n", command, weft_version(), session->ranks);
    if (is_nccl)
        printf("# Collective test starting: %s\n", perf_nccl_test_name(command, name, sizeof name));
    if (options->accepts & PERF_TAKES_SIZES) {
        printf("# %sminBytes %zu maxBytes %zu step: ", is_nccl ? "nThread 1 nGpus 1 " : "",
               options->begin_bytes, options->end_bytes);
        print_step(options);
        printf(" warmup iters: %d iters: %d", options->warmups, options->iterations);
        if (is_nccl)
            printf(" agg iters: %d validation: %d graph: 0\n# memory: %s\n", options->aggregate,
                   options->checks, options->memory);
        else
            printf(" validation: %d memory: %s\n", options->checks, options->memory);
        if (options->accepts & PERF_TAKES_CLOCK)
            printf("# clock: %s\n", options->device_clock ? "device events, stream-ordered calls" : "host");
    }
    printf("#\n");
    print_hosts(session);
    printf("# Using ranks\n");
    for (int rank = 0; rank < session->ranks; rank++) {
        const struct perf_member *member = &session->members[rank];
        printf("#  Rank %2d Pid %6d on %10.64s", rank, (int)member->pid, member->host);
        if (member->cpu >= 0)
            printf(" processor %d", (int)member->cpu);
        if (*member->device)
            printf(" device %.160s", member->device);
        printf("\n");
    }
    print_rails(&session->rails);
    fflush(stdout);
}

void perf_table_columns(const struct perf_options *options, const struct perf_rails *rails)
{
    printf("#\n# %10s  %12s  %8s  %6s  %6s           %-24s           %-24s\n", "", "", "", "", "",
           "out-of-place", "in-place");
    printf("# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
    for (int i = 0; i < 2; i++)
        printf("  %7s  %6s  %6s  %6s", "time", "algbw", "busbw", "#wrong");
    if (options->own_columns)
        printf("  %8s  %8s  %6s  %9s%s", "p99(out)", "p99(in)", "algo", "transport",
               rails->line_gbs > 0 ? "  line" : "");
    printf("\n");
    printf("# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
    for (int i = 0; i < 2; i++)
        printf("  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "");
    if (options->own_columns)
        printf("  %8s  %8s%s", "(us)", "(us)", rails->line_gbs > 0 ? "                        (%)" : "");
    printf("\n");
    fflush(stdout);
}

static void print_time(int width, double time_us)
{
    int digits = time_us >= 10000 ? 0 : time_us >= 100 ? 1 : time_us >= 10 ? 2 : 3;
    printf("  %*.*f", width, digits, time_us);
}

static void print_measurement(const struct perf_row *row)
{
    if (!row) {
        printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    print_time(7, row->time_us);
    printf("  %6.2f  %6.2f", row->algbw_gbs, row->busbw_gbs);
    if (row->checked)
        printf("  %6llu", (unsigned long long)row->wrong);
    else
        printf("  %6s", "N/A");
}

static void print_p99(const struct perf_row *row)
{
    if (row)
        print_time(8, row->p99_us);
    else
        printf("  %8s", "N/A");
}

static void print_own(const struct perf_row *out_of_place, const struct perf_row *in_place)
{
    const struct perf_row *row = out_of_place ? out_of_place : in_place;
    print_p99(out_of_place);
    print_p99(in_place);
    printf("  %6s  %9s", row->algorithm, row->transport);
    if (row->line_percent < 0)
        return;
    double percent = row->line_percent;
    if (in_place && in_place->line_percent > percent)
        percent = in_place->line_percent;
    printf("  %4.*f", percent < 10 ? 2 : 1, percent);
}

void perf_table_rows(const struct perf_options *options, const struct perf_row *out_of_place,
                     const struct perf_row *in_place)
{
    const struct perf_row *row = out_of_place ? out_of_place : in_place;
    printf("%12zu  %12zu  %8s  %6s  %6d", row->size_bytes, row->count,
           options->own_columns ? weft_dtype_name(row->dtype) : perf_nccl_dtype_name(row->dtype),
           perf_op_name(row->op), row->root);
    print_measurement(out_of_place);
    print_measurement(in_place);
    if (options->own_columns)
        print_own(out_of_place, in_place);
    printf("\n");
    fflush(stdout);
}

static void print_stats(const weft_comm_stats *stats)
{
    if (stats->operations + stats->messages == 0)
        return;
    printf("# Bytes moved          : %llu eager, %llu direct, %llu staged (all ranks)\n",
           (unsigned long long)stats->bytes_eager, (unsigned long long)stats->bytes_direct,
           (unsigned long long)stats->bytes_staged);
    if (stats->bytes_mapped + stats->bytes_pulled)
        printf("# Of these, in a host  : %llu mapped, %llu pulled\n", (unsigned long long)stats->bytes_mapped,
               (unsigned long long)stats->bytes_pulled);
    if (stats->bytes_offered || stats->bytes_fed)
        printf("# Of what is pulled    : %llu fed; %llu offered to its owners, %llu written by them\n",
               (unsigned long long)stats->bytes_fed, (unsigned long long)stats->bytes_offered,
               (unsigned long long)stats->bytes_helped);
    printf("# Calls and messages   : %llu collectives, %llu by the fast path, %llu messages (all ranks)\n#\n",
           (unsigned long long)stats->operations, (unsigned long long)stats->fast_path,
           (unsigned long long)stats->messages);
}

void perf_table_end(const struct perf_options *options, const char *command, const struct perf_result *result)
{
    char name[64];
    unsigned long long bad = (unsigned long long)(result->wrong + result->damaged);
    printf("# Out of bounds values : %llu %s\n", bad, bad ? "FAILED" : "OK");
    if (result->damaged)
        printf("# Of these, bytes or elements changed outside the results : %llu\n",
               (unsigned long long)result->damaged);
    if (result->rows)
        printf("# Avg bus bandwidth    : %g\n", result->busbw_gbs);
    print_stats(&result->stats);
    if ((options->accepts & PERF_TAKES_NCCL) && !options->own_columns)
        printf("# Collective test concluded: %s\n#\n", perf_nccl_test_name(command, name, sizeof name));
    fflush(stdout);
}
