/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "comm/boot.h"

#define COLLECT_NS INT64_C(100000000) /* deadlines of several ranks pass together: who else is there? */

/* What ranks have reported about one call. */
struct group {
    struct group *next; /* descending by sequence: reports are about recent calls */
    uint64_t sequence;
    struct weft_judge_entry *entries;
    int count, capacity;
    unsigned char *arrived;     /* [ranks]; NULL: not known any more */
    struct weft_call reference; /* the first entry's, with the algorithm of the first that has chosen one */
    int differs;                /* some entry from it */
};

struct weft_judge {
    struct weft_comm *comm;
    struct group *groups;
    uint64_t tidied;   /* the oldest call of a rank when groups were last forgotten */
    uint64_t *highest; /* [ranks] the last call that the rank has reported; 0: none */
    int timer_fd;      /* -1: none yet */
    int64_t due_ns;    /* 0: nothing to decide */
    int decided;
    int late_rank; /* -1, or whose deadline has passed */
    struct weft_stall_record late;
};

int weft_judge_open(struct weft_comm *comm, struct weft_judge **opened)
{
    struct weft_judge *judge = calloc(1, sizeof *judge);
    uint64_t *highest = calloc((size_t)comm->ranks, sizeof *highest);
    if (!judge || !highest) {
        free(judge);
        free(highest);
        return weft_fail(WEFT_NOMEM, "no memory to compare %d ranks", comm->ranks);
    }
    judge->comm = comm;
    judge->highest = highest;
    judge->timer_fd = -1;
    judge->late_rank = -1;
    *opened = judge;
    return WEFT_OK;
}

static void free_group(struct group *group)
{
    free(group->entries);
    free(group->arrived);
    free(group);
}

void weft_judge_close(struct weft_judge *judge)
{
    if (!judge)
        return;
    if (judge->timer_fd >= 0) {
        weft_service_unwatch(judge->comm->context->overlay, judge->timer_fd);
        weft_fd_close(judge->timer_fd);
    }
    while (judge->groups) {
        struct group *next = judge->groups->next;
        free_group(judge->groups);
        judge->groups = next;
    }
    free(judge->highest);
    free(judge);
}

static struct group *find_group(struct weft_judge *judge, uint64_t sequence)
{
    struct group **at = &judge->groups;
    while (*at && (*at)->sequence > sequence)
        at = &(*at)->next;
    if (*at && (*at)->sequence == sequence)
        return *at;
    struct group *group = calloc(1, sizeof *group);
    unsigned char *arrived = calloc((size_t)judge->comm->ranks, 1);
    if (!group || !arrived) {
        free(group);
        free(arrived);
        return NULL;
    }
    group->sequence = sequence;
    group->arrived = arrived;
    group->next = *at;
    *at = group;
    return group;
}

/* How far ranks can be apart. Nobody sends more than WEFT_OPS_MAX operations beyond what the receiver has begun, and
 * nobody begins one that many beyond one that it has not ended; a call of the cache-line path adds one. So of two ranks
 * that have a message of one call between them the one is at most APART_HOP calls ahead. Every call connects all ranks:
 * take those that are beyond some call, and one of the others is at most so far behind it; then those two sets together.
 * After ranks - 1 such steps there are no others. What is older than that has been the same call everywhere. */
#define APART_HOP (2 * ((uint64_t)WEFT_OPS_MAX + 1))
/* Of older groups one entry is kept to compare with: so far apart are few ranks. */
#define WHOLE_CALLS 256

static void shrink(struct group *group)
{
    if (group->differs || !group->arrived)
        return;
    free(group->arrived);
    group->arrived = NULL;
    group->count = group->count ? 1 : 0;
    struct weft_judge_entry *entries = group->count ? realloc(group->entries, sizeof *entries) : NULL;
    if (entries) {
        group->entries = entries;
        group->capacity = 1;
    }
}

/* A rank is in call `oldest`, and has ended those before. */
static void tidy(struct weft_judge *judge, uint64_t oldest)
{
    if (oldest < judge->tidied + WHOLE_CALLS)
        return;
    judge->tidied = oldest;
    uint64_t apart = APART_HOP * (uint64_t)judge->comm->ranks;
    struct group **at = &judge->groups;
    while (*at) {
        struct group *group = *at;
        if (group->sequence + apart < oldest) {
            *at = group->next;
            free_group(group);
            continue;
        }
        if (group->sequence + WHOLE_CALLS < oldest)
            shrink(group);
        at = &group->next;
    }
}

/* Keeps the entries in order of rank. 0, or -1 without memory: then the rank has not reported. */
static int add_entry(struct group *group, int rank, const struct weft_call *call)
{
    if (group->count == group->capacity) {
        int capacity = group->capacity ? 2 * group->capacity : 8;
        struct weft_judge_entry *entries = realloc(group->entries, (size_t)capacity * sizeof *entries);
        if (!entries)
            return -1;
        group->entries = entries;
        group->capacity = capacity;
    }
    int at = group->count++;
    for (; at > 0 && group->entries[at - 1].rank > rank; at--)
        group->entries[at] = group->entries[at - 1];
    group->entries[at] = (struct weft_judge_entry){rank, *call};
    if (group->arrived)
        group->arrived[rank] = 1;
    return 0;
}

