/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/core/judge.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/boot/boot.h"
#include "comm/exec/fastpath.h"

#define COLLECT_NS INT64_C(100000000) /* deadlines of several ranks pass together: who else is there? */

/* What ranks have reported about one call. */
struct group {
    struct group *next; /* descending by sequence: reports are about recent calls */
    uint64_t sequence;
    struct weft_judge_entry *entries;
    int count, capacity;
    unsigned char *arrived;       /* [ranks]; NULL: not known any more */
    struct weft_call reference;   /* the first entry's, with the algorithm of the first that has chosen one */
    int differs;                  /* some entry from it */
    char label[WEFT_LABEL_BYTES]; /* that some rank has given the call; "" none */
};

struct weft_judge {
    struct weft_comm *comm;
    struct group *groups;
    uint64_t tidied;   /* the oldest call of a rank when groups were last forgotten */
    uint64_t *highest; /* [ranks] the last call that the rank has reported; 0: none */
    struct weft_service_timer timer;
    int64_t due_ns; /* 0: nothing to decide */
    int decided;
    int late_rank;        /* -1, or whose deadline has passed */
    int slow_rank;        /* -1, or who asks for the log's sake */
    uint64_t slow_logged; /* the last call that the log names, */
    int slow_missing;     /* and how many ranks it named; INT_MAX: none yet */
    struct weft_stall_record late, slow;
};

static void on_timer(void *arg);

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
    judge->timer = (struct weft_service_timer){.expired = on_timer, .arg = judge};
    judge->late_rank = judge->slow_rank = -1;
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
    if (judge->comm->context->overlay)
        weft_service_timer_end(judge->comm->context->overlay, &judge->timer);
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
 * nobody begins one that many beyond one that it has not ended; the cache-line path adds those that a root may be ahead. So of two ranks
 * that have a message of one call between them the one is at most APART_HOP calls ahead. Every call connects all ranks:
 * take those that are beyond some call, and one of the others is at most so far behind it; then those two sets together.
 * After ranks - 1 such steps there are no others. What is older than that has been the same call everywhere. */
#define APART_HOP (2 * ((uint64_t)WEFT_OPS_MAX + WEFT_FASTPATH_AHEAD_MAX))
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

/* Who has not come to a call of which a rank has reported, as far as reports say. A process that is stopped in the call says nothing either. Returns how
 * many. */
static int word_absent(const struct weft_judge *judge, int rank, const struct weft_stall_record *record,
                       const char *verb, char *text, size_t capacity)
{
    int ranks = judge->comm->ranks;
    int missing = 0;
    unsigned char *absent = calloc(weft_boot_set_bytes(ranks), 1);
    char who[260] = "", title[WEFT_CALL_TITLE];
    struct weft_call call = record->call;
    call.label = *record->label ? record->label : NULL;
    weft_call_title(&call, title, sizeof title);
    for (int r = 0; absent && r < ranks; r++) {
        if (judge->highest[r] < record->call.sequence)
            weft_boot_set_add(absent, r);
    }
    if (absent)
        missing = weft_boot_set_text(absent, ranks, who, sizeof who);
    int is_known = absent != NULL;
    free(absent);
    if (!is_known)
        snprintf(text, capacity, "rank %d %s %" PRId64 " ms in %s; no memory to say for whom", rank, verb,
                 record->waited_ms, title);
    else if (missing)
        snprintf(text, capacity, "rank %d %s %" PRId64 " ms: %s %s not called %s, or %s not run", rank, verb,
                 record->waited_ms, who, missing == 1 ? "has" : "have", title, missing == 1 ? "does" : "do");
    else
        snprintf(text, capacity, "rank %d %s %" PRId64 " ms in %s, which every rank has called%s%s", rank,
                 verb, record->waited_ms, title, *record->waits ? ": " : "", record->waits);
    return missing;
}

/* Once for each call, and again when some of those that it named have come. */
static void log_slow(struct weft_judge *judge, char *text, size_t capacity)
{
    if (judge->slow_rank < 0)
        return;
    int missing = word_absent(judge, judge->slow_rank, &judge->slow, "has waited", text, capacity);
    if (missing < judge->slow_missing)
        weft_log(WEFT_LOG_WARN, "%s", text);
    judge->slow_missing = missing;
    judge->slow_rank = -1;
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
    log_slow(judge, text, sizeof text);
    if (judge->late_rank < 0)
        return;
    word_absent(judge, judge->late_rank, &judge->late, "gave up after", text, sizeof text);
    pronounce(judge, WEFT_TIMEOUT, text);
}

static void on_timer(void *arg)
{
    struct weft_judge *judge = arg;
    if (!judge->decided && judge->due_ns && weft_clock_ns() >= judge->due_ns)
        decide(judge);
}

/* Decides in wait_ns at the latest. */
static void decide_within(struct weft_judge *judge, int64_t wait_ns)
{
    int64_t due_ns = weft_clock_ns() + wait_ns;
    if (judge->due_ns && judge->due_ns <= due_ns)
        return;
    judge->due_ns = due_ns;
    weft_service_timer_set(judge->comm->context->overlay, &judge->timer, due_ns);
}

static void make_printable(char *text)
{
    for (char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    }
}

/* A peer's bytes: what cannot be printed or indexed later is refused here. */
static int read_record(const void *bytes, size_t size, struct weft_stall_record *record)
{
    if (size != sizeof *record)
        return -1;
    memcpy(record, bytes, size);
    if (record->magic != WEFT_STALL_MAGIC || record->call.sequence == 0 ||
        record->oldest > record->call.sequence || !memchr(record->waits, 0, sizeof record->waits) ||
        !memchr(record->label, 0, sizeof record->label))
        return -1;
    record->call.label = NULL;
    make_printable(record->waits);
    make_printable(record->label);
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
    if (group && *record.label && !*group->label) {
        memcpy(group->label, record.label, sizeof group->label);
        for (int i = 0; i < group->count; i++)
            group->entries[i].call.label = group->label;
    }
    record.call.label = group && *group->label ? group->label : NULL;
    if (group && !(group->arrived && group->arrived[rank]) && add_entry(group, rank, &record.call) == 0)
        group->differs |= differs(judge, group, rank, &record.call);
    if (record.flags & WEFT_STALL_LATE && judge->late_rank < 0) {
        judge->late = record;
        judge->late_rank = rank;
        decide_within(judge, COLLECT_NS);
    }
    if (record.flags & WEFT_STALL_SLOW && record.call.sequence >= judge->slow_logged) {
        if (record.call.sequence > judge->slow_logged)
            judge->slow_missing = INT_MAX;
        judge->slow_logged = record.call.sequence;
        judge->slow = record;
        judge->slow_rank = rank;
        decide_within(judge, COLLECT_NS);
    }
    if (!group || !group->differs)
        return;
    if (group->count == judge->comm->ranks)
        decide(judge);
    else
        decide_within(judge, WEFT_JUDGE_NS);
}
