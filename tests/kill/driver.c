/* SPDX-License-Identifier: Apache-2.0 */
/* The driver stays small and without threads, so that forking a rank is cheap. A job that only waits for a deadline
 * or a heartbeat does not count as running: others start beside it. */
#include "tests/kill/driver.h"
#include "tests/support/patience.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/ranks.h"

#define JOBS_MAX    12
#define WAITING_NS  INT64_C(50000000)
#define SLOW_NS     INT64_C(30000000000) /* found by some deadline rather than by the detector */
#define WATCHDOG_NS INT64_C(180000000000)

struct job {
    struct kill_world *world;
    pid_t pids[KILL_RANKS_MAX]; /* 0: ended */
    int statuses[KILL_RANKS_MAX];
    int left, stopped, continued, hung;
    int64_t started_ns;
};

static struct job *jobs_all;

void kill_score_clear(struct kill_score *score)
{
    free(score->latency_ns);
    memset(score, 0, sizeof *score);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int64_t kill_score_quantile(struct kill_score *score, double part)
{
    if (!score->samples)
        return 0;
    qsort(score->latency_ns, score->samples, sizeof *score->latency_ns, compare);
    size_t index = (size_t)(part * (double)score->samples);
    return score->latency_ns[index < score->samples ? index : score->samples - 1];
}

void kill_score_print(struct kill_score *score, const char *what)
{
    printf("%s: %u deaths, %u calls failed (%u by a revocation), %u at the deadline of a start; %u survivors "
           "were done\n",
           what, score->deaths, score->answers, score->revoked, score->deadlines, score->clean);
    printf("%s: noticed within %.2f ms (p50), %.2f ms (p99), %.2f ms (all)\n", what,
           (double)kill_score_quantile(score, 0.5) / 1e6, (double)kill_score_quantile(score, 0.99) / 1e6,
           (double)kill_score_quantile(score, 1) / 1e6);
    printf("%s: %u wrong, of which %u hangs; %u slow; libfabric left descriptors behind %u times\n", what,
           score->wrong, score->hangs, score->slow, score->left_below);
    if (score->rash)
        printf("%s: %u times a rank was called silent that nobody had stopped\n", what, score->rash);
    if (score->misnamed)
        printf("%s: a known gap: in %u of %u cases a rank that left was named\n", what, score->misnamed,
               score->cases);
    fflush(stdout);
}

static void add_sample(struct kill_score *score, int64_t latency_ns)
{
    if (score->samples == score->capacity) {
        score->capacity = score->capacity ? 2 * score->capacity : 1024;
        score->latency_ns = realloc(score->latency_ns, score->capacity * sizeof *score->latency_ns);
        if (!score->latency_ns)
            abort();
    }
    score->latency_ns[score->samples++] = latency_ns;
}

static void be_rank(struct kill_world *world, int rank, int listen_fd, const char *address, pid_t driver)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != driver)
        _exit(1);
    if (rank > 0)
        close(listen_fd);
    test_ranks_seat(rank, world->c.ranks, rank > 0 ? -1 : listen_fd, address);
    int bad = kill_world_rank(world, rank);
    /* exit(), not _exit(): sanitizers look for leaks there. */
    exit(bad);
}

static unsigned jobs_started;

static void start(struct job *job, const struct kill_case *c, int quiet)
{
    struct kill_world *world = job->world;
    pid_t driver = getpid();
    char address[32];
    memset(world, 0, sizeof *world);
    world->c = *c;
    world->quiet = quiet;
    world->clock.victim_op = -1;
    snprintf(world->secret, sizeof world->secret, "known to the ranks of job %u of %d alone", ++jobs_started,
             driver);
    int listen_fd = test_ranks_listen(address, sizeof address);
    job->left = c->ranks;
    job->stopped = job->continued = job->hung = 0;
    job->started_ns = weft_clock_ns();
    fflush(NULL);
    for (int rank = 0; rank < c->ranks; rank++) {
        pid_t pid = fork();
        if (pid == 0)
            be_rank(world, rank, listen_fd, address, driver);
        if (pid < 0) {
            perror("fork");
            exit(1);
        }
        job->pids[rank] = pid;
    }
    close(listen_fd);
}

/* What a process that hangs waits for. */
static void describe(pid_t pid)
{
    char path[300], name[64] = "", where[64] = "";
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        if (task->d_name[0] == '.')
            continue;
        const char *const files[] = {"comm", "wchan"};
        char *const texts[] = {name, where};
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "/proc/%d/task/%.20s/%s", (int)pid, task->d_name, files[i]);
            FILE *file = fopen(path, "re");
            if (file && !fgets(texts[i], 64, file))
                texts[i][0] = '\0';
            if (file)
                fclose(file);
            texts[i][strcspn(texts[i], "\n")] = '\0';
        }
        fprintf(stderr, "    thread %.20s '%s' in %s\n", task->d_name, name, where);
    }
    if (tasks)
        closedir(tasks);
}

