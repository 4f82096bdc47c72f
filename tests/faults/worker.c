/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/worker.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/regions/cache.h"
#include "tests/clock/clock.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define CACHED ((size_t)65536) /* bytes */

/* A run of one rank while it goes on. */
struct life {
    const struct fault_order *order;
    struct fault_outcome *outcome;
    int rank, ranks;
    weft_context *context;
    weft_comm *comm;
    float *send, *recv;
};

static int note(struct life *life, const char *call, int status)
{
    if (status != WEFT_OK && life->outcome->status == WEFT_OK) {
        life->outcome->status = status;
        life->outcome->call = call;
        snprintf(life->outcome->detail, sizeof life->outcome->detail, "%s", weft_error_detail());
    }
    return status;
}

static void phase_begin(struct life *life, enum fault_phase phase)
{
    if (life->order->scene.phase == phase && life->rank == life->order->faulty)
        fault_arm(&life->order->aim);
}

static void phase_end(struct life *life, enum fault_phase phase)
{
    if (life->order->scene.phase == phase && life->rank == life->order->faulty)
        fault_disarm(&life->outcome->report);
}

static int open_context(struct life *life)
{
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    options.settings = life->order->scene.settings;
    phase_begin(life, PHASE_CONTEXT);
    int status = note(life, "weft_context_open", weft_context_open(&options, &life->context));
    phase_end(life, PHASE_CONTEXT);
    return status;
}

/* Memory of the allreduce; and in the phase of its own, registering too. */
static int get_memory(struct life *life)
{
    const struct fault_scene *scene = &life->order->scene;
    size_t bytes = scene->count * sizeof(float);
    void *memory[2] = {NULL, NULL};
    int status = WEFT_OK;
    phase_begin(life, PHASE_MEMORY);
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        if (scene->mapped)
            status = note(life, "weft_mem_alloc", weft_mem_alloc(life->context, bytes, &memory[i]));
        else
            memory[i] = aligned_alloc(64, (bytes + 63) / 64 * 64);
    }
    if (scene->phase == PHASE_MEMORY && status == WEFT_OK && !scene->mapped &&
        note(life, "weft_mem_register", weft_mem_register(life->context, memory[0], bytes)) == WEFT_OK)
        note(life, "weft_mem_deregister", weft_mem_deregister(life->context, memory[0]));
    phase_end(life, PHASE_MEMORY);
    life->send = memory[0];
    life->recv = memory[1];
    return status;
}

static void put_memory(struct life *life)
{
    float *memory[2] = {life->send, life->recv};
    for (int i = 0; i < 2; i++) {
        if (!memory[i])
            continue;
        if (life->order->scene.mapped)
            note(life, "weft_mem_free", weft_mem_free(life->context, memory[i]));
        else
            free(memory[i]);
    }
}

/* A transport's region, which knows what was at its address when it was made. */
struct weft_region {
    int generation;
};

static int generation; /* of the memory that the cache is used with */

static int region_make(void *arg, uint32_t transport, void *memory, size_t size, struct weft_region **region)
{
    (void)arg, (void)transport, (void)memory, (void)size;
    *region = malloc(sizeof **region);
    if (!*region)
        return WEFT_NOMEM;
    (*region)->generation = generation;
    return WEFT_OK;
}

static void region_end(void *arg, uint32_t transport, struct weft_region *region)
{
    (void)arg, (void)transport;
    free(region);
}

/* A region of what was there before is as wrong as wrong bits. None at all is no error: then memory is not kept. */
static void use_cache(struct life *life, struct weft_region_cache *cache, const void *memory)
{
    struct weft_region *region;
    int status = weft_region_cache_get(cache, 1, memory, CACHED, &region);
    if (status != WEFT_OK) {
        note(life, "weft_region_cache_get", status == WEFT_UNSUPPORTED ? WEFT_OK : status);
        return;
    }
    life->outcome->wrong += region->generation != generation;
    weft_region_cache_put(cache, 1, region);
}

