/* SPDX-License-Identifier: Apache-2.0 */
/* The PMIx client over libpmix. One lock guards everything here; it is never held across a call into libpmix,
 * whose callbacks come on a thread of its own and take it. */
#include "comm/boot/pmix.h"

#include <dlfcn.h>
#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/runtime.h"
#include "base/signals.h"
#include <weft/weft.h>

#define ASK_MS_MAX                                                                                           \
    2000 /* of one question: servers have been seen to forget one, and then it must be asked again */
#define FINALIZE_NS INT64_C(5000000000)
#define RANKS_MAX   (1 << 20)

struct library {
    pmix_status_t (*init)(pmix_proc_t *proc, pmix_info_t *info, size_t count);
    pmix_status_t (*finalize)(const pmix_info_t *info, size_t count);
    pmix_status_t (*put)(pmix_scope_t scope, const char *key, pmix_value_t *value);
    pmix_status_t (*commit)(void);
    pmix_status_t (*get_nb)(const pmix_proc_t *proc, const char *key, const pmix_info_t *info, size_t count,
                            pmix_value_cbfunc_t callback, void *arg);
    const char *(*error_string)(pmix_status_t status);
    const char *(*version)(void);
};

/* libpmix reads key, process and directives of a question until it has answered. */
struct weft_pmix_request {
    struct weft_pmix_request *next;
    pmix_proc_t process;
    char key[PMIX_MAX_KEYLEN + 1];
    pmix_info_t info[2];
    int forgotten, answered;
    pmix_status_t status;
    uint64_t number; /* of an answer that is one */
    void *bytes;     /* of an answer that is not */
    size_t size;
};

enum state { CLOSED, OPENING, OPEN, CLOSING };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum state state;
    int holds, waiters;
    unsigned attempt;           /* number of the last opening */
    int failure;                /* of that opening, when CLOSED */
    char text[WEFT_DETAIL_MAX]; /* its reason */
    const char *stage;          /* what an opening is waiting for */
    struct weft_signals *loading;
    pid_t process;
    pmix_proc_t self;
    int has_facts;
    struct weft_pmix_facts facts;
    struct weft_pmix_request *requests; /* not freed yet */
} client = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .stage = "libpmix"};

static struct library library; /* constant once loaded */

/* [locked] 0 when the deadline has passed. */
static int wait_change(int64_t deadline_ns)
{
    if (deadline_ns == WEFT_NEVER_NS)
        return pthread_cond_wait(&client.changed, &client.lock) == 0;
    struct timespec until = {deadline_ns / 1000000000, deadline_ns % 1000000000};
    return pthread_cond_clockwait(&client.changed, &client.lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT;
}

/* A thread that takes no signals, nor do those that libpmix makes on it. */
static int start_thread(void *(*run)(void *))
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return weft_fail_thread(error, "PMIx");
    pthread_detach(thread);
    return WEFT_OK;
}

