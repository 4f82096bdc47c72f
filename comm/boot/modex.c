/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/boot/modex.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/secure.h"
#include "base/net/socket.h"

#define LIFE_KEY     "weft/life"
#define KEY_MAX      64
#define NEXT_WAIT_NS INT64_C(20000000) /* for a later record, before the present one is tried again */

/* How many records of a name this process has made (rank 0) or met by (the others). Never freed: PMIx does not
 * forget them either. */
struct count {
    struct count *next;
    uint64_t name_hash;
    unsigned used;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards these, and held of every context */
static struct count *counts;
static uint64_t known_life; /* of rank 0's process; 0 not known yet */

int weft_pmix_launched(void)
{
    return weft_secure_getenv("PMIX_NAMESPACE") && weft_secure_getenv("PMIX_RANK");
}

int weft_pmix_source_open(struct weft_pmix_source *source, const struct weft_pmix_facts **facts)
{
    pthread_mutex_lock(&lock);
    int held = *source->held;
    pthread_mutex_unlock(&lock);
    if (!held) {
        int status = weft_pmix_hold(source->deadline_ns);
        if (status != WEFT_OK)
            return status;
        pthread_mutex_lock(&lock);
        held = *source->held; /* another thread of this context was quicker */
        *source->held = 1;
        pthread_mutex_unlock(&lock);
        if (held)
            weft_pmix_release();
    }
    *facts = weft_pmix_get_facts();
    return WEFT_OK;
}

void weft_pmix_drop_hold(int *held)
{
    if (*held)
        weft_pmix_release();
    *held = 0;
}

/* [locked] */
static struct count *find_count(uint64_t name_hash)
{
    struct count *count = counts;
    while (count && count->name_hash != name_hash)
        count = count->next;
    return count;
}

static void make_key(const struct weft_pmix_source *source, unsigned number, char key[KEY_MAX])
{
    snprintf(key, KEY_MAX, "weft/%016" PRIx64 "/%016" PRIx64 "/%u", source->life, source->name_hash, number);
}

/* Rank 0. The number is used up even if PMIx does not take the record. The life is announced every time, since PMIx
 * forgets what was announced when it is finalised. */
static int put(void *arg, const char *name, const void *value, size_t size)
{
    struct weft_pmix_source *source = arg;
    char key[KEY_MAX];
    (void)name;
    pthread_mutex_lock(&lock);
    if (!known_life)
        known_life = weft_net_random();
    source->life = known_life;
    source->number = ++find_count(source->name_hash)->used;
    pthread_mutex_unlock(&lock);
    int status = weft_pmix_put(LIFE_KEY, &source->life, sizeof source->life);
    make_key(source, source->number, key);
    return status == WEFT_OK ? weft_pmix_put(key, value, size) : status;
}

/* Asks, unless that is done already, and waits. An answer that there is none ends the question. */
static int fetch(const struct weft_pmix_source *source, const char *key, int fresh, int64_t until_ns,
                 struct weft_pmix_request **request, void *value, size_t capacity, size_t *size)
{
    int status = WEFT_OK;
    if (!*request)
        status = weft_pmix_ask(0, key, fresh, source->deadline_ns, request);
    if (status == WEFT_OK)
        status = weft_pmix_await(*request, until_ns, value, capacity, size);
    if (*request && status != WEFT_AGAIN) {
        weft_pmix_forget(*request);
        *request = NULL;
    }
    return status;
}

static void forget_records(struct weft_pmix_source *source)
{
    weft_pmix_forget(source->record);
    weft_pmix_forget(source->next);
    source->record = source->next = NULL;
}

/* Of the process that is rank 0 now. Another one has begun to count anew, as this process has. */
static int learn_life(struct weft_pmix_source *source, int64_t until_ns)
{
    uint64_t life = 0;
    size_t size = 0;
    int status = fetch(source, LIFE_KEY, source->reads > 1, until_ns, &source->life_request, &life,
                       sizeof life, &size);
    if (status != WEFT_OK || size != sizeof life || life == 0)
        return status == WEFT_OK ? WEFT_RANKS_ABSENT : status;
    if (life != source->life) {
        forget_records(source);
        pthread_mutex_lock(&lock);
        source->number = find_count(source->name_hash)->used + 1;
        pthread_mutex_unlock(&lock);
    }
    source->life = life;
    return WEFT_OK;
}

/* The record after the present one, if there is any. */
static int try_next(struct weft_pmix_source *source, int64_t until_ns, void *value, size_t capacity,
                    size_t *size)
{
    char key[KEY_MAX];
    make_key(source, source->number + 1, key);
    int status = fetch(source, key, 1, until_ns, &source->next, value, capacity, size);
    if (status != WEFT_OK)
        return status;
    source->number++;
    forget_records(source);
    return WEFT_OK;
}

/* The others. Whoever reads again has not got anywhere with what it has: there may be another rank 0, a later record,
 * or a newer version of this one than this node has heard of. */
static int get(void *arg, const char *name, void *value, size_t capacity, size_t *size, int64_t timeout_ms)
{
    struct weft_pmix_source *source = arg;
    int again = source->reads++ > 0;
    int64_t until_ns = weft_deadline_ns(timeout_ms < 0 ? 0 : timeout_ms);
    int64_t soon_ns = weft_clock_ns() + NEXT_WAIT_NS < until_ns ? weft_clock_ns() + NEXT_WAIT_NS : until_ns;
    char key[KEY_MAX];
    (void)name;
    if (again || !source->life) {
        int status = learn_life(source, source->life ? soon_ns : until_ns);
        if (!source->life)
            return status == WEFT_AGAIN ? WEFT_TIMEOUT : status;
    }
    if (again && !source->record && try_next(source, soon_ns, value, capacity, size) == WEFT_OK)
        return WEFT_OK;
    make_key(source, source->number, key);
    int status = fetch(source, key, again, until_ns, &source->record, value, capacity, size);
    return status == WEFT_AGAIN ? WEFT_TIMEOUT : status;
}

void weft_pmix_placement(struct weft_placement *placement)
{
    const struct weft_pmix_facts *facts = weft_pmix_get_facts();
    *placement = (struct weft_placement){.node = -1, .local_rank = -1, .local_ranks = -1};
    if (!facts)
        return;
    placement->job = weft_hash_text(WEFT_HASH_START, facts->nspace) | 1;
    placement->node = facts->node;
    placement->local_rank = facts->local_rank;
    placement->local_ranks = facts->local_ranks;
}

int weft_pmix_source_begin(struct weft_pmix_source *source, const char *name)
{
    source->name_hash = weft_hash_text(WEFT_HASH_START, name);
    pthread_mutex_lock(&lock);
    struct count *count = find_count(source->name_hash);
    if (!count && (count = calloc(1, sizeof *count))) {
        count->name_hash = source->name_hash;
        count->next = counts;
        counts = count;
    }
    if (count)
        source->number = count->used + 1;
    source->life = known_life;
    pthread_mutex_unlock(&lock);
    if (!count)
        return weft_fail(WEFT_NOMEM, "PMIx: no memory for a communicator's name");
    source->store = (weft_store){.arg = source, .put = put, .get = get};
    return WEFT_OK;
}

void weft_pmix_source_end(struct weft_pmix_source *source, int met)
{
    forget_records(source);
    weft_pmix_forget(source->life_request);
    source->life_request = NULL;
    if (!met || !source->store.get)
        return;
    pthread_mutex_lock(&lock);
    struct count *count = find_count(source->name_hash);
    if (count->used < source->number)
        count->used = source->number;
    known_life = source->life;
    pthread_mutex_unlock(&lock);
}
