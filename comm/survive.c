/* SPDX-License-Identifier: Apache-2.0 */
/* Ending a communicator on purpose, asking who has died, and going on without the dead.
 *
 * Shrinking, all over the old communicator's overlay, which agrees among survivors whatever dies meanwhile
 * (docs/bootstrap.md, sections 9 to 11):
 *   1  agree on the dead; the lowest survivor, rank 0 to be, has opened a listener and sends its address and
 *      a fresh secret with the decision (frames are sealed, and the dead have no edges any more);
 *   2  the survivors meet there as for any communicator, with the next generation number;
 *   3  agree whether that has worked for all. If not, from the beginning, with the deaths since known.
 * Step 3 is what makes all survivors return alike: a rank that returned the new communicator while another
 * began anew would wait for it in vain.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/fd.h"
#include "base/fork.h"
#include "base/log.h"
#include "comm/comm.h"
#include "comm/group.h"
#include "comm/progress.h"

#define ATTEMPT_NS   INT64_C(30000000000) /* to meet, at most, before survivors look around again */
#define PAUSE_MS_MAX 100

/* What all bring to the agreements of an attempt: each step has a flag of its own, so that ranks which have got out of
 * step (one gave up at its deadline and called again) find that out, and begin together. */
enum {
    FLAG_MET = 1,   /* the third step: it worked */
    FLAG_AGAIN = 2, /* if not, another attempt may */
    FLAG_ABLE = 4,  /* the first step: the rank that is to be rank 0 can listen */
};

/* What the lowest survivor sends with the first agreement. */
struct invitation {
    char address[64]; /* "ip:port" */
    unsigned char secret[WEFT_KEY_BYTES];
};

/* One attempt. */
struct attempt {
    struct weft_comm *comm;
    int64_t deadline_ns;
    struct weft_boot_agreement *agreement;
    int pause_ms;    /* before the next */
    int rank, ranks; /* ours among the survivors, and their number */
    int listen_fd;
    struct invitation invitation;
};

int weft_comm_abort(weft_comm *comm, const char *reason)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm)
        return weft_fail(WEFT_INVALID, "comm is NULL");
    char text[WEFT_DETAIL_MAX];
    snprintf(text, sizeof text, "aborted by the program%s%.300s", reason ? ": " : "", reason ? reason : "");
    if (comm->bootstrap) {
        /* Not the context's lock: its holder may be inside a call. It looks at the bootstrap often. */
        if (atomic_load(&comm->shrinking))
            weft_bootstrap_abort(comm->bootstrap, text);
        else
            weft_bootstrap_revoke(comm->bootstrap, text);
    } else {
        weft_context_lock(comm->context);
        if (!comm->failed) {
            snprintf(comm->failure, sizeof comm->failure, "%s", text);
            atomic_store(&comm->failed, WEFT_REVOKED);
        }
        weft_context_unlock(comm->context);
    }
    weft_progress_wake(comm->context);
    return WEFT_OK;
}

static void describe_death(const struct weft_boot_death *death, weft_failure *failure)
{
    memset(failure, 0, sizeof *failure);
    failure->rank = death->rank;
    failure->time_ns = death->time_ns;
    snprintf(failure->host, sizeof failure->host, "%s", death->host);
    snprintf(failure->reason, sizeof failure->reason, "%s", death->reason);
}

int weft_comm_failed(weft_comm *comm, weft_failure *failures, size_t failure_size, int capacity, int *count)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !count)
        return weft_fail(WEFT_INVALID, "%s is NULL", comm ? "count" : "comm");
    if (capacity < 0 || (capacity > 0 && !failures))
        return weft_fail(WEFT_INVALID, "capacity is %d: expected room for so many failures, or 0", capacity);
    if (capacity > 0 && failure_size < sizeof(int))
        return weft_fail(WEFT_INVALID, "failure_size is %zu: expected sizeof(weft_failure)", failure_size);
    if (!comm->bootstrap) {
        *count = 0;
        return WEFT_OK;
    }
    struct weft_boot_death *deaths = calloc((size_t)capacity + 1, sizeof *deaths);
    if (!deaths)
        return weft_fail(WEFT_NOMEM, "no memory for %d failures", capacity);
    int known;
    int status =
        weft_bootstrap_deaths(comm->bootstrap, deaths, capacity, &known, weft_comm_deadline_ns(comm));
    for (int i = 0; status == WEFT_OK && i < known && i < capacity; i++) {
        weft_failure failure;
        describe_death(&deaths[i], &failure);
        memcpy((char *)failures + (size_t)i * failure_size, &failure,
               failure_size < sizeof failure ? failure_size : sizeof failure);
    }
    if (status == WEFT_OK)
        *count = known;
    free(deaths);
    return status;
}