static int load(void)
{
    if (library.init)
        return WEFT_OK;
    void *handle = dlopen(WEFT_RUNTIME_PMIX, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return weft_fail(
            WEFT_NOT_FOUND,
            "PMIx: a PMIx launcher started this process, but " WEFT_RUNTIME_PMIX " cannot be loaded "
            "(%s); install the package libpmix2, or set RANK, WORLD_SIZE, MASTER_ADDR and WEFT_PORT",
            dlerror());
    struct library found;
    *(void **)&found.init = dlsym(handle, "PMIx_Init");
    *(void **)&found.finalize = dlsym(handle, "PMIx_Finalize");
    *(void **)&found.put = dlsym(handle, "PMIx_Put");
    *(void **)&found.commit = dlsym(handle, "PMIx_Commit");
    *(void **)&found.get_nb = dlsym(handle, "PMIx_Get_nb");
    *(void **)&found.error_string = dlsym(handle, "PMIx_Error_string");
    *(void **)&found.version = dlsym(handle, "PMIx_Get_version");
    if (!found.init || !found.finalize || !found.put || !found.commit || !found.get_nb ||
        !found.error_string || !found.version) {
        dlclose(handle);
        return weft_fail(WEFT_NOT_FOUND,
                         "PMIx: " WEFT_RUNTIME_PMIX " lacks PMIx_Init or another function; install "
                         "the package libpmix2");
    }
    library = found;
    return WEFT_OK;
}

/* --- questions */

static void request_free(struct weft_pmix_request *request)
{
    if (request->bytes)
        weft_crypto_wipe(request->bytes, request->size); /* there is a secret in a record */
    free(request->bytes);
    free(request);
}

static void unlink_request(struct weft_pmix_request *request)
{
    struct weft_pmix_request **at = &client.requests;
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
}

static int keep_bytes(struct weft_pmix_request *request, const void *bytes, size_t size)
{
    request->bytes = malloc(size ? size : 1);
    if (!request->bytes)
        return PMIX_ERR_NOMEM;
    if (size)
        memcpy(request->bytes, bytes, size);
    request->size = size;
    return PMIX_SUCCESS;
}

static pmix_status_t keep_value(struct weft_pmix_request *request, const pmix_value_t *value)
{
    switch (value->type) {
    case PMIX_UINT16:
        request->number = value->data.uint16;
        return PMIX_SUCCESS;
    case PMIX_UINT32:
        request->number = value->data.uint32;
        return PMIX_SUCCESS;
    case PMIX_BYTE_OBJECT:
        return keep_bytes(request, value->data.bo.bytes, value->data.bo.size);
    default:
        return PMIX_ERR_TYPE_MISMATCH;
    }
}

/* On libpmix's thread, or inside PMIx_Get_nb(). The value is libpmix's. */
static void answer(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct weft_pmix_request *request = arg;
    pthread_mutex_lock(&client.lock);
    request->answered = 1;
    request->status = status;
    if (request->forgotten) {
        unlink_request(request);
        request_free(request);
    } else if (status == PMIX_SUCCESS) {
        request->status = value ? keep_value(request, value) : PMIX_ERR_NOT_FOUND;
    }
    pthread_cond_broadcast(&client.changed);
    pthread_mutex_unlock(&client.lock);
}

static void add_directive(pmix_info_t *info, const char *key, pmix_data_type_t type, int value)
{
    snprintf(info->key, sizeof info->key, "%s", key);
    info->value.type = type;
    if (type == PMIX_BOOL)
        info->value.data.flag = value != 0;
    else
        info->value.data.integer = value;
}

/* timeout_s 0: no limit, negative: only what is known without asking anybody. */
static int ask(uint32_t rank, const char *key, int fresh, int timeout_s, struct weft_pmix_request **result)
{
    struct weft_pmix_request *request = calloc(1, sizeof *request);
    if (!request)
        return weft_fail(WEFT_NOMEM, "PMIx: no memory for a question");
    size_t count = 0;
    if (timeout_s < 0)
        add_directive(&request->info[count++], PMIX_OPTIONAL, PMIX_BOOL, 1);
    if (timeout_s > 0)
        add_directive(&request->info[count++], PMIX_TIMEOUT, PMIX_INT, timeout_s);
#ifdef PMIX_GET_REFRESH_CACHE
    if (fresh)
        add_directive(&request->info[count++], PMIX_GET_REFRESH_CACHE, PMIX_BOOL, 1);
#else
    (void)fresh;
#endif
    snprintf(request->key, sizeof request->key, "%s", key);
    request->process = client.self;
    request->process.rank = rank;
    pthread_mutex_lock(&client.lock);
    request->next = client.requests;
    client.requests = request;
    pthread_mutex_unlock(&client.lock);
    pmix_status_t status =
        library.get_nb(&request->process, request->key, count ? request->info : NULL, count, answer, request);
    if (status != PMIX_SUCCESS)
        answer(status, NULL, request); /* libpmix does not, then */
    *result = request;
    return WEFT_OK;
}

int weft_pmix_ask(uint32_t rank, const char *key, int fresh, int64_t deadline_ns,
                  struct weft_pmix_request **request)
{
    int timeout_s = weft_clock_left_ms(deadline_ns, ASK_MS_MAX) / 1000 + 1;
    return ask(rank, key, fresh, timeout_s, request);
}

/* [locked] Waits for the answer and words what is wrong with it. */
static int await(const struct weft_pmix_request *request, int64_t until_ns)
{
    while (!request->answered && wait_change(until_ns))
        ;
    if (!request->answered)
        return WEFT_AGAIN;
    if (request->status == PMIX_SUCCESS)
        return WEFT_OK;
    return weft_fail(WEFT_RANKS_ABSENT, "PMIx namespace '%s' has no '%s' (%s)", request->process.nspace,
                     request->key, library.error_string(request->status));
}

int weft_pmix_await(struct weft_pmix_request *request, int64_t until_ns, void *value, size_t capacity,
                    size_t *size)
{
    pthread_mutex_lock(&client.lock);
    int status = await(request, until_ns);
    if (status == WEFT_OK) {
        if (request->bytes)
            memcpy(value, request->bytes, request->size < capacity ? request->size : capacity);
        *size = request->size;
    }
    pthread_mutex_unlock(&client.lock);
    return status;
}

void weft_pmix_forget(struct weft_pmix_request *request)
{
    if (!request || weft_fork_is_child())
        return;
    pthread_mutex_lock(&client.lock);
    request->forgotten = 1;
    if (request->answered) {
        unlink_request(request);
        request_free(request);
    }
    pthread_mutex_unlock(&client.lock);
}

int weft_pmix_put(const char *key, const void *value, size_t size)
{
    pmix_value_t made;
    memset(&made, 0, sizeof made);
    made.type = PMIX_BYTE_OBJECT;
    made.data.bo.bytes = (char *)value; /* only read */
    made.data.bo.size = size;
    pmix_status_t status = library.put(PMIX_GLOBAL, key, &made);
    if (status == PMIX_SUCCESS)
        status = library.commit();
    if (status != PMIX_SUCCESS)
        return weft_fail(WEFT_SYSTEM, "PMIx does not take '%s': %s", key, library.error_string(status));
    return WEFT_OK;
}

/* --- opening and closing */

/* A number about a rank, or -1. */
static int fact(uint32_t rank, const char *key, int optional)
{
    struct weft_pmix_request *request;
    int number = -1;
    if (ask(rank, key, 0, optional ? -1 : 0, &request) != WEFT_OK)
        return -1;
    pthread_mutex_lock(&client.lock);
    if (await(request, WEFT_NEVER_NS) == WEFT_OK && !request->bytes && request->number <= INT32_MAX)
        number = (int)request->number;
    pthread_mutex_unlock(&client.lock);
    weft_pmix_forget(request);
    return number;
}

/* Asked once: a process that has finalised PMIx and initialises it again does not hear everything again. */
static int collect_facts(void)
{
    struct weft_pmix_facts facts = {.rank = -1};
    if (client.has_facts)
        return WEFT_OK;
    uint32_t self = client.self.rank;
    facts.ranks = fact(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, 0);
    if (facts.ranks < 1 || facts.ranks > RANKS_MAX || self >= (uint32_t)facts.ranks)
        return weft_fail(WEFT_PROTOCOL,
                         "PMIx namespace '%s' says this is rank %u of %d: expected 1 to %d ranks",
                         client.self.nspace, (unsigned)self, facts.ranks, RANKS_MAX);
    facts.rank = (int)self;
    facts.local_rank = fact(self, PMIX_LOCAL_RANK, 1);
    facts.local_ranks = fact(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, 1);
    facts.node = fact(self, PMIX_NODEID, 1);
    facts.nodes = fact(PMIX_RANK_WILDCARD, PMIX_NUM_NODES, 1);
    if (facts.local_ranks < 1 || facts.local_ranks > facts.ranks || facts.local_rank >= facts.local_ranks)
        facts.local_rank = facts.local_ranks = -1;
    snprintf(facts.nspace, sizeof facts.nspace, "%s", client.self.nspace);
    snprintf(facts.version, sizeof facts.version, "%.*s", (int)strcspn(library.version(), "(,"),
             library.version());
    client.facts = facts;
    __atomic_store_n(&client.has_facts, 1, __ATOMIC_RELEASE);
    weft_log(WEFT_LOG_INFO,
             "PMIx: rank %d of %d in namespace '%s', local rank %d of %d, node %d, %d nodes; %s", facts.rank,
             facts.ranks, facts.nspace, facts.local_rank, facts.local_ranks, facts.node, facts.nodes,
             facts.version);
    return WEFT_OK;
}

static void set_stage(const char *stage)
{
    pthread_mutex_lock(&client.lock);
    client.stage = stage;
    pthread_mutex_unlock(&client.lock);
}

static int initialise(void)
{
    int status = load();
    if (status != WEFT_OK)
        return status;
    set_stage("PMIx_Init");
    pmix_status_t answered = library.init(&client.self, NULL, 0);
    if (answered != PMIX_SUCCESS)
        return weft_fail(WEFT_SYSTEM, "PMIx_Init in namespace '%s': %s", getenv("PMIX_NAMESPACE"),
                         library.error_string(answered));
    return WEFT_OK;
}

/* Nobody answers after PMIx_Finalize(). */
static void drop_forgotten(void)
{
    for (struct weft_pmix_request **at = &client.requests; *at;) {
        struct weft_pmix_request *request = *at;
        if (request->forgotten) {
            *at = request->next;
            request_free(request);
        } else {
            at = &request->next;
        }
    }
}

static void *finalise(void *unused)
{
    (void)unused;
    library.finalize(NULL, 0);
    pthread_mutex_lock(&client.lock);
    drop_forgotten();
    client.state = CLOSED;
    pthread_cond_broadcast(&client.changed);
    pthread_mutex_unlock(&client.lock);
    return NULL;
}

static void *open_client(void *unused)
{
    struct weft_signals signals;
    weft_signals_save(&signals);
    pthread_mutex_lock(&client.lock);
    client.loading = &signals;
    pthread_mutex_unlock(&client.lock);
    int status = initialise(), initialised = status == WEFT_OK;
    pthread_mutex_lock(&client.lock);
    client.loading = NULL;
    pthread_mutex_unlock(&client.lock);
    weft_signals_restore(&signals);
    if (status == WEFT_OK) {
        set_stage("PMIx_Get of the job's size");
        status = collect_facts();
    }
    pthread_mutex_lock(&client.lock);
    int wanted = client.waiters > 0;
    client.failure = status;
    snprintf(client.text, sizeof client.text, "%s", status == WEFT_OK ? "" : weft_error_detail());
    client.state = status == WEFT_OK && wanted ? OPEN : initialised ? CLOSING : CLOSED;
    int close_again = client.state == CLOSING;
    pthread_cond_broadcast(&client.changed);
    pthread_mutex_unlock(&client.lock);
    return close_again ? finalise(unused) : NULL;
}

/* [locked] The opening does not come back in time: others may load their libraries meanwhile. */
static int too_late(int64_t start_ns)
{
    if (client.loading)
        weft_signals_give_up(client.loading);
    return weft_fail(WEFT_TIMEOUT,
                     "PMIx: %s did not come back within %.1f s: the launcher's PMIx server is silent",
                     client.stage, (double)(weft_clock_ns() - start_ns) / 1e9);
}

/* [locked] */
static int open_or_wait(int64_t deadline_ns)
{
    int64_t start_ns = weft_clock_ns();
    unsigned mine = client.state == OPENING ? client.attempt : 0;
    while (client.state != OPEN) {
        if (client.state == CLOSED && mine)
            return weft_fail(client.failure ? client.failure : WEFT_SYSTEM, "%s", client.text);
        if (client.state == CLOSED) {
            int status = start_thread(open_client);
            if (status != WEFT_OK)
                return status;
            client.state = OPENING;
            mine = ++client.attempt;
        }
        if (client.state == OPENING && !mine)
            mine = client.attempt;
        /* Who opens has counted on this waiter: an opening that came with the end of the wait is held, or nobody
         * would finalise PMIx. */
        if (!wait_change(deadline_ns) && client.state != OPEN)
            return too_late(start_ns);
    }
    return WEFT_OK;
}

int weft_pmix_hold(int64_t deadline_ns)
{
    if (weft_fork_is_child())
        return weft_fork_refuse();
    pid_t process = getpid(), user = __atomic_load_n(&client.process, __ATOMIC_RELAXED);
    if (user != 0 && user != process)
        return weft_fail(WEFT_INVALID,
                         "PMIx: the parent of this process has used it: a forked child is no rank");
    __atomic_store_n(&client.process, process, __ATOMIC_RELAXED);
    pthread_mutex_lock(&client.lock);
    client.waiters++;
    int status = open_or_wait(deadline_ns);
    client.waiters--;
    if (status == WEFT_OK)
        client.holds++;
    pthread_mutex_unlock(&client.lock);
    return status;
}

void weft_pmix_release(void)
{
    if (weft_fork_is_child() || __atomic_load_n(&client.process, __ATOMIC_RELAXED) != getpid())
        return;
    pthread_mutex_lock(&client.lock);
    if (--client.holds == 0) {
        client.state = CLOSING;
        client.stage = "PMIx_Finalize";
        if (start_thread(finalise) != WEFT_OK) {
            client.state = OPEN; /* the next one's last release, or nobody, finalises */
        } else {
            int64_t until_ns = weft_clock_ns() + FINALIZE_NS;
            while (client.state == CLOSING && wait_change(until_ns))
                ;
            if (client.state == CLOSING)
                weft_log(WEFT_LOG_WARN, "PMIx_Finalize does not come back: not waiting for it any longer");
        }
    }
    pthread_mutex_unlock(&client.lock);
}

const struct weft_pmix_facts *weft_pmix_get_facts(void)
{
    return __atomic_load_n(&client.has_facts, __ATOMIC_ACQUIRE) ? &client.facts : NULL;
}
