/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher.
 *
 * It binds the socket on which rank 0 will listen, so that no port is guessed or raced for, and hands it down
 * together with a side channel (channel.h), one socket pair between rank 0 and each other rank, and with the job's
 * secret: fresh random bytes in sealed memory that has no name (WEFT_SECRET_FD). Every rank is
 * this program again with the same arguments and the variables that torchrun would set. Ranks die with the
 * launcher (PR_SET_PDEATHSIG). Afterwards it only sleeps: it takes no processor from the measurement.
 *
 * Ranks that hang or fail say so (watch.h); then all are asked what they wait for, and the merged picture is printed,
 * once.
 *
 * A rank that ends before it has joined is nothing the others could notice: for them it may as well be late. They get
 * a message, and those that have not joined either end at once (watch.h).
 *
 * When a rank fails later, the others are expected to notice by themselves: their calls return an error. They get
 * GRACE_MS for that; what still runs then is ended, by process id.
 */
#include "perf/launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf/board.h"
#include "perf/channel.h"
#include "perf/watch.h"

enum { GRACE_MS = 10000, TERMINATE_MS = 2000, SETTLE_MS = 300, PICTURE_MS = 5000 };

struct child {
    pid_t pid; /* 0: not started, or reaped already */
    int stopped_by_us;
    int is_informed; /* that the job cannot begin: its end is no news */
};

struct job {
    const struct perf_options *options;
    int ranks;
    int listener, port, secret;
    int (*pairs)[2]; /* [r][0] rank 0's end, [r][1] rank r's; entry 0 unused (-1) */
    struct child *children;
    struct perf_board board;
    cpu_set_t allowed;
    int pin;
    int has_said;    /* a rank has said that it hangs or has failed */
    int alarm;       /* that, or one has ended badly */
    int worst;       /* exit status so far */
    sigset_t before; /* signal mask to give to the ranks */
};

int perf_launched(void)
{
    const char *nspace = getenv("PMIX_NAMESPACE"), *rank = getenv("PMIX_RANK");
    return nspace && *nspace && rank && *rank;
}

static int complain(const char *what)
{
    fprintf(stderr, "weft-perf: %s: %s\n", what, strerror(errno));
    return -1;
}

static int listen_loopback(struct job *job)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    job->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (job->listener < 0)
        return complain("cannot make a socket for rank 0");
    if (bind(job->listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(job->listener, job->ranks < 128 ? 128 : job->ranks) != 0 ||
        getsockname(job->listener, (struct sockaddr *)&address, &length) != 0)
        return complain("cannot listen on 127.0.0.1 for rank 0");
    job->port = ntohs(address.sin_port);
    return 0;
}

/* Memory that the ranks can read as often as they like, and nobody can change. */
static int make_secret(struct job *job)
{
    unsigned char bytes[32];
    job->secret = memfd_create("weft-perf secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (job->secret < 0)
        return complain("cannot make memory for the job's secret");
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes ||
        write(job->secret, bytes, sizeof bytes) != sizeof bytes ||
        fcntl(job->secret, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
        return complain("cannot make the job's secret");
    explicit_bzero(bytes, sizeof bytes);
    return 0;
}

static int make_pairs(struct job *job)
{
    for (int rank = 1; rank < job->ranks; rank++)
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, job->pairs[rank]) != 0)
            return complain("cannot make the side channel between ranks");
    return 0;
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* In the child: keeps one descriptor across exec. */
static void keep(int descriptor)
{
    fcntl(descriptor, F_SETFD, 0);
}

static void hand_down_channel(const struct job *job, int rank)
{
    char *text = malloc((size_t)job->ranks * 12 + 1);
    size_t used = 0;
    if (!text)
        _exit(PERF_EXIT_FAILED);
    text[0] = 0;
    for (int peer = 1; peer < job->ranks; peer++) {
        if (rank != 0 && rank != peer)
            continue;
        int descriptor = job->pairs[peer][rank == 0 ? 0 : 1];
        keep(descriptor);
        used += (size_t)sprintf(text + used, "%s%d", used ? "," : "", descriptor);
    }
    setenv(PERF_CHANNEL_VARIABLE, text, 1);
    free(text);
}

/* The rank-th of the allowed processors, round-robin. */
static void pin_rank(const struct job *job, int rank)
{
    int wanted = rank % CPU_COUNT(&job->allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &job->allowed) || wanted-- > 0)
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one) != 0)
            fprintf(stderr, "weft-perf: rank %d stays unpinned: %s\n", rank, strerror(errno));
        return;
    }
}

