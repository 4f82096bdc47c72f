/* SPDX-License-Identifier: Apache-2.0 */
/* Whether messages wait for collectives, or for messages to other ranks.
 *
 * On one communicator, rank 0 starts a large send to each other rank, in order of rank. The receives are posted the other
 * way round, with a delay between them, so that all but the last are waiting sends when a later one's receive is there:
 * rank ranks - 1's message must not wait for rank 1's. Meanwhile each rank calls allreduces on the same communicator without
 * pause, from another thread. What counts is the time from posting a receive to its completion.
 *
 * It is compared with the same message alone: the same ranks call the same allreduces, so that processors are as busy,
 * and only that pair moves anything. So that messages do not share the memory's bandwidth, which would be no fault of the
 * communicator, the delay is at least twice the longest message alone. And it is compared with the same program that
 * has a communicator of its own for each pair. All runs take turns, and medians are over the turns' quotients, so that a
 * machine that becomes slower or faster meanwhile does not matter.
 */
#include "perf/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "perf/buffers.h"
#include "perf/corrupt.h"
#include "perf/data.h"
#include "perf/load.h"
#include "perf/machine.h"
#include "perf/measure.h"

/* The bounds by which the exit status judges. */
static const double alone_bound = 1.15, throughput_bound = 0.95;

enum { TAG = 7, DELAY_FACTOR = 2 };

/* The runs of a turn: all pairs on one communicator, all on their own, and, from ALONE on, each pair alone. */
enum { ONE, OWN, ALONE };

struct overlap {
    struct perf_session *session;
    struct perf_report *report; /* rank 0 only */
    struct perf_result *result;
    struct perf_load *load;
    weft_comm *side;   /* for the side channel where that goes over weft */
    weft_comm **pairs; /* [peer - 1] the pair's own communicator; NULL at other ranks */
    weft_work **works;
    struct perf_data data;
    struct perf_buffer buffer;
    size_t turns, shift;
    double delay_us;
    double *times_us; /* [(run * turns + turn) * peers + peer - 1] */
    uint64_t load_calls;
};

static int peers(const struct overlap *overlap)
{
    return overlap->session->ranks - 1;
}

static double *time_of(const struct overlap *overlap, int run, size_t turn, int peer)
{
    return &overlap
                ->times_us[((size_t)run * overlap->turns + turn) * (size_t)peers(overlap) + (size_t)peer - 1];
}

static int takes_part(int run, int peer)
{
    return run < ALONE || run - ALONE == peer - 1;
}

static weft_comm *comm_of(const struct overlap *overlap, int run, int peer)
{
    return run == OWN ? overlap->pairs[peer - 1] : overlap->session->comm;
}

/* The other end's rank on the pair's own communicator, where rank 0 comes first. */
static int rank_of(int run, int rank)
{
    return run == OWN ? rank != 0 : rank;
}

/* Tests set WEFT_PERF_SERIAL to have messages that do wait for each other where all pairs share one communicator: each is
 * sent when the one before has ended. */
static int send_all(struct overlap *overlap, int run)
{
    int serial = run == ONE && getenv("WEFT_PERF_SERIAL") != NULL;
    size_t count = overlap->session->options->size_bytes;
    int result = 0, started = 0;
    for (int peer = 1; peer <= peers(overlap) && result == 0; peer++) {
        if (!takes_part(run, peer))
            continue;
        result = weft_send(comm_of(overlap, run, peer), overlap->buffer.bytes, count, WEFT_UINT8,
                           rank_of(run, peer), TAG, WEFT_START(&overlap->works[started]));
        started += result == 0;
        if (serial && result == 0)
            result = weft_work_wait(overlap->works[started - 1], -1);
    }
    for (int i = 0; i < started; i++) {
        int status = weft_work_wait(overlap->works[i], -1);
        result = result ? result : status;
        weft_work_free(overlap->works[i]);
    }
    return result;
}

