/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (deadlines); early */
/* Programs that close all descriptors, or put files of their own in place of weft's, while a context is open.
 *
 * Closing ends, with an error that says so, and takes no descriptor of the program's with it: none is closed, read, written,
 * shut down, or taken out of an epoll set. A rank that has lost its descriptors does not hang in a call either, nor do
 * its peers. What would hang is ended by the limit of test_ranks_fork().
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/file.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"

#define FIRST           3
#define OBJECTS_MAX     600
#define DESCRIPTORS_MAX 4096
#define LIMIT_S         40
#define AGAIN_MAX       3

enum how { CLOSES, REPLACES, REUSES, HOWS };
static const char *const how_names[HOWS] = {"closes all", "puts /dev/null over all", "opens its own"};

enum kind { EVENT, EPOLL, TIMER, SOCKET, PIPE, FILE_OF_MINE, KINDS };

/* What the program has opened: fd is under a number that may have been weft's, other is the rest of it. */
struct object {
    enum kind kind;
    int fd, other;
};
static struct object objects[OBJECTS_MAX];
static int object_count;
/* Of the program's sockets and pipes: 0, or O_NONBLOCK. libfabric, unlike weft, reads what is under its number without a look,
 * and a call that is in a read of a blocking file of the program's stays there. */
static int object_flags;
/* The numbers that the program has put /dev/null under. */
static int replaced[DESCRIPTORS_MAX];
static int replaced_count;

static int object_open(struct object *object, enum kind kind)
{
    int pair[2] = {-1, -1};
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = 0};
    const struct itimerspec in_an_hour = {.it_value.tv_sec = 3600};
    object->kind = kind;
    switch (kind) {
    case EVENT:
        pair[0] = eventfd(5, EFD_NONBLOCK);
        break;
    case EPOLL:
        pair[0] = epoll_create1(0);
        pair[1] = eventfd(1, EFD_NONBLOCK);
        CHECK(epoll_ctl(pair[0], EPOLL_CTL_ADD, pair[1], &event) == 0);
        break;
    case TIMER:
        pair[0] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
        CHECK(timerfd_settime(pair[0], 0, &in_an_hour, NULL) == 0);
        break;
    case SOCKET:
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | object_flags, 0, pair) == 0 &&
              write(pair[1], "mine", 4) == 4);
        break;
    case PIPE:
        CHECK(pipe2(pair, object_flags) == 0 && write(pair[1], "mine", 4) == 4);
        break;
    default:
        pair[0] = fileno(tmpfile());
        CHECK(write(pair[0], "mine", 4) == 4);
    }
    object->fd = pair[0];
    object->other = pair[1];
    CHECK(object->fd >= 0);
    return 0;
}

/* As it was opened, and it works. */
static int object_check(const struct object *object)
{
    uint64_t count = 0;
    int bytes = 0;
    struct epoll_event event;
    struct itimerspec left;
    switch (object->kind) {
    case EVENT:
        CHECK(read(object->fd, &count, sizeof count) == sizeof count && count == 5);
        break;
    case EPOLL: /* the one edge has not been taken */
        CHECK(epoll_wait(object->fd, &event, 1, 0) == 1);
        break;
    case TIMER:
        CHECK(timerfd_gettime(object->fd, &left) == 0 && left.it_value.tv_sec > 3000);
        break;
    case SOCKET:
        CHECK(ioctl(object->other, FIONREAD, &bytes) == 0 && bytes == 0);
        CHECK(ioctl(object->fd, FIONREAD, &bytes) == 0 && bytes == 4);
        CHECK(write(object->fd, "more", 4) == 4 && write(object->other, "more", 4) == 4);
        break;
    case PIPE:
        CHECK(ioctl(object->fd, FIONREAD, &bytes) == 0 && bytes == 4);
        break;
    default:
        CHECK(lseek(object->fd, 0, SEEK_END) == 4 && lseek(object->fd, 0, SEEK_CUR) == 4);
    }
    return 0;
}

/* What is open under a number. */
static enum kind kind_find(int fd)
{
    static const struct {
        const char *name;
        enum kind kind;
    } names[] = {{"anon_inode:[eventfd]", EVENT},
                 {"anon_inode:[eventpoll]", EPOLL},
                 {"anon_inode:[timerfd]", TIMER},
                 {"socket:", SOCKET},
                 {"pipe:", PIPE}};
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(path, text, sizeof text - 1);
    text[size < 0 ? 0 : size] = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(text, names[i].name, strlen(names[i].name)) == 0)
            return names[i].kind;
    return FILE_OF_MINE;
}