static void become_rank(const struct job *job, int rank, pid_t launcher)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) /* it died before prctl */
        _exit(PERF_EXIT_FAILED);
    sigprocmask(SIG_SETMASK, &job->before, NULL);
    set_number("RANK", rank);
    set_number("WORLD_SIZE", job->ranks);
    set_number("LOCAL_RANK", rank);
    set_number("LOCAL_WORLD_SIZE", job->ranks);
    set_number("WEFT_PORT", job->port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    unsetenv("WEFT_BOOTSTRAP_FD");
    if (rank == 0) {
        keep(job->listener);
        set_number("WEFT_BOOTSTRAP_FD", job->listener);
    }
    keep(job->secret);
    set_number("WEFT_SECRET_FD", job->secret);
    hand_down_channel(job, rank);
    perf_board_hand_down(&job->board, rank);
    if (job->pin)
        pin_rank(job, rank);
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length >
        0) { /* by its name, which ps and top show; a program that was replaced meanwhile is there under the other one alone */
        self[length] = '\0';
        execv(self, job->options->argv);
    }
    execv("/proc/self/exe", job->options->argv);
    complain("cannot run /proc/self/exe as a rank");
    _exit(PERF_EXIT_FAILED);
}

static int start_ranks(struct job *job)
{
    pid_t launcher = getpid();
    fflush(NULL);
    for (int rank = 0; rank < job->ranks; rank++) {
        pid_t pid = fork();
        if (pid < 0) {
            fprintf(stderr, "weft-perf: cannot start rank %d: %s\n", rank, strerror(errno));
            return -1;
        }
        if (pid == 0)
            become_rank(job, rank, launcher);
        job->children[rank].pid = pid;
    }
    return 0;
}

/* A rank that has failed without having joined. */
static void inform_others(struct job *job, const char *text)
{
    perf_board_gone(&job->board, text);
    for (int rank = 0; rank < job->ranks; rank++)
        job->children[rank].is_informed |= !job->board.joined[rank];
}