/* Opens the listener that the others are invited to. */
static int invite(struct attempt *attempt)
{
    int status = weft_bootstrap_listen(attempt->comm->bootstrap, &attempt->listen_fd,
                                       attempt->invitation.address, sizeof attempt->invitation.address);
    if (status == WEFT_OK)
        weft_crypto_random(attempt->invitation.secret, sizeof attempt->invitation.secret);
    return status;
}

/* Step 1. *invited is 0 when the leader did not expect to be it: then the next attempt knows. */
static int agree_on_dead(struct attempt *attempt, int *invited)
{
    struct weft_comm *comm = attempt->comm;
    struct weft_boot_agreement *agreement = attempt->agreement;
    size_t size = 0;
    int able = 1;
    if (weft_bootstrap_lowest(comm->bootstrap) == comm->rank) {
        able = invite(attempt) == WEFT_OK;
        size = able ? sizeof attempt->invitation : 0;
    }
    char reason[WEFT_DETAIL_MAX];
    snprintf(reason, sizeof reason, "%s", able ? "" : weft_error_detail());
    uint64_t flags = able ? FLAG_ABLE | FLAG_AGAIN : 0;
    int status = weft_bootstrap_agree(comm->bootstrap, flags, &attempt->invitation, size,
                                      attempt->deadline_ns, agreement);
    if (status != WEFT_OK)
        return status;
    if (agreement->flags == FLAG_AGAIN)
        return weft_fail(WEFT_AGAIN, "another survivor was not at the beginning");
    if (!(agreement->flags & FLAG_ABLE))
        return able
                   ? weft_fail(WEFT_REVOKED, "rank %d, which would be rank 0 of the survivors, cannot listen",
                               agreement->leader)
                   : weft_fail(WEFT_SYSTEM, "%s", reason);
    *invited = agreement->payload_size == sizeof attempt->invitation;
    if (*invited)
        memcpy(&attempt->invitation, agreement->payload, sizeof attempt->invitation);
    attempt->invitation.address[sizeof attempt->invitation.address - 1] = '\0';
    attempt->rank = attempt->ranks = 0;
    for (int r = 0; r < comm->ranks; r++) {
        attempt->rank += r < comm->rank && !agreement->dead[r];
        attempt->ranks += !agreement->dead[r];
    }
    return WEFT_OK;
}

/* Another rank died or left since: this meeting cannot become whole. Or a rank has aborted. */
static int has_news(void *arg)
{
    const struct attempt *attempt = arg;
    struct weft_bootstrap *bootstrap = attempt->comm->bootstrap;
    return weft_bootstrap_aborts(bootstrap) != attempt->agreement->aborts ||
           weft_bootstrap_lost_more(bootstrap, attempt->agreement->dead);
}

/* Step 2. */
static int meet_again(struct attempt *attempt, struct weft_comm **made)
{
    struct weft_comm *comm = attempt->comm;
    struct weft_bootstrap_options options = {
        .rank = attempt->rank,
        .ranks = attempt->ranks,
        .name = comm->name,
        .listen_fd = attempt->rank == 0 ? attempt->listen_fd : -1,
        .address = attempt->invitation.address,
        .generation = comm->generation + 1,
        .secret = attempt->invitation.secret,
        .secret_size = sizeof attempt->invitation.secret,
        .cancelled = has_news,
        .cancelled_arg = attempt,
    };
    int64_t until_ns = attempt->deadline_ns;
    if (until_ns == WEFT_NEVER_NS || until_ns - weft_clock_ns() > ATTEMPT_NS)
        until_ns = weft_clock_ns() + ATTEMPT_NS;
    return weft_comm_open(comm->context, &options, comm->timeout_ms, until_ns, made);
}

static int may_work_later(int status)
{
    return status == WEFT_PEER_FAILED || status == WEFT_ABSENT || status == WEFT_TIMEOUT ||
           status == WEFT_REVOKED || status == WEFT_CANCELLED || status == WEFT_AGAIN;
}