/* Whether a call differs from the others of its group, at no cost that grows with the number of ranks. */
static int differs(const struct weft_judge *judge, struct group *group, int rank,
                   const struct weft_call *call)
{
    if (group->count == 1)
        group->reference = *call;
    else if (group->reference.algorithm == 0)
        group->reference.algorithm = call->algorithm;
    struct weft_judge_entry pair[2] = {{rank, group->reference}, {rank, *call}};
    char text[WEFT_DETAIL_MAX];
    return weft_judge_compare(pair, 2, judge->comm->members, judge->comm->ranks, text, sizeof text);
}

static void pronounce(struct weft_judge *judge, int status, const char *text)
{
    judge->decided = 1;
    weft_log(WEFT_LOG_INFO, "rank 0 revokes: %s", text);
    weft_bootstrap_revoke_as(judge->comm->bootstrap, status, text);
}

/* Whose deadline passed, and who has not come: as far as reports tell. */
static void word_late(const struct weft_judge *judge, char *text, size_t capacity)
{
    const struct weft_stall_record *late = &judge->late;
    int ranks = judge->comm->ranks;
    unsigned char *present = malloc((size_t)ranks);
    struct weft_boot_late absent = {0};
    char who[260] = "";
    for (int r = 0; present && r < ranks; r++)
        present[r] = judge->highest[r] >= late->call.sequence;
    if (present)
        weft_boot_late_collect(present, ranks, &absent);
    free(present);
    if (absent.missing)
        snprintf(text, capacity, "rank %d gave up after %" PRId64 " ms: %s %s not called %s #%" PRIu64,
                 judge->late_rank, late->waited_ms, weft_boot_late_text(&absent, who, sizeof who),
                 absent.missing == 1 ? "has" : "have", weft_call_name(&late->call), late->call.sequence);
    else
        snprintf(text, capacity,
                 "rank %d gave up after %" PRId64 " ms in %s #%" PRIu64 ", which every rank has called: %s",
                 judge->late_rank, late->waited_ms, weft_call_name(&late->call), late->call.sequence,
                 late->waits);
}

static void decide(struct weft_judge *judge)
{
    char text[WEFT_DETAIL_MAX - 40];
    judge->due_ns = 0;
    const struct group *first = NULL; /* the oldest */
    for (const struct group *group = judge->groups; group; group = group->next)
        first = group->differs ? group : first;
    if (first && weft_judge_compare(first->entries, first->count, judge->comm->members, judge->comm->ranks,
                                    text, sizeof text)) {
        pronounce(judge, WEFT_MISMATCH, text);
        return;
    }
    if (judge->late_rank < 0)
        return;
    word_late(judge, text, sizeof text);
    pronounce(judge, WEFT_TIMEOUT, text);
}

static void on_timer(void *arg, int fd)
{
    struct weft_judge *judge = arg;
    uint64_t expirations;
    ssize_t got = read(fd, &expirations, sizeof expirations);
    (void)got; /* the clock decides */
    if (!judge->decided && judge->due_ns && weft_clock_ns() >= judge->due_ns)
        decide(judge);
}

static int make_timer(struct weft_judge *judge)
{
    if (judge->timer_fd >= 0)
        return 0;
    int fd = weft_fd_add(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (fd < 0)
        return -1;
    if (weft_service_watch(judge->comm->context->overlay, fd, on_timer, judge) != WEFT_OK) {
        weft_fd_close(fd);
        return -1;
    }
    judge->timer_fd = fd;
    return 0;
}

/* Decides in wait_ns at the latest; now where no timer can be had. */
static void decide_within(struct weft_judge *judge, int64_t wait_ns)
{
    int64_t due_ns = weft_clock_ns() + wait_ns;
    if (judge->due_ns && judge->due_ns <= due_ns)
        return;
    judge->due_ns = due_ns;
    struct itimerspec at = {.it_value = {due_ns / 1000000000, due_ns % 1000000000}};
    if (make_timer(judge) != 0 || !weft_fd_is_own(judge->timer_fd) ||
        timerfd_settime(judge->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) != 0)
        decide(judge);
}

/* A peer's bytes: what cannot be printed or indexed later is refused here. */
static int read_record(const void *bytes, size_t size, struct weft_stall_record *record)
{
    if (size != sizeof *record)
        return -1;
    memcpy(record, bytes, size);
    if (record->magic != WEFT_STALL_MAGIC || record->call.sequence == 0 ||
        record->oldest > record->call.sequence || !memchr(record->waits, 0, sizeof record->waits))
        return -1;
    for (char *c = record->waits; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    }
    return 0;
}

void weft_judge_take(void *arg, int rank, const void *bytes, size_t size)
{
    struct weft_judge *judge = arg;
    struct weft_stall_record record;
    if (judge->decided || rank < 0 || rank >= judge->comm->ranks || read_record(bytes, size, &record) != 0)
        return;
    if (record.call.sequence > judge->highest[rank])
        judge->highest[rank] = record.call.sequence;
    tidy(judge, record.oldest);
    struct group *group = find_group(judge, record.call.sequence);
    if (group && !(group->arrived && group->arrived[rank]) && add_entry(group, rank, &record.call) == 0)
        group->differs |= differs(judge, group, rank, &record.call);
    if (record.flags & WEFT_STALL_LATE && judge->late_rank < 0) {
        judge->late = record;
        judge->late_rank = rank;
        decide_within(judge, COLLECT_NS);
    }
    if (!group || !group->differs)
        return;
    if (group->count == judge->comm->ranks)
        decide(judge);
    else
        decide_within(judge, WEFT_JUDGE_NS);
}