/* What is unmapped the kernel reports to the cache's thread, and waits until it has listened. */
static void keep_memory(struct life *life)
{
    const struct weft_region_cache_options options = {
        .bytes_max = 4 * CACHED, .reg = region_make, .dereg = region_end};
    struct weft_region_cache *cache;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory = mmap(NULL, CACHED, PROT_READ | PROT_WRITE, flags, -1, 0);
    phase_begin(life, PHASE_CACHE);
    int status = note(life, "weft_region_cache_open", weft_region_cache_open(&options, &cache));
    if (status == WEFT_OK)
        use_cache(life, cache, memory);
    phase_end(life, PHASE_CACHE);
    for (int i = 0; i < 2 && status == WEFT_OK; i++) { /* and what the fault left must not show later */
        use_cache(life, cache, memory);
        generation++;
        memory = mmap(memory, CACHED, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0);
        use_cache(life, cache, memory);
    }
    phase_begin(life, PHASE_CACHE_END);
    if (status == WEFT_OK)
        weft_region_cache_close(cache);
    phase_end(life, PHASE_CACHE_END);
    munmap(memory, CACHED);
}

static int create_comm(struct life *life)
{
    const struct fault_order *order = life->order;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    options.rank = order->solo ? 0 : life->rank;
    options.ranks = life->ranks;
    options.timeout_ms = order->timeout_ms;
    if (order->scene.source == SOURCE_FILE) {
        options.file = order->path; /* carries a secret */
    } else {
        options.address = order->address;
        options.secret = TEST_SECRET;
        options.secret_size = TEST_SECRET_BYTES;
    }
    weft_work *work = NULL;
    options.work = order->scene.phase == PHASE_CREATE && order->scene.started ? &work : NULL;
    phase_begin(life, PHASE_CREATE);
    int status = note(life, "weft_comm_create", weft_comm_create(life->context, &options, &life->comm));
    if (work) {
        status = note(life, "weft_work_wait", weft_work_wait(work, -1));
        weft_work_free(work);
    }
    phase_end(life, PHASE_CREATE);
    return status;
}

static int reduce(struct life *life)
{
    const struct fault_scene *scene = &life->order->scene;
    weft_work *work = NULL;
    job_fill(life->send, WEFT_FLOAT32, life->rank, scene->count);
    memset(life->recv, 0x5a, scene->count * sizeof(float));
    int status = weft_allreduce(life->comm, life->send, life->recv, scene->count, WEFT_FLOAT32, WEFT_SUM,
                                WEFT_START(scene->started ? &work : NULL));
    note(life, "weft_allreduce", status);
    if (work) {
        status = note(life, "weft_work_wait", weft_work_wait(work, -1));
        note(life, "weft_work_free", weft_work_free(work));
    }
    if (status == WEFT_OK)
        life->outcome->wrong += job_wrong(life->recv, WEFT_FLOAT32, WEFT_SUM, life->ranks, scene->count);
    return status;
}

/* All go on in the communicator that has been made as in the first. */
static int go_on(struct life *life, enum fault_phase phase, int status, weft_comm *made)
{
    phase_end(life, phase);
    if (status != WEFT_OK)
        return status;
    note(life, "weft_comm_destroy", weft_comm_destroy(life->comm));
    life->comm = made;
    life->rank = weft_comm_rank(made); /* the faulty rank may have left it to the other alone */
    life->ranks = weft_comm_size(made);
    return status;
}

/* Nobody has died. */
static int shrink(struct life *life)
{
    weft_comm *smaller = NULL;
    phase_begin(life, PHASE_SHRINK);
    int status = note(life, "weft_comm_shrink", weft_comm_shrink(life->comm, &smaller, NULL));
    return go_on(life, PHASE_SHRINK, status, smaller);
}

static int split(struct life *life)
{
    weft_comm *same = NULL;
    phase_begin(life, PHASE_SPLIT);
    int status = note(life, "weft_comm_split", weft_comm_split(life->comm, 0, 0, &same, NULL));
    return go_on(life, PHASE_SPLIT, status, same);
}

static int subset(struct life *life)
{
    static const int ranks[WORKER_RANKS] = {0, 1};
    weft_comm *same = NULL;
    phase_begin(life, PHASE_SUBSET);
    int status =
        note(life, "weft_comm_subset", weft_comm_subset(life->comm, ranks, WORKER_RANKS, 1, &same, NULL));
    return go_on(life, PHASE_SUBSET, status, same);
}