static void cut_off(struct job *job)
{
    job->hung = 1;
    job->world->abandoned = 1;
    for (int rank = 0; rank < job->world->c.ranks; rank++) {
        if (!job->pids[rank])
            continue;
        fprintf(stderr, "  rank %d hangs:\n", rank);
        describe(job->pids[rank]);
        kill(job->pids[rank], getenv("WEFT_KILL_STAY") ? SIGSTOP : SIGKILL);
        kill(job->pids[rank], SIGCONT);
    }
}

/* Collects what has ended. Returns how much. */
static int reap(struct job *job)
{
    int ended = 0;
    for (int rank = 0; rank < job->world->c.ranks; rank++) {
        if (!job->pids[rank] || waitpid(job->pids[rank], &job->statuses[rank], WNOHANG) != job->pids[rank])
            continue;
        job->pids[rank] = 0;
        job->left--;
        ended++;
        int meant = rank == job->world->c.victim && WIFSIGNALED(job->statuses[rank]) &&
                    WTERMSIG(job->statuses[rank]) == SIGKILL && !job->world->quiet;
        if (job->statuses[rank] != 0 && !meant)
            job->world->abandoned = 1;
    }
    return ended;
}

static int has_stopped(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == pid;
}

/* Survivors of a stopped rank are through: it may go on. In the end they may be through before it has come to its stop. */
static void attend(struct job *job)
{
    const struct kill_case *c = &job->world->c;
    if (!job->stopped && job->pids[c->victim])
        job->stopped = has_stopped(job->pids[c->victim]);
    if (job->stopped && !job->continued && job->pids[c->victim] &&
        (job->world->finished >= c->ranks - 1 || job->world->abandoned)) {
        job->continued = 1;
        kill(job->pids[c->victim], SIGCONT);
    }
    if (!job->hung && weft_clock_ns() - job->started_ns > test_patient(WATCHDOG_NS))
        cut_off(job);
}

static const char *const ends[] = {[KILL_END_NONE] = "no end",
                                   [KILL_END_CLEAN] = "clean",
                                   [KILL_END_NOTICED] = "noticed",
                                   [KILL_END_DEADLINE] = "deadline"};

static void show(const struct job *job, const char *what)
{
    char line[KILL_CASE_TEXT];
    kill_case_print(&job->world->c, line, sizeof line);
    fprintf(stderr, "%s WEFT_KILL_CASE='%s'\n", what, line);
    fprintf(stderr, "  point %sreached, in stage %d\n", job->world->clock.fired_ns ? "" : "not ",
            job->world->clock.fired_stage);
    for (int rank = 0; rank < job->world->c.ranks; rank++) {
        const struct kill_report *report = &job->world->reports[rank];
        fprintf(stderr, "  rank %d%s: wait status 0x%x, %s, after %.1f ms; %s%s%s\n", rank,
                rank == job->world->c.victim ? " (victim)" : "", (unsigned)job->statuses[rank],
                ends[report->end], (double)report->latency_ns / 1e6, report->complaint,
                report->detail[0] ? " -- " : "", report->detail);
    }
    fflush(stderr);
}

/* Whether a rank was declared dead that only had no time to run: nothing else can be said of such a case. */
static int was_rash(const struct job *job)
{
    int rash = 0;
    for (int rank = 0; rank < job->world->c.ranks; rank++)
        rash |= job->world->reports[rank].rash;
    return rash && !job->hung;
}

/* What a case is called that is not good. The word WRONG is for wrong bits alone. */
static const char *verdict(const struct job *job, int bad)
{
    for (int rank = 0; rank < job->world->c.ranks; rank++) {
        if (strncmp(job->world->reports[rank].complaint, "WRONG: ", 7) == 0)
            return "WRONG";
    }
    return job->hung ? "HANG" : bad ? "FAIL" : "SLOW";
}