/* Steps 2 and 3. WEFT_AGAIN: not all could meet, another attempt may work. */
static int meet_all(struct attempt *attempt, struct weft_comm **smaller)
{
    struct weft_comm *made = NULL;
    char reason[WEFT_DETAIL_MAX];
    int met = meet_again(attempt, &made);
    snprintf(reason, sizeof reason, "%s",
             met == WEFT_OK ? "another survivor could not join" : weft_error_detail());
    uint64_t flags = met == WEFT_OK ? FLAG_MET | FLAG_AGAIN : may_work_later(met) ? FLAG_AGAIN : 0;
    int status = weft_bootstrap_agree(attempt->comm->bootstrap, flags, NULL, 0, attempt->deadline_ns,
                                      attempt->agreement);
    if (status == WEFT_OK && (attempt->agreement->flags & FLAG_MET)) {
        *smaller = made;
        return WEFT_OK;
    }
    int again = status == WEFT_OK && (attempt->agreement->flags & FLAG_AGAIN);
    if (status != WEFT_OK)
        snprintf(reason, sizeof reason, "%s", weft_error_detail());
    if (made) {
        /* Others may have heard that it worked, and be in it already. */
        if (made->bootstrap)
            weft_bootstrap_revoke(made->bootstrap, reason);
        weft_comm_discard(made);
    }
    if (again) {
        weft_log(WEFT_LOG_INFO, "rank %d: the survivors could not all meet, and try again: %s",
                 attempt->comm->rank, reason);
        return weft_fail(WEFT_AGAIN, "%s", reason);
    }
    return weft_fail(status != WEFT_OK ? status : met != WEFT_OK ? met : WEFT_REVOKED, "%s", reason);
}

/* WEFT_AGAIN: try again. */
static int attempt_once(struct attempt *attempt, struct weft_comm **smaller)
{
    int invited = 0;
    attempt->listen_fd = -1;
    int status = agree_on_dead(attempt, &invited);
    if (status == WEFT_OK)
        status = invited ? meet_all(attempt, smaller)
                         : weft_fail(WEFT_AGAIN, "the lowest survivor has changed meanwhile");
    if (attempt->listen_fd >= 0)
        weft_fd_close(attempt->listen_fd);
    weft_crypto_wipe(&attempt->invitation, sizeof attempt->invitation);
    return status;
}

/* Whatever keeps the survivors from meeting, they do not try at full speed. */
static void pause_before_next(struct attempt *attempt)
{
    int pause_ms = weft_clock_left_ms(attempt->deadline_ns, attempt->pause_ms);
    struct timespec pause = {.tv_nsec = pause_ms * 1000000L};
    nanosleep(&pause, NULL);
    attempt->pause_ms = attempt->pause_ms < PAUSE_MS_MAX / 2 ? 2 * attempt->pause_ms : PAUSE_MS_MAX;
}

int weft_comm_shrink(weft_comm *comm, weft_comm **smaller)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !smaller)
        return weft_fail(WEFT_INVALID, "%s is NULL", comm ? "smaller" : "comm");
    if (!comm->bootstrap)
        return weft_group_alone(comm, smaller);
    struct weft_boot_agreement agreement = {.dead = calloc((size_t)comm->ranks, 1)};
    struct attempt attempt = {
        .comm = comm, .deadline_ns = weft_comm_deadline_ns(comm), .agreement = &agreement, .pause_ms = 1};
    if (!agreement.dead)
        return weft_fail(WEFT_NOMEM, "no memory for %d ranks", comm->ranks);
    agreement.aborts = weft_bootstrap_aborts(comm->bootstrap);
    atomic_fetch_add(&comm->shrinking, 1);
    int status = attempt_once(&attempt, smaller);
    while (status == WEFT_AGAIN && weft_clock_ns() < attempt.deadline_ns) {
        pause_before_next(&attempt);
        status = attempt_once(&attempt, smaller);
    }
    atomic_fetch_sub(&comm->shrinking, 1);
    weft_crypto_wipe(agreement.payload, sizeof agreement.payload);
    free(agreement.dead);
    if (status != WEFT_AGAIN)
        return status;
    char reason[WEFT_DETAIL_MAX];
    snprintf(reason, sizeof reason, "%.900s", weft_error_detail());
    return weft_fail(WEFT_TIMEOUT, "the survivors could not meet within %lld ms: %s",
                     (long long)comm->timeout_ms, reason);
}
