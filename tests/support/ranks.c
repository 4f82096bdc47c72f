/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/patience.h"
#include "tests/support/ranks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* What a body can ask about itself. */
struct seat {
    int rank, ranks;
    int listen_fd;
    char address[32];
};

struct thread_rank {
    pthread_t thread;
    struct seat seat;
    test_rank_function *function;
    void *arg;
    int result;
};

static _Thread_local struct seat seat;
static int limit_seconds = 120;

static int limit_in_force_s(void)
{
    return (int)test_patient(limit_seconds);
}

void test_ranks_limit(int limit_s)
{
    limit_seconds = limit_s;
}

int test_ranks_listen(char *address, size_t capacity)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    /* So that rank 0 can listen there again at once, for another communicator: connections that it has closed linger a minute. */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(fd, (struct sockaddr *)&name, sizeof name) || listen(fd, 4096) ||
        getsockname(fd, (struct sockaddr *)&name, &length)) {
        perror("test ranks: listening on loopback");
        exit(1);
    }
    snprintf(address, capacity, "127.0.0.1:%u", (unsigned)ntohs(name.sin_port));
    return fd;
}

void test_ranks_seat(int rank, int ranks, int listen_fd, const char *address)
{
    seat = (struct seat){.rank = rank, .ranks = ranks, .listen_fd = listen_fd};
    snprintf(seat.address, sizeof seat.address, "%s", address);
}

void test_ranks_options(weft_comm_options *options)
{
    options->rank = seat.rank;
    options->ranks = seat.ranks;
    options->address = seat.address;
    options->listen_fd = seat.listen_fd;
    options->secret = TEST_SECRET;
    options->secret_size = TEST_SECRET_BYTES;
    seat.listen_fd = -1;
}

const char *test_ranks_address(void)
{
    return seat.address;
}

int test_ranks_listen_fd(void)
{
    return seat.listen_fd;
}

/* cmocka's handlers would go on with the parent's next test, in the child. */
static void forget_handlers(void)
{
    static const int caught[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS};
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
        signal(caught[i], SIG_DFL);
}

static void run_child(pid_t parent, test_rank_function *function, void *arg)
{
    forget_handlers();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int result = function(seat.rank, seat.ranks, arg);
    /* exit(), not _exit(): sanitizers look for leaks there. */
    exit(result == 0 ? 0 : result > 0 && result < 126 ? result : 1);
}

/* Collects every child; those still there at the deadline are killed. */
static void reap(int ranks, pid_t *pids, int *statuses)
{
    int64_t deadline_ns = weft_deadline_ns(limit_in_force_s() * INT64_C(1000));
    int killed = 0;
    for (int left = ranks; left > 0;) {
        int progress = 0;
        for (int rank = 0; rank < ranks; rank++) {
            if (pids[rank] > 0 && waitpid(pids[rank], &statuses[rank], WNOHANG) == pids[rank]) {
                pids[rank] = 0;
                progress = 1;
                left--;
            }
        }
        if (!killed && weft_clock_ns() > deadline_ns) {
            killed = 1;
            for (int rank = 0; rank < ranks; rank++) {
                if (pids[rank] > 0) {
                    fprintf(stderr, "rank %d has not returned after %d s: killed\n", rank,
                            limit_in_force_s());
                    kill(pids[rank], SIGKILL);
                }
            }
        }
        if (!progress)
            usleep(2000);
    }
}

void *test_ranks_shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED)
        return memory;
    perror("test ranks: mmap");
    exit(1);
}

int test_ranks_fork_status(int ranks, test_rank_function *function, void *arg, int *statuses)
{
    struct seat first = {.ranks = ranks};
    pid_t pids[TEST_RANKS_MAX];
    pid_t parent = getpid();
    if (ranks < 1 || ranks > TEST_RANKS_MAX)
        return ranks;
    first.listen_fd = test_ranks_listen(first.address, sizeof first.address);
    fflush(NULL); /* or each child would print the parent's buffers again */
    for (int rank = 0; rank < ranks; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0) {
            seat = first;
            seat.rank = rank;
            if (rank > 0) {
                close(first.listen_fd);
                seat.listen_fd = -1;
            }
            run_child(parent, function, arg);
        }
        if (pids[rank] < 0) {
            perror("test ranks: fork");
            for (int i = 0; i < rank; i++)
                kill(pids[i], SIGKILL);
            exit(1);
        }
    }
    close(first.listen_fd);
    reap(ranks, pids, statuses);
    int bad = 0;
    for (int rank = 0; rank < ranks; rank++)
        bad += statuses[rank] != 0;
    return bad;
}

int test_ranks_fork(int ranks, test_rank_function *function, void *arg)
{
    int statuses[TEST_RANKS_MAX];
    int bad = test_ranks_fork_status(ranks, function, arg, statuses);
    for (int rank = 0; bad && rank < ranks; rank++) {
        if (WIFSIGNALED(statuses[rank]))
            fprintf(stderr, "rank %d of %d ended by signal %d (%s)\n", rank, ranks, WTERMSIG(statuses[rank]),
                    strsignal(WTERMSIG(statuses[rank])));
        else if (statuses[rank] != 0)
            fprintf(stderr, "rank %d of %d exited with %d\n", rank, ranks, WEXITSTATUS(statuses[rank]));
    }
    return bad;
}

static void *thread_main(void *arg)
{
    struct thread_rank *me = arg;
    seat = me->seat;
    me->result = me->function(me->seat.rank, me->seat.ranks, me->arg);
    if (seat.listen_fd >= 0)
        close(seat.listen_fd); /* nobody asked for it */
    return NULL;
}

/* Joins until the deadline: a thread that hangs cannot be removed, so the program ends there. */
static void join(struct thread_rank *me, int64_t deadline_ns)
{
    struct timespec until;
    int64_t left_ns = deadline_ns - weft_clock_ns();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += left_ns > 0 ? left_ns / 1000000000 : 0;
    if (pthread_timedjoin_np(me->thread, NULL, &until) != 0) {
        fprintf(stderr, "rank %d (thread) has not returned after %d s: giving up\n", me->seat.rank,
                limit_in_force_s());
        _exit(1);
    }
}

int test_ranks_threads(int ranks, test_rank_function *function, void *arg)
{
    if (ranks < 1 || ranks > TEST_RANKS_MAX)
        return ranks;
    struct thread_rank *all = calloc((size_t)ranks, sizeof *all);
    struct seat first = {.ranks = ranks};
    if (!all)
        return ranks;
    first.listen_fd = test_ranks_listen(first.address, sizeof first.address);
    for (int rank = 0; rank < ranks; rank++) {
        all[rank] = (struct thread_rank){.seat = first, .function = function, .arg = arg};
        all[rank].seat.rank = rank;
        all[rank].seat.listen_fd = rank ? -1 : first.listen_fd;
        int error = pthread_create(&all[rank].thread, NULL, thread_main, &all[rank]);
        if (error) {
            fprintf(stderr, "test ranks: thread %d: %s\n", rank, strerror(error));
            _exit(1);
        }
    }
    int64_t deadline_ns = weft_deadline_ns(limit_in_force_s() * INT64_C(1000));
    int bad = 0;
    for (int rank = 0; rank < ranks; rank++) {
        join(&all[rank], deadline_ns);
        if (all[rank].result != 0)
            fprintf(stderr, "rank %d of %d (thread) returned %d\n", rank, ranks, all[rank].result);
        bad += all[rank].result != 0;
    }
    free(all);
    return bad;
}
