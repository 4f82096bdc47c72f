/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/inject.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FDS    65536
#define BLOCKS (1u << 13) /* power of two; weft holds a few hundred */

struct row {
    const char *name;
    int ways[FAULT_WAYS_MAX];
};

static const struct row rows[FAULT_CALL_COUNT] = {
#define X(value, name, ...) {name, {__VA_ARGS__}},
    FAULT_CALLS(X)
#undef X
};

static atomic_int armed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault_aim aim;
static struct fault_report report;
static uint32_t storm_left;
static void (*hears)(enum fault_call call);

struct block {
    void *address; /* NULL: free */
    void *site;
    size_t size;
    int old;
};

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block blocks[BLOCKS];
static size_t blocks_live;

static atomic_char fds[FDS];
static atomic_int fds_open;

const char *fault_call_name(int call)
{
    return rows[call].name;
}

int fault_ways(int call)
{
    int ways = 0;
    while (ways < FAULT_WAYS_MAX && rows[call].ways[ways] != FAULT_NONE)
        ways++;
    return ways;
}

int fault_value(int call, int way)
{
    return rows[call].ways[way];
}

int fault_transient(int value)
{
    return value == EINTR || value == FAULT_SHORT || value == FAULT_STORM || value == FAULT_SPURIOUS;
}

void fault_describe(int call, int value, char *text, size_t capacity)
{
    static const char *const words[] = {"", "half of the bytes", "end of stream", "a storm of EAGAIN",
                                        "a wake-up for nothing"};
    const char *word = value < 0                   ? words[-value]
                       : call == FAULT_GETADDRINFO ? gai_strerror(value)
                                                   : strerrorname_np(value);
    snprintf(text, capacity, "%s: %s", rows[call].name, word ? word : "?");
}

void fault_start(void)
{
    void *frame[2];
    backtrace(frame, 2); /* loads what it needs now, not in the middle of a call */
}

void fault_arm(const struct fault_aim *wanted)
{
    pthread_mutex_lock(&lock);
    aim = *wanted;
    memset(&report, 0, sizeof report);
    storm_left = 0;
    pthread_mutex_unlock(&lock);
    atomic_store(&armed, 1);
}

void fault_watch(void (*watcher)(enum fault_call call))
{
    hears = watcher;
}

void fault_disarm(struct fault_report *result)
{
    atomic_store(&armed, 0);
    pthread_mutex_lock(&lock);
    *result = report;
    pthread_mutex_unlock(&lock);
}

/* [lock] */
static int decide(enum fault_call call, int whole)
{
    report.counts[call]++;
    if (whole && fault_transient(report.reached ? report.value : rows[call].ways[aim.way]))
        return FAULT_NONE;
    int counted = aim.call == FAULT_ANY ? rows[call].ways[aim.way] != FAULT_NONE : aim.call == (int)call;
    if (report.reached) {
        if ((int)call != report.call)
            return FAULT_NONE;
        if (storm_left) {
            storm_left--;
            return FAULT_STORM;
        }
        if (!aim.stubborn || fault_transient(report.value))
            return FAULT_NONE;
        report.reached++;
        return report.value;
    }
    if (!counted || ++report.counted != aim.k)
        return FAULT_NONE;
    report.reached = 1;
    report.call = (int)call;
    report.value = rows[call].ways[aim.way];
    report.frames = backtrace(report.frame, FAULT_FRAMES);
    if (report.value == FAULT_STORM)
        storm_left = FAULT_STORM_CALLS - 1;
    return report.value;
}

static int hit(enum fault_call call, int whole)
{
    if (hears)
        hears(call);
    if (!atomic_load(&armed))
        return FAULT_NONE;
    int saved = errno;
    pthread_mutex_lock(&lock);
    int value = decide(call, whole);
    pthread_mutex_unlock(&lock);
    errno = value > 0 ? value : value == FAULT_STORM ? EAGAIN : saved;
    return value;
}

int fault_hit(enum fault_call call)
{
    return hit(call, 0);
}

int fault_hit_whole(enum fault_call call)
{
    return hit(call, 1);
}

void fault_print_stack(void *const *frame, int frames)
{
    fflush(NULL);
    for (int i = 0; i < frames; i++) {
        Dl_info info;
        if (!dladdr(frame[i], &info) || !info.dli_fbase)
            continue;
        char command[512];
        /* One back: the address is that of the instruction after the call. */
        snprintf(command, sizeof command, "addr2line -fpse '%s' %#lx >&2", info.dli_fname,
                 (unsigned long)((char *)frame[i] - (char *)info.dli_fbase - 1));
        if (system(command) != 0)
            fprintf(stderr, "  %p in %s\n", frame[i], info.dli_fname);
    }
}

static size_t home(const void *address)
{
    return (size_t)((uintptr_t)address * 0x9e3779b97f4a7c15ULL >> 40) & (BLOCKS - 1);
}

void fault_block_add(void *block, size_t size, void *site)
{
    if (!block)
        return;
    pthread_mutex_lock(&blocks_lock);
    if (blocks_live >= BLOCKS / 2) {
        fprintf(stderr, "fault injector: more than %u blocks\n", BLOCKS / 2);
        abort();
    }
    size_t at = home(block);
    while (blocks[at].address)
        at = (at + 1) & (BLOCKS - 1);
    blocks[at] = (struct block){block, site, size, 0};
    blocks_live++;
    pthread_mutex_unlock(&blocks_lock);
}

void fault_block_remove(void *block)
{
    if (!block)
        return;
    pthread_mutex_lock(&blocks_lock);
    size_t at = home(block);
    while (blocks[at].address && blocks[at].address != block)
        at = (at + 1) & (BLOCKS - 1);
    if (blocks[at].address) { /* else: allocated by another library for weft to free */
        blocks[at].address = NULL;
        blocks_live--;
        /* What follows may have been pushed along by this one. */
        for (size_t next = (at + 1) & (BLOCKS - 1); blocks[next].address; next = (next + 1) & (BLOCKS - 1)) {
            struct block moved = blocks[next];
            blocks[next].address = NULL;
            size_t to = home(moved.address);
            while (blocks[to].address)
                to = (to + 1) & (BLOCKS - 1);
            blocks[to] = moved;
        }
    }
    pthread_mutex_unlock(&blocks_lock);
}

size_t fault_blocks_live(void)
{
    pthread_mutex_lock(&blocks_lock);
    size_t live = blocks_live;
    pthread_mutex_unlock(&blocks_lock);
    return live;
}

void fault_blocks_mark(void)
{
    pthread_mutex_lock(&blocks_lock);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i].old = blocks[i].address != NULL;
    pthread_mutex_unlock(&blocks_lock);
}

void fault_blocks_print(void)
{
    pthread_mutex_lock(&blocks_lock);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (!blocks[i].address || blocks[i].old)
            continue;
        fprintf(stderr, "  %zu bytes not freed, from: ", blocks[i].size);
        fault_print_stack(&blocks[i].site, 1);
    }
    pthread_mutex_unlock(&blocks_lock);
}

int fault_fd_add(int fd)
{
    if (fd >= 0 && fd < FDS && !atomic_exchange(&fds[fd], 1))
        atomic_fetch_add(&fds_open, 1);
    return fd;
}

void fault_fd_remove(int fd)
{
    if (fd >= 0 && fd < FDS && atomic_exchange(&fds[fd], 0))
        atomic_fetch_sub(&fds_open, 1);
}

int fault_fds_open(void)
{
    return atomic_load(&fds_open);
}