/* Judges one ended rank. 1 when it failed, which starts the clock for the others. */
static int judge(struct job *job, int rank, pid_t pid, int status)
{
    const struct child *child = &job->children[rank];
    char text[PERF_GONE_TEXT];
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : PERF_EXIT_FAILED;
    int severity = code < PERF_EXIT_FAILED ? code : PERF_EXIT_FAILED;
    if (severity > job->worst)
        job->worst = severity;
    if (code < PERF_EXIT_FAILED)
        return 0;
    if (WIFEXITED(status))
        snprintf(text, sizeof text, "rank %d (pid %d) failed: exit status %d", rank, (int)pid, code);
    else
        snprintf(text, sizeof text, "rank %d (pid %d) was killed by signal %d (%s)", rank, (int)pid,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    int is_news = WIFEXITED(status) ? !child->is_informed : !child->stopped_by_us;
    if (is_news)
        fprintf(stderr, "weft-perf: %s\n", text);
    if (is_news && !job->board.joined[rank]) {
        snprintf(text + strlen(text), sizeof text - strlen(text), " before it had joined the job");
        inform_others(job, text);
    }
    return 1;
}

static void read_board(struct job *job)
{
    job->has_said |= perf_board_read(&job->board);
    job->alarm |= job->has_said;
}

/* Collects what has ended. Returns how many still run; *failed is raised when one of them failed. */
static int reap(struct job *job, int *failed)
{
    int running = 0;
    for (int rank = 0; rank < job->ranks; rank++) {
        pid_t pid = job->children[rank].pid;
        int status;
        if (pid == 0)
            continue;
        if (waitpid(pid, &status, WNOHANG) != pid) {
            running++;
            continue;
        }
        job->children[rank].pid = 0;
        read_board(job); /* it may have joined before it ended */
        *failed |= judge(job, rank, pid, status);
    }
    return running;
}

static void stop_ranks(struct job *job, int number, const char *why)
{
    for (int rank = 0; rank < job->ranks; rank++) {
        if (job->children[rank].pid == 0)
            continue;
        if (why)
            fprintf(stderr, "weft-perf: rank %d (pid %d) %s: ended with signal %d\n", rank,
                    (int)job->children[rank].pid, why, number);
        job->children[rank].stopped_by_us = 1;
        kill(job->children[rank].pid, number);
    }
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t earlier(int64_t a_ms, int64_t b_ms)
{
    return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* Sleeps until a signal arrives, a rank says something, or deadline_ms passes (negative: never). The signal's
 * number, 0 otherwise. */
static int sleep_until(const struct job *job, int signal_fd, int64_t deadline_ms)
{
    struct pollfd polled[2] = {{.fd = signal_fd, .events = POLLIN},
                               {.fd = job->board.epoll, .events = POLLIN}};
    int64_t left_ms = deadline_ms < 0 ? -1 : deadline_ms - now_ms();
    poll(polled, 2, deadline_ms < 0 ? -1 : left_ms < 0 ? 0 : (int)left_ms);
    struct signalfd_siginfo got;
    if (polled[0].revents & POLLIN && read(signal_fd, &got, sizeof got) == sizeof got)
        return (int)got.ssi_signo;
    return 0;
}

/* The picture: asked for a moment after the first hang or failure, when the others know of it too and say so, and
 * printed when all have answered or PICTURE_MS later. */
struct exposure {
    int64_t ask_ms, due_ms; /* -1: not asked for */
    int done;
};

static void print_picture(struct job *job, struct exposure *exposure)
{
    perf_board_print(&job->board);
    exposure->ask_ms = exposure->due_ms = -1;
    exposure->done = 1;
}

static void look_at_ranks(struct job *job, struct exposure *exposure, int failed)
{
    read_board(job);
    job->alarm |= failed;
    if (job->alarm && !exposure->done && exposure->ask_ms < 0 && exposure->due_ms < 0)
        exposure->ask_ms = now_ms() + SETTLE_MS;
    if (exposure->ask_ms >= 0 && now_ms() >= exposure->ask_ms) {
        exposure->ask_ms = -1;
        exposure->due_ms = now_ms() + PICTURE_MS;
        perf_board_ask(&job->board);
    }
    /* Who was between two calls when a rank was killed finds out a moment later, and then says so unasked. */
    int is_whole = job->board.waiting == 0 && (!failed || job->has_said);
    if (exposure->due_ms >= 0 && (is_whole || now_ms() >= exposure->due_ms))
        print_picture(job, exposure);
    if (failed && exposure->done)
        perf_board_end(&job->board);
}

/* Waits for every rank. Stages: all is well (no deadline); one failed (GRACE_MS); asked to end
 * (TERMINATE_MS, only after an interrupt); killed. Returns a signal that interrupted the launcher, or 0. */
static int wait_ranks(struct job *job, int signal_fd, int failed)
{
    int64_t deadline_ms = failed ? now_ms() : -1;
    struct exposure exposure = {.ask_ms = -1, .due_ms = -1};
    int interrupted = 0, ever_failed = failed;
    while (reap(job, &failed) > 0) {
        ever_failed |= failed;
        if (failed && deadline_ms < 0)
            deadline_ms = now_ms() + GRACE_MS;
        look_at_ranks(job, &exposure, ever_failed);
        int number =
            sleep_until(job, signal_fd, earlier(deadline_ms, earlier(exposure.ask_ms, exposure.due_ms)));
        if ((number == SIGINT || number == SIGTERM) && !interrupted) {
            interrupted = number;
            deadline_ms = now_ms() + TERMINATE_MS;
            stop_ranks(job, SIGTERM, NULL);
        }
        if (deadline_ms >= 0 && now_ms() >= deadline_ms) {
            stop_ranks(job, SIGKILL, interrupted ? NULL : "was still running after another rank's failure");
            deadline_ms = -1;
            failed = 0;
        }
    }
    if ((ever_failed | failed) && !exposure.done && !interrupted) {
        perf_board_read(&job->board);
        print_picture(job, &exposure);
    }
    return interrupted;
}

static void close_all(struct job *job)
{
    for (int rank = 1; job->pairs && rank < job->ranks; rank++)
        for (int end = 0; end < 2; end++)
            if (job->pairs[rank][end] >= 0)
                close(job->pairs[rank][end]);
    if (job->listener >= 0)
        close(job->listener);
    if (job->secret >= 0)
        close(job->secret);
    free(job->pairs);
    job->pairs = NULL;
    job->listener = job->secret = -1;
}

static int prepare(struct job *job)
{
    job->pairs = malloc((size_t)job->ranks * sizeof *job->pairs);
    job->children = calloc((size_t)job->ranks, sizeof *job->children);
    if (!job->pairs || !job->children) {
        errno = ENOMEM;
        return complain("cannot prepare the ranks");
    }
    for (int rank = 0; rank < job->ranks; rank++)
        job->pairs[rank][0] = job->pairs[rank][1] = -1;
    if (sched_getaffinity(0, sizeof job->allowed, &job->allowed) != 0)
        CPU_ZERO(&job->allowed);
    int cpus = CPU_COUNT(&job->allowed);
    job->pin = cpus > 0 && (job->options->pin >= 0 ? job->options->pin : job->ranks <= cpus);
    if (perf_board_open(&job->board, job->ranks) != 0)
        return complain("cannot make the sockets of the watchers");
    return listen_loopback(job) != 0 || make_secret(job) != 0 ? -1 : make_pairs(job);
}

int perf_launch(const struct perf_options *options)
{
    struct job job = {.options = options, .ranks = options->ranks, .listener = -1, .secret = -1};
    sigset_t signals;
    int interrupted = 0, signal_fd = -1;
    if (prepare(&job) != 0) {
        job.worst = PERF_EXIT_FAILED;
        goto release;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &job.before);
    signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
    if (signal_fd < 0) {
        complain("cannot wait for signals");
        job.worst = PERF_EXIT_FAILED;
        goto release;
    }
    int failed = start_ranks(&job) != 0;
    if (failed)
        job.worst = PERF_EXIT_FAILED;
    close_all(&job); /* so that a rank's death closes its sockets */
    perf_board_started(&job.board);
    interrupted = wait_ranks(&job, signal_fd, failed);
release:
    close_all(&job);
    perf_board_close(&job.board);
    if (signal_fd >= 0)
        close(signal_fd);
    free(job.children);
    return interrupted ? 128 + interrupted : job.worst;
}