static void live(struct life *life)
{
    if (open_context(life) != WEFT_OK)
        return;
    if (life->order->scene.phase == PHASE_CACHE || life->order->scene.phase == PHASE_CACHE_END)
        keep_memory(life);
    if (get_memory(life) == WEFT_OK && !life->order->solo && create_comm(life) == WEFT_OK) {
        phase_begin(life, PHASE_REDUCE);
        int status = reduce(life);
        phase_end(life, PHASE_REDUCE);
        if (status == WEFT_OK && life->order->scene.phase == PHASE_SHRINK)
            status = shrink(life);
        if (status == WEFT_OK && life->order->scene.phase == PHASE_SPLIT)
            status = split(life);
        if (status == WEFT_OK && life->order->scene.phase == PHASE_SUBSET)
            status = subset(life);
        if (status == WEFT_OK)
            reduce(life); /* what the fault left must not show later */
    }
    phase_begin(life, PHASE_END);
    note(life, "weft_comm_destroy", weft_comm_destroy(life->comm));
    put_memory(life);
    life->outcome->closed = note(life, "weft_context_close", weft_context_close(life->context));
    phase_end(life, PHASE_END);
}

static void run(struct fault_stage *stage, int rank)
{
    const struct fault_order *order = &stage->order;
    struct fault_outcome *outcome = &stage->outcomes[rank];
    struct life life = {.order = order, .outcome = outcome, .rank = rank};
    struct test_leak before, after;
    memset(outcome, 0, sizeof *outcome);
    if (order->solo && rank != order->faulty)
        return;
    life.ranks = order->solo ? 1 : WORKER_RANKS;
    if (order->scene.setting)
        setenv(order->scene.setting, order->scene.value, 1);
    test_leak_take(&before);
    fault_blocks_mark();
    size_t blocks = fault_blocks_live();
    const struct test_leak first = before;
    const size_t first_blocks = blocks;
    const int own_fds = fault_fds_open();
    if (order->cold) {
        before.descriptors += order->allowed.descriptors;
        before.threads += order->allowed.threads;
        before.shared_mappings += order->allowed.shared_mappings;
        blocks += order->allowed_blocks;
    }
    live(&life);
    outcome->fds = fault_fds_open() - own_fds;
    /* What libfabric's tcp provider keeps of a connection that was only half made when things went wrong is not
     * ours to close. */
    if (strstr(order->scene.settings, "ofi") && outcome->status != WEFT_OK)
        before.descriptors += 8;
    outcome->leaks = test_leak_check(&before);
    test_leak_take(&after);
    size_t left = fault_blocks_live();
    outcome->stays = (struct test_leak){after.descriptors - first.descriptors, after.threads - first.threads,
                                        after.shared_mappings - first.shared_mappings, 0};
    outcome->stays_blocks = left > first_blocks ? left - first_blocks : 0;
    outcome->blocks = left > blocks ? left - blocks : 0;
    if (outcome->blocks)
        fault_blocks_print();
    if (order->scene.setting)
        unsetenv(order->scene.setting);
}

/* The driver asks a rank that hangs where it is (SIGUSR1); a crash says so by itself. */
static void show_stack(int signal)
{
    void *frames[40];
    int count = backtrace(frames, 40);
    char line[80];
    int length = snprintf(line, sizeof line, "process %d, signal %d:\n", (int)getpid(), signal);
    if (write(STDERR_FILENO, line, (size_t)length) == length)
        backtrace_symbols_fd(frames, count, STDERR_FILENO);
    if (signal != SIGUSR1)
        _exit(128 + signal);
}

static void serve(struct fault_stage *stage, int rank, int fd)
{
    static const int signals[] = {SIGUSR1, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    char byte;
    /* A peer on a loaded machine is late. What a library does then, as to keep an endpoint that it cannot close safely, is not asked here. */
    test_clock_slow(WORKER_SLOWNESS);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], show_stack);
    while (read(fd, &byte, 1) == 1 && byte != 'q') {
        run(stage, rank);
        if (write(fd, &byte, 1) != 1)
            break;
    }
}

int fault_worker_start(struct fault_stage *stage, int rank, struct fault_worker *worker)
{
    int ends[2];
    pid_t parent = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    fflush(NULL);
    worker->pid = fork();
    if (worker->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        close(ends[0]);
        serve(stage, rank, ends[1]);
        exit(0);
    }
    close(ends[1]);
    worker->fd = ends[0];
    if (worker->pid > 0)
        return 0;
    close(ends[0]);
    return -1;
}

int fault_worker_stop(struct fault_worker *worker, int idle)
{
    int status = 0;
    if (!idle || send(worker->fd, "q", 1, MSG_NOSIGNAL) != 1)
        kill(worker->pid, SIGKILL);
    close(worker->fd);
    while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    worker->pid = 0;
    return status;
}