/* Of these kinds: of the one that was there, so that what would be done to weft's own works on the program's. */
static int objects_open(const enum kind *kinds, int highest)
{
    for (int fd = FIRST; fd <= highest; object_count++) {
        CHECK(object_count < OBJECTS_MAX);
        while (fcntl(fd, F_GETFD) >= 0) /* the other end of the last one */
            fd++;
        CHECK(object_open(&objects[object_count], fd <= highest ? kinds[fd] : FILE_OF_MINE) == 0);
        fd = objects[object_count].fd + 1;
    }
    return 0;
}

static int objects_check(void)
{
    for (int i = 0; i < object_count; i++) {
        if (object_check(&objects[i]) == 0)
            continue;
        fprintf(stderr, "descriptor %d (kind %d) is not as it was\n", objects[i].fd, (int)objects[i].kind);
        return 1;
    }
    return 0;
}

static int replaced_check(void)
{
    struct stat null, file;
    CHECK(replaced_count > 0 && stat("/dev/null", &null) == 0);
    for (int i = 0; i < replaced_count; i++) {
        if (fstat(replaced[i], &file) == 0 && S_ISCHR(file.st_mode) && file.st_rdev == null.st_rdev)
            continue;
        fprintf(stderr, "descriptor %d is not /dev/null any more\n", replaced[i]);
        return 1;
    }
    return 0;
}

/* Threads other than the caller: whether one is on its way, not in a system call that waits, and how often they have all gone to sleep or
 * been put aside. What cannot be read counts as asleep. */
struct threads {
    int awake;
    long long switches;
};

static long long switches_of(const char *task)
{
    static const char *const names[] = {"\nvoluntary_ctxt_switches:", "\nnonvoluntary_ctxt_switches:"};
    char path[64], text[4096];
    long long switches = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task);
    if (weft_file_read(path, text, sizeof text) <= 0)
        return 0;
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(text, names[i]);
        switches += at ? strtoll(at + strlen(names[i]), NULL, 10) : 0;
    }
    return switches;
}

