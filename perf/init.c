/* SPDX-License-Identifier: Apache-2.0 */
/* How long it takes until a job's ranks can work, and until they have ended.
 *
 * Each turn is a start of its own: a context and a communicator beside those of the session, which meet at a fresh port
 * of rank 0 and with a fresh secret, sent over the side channel. The ranks begin each phase together, and its time is
 * that of the slowest rank.
 */
#include "perf/command.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "perf/corrupt.h"
#include "perf/measure.h"

enum { OPEN, CREATE, FIRST, SECOND, SPLIT, FREE, DESTROY, CLOSE, PHASES };

static const char *const phase_names[PHASES][2] = {
    {"open", "open a context"},
    {"create", "create a communicator"},
    {"first", "the first allreduce, 8 bytes"},
    {"second", "the next allreduce"},
    {"split", "split it in two"},
    {"free", "destroy these"},
    {"destroy", "destroy the communicator"},
    {"close", "close the context"},
};

/* Where and by what secret a turn's ranks meet. */
struct meeting {
    int32_t port; /* on rank 0's host, which each rank has its own address for */
    unsigned char secret[32];
    int32_t failed;
};

struct turn {
    struct perf_session *session;
    struct meeting meeting;
    int listener; /* rank 0's, until weft_comm_create() closes it */
    weft_context *context;
    weft_comm *comm, *half;
    uint64_t *wrong;
};

/* -1, or a socket with a port of the system's choice. */
static int socket_at(const struct sockaddr *address, socklen_t size)
{
    int off = 0, fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && address->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (fd >= 0 && bind(fd, address, size) == 0 && listen(fd, 128) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* On loopback, or on all addresses: of both families, or of IPv4 where there is no IPv6. */
static int listen_on(int is_loopback, int32_t *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(is_loopback ? INADDR_LOOPBACK : INADDR_ANY)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof bound;
    int fd = is_loopback ? -1 : socket_at((struct sockaddr *)&in6, sizeof in6);
    if (fd < 0)
        fd = socket_at((struct sockaddr *)&in, sizeof in);
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&bound, &size) == 0)
        *port = ntohs(((struct sockaddr_in *)&bound)->sin_port); /* at the same place in both */
    return fd;
}

/* Rank 0: a port of the system's choice, on loopback where all ranks are of this host's launcher. */
static int listen_anywhere(struct turn *turn)
{
    turn->listener = listen_on(perf_channel_inherited(), &turn->meeting.port);
    if (turn->listener < 0 ||
        getrandom(turn->meeting.secret, sizeof turn->meeting.secret, 0) != sizeof turn->meeting.secret) {
        fprintf(stderr, "weft-perf: rank 0: cannot listen for another start: %s\n", strerror(errno));
        return -1;
    }
    return 0;
}

/* What this rank knows rank 0's host by. */
static void write_address(const struct turn *turn, char *address, size_t capacity)
{
    const char *host = perf_channel_inherited() ? "127.0.0.1" : getenv("MASTER_ADDR");
    host = host && *host ? host : turn->session->members[0].host;
    int is_bare6 = strchr(host, ':') && host[0] != '[';
    snprintf(address, capacity, is_bare6 ? "[%s]:%d" : "%s:%d", host, (int)turn->meeting.port);
}

/* Everybody learns rank 0's meeting. */
static int agree(struct turn *turn)
{
    struct perf_session *session = turn->session;
    turn->listener = -1;
    memset(&turn->meeting, 0, sizeof turn->meeting);
    if (session->rank == 0)
        turn->meeting.failed = listen_anywhere(turn);
    struct meeting *all = calloc((size_t)session->ranks, sizeof *all);
    int failed =
        !all || perf_channel_allgather(&session->channel, &turn->meeting, sizeof turn->meeting, all) != 0;
    if (!failed)
        turn->meeting = all[0];
    free(all);
    return failed || turn->meeting.failed ? -1 : 0;
}

static int create(struct turn *turn)
{
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    char address[320];
    write_address(turn, address, sizeof address);
    options.rank = turn->session->rank;
    options.ranks = turn->session->ranks;
    options.address = address;
    options.listen_fd = turn->listener;
    options.secret = turn->meeting.secret;
    options.secret_size = sizeof turn->meeting.secret;
    turn->listener = -1;
    return weft_comm_create(turn->context, &options, &turn->comm);
}