static void sleep_us(double time_us)
{
    int64_t time_ns = (int64_t)(time_us * 1e3);
    struct timespec left = {time_ns / 1000000000, time_ns % 1000000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

/* The highest rank posts its receive first. */
static int receive(struct overlap *overlap, int run, double *time_us)
{
    size_t count = overlap->session->options->size_bytes;
    int rank = overlap->session->rank;
    if (run < ALONE)
        sleep_us(overlap->delay_us * (peers(overlap) - rank + 1));
    else
        sleep_us(overlap->delay_us); /* the send is there first, too */
    int64_t posted_ns = perf_now_ns();
    int status = weft_recv(comm_of(overlap, run, rank), overlap->buffer.bytes, count, WEFT_UINT8,
                           rank_of(run, 0), TAG, NULL, NULL);
    *time_us = (double)(perf_now_ns() - posted_ns) / 1e3;
    return status;
}

static int run_once(struct overlap *overlap, int run, size_t turn)
{
    struct perf_session *session = overlap->session;
    size_t count = session->options->size_bytes;
    int receives = session->rank > 0 && takes_part(run, session->rank), status = 0;
    double together = 0;
    overlap->shift = (overlap->shift + 4099) % PERF_PATTERN;
    if (session->rank == 0)
        perf_data_fill(&overlap->data, overlap->shift, overlap->buffer.host, count);
    else if (receives)
        perf_buffer_poison(&overlap->buffer, count);
    if (perf_buffer_put(&overlap->buffer, count) != 0)
        return -1;
    if (perf_take_slowest(&session->channel, &together, 1) != 0)
        return -1;
    perf_watch_call(session->watch);
    if (session->rank == 0)
        status = send_all(overlap, run);
    else if (receives)
        status = receive(overlap, run, time_of(overlap, run, turn, session->rank));
    if (status != 0) {
        perf_watch_failed(session->watch);
        return perf_session_complain(session, "messages beside allreduces", status);
    }
    if (receives && session->options->checks) {
        if (perf_buffer_get(&overlap->buffer, count) != 0)
            return -1;
        perf_corrupt(session->rank, overlap->buffer.host, count, 1);
        overlap->result->wrong +=
            perf_data_check(&overlap->data, 0, overlap->shift, overlap->buffer.host, count);
        overlap->result->damaged += perf_buffer_damage(&overlap->buffer, count);
    }
    return perf_take_slowest(&session->channel, &together, 1) != 0 ? -1 : 0;
}

/* A turn without a count: pages and connections come to be, and the longest message alone sets the delay. */
static int warm_up(struct overlap *overlap)
{
    double longest_us = 0;
    overlap->delay_us = overlap->session->options->delay_ms * 1e3;
    for (int i = 0; i < 2; i++)
        for (int run = 0; run < ALONE + peers(overlap); run++)
            if (run_once(overlap, run, 0) != 0)
                return -1;
    for (int peer = 1; peer <= peers(overlap); peer++)
        if (peer == overlap->session->rank)
            longest_us = *time_of(overlap, ALONE + peer - 1, 0, peer);
    if (perf_take_slowest(&overlap->session->channel, &longest_us, 1) != 0)
        return -1;
    if (overlap->delay_us < DELAY_FACTOR * longest_us)
        overlap->delay_us = DELAY_FACTOR * longest_us;
    return 0;
}

static int run_turns(struct overlap *overlap)
{
    size_t runs = (size_t)(ALONE + peers(overlap));
    if (warm_up(overlap) != 0)
        return -1;
    for (size_t turn = 0; turn < overlap->turns; turn++) {
        if (overlap->report)
            perf_report_progress(overlap->report, turn, overlap->turns, "turns");
        for (size_t i = 0; i < runs; i++) /* each of them comes first as often as last */
            if (run_once(overlap, (int)((turn + i) % runs), turn) != 0)
                return -1;
    }
    return 0;
}

static double median(const double *values, size_t count)
{
    struct perf_summary summary = {0, 0};
    perf_summarise(values, count, &summary);
    return summary.median_us;
}

/* values is room for one per turn. */
static void report_peer(struct overlap *overlap, int peer, double *values)
{
    double alone_us, together_us, ratio;
    size_t turns = overlap->turns;
    for (size_t i = 0; i < turns; i++)
        values[i] = *time_of(overlap, ALONE + peer - 1, i, peer);
    alone_us = median(values, turns);
    for (size_t i = 0; i < turns; i++)
        values[i] = *time_of(overlap, ONE, i, peer);
    together_us = median(values, turns);
    for (size_t i = 0; i < turns; i++)
        values[i] = *time_of(overlap, ONE, i, peer) / *time_of(overlap, ALONE + peer - 1, i, peer);
    ratio = median(values, turns);
    int kept = ratio <= alone_bound;
    overlap->result->missed += !kept;
    perf_report_line(overlap->report, "%6d  %12.2f  %12.2f  %7.3f  <= %.2f  %s", peer, alone_us / 1e3,
                     together_us / 1e3, ratio, alone_bound, kept ? "kept" : "MISSED");
    const struct perf_field fields[] = {
        PERF_FIELD_TEXT("figure", "message"),  PERF_FIELD_INTEGER("destination", peer),
        PERF_FIELD_REAL("alone_us", alone_us), PERF_FIELD_REAL("together_us", together_us),
        PERF_FIELD_REAL("ratio", ratio),       PERF_FIELD_REAL("bound", alone_bound),
        PERF_FIELD_FLAG("kept", kept),         PERF_FIELD_REALS("ratios", values, turns)};
    perf_report_record(overlap->report, fields, sizeof fields / sizeof *fields);
}

/* Bytes per time of all messages of a run of a turn; a message's time is its own. */
static double throughput_gbs(const struct overlap *overlap, int run, size_t turn)
{
    double total_us = 0;
    for (int peer = 1; peer <= peers(overlap); peer++)
        total_us += *time_of(overlap, run, turn, peer);
    return (double)overlap->session->options->size_bytes * peers(overlap) / total_us / 1e3;
}

static void report_throughput(struct overlap *overlap, double *values)
{
    double one_gbs, own_gbs, ratio;
    size_t turns = overlap->turns;
    for (size_t i = 0; i < turns; i++)
        values[i] = throughput_gbs(overlap, ONE, i);
    one_gbs = median(values, turns);
    for (size_t i = 0; i < turns; i++)
        values[i] = throughput_gbs(overlap, OWN, i);
    own_gbs = median(values, turns);
    for (size_t i = 0; i < turns; i++)
        values[i] = throughput_gbs(overlap, ONE, i) / throughput_gbs(overlap, OWN, i);
    ratio = median(values, turns);
    int kept = ratio >= throughput_bound;
    overlap->result->missed += !kept;
    perf_report_line(
        overlap->report,
        "# throughput: %.2f GB/s on one communicator, %.2f GB/s with one per pair: ratio %.3f >= "
        "%.2f  %s",
        one_gbs, own_gbs, ratio, throughput_bound, kept ? "kept" : "MISSED");
    const struct perf_field fields[] = {
        PERF_FIELD_TEXT("figure", "throughput"),    PERF_FIELD_REAL("one_gbs", one_gbs),
        PERF_FIELD_REAL("own_gbs", own_gbs),        PERF_FIELD_REAL("ratio", ratio),
        PERF_FIELD_REAL("bound", throughput_bound), PERF_FIELD_FLAG("kept", kept),
        PERF_FIELD_REALS("ratios", values, turns)};
    perf_report_record(overlap->report, fields, sizeof fields / sizeof *fields);
}

static int print(struct overlap *overlap)
{
    struct perf_machine machine;
    double *values = malloc(overlap->turns * sizeof *values);
    if (!values) {
        fprintf(stderr, "weft-perf: out of memory\n");
        return -1;
    }
    perf_machine_describe(&machine);
    perf_report_line(
        overlap->report,
        "#\n# %d processors; messages of %zu bytes from rank 0; receives %.0f ms apart, the last "
        "rank's first; %zu turns\n# beside %llu allreduces of %d bytes per rank",
        machine.cores, overlap->session->options->size_bytes, overlap->delay_us / 1e3, overlap->turns,
        (unsigned long long)overlap->load_calls, PERF_LOAD_BYTES);
    perf_report_line(overlap->report, "# %4s  %12s  %12s  %7s  %7s", "to", "alone (ms)", "together (ms)",
                     "ratio", "bound");
    for (int peer = 1; peer <= peers(overlap); peer++)
        report_peer(overlap, peer, values);
    report_throughput(overlap, values);
    free(values);
    return 0;
}

/* A communicator per pair, and one for the side channel where it needs one. */
static int make_comms(struct overlap *overlap)
{
    struct perf_session *session = overlap->session;
    int status = 0;
    for (int peer = 1; peer <= peers(overlap) && status == 0; peer++) {
        int belongs = session->rank == 0 || session->rank == peer;
        status =
            weft_comm_split(session->comm, belongs ? 0 : WEFT_UNDEFINED, 0, &overlap->pairs[peer - 1], NULL);
    }
    if (status == 0)
        status = weft_comm_split(session->comm, 0, 0, &overlap->side, NULL);
    if (status != 0)
        return perf_session_complain(session, "making a communicator per pair", status);
    session->channel.comm = overlap->side;
    return 0;
}

static int destroy_comms(struct overlap *overlap)
{
    struct perf_session *session = overlap->session;
    int status = 0;
    session->channel.comm = session->comm;
    for (int peer = 1; peer <= peers(overlap); peer++) {
        int ended = overlap->pairs[peer - 1] ? weft_comm_destroy(overlap->pairs[peer - 1]) : 0;
        status = status ? status : ended;
    }
    int ended = overlap->side ? weft_comm_destroy(overlap->side) : 0;
    status = status ? status : ended;
    return status ? perf_session_complain(session, "ending the communicators of the pairs", status) : 0;
}

/* All turns, with the allreduces beside them. */
static int run_loaded(struct overlap *overlap)
{
    struct perf_session *session = overlap->session;
    int failed = perf_load_start(session->comm, &overlap->load);
    if (failed)
        return -1;
    failed = run_turns(overlap);
    if (failed) /* the others may not come: do not wait for them */
        weft_comm_abort(session->comm, "weft-perf overlap has failed on a rank");
    failed |= perf_load_stop(overlap->load, &overlap->load_calls, &overlap->result->wrong) != 0;
    size_t times = (size_t)(ALONE + peers(overlap)) * overlap->turns * (size_t)peers(overlap);
    if (!failed)
        failed = perf_take_slowest(&session->channel, overlap->times_us, times) != 0 ||
                 perf_session_add_up(session, &overlap->result->wrong, &overlap->result->damaged) != 0;
    return failed;
}

int perf_overlap(struct perf_session *session, struct perf_report *report, struct perf_result *result)
{
    struct overlap overlap = {.session = session, .report = report, .result = result};
    size_t count = (size_t)session->ranks - 1;
    overlap.turns = (size_t)session->options->iterations;
    overlap.times_us = calloc((ALONE + count) * overlap.turns * count, sizeof *overlap.times_us);
    overlap.pairs = calloc(count, sizeof(weft_comm *));
    overlap.works = calloc(count, sizeof(weft_work *));
    int failed =
        !overlap.times_us || !overlap.pairs || !overlap.works ||
        perf_data_prepare(&overlap.data, WEFT_UINT8, PERF_OP_NONE, session->rank, session->ranks) != 0;
    if (failed)
        fprintf(stderr, "weft-perf: out of memory\n");
    else
        failed = perf_buffer_make(&overlap.buffer, session->context,
                                  perf_options_place(session->options, session->rank),
                                  session->options->size_bytes);
    if (!failed) {
        failed = make_comms(&overlap) != 0 || run_loaded(&overlap) != 0;
        failed |= destroy_comms(&overlap) != 0;
        perf_buffer_release(&overlap.buffer);
    }
    if (!failed && report)
        failed = print(&overlap);
    perf_data_release(&overlap.data);
    free(overlap.times_us);
    free(overlap.pairs);
    free(overlap.works);
    return failed ? -1 : perf_session_stats(session, &result->stats);
}