static void settle(struct job *job, struct kill_score *score)
{
    const struct kill_case *c = &job->world->c;
    score->cases++;
    if (was_rash(job)) {
        score->rash++;
        return;
    }
    unsigned misnamed = 0;
    int slow = 0, bad = job->hung || (!job->world->quiet && !job->world->clock.fired_ns);
    for (int rank = 0; rank < c->ranks; rank++) {
        const struct kill_report *report = &job->world->reports[rank];
        int status = job->statuses[rank];
        int killed = rank == c->victim && c->signal == SIGKILL && !job->world->quiet;
        bad |= killed ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL : status != 0;
        if (rank == c->victim)
            continue;
        /* Nobody gets through an operation in which the victim died, and those that follow, as if nothing had been. */
        bad |= report->end == KILL_END_NONE || (report->end == KILL_END_CLEAN && c->stage == KILL_OPERATION);
        misnamed |= (unsigned)report->misnamed;
        score->left_below += (unsigned)report->left_below;
        score->clean += report->end == KILL_END_CLEAN;
        score->deadlines += report->end == KILL_END_DEADLINE;
        if (report->end != KILL_END_NOTICED)
            continue;
        score->answers++;
        score->revoked += report->status == WEFT_REVOKED;
        slow |= report->latency_ns > test_patient(SLOW_NS);
        add_sample(score, report->latency_ns);
    }
    score->misnamed += misnamed;
    score->deaths += job->world->clock.fired_ns != 0;
    score->hangs += (unsigned)job->hung;
    score->wrong += (unsigned)(bad != 0);
    score->slow += (unsigned)slow;
    if (bad || slow)
        show(job, verdict(job, bad));
}

void kill_prepare(void)
{
    if (jobs_all)
        return;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    jobs_all = calloc(JOBS_MAX, sizeof *jobs_all);
    struct kill_world *worlds =
        mmap(NULL, JOBS_MAX * sizeof *worlds, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!jobs_all || worlds == MAP_FAILED)
        abort();
    for (int j = 0; j < JOBS_MAX; j++)
        jobs_all[j].world = &worlds[j];
}

void kill_prepare_ofi(void)
{
    /* Asked first, it starts all its providers, one of which reads all of /proc/kallsyms. Here that is done once. */
    typedef int get_info(uint32_t version, const char *node, const char *service, uint64_t flags,
                         const void *hints, void **info);
    typedef void free_info(void *info);
    void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL), *info = NULL;
    get_info *get = library ? (get_info *)dlsym(library, "fi_getinfo") : NULL;
    free_info *release = library ? (free_info *)dlsym(library, "fi_freeinfo") : NULL;
    if (get && release && get(1 << 16 | 17, NULL, NULL, 0, NULL, &info) == 0)
        release(info);
}

/* Waits for a child's end, briefly. */
static void nap(void)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigtimedwait(&child, NULL, &(struct timespec){0, 2000000});
}

/* Survivors of a death before the check-in, or of a stop, sleep until a deadline or a heartbeat. */
static int only_waits(const struct job *job)
{
    const struct kill_case *c = &job->world->c;
    int64_t fired_ns = job->world->clock.fired_ns;
    return (c->stage == KILL_OPEN || c->signal == SIGSTOP) && fired_ns && !job->continued &&
           weft_clock_ns() - fired_ns > WAITING_NS;
}

/* One look at every job; returns how many keep a processor busy. */
static int look(struct kill_score *score, int *open)
{
    int busy = 0;
    *open = 0;
    for (int j = 0; j < JOBS_MAX; j++) {
        struct job *job = &jobs_all[j];
        if (!job->left)
            continue;
        reap(job);
        attend(job);
        if (!job->left) {
            settle(job, score);
            continue;
        }
        ++*open;
        busy += !only_waits(job);
    }
    return busy;
}

static struct job *free_job(void)
{
    for (int j = 0; j < JOBS_MAX; j++) {
        if (!jobs_all[j].left)
            return &jobs_all[j];
    }
    return NULL;
}

void kill_run(kill_next *next, void *arg, int jobs, struct kill_score *score)
{
    for (int more = 1, open = 0;;) {
        int busy = look(score, &open);
        struct job *job = more && busy < jobs ? free_job() : NULL;
        if (job) {
            struct kill_case c;
            more = next(arg, &c);
            if (more)
                start(job, &c, 0);
            continue;
        }
        if (!more && !open)
            return;
        nap();
    }
}

int kill_run_quiet(int transport, int ranks)
{
    struct kill_score score = {0};
    struct job *job = &jobs_all[0];
    struct kill_case c = {
        .transport = transport, .ranks = ranks, .victim = 0, .count = 3000, .signal = SIGKILL};
    start(job, &c, 1);
    for (int open = 1; open;) {
        look(&score, &open);
        if (open)
            nap();
    }
    for (int rank = 0; rank < ranks; rank++) {
        for (int stage = 0; stage < KILL_STAGES; stage++)
            kill_case_calls(transport, ranks, rank, stage, job->world->reports[rank].calls[stage]);
    }
    int wrong = (int)score.wrong;
    kill_score_clear(&score);
    return wrong;
}