static int reduce(struct turn *turn)
{
    const int32_t ranks = turn->session->ranks;
    int32_t mine[2] = {turn->session->rank, 1}, sums[2] = {-1, -1};
    int status = weft_allreduce(turn->comm, mine, sums, 2, WEFT_INT32, WEFT_SUM, NULL);
    perf_corrupt(turn->session->rank, sums, 2, sizeof *sums);
    *turn->wrong += status == 0 && (sums[0] != ranks * (ranks - 1) / 2 || sums[1] != ranks);
    return status;
}

static int free_half(struct turn *turn)
{
    int status = weft_comm_destroy(turn->half);
    turn->half = NULL;
    return status;
}

static int run_phase(struct turn *turn, int phase)
{
    int status;
    switch (phase) {
    case OPEN:
        return weft_context_open(NULL, &turn->context);
    case CREATE:
        return create(turn);
    case SPLIT:
        return weft_comm_split(turn->comm, turn->session->rank % 2, 0, &turn->half, NULL);
    case FREE:
        return free_half(turn);
    case DESTROY:
        status = weft_comm_destroy(turn->comm);
        turn->comm = NULL;
        return status;
    case CLOSE:
        status = weft_context_close(turn->context);
        turn->context = NULL;
        return status;
    default:
        return reduce(turn);
    }
}

/* After a failure in the middle. */
static void clean_up(struct turn *turn)
{
    if (turn->half)
        weft_comm_destroy(turn->half);
    if (turn->comm)
        weft_comm_destroy(turn->comm);
    weft_context_close(turn->context);
    if (turn->listener >= 0)
        close(turn->listener);
}

/* times_us[phase * turns] is this turn's. */
static int run_turn(struct turn *turn, double *times_us, size_t turns)
{
    if (agree(turn) != 0)
        return -1;
    for (int phase = 0; phase < PHASES; phase++) {
        double together = 0;
        if (perf_take_slowest(&turn->session->channel, &together, 1) != 0)
            return -1;
        int64_t start_ns = perf_now_ns();
        int status = run_phase(turn, phase);
        times_us[(size_t)phase * turns] = (double)(perf_now_ns() - start_ns) / 1e3;
        if (status != 0)
            return perf_session_complain(turn->session, phase_names[phase][1], status);
    }
    return 0;
}

static void print_phases(struct perf_report *report, const double *times_us, size_t turns)
{
    perf_report_line(report, "#\n# %-8s  %10s  %10s  %s\n# %-8s  %10s  %10s", "phase", "time", "p99", "what",
                     "", "(us)", "(us)");
    double total_us = 0;
    for (int phase = 0; phase < PHASES; phase++) {
        const double *samples_us = times_us + (size_t)phase * turns;
        struct perf_summary summary = {0, 0};
        perf_summarise(samples_us, turns, &summary);
        total_us += summary.median_us;
        perf_report_line(report, "%10s  %10.1f  %10.1f  %s", phase_names[phase][0], summary.median_us,
                         summary.p99_us, phase_names[phase][1]);
        const struct perf_field fields[] = {
            PERF_FIELD_TEXT("phase", phase_names[phase][0]), PERF_FIELD_REAL("time_us", summary.median_us),
            PERF_FIELD_REAL("p99_us", summary.p99_us), PERF_FIELD_REALS("samples_us", samples_us, turns)};
        perf_report_record(report, fields, sizeof fields / sizeof *fields);
    }
    perf_report_line(report, "%10s  %10.1f  %10s  the sum of the medians", "total", total_us, "");
}

int perf_init(struct perf_session *session, struct perf_report *report, struct perf_result *result)
{
    size_t turns = (size_t)session->options->iterations;
    double *times_us = calloc(PHASES * turns, sizeof *times_us);
    uint64_t damaged = 0;
    int failed = 0;
    if (!times_us) {
        fprintf(stderr, "weft-perf: out of memory\n");
        return -1;
    }
    for (size_t i = 0; !failed && i < turns; i++) {
        struct turn turn = {.session = session, .wrong = &result->wrong};
        perf_watch_call(session->watch);
        failed = run_turn(&turn, times_us + i, turns);
        if (failed)
            clean_up(&turn);
        if (report)
            perf_report_progress(report, i, turns, "starts");
    }
    if (!failed)
        failed = perf_take_slowest(&session->channel, times_us, PHASES * turns) != 0 ||
                 perf_session_add_up(session, &result->wrong, &damaged) != 0;
    if (!failed && report)
        print_phases(report, times_us, turns);
    free(times_us);
    return failed ? -1 : perf_session_stats(session, &result->stats);
}