static struct threads threads_look(void)
{
    struct threads threads = {0};
    char path[64], call[16];
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    while (tasks && (task = readdir(tasks))) {
        if (task->d_name[0] == '.' || strtol(task->d_name, NULL, 10) == gettid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%.20s/syscall", task->d_name);
        threads.awake |= weft_file_read(path, call, sizeof call) > 0 && strncmp(call, "running", 7) == 0;
        threads.switches += switches_of(task->d_name); /* of one that runs now they rise later */
    }
    if (tasks)
        closedir(tasks);
    return threads;
}

/* What the program opens under a number. libfabric looks at nothing before it uses it: it takes an event of an epoll set of the program's for
 * one of its own, and follows the pointer in it. Nothing of weft's is in between, so where it is in use the program has no epoll set there. */
static enum kind kind_choose(int fd)
{
    if (!object_flags)
        return kind_find(fd);
    return fd % KINDS == EPOLL ? FILE_OF_MINE : (enum kind)(fd % KINDS);
}

/* Shared by the ranks of a scene. */
static struct {
    _Atomic int out;       /* ranks that have come out of the calls before */
    _Atomic int robbed;    /* the last rank's descriptors are gone */
    _Atomic int disturbed; /* a thread of weft's ran meanwhile */
    int again;             /* scenes that have been played again; few of dozens */
} * moment;

/* What is open, by number. Found out before anything is taken, which has to be quick. */
struct open {
    int highest, null;
    char is_open[DESCRIPTORS_MAX];
    enum kind kinds[DESCRIPTORS_MAX];
};

static void open_look(struct open *now)
{
    now->highest = 2;
    for (int fd = FIRST; fd < DESCRIPTORS_MAX; fd++) {
        now->is_open[fd] = fcntl(fd, F_GETFD) >= 0;
        now->kinds[fd] = now->is_open[fd] ? kind_choose(fd) : FILE_OF_MINE;
        if (now->is_open[fd])
            now->highest = fd;
    }
}

static int is_quiet(const struct threads *before)
{
    struct threads now = threads_look();
    return !now.awake && now.switches == before->switches;
}

static int take(const struct open *open_now, enum how how)
{
    if (how == REPLACES) {
        for (int fd = FIRST; fd <= open_now->highest; fd++) {
            if (fd == open_now->null || !open_now->is_open[fd])
                continue;
            CHECK(syscall(SYS_dup3, open_now->null, fd, 0) == fd);
            replaced[replaced_count++] = fd;
        }
        return 0;
    }
    for (int fd = FIRST; fd <= open_now->highest; fd++)
        syscall(SYS_close, fd);
    return how == REUSES ? objects_open(open_now->kinds, open_now->highest) : 0;
}

/* What the program does to weft. weft looks whether a descriptor is its own, and then uses it: nobody can help it when the program
 * replaces one in between, so all threads of weft's sleep before. What goes may wake one before the last has gone; that is seen afterwards.
 * Past the C library, for the thread sanitizer would call it a race of the program's, as it is. */
static int rob(enum how how)
{
    static struct open open_now;
    struct threads before;
    open_now.null = open("/dev/null", O_RDWR);
    CHECK(open_now.null >= 0);
    do {
        while ((before = threads_look()).awake)
            sched_yield();
        open_look(&open_now);
    } while (!is_quiet(&before));
    int status = take(&open_now, how);
    moment->disturbed = !is_quiet(&before);
    moment->robbed = 1;
    return status;
}

static int is_loss_reported(void)
{
    return strstr(weft_error_detail(), "the program had closed or replaced") != NULL;
}

/* What the robbed rank does then: destroys the communicator at once, sends, or looks for what others have sent. */
enum next { LEAVES, GOES_ON, LISTENS, NEXTS };
static const char *const next_names[NEXTS] = {"", " and goes on", " and listens"};

struct scene {
    const char *transport, *provider; /* NULL: no communicator */
    enum how how;
    enum next next;
};

static int robbed(struct job *job, const struct scene *scene, int others)
{
    float value = 1;
    object_flags = scene->provider ? O_NONBLOCK : 0;
    while (scene->transport && moment->out < others)
        usleep(1000);
    CHECK(rob(scene->how) == 0);
    /* Some calls need no descriptor, and may succeed until the loss is noticed. */
    while (scene->next == GOES_ON &&
           weft_allreduce(job->comm, &value, &value, 1, WEFT_FLOAT32, WEFT_SUM, NULL) == WEFT_OK)
        ;
    while (scene->next == LISTENS && weft_probe(job->comm, 0, 9, 10, NULL) == WEFT_TIMEOUT)
        ;
    weft_comm_destroy(job->comm); /* an error or not: it may have been done with its peers */
    CHECK(weft_context_close(job->context) == WEFT_SYSTEM);
    CHECK(is_loss_reported());
    /* Where the program goes on calling, a library writes to its descriptors until the loss is noticed. */
    if (scene->next == LEAVES || !scene->provider)
        CHECK(objects_check() == 0);
    if (scene->how == REPLACES)
        CHECK(replaced_check() == 0);
    return 0;
}

static int scene_body(int rank, int ranks, void *arg)
{
    const struct scene *scene = arg;
    struct job job = {0};
    float value = 1;
    setenv("WEFT_TIMEOUT_MS", "-1", 1); /* no deadline helps */
    if (scene->transport) {
        CHECK_OK(job_open(&job, scene->transport, scene->provider));
        CHECK_OK(weft_allreduce(job.comm, &value, &value, 1, WEFT_FLOAT32, WEFT_SUM, NULL));
        CHECK_OK(weft_barrier(job.comm, NULL));
    } else {
        CHECK_OK(weft_context_open(NULL, &job.context));
    }
    if (rank == ranks - 1)
        return robbed(&job, scene, ranks - 1);
    moment->out++;
    while (!moment->robbed)
        usleep(1000);
    /* The others learn of it, and leave with nothing lost. */
    while (scene->next != LEAVES &&
           weft_allreduce(job.comm, &value, &value, 1, WEFT_FLOAT32, WEFT_SUM, NULL) == WEFT_OK)
        ;
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

/* The thread sanitizer sees a race where the program, or a second context, opens what a thread of weft's still polls, and is right: the
 * race is of the program's making. */
static int is_race_seen(void)
{
    const char *sanitizer = getenv("WEFT_SANITIZER");
    return sanitizer && strcmp(sanitizer, "tsan") == 0;
}

/* Where a thread of weft's ran while descriptors went, it may have stood between its look at one and its use of it: what fails then shows
 * nothing. What weft does wrong is wrong again. */
static int play(int ranks, test_rank_function *body, void *arg)
{
    int failed;
    do {
        moment->out = moment->robbed = moment->disturbed = 0;
        failed = test_ranks_fork(ranks, body, arg);
        if (failed && moment->disturbed)
            fprintf(stderr, "a thread of weft's ran while descriptors went; scenes played again: %d\n",
                    moment->again);
    } while (failed && moment->disturbed && moment->again++ < AGAIN_MAX);
    return failed;
}

static void run_scenes(const char *transport, const char *provider, int ranks)
{
    test_ranks_limit(LIMIT_S);
    for (int how = 0; how < HOWS; how++) {
        if (how == REUSES && is_race_seen())
            continue;
        for (int next = 0; next < (!transport ? 1 : provider ? 2 : NEXTS); next++) {
            struct scene scene = {transport, provider, (enum how)how, (enum next)next};
            if (play(ranks, scene_body, &scene) != 0)
                fail_msg("%s, %d ranks, a program that %s%s", transport ? transport : "no communicator",
                         ranks, how_names[how], next_names[next]);
        }
    }
}

static void test_context(void **state)
{
    (void)state;
    run_scenes(NULL, NULL, 1);
}

static void test_one_rank(void **state)
{
    (void)state;
    struct scene scene = {.how = is_race_seen() ? CLOSES : REUSES, .transport = "shm"};
    assert_int_equal(play(1, scene_body, &scene), 0);
}

static void test_shm(void **state)
{
    (void)state;
    run_scenes("shm", NULL, 2);
    run_scenes("shm", NULL, 3);
}

static void test_tcp(void **state)
{
    (void)state;
    run_scenes("tcp", NULL, 2);
    run_scenes("tcp", NULL, 3);
}

static void test_ofi(void **state)
{
    (void)state;
    if (!job_has_ofi("tcp"))
        TEST_SKIP("libfabric has no provider tcp here");
    run_scenes("ofi", "tcp", 2);
}

static void test_ofi_rxm(void **state)
{
    (void)state;
    if (!job_has_ofi("tcp;ofi_rxm"))
        TEST_SKIP("libfabric has no provider tcp;ofi_rxm here");
    run_scenes("ofi", "tcp;ofi_rxm", 2);
}

/* A number that was taken from weft is not given to another owner of weft's: two contexts do not share one. */
static int second_context_body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    weft_context *first, *second;
    CHECK_OK(weft_context_open(NULL, &first));
    CHECK(rob(CLOSES) == 0);
    CHECK_OK(weft_context_open(NULL, &second));
    CHECK(weft_context_close(first) == WEFT_SYSTEM && is_loss_reported());
    CHECK_OK(weft_context_close(second));
    CHECK_OK(weft_context_open(NULL, &second));
    CHECK_OK(weft_context_close(second));
    return 0;
}

static void test_second_context(void **state)
{
    (void)state;
    if (is_race_seen())
        TEST_SKIP("the thread sanitizer reports the program's race for a number that it has closed");
    assert_int_equal(play(1, second_context_body, NULL), 0);
}

/* No communicator is begun on a context that has lost descriptors, where ranks would wait for each other. */
static int robbed_create_body(int rank, int ranks, void *arg)
{
    (void)arg;
    weft_context *context;
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    options.timeout_ms = 600000;
    options.rank = rank;
    options.file = "/tmp/weft-nobody-comes-here";
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK(rob(CLOSES) == 0);
    for (options.ranks = 1; options.ranks <= ranks + 1; options.ranks++) {
        CHECK(weft_comm_create(context, &options, &comm) == WEFT_SYSTEM);
        CHECK(strstr(weft_error_detail(), "the program has closed or replaced descriptor"));
    }
    CHECK(weft_context_close(context) == WEFT_SYSTEM && is_loss_reported());
    return 0;
}

static void test_robbed_create(void **state)
{
    (void)state;
    test_ranks_limit(LIMIT_S);
    assert_int_equal(play(1, robbed_create_body, NULL), 0);
}

/* A loss is reported where it belongs: not by a context that this thread turns to later. */
static int loss_of_nobody_body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    weft_context *context;
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    options.rank = 0;
    options.ranks = 1;
    for (int with_comm = 0; with_comm < 2; with_comm++) {
        CHECK_OK(weft_context_open(NULL, &context));
        CHECK(!with_comm || weft_comm_create(context, &options, &comm) == WEFT_OK);
        int fd = weft_fd_add(eventfd(0, EFD_CLOEXEC));
        CHECK(fd >= 0 && close(fd) == 0);
        weft_fd_close(fd);
        CHECK(!with_comm || weft_comm_destroy(comm) == WEFT_OK);
        CHECK_OK(weft_context_close(context));
    }
    return 0;
}

static void test_loss_of_nobody(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, loss_of_nobody_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_shm),
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_ofi),
        cmocka_unit_test(test_ofi_rxm),
        cmocka_unit_test(test_second_context),
        cmocka_unit_test(test_robbed_create),
        cmocka_unit_test(test_loss_of_nobody),
    };
    setenv("WEFT_LOG", "none", 0);
    moment = test_ranks_shared(sizeof *moment);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
