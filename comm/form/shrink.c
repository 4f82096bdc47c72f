/* SPDX-License-Identifier: Apache-2.0 */
/* Ending a communicator on purpose, asking who has died, and going on without the dead.
 *
 * Shrinking is a meeting (comm/form/meeting.h) whose exchanges are agreements over the old communicator's overlay, which survivors reach
 * whatever dies meanwhile (docs/bootstrap.md, sections 9 to 11): first on the dead, with which the lowest survivor, rank 0 to be, sends
 * where it listens (frames are sealed, and the dead have no edges any more); then on whether all have met. If not, it is held again, with
 * the deaths since known. The second agreement is what makes all survivors return alike: a rank that returned the new communicator while
 * another began anew would wait for it in vain.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/struct.h"
#include "comm/drive/progress.h"
#include "comm/form/making.h"
#include "comm/form/meeting.h"

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
    unsigned char seed[WEFT_SEED_BYTES];
};

/* One attempt. */
struct attempt {
    struct weft_meeting meeting; /* first, so that one is the other */
    struct weft_boot_agreement agreement;
    int pause_ms; /* before the next */
};

/* The call. comm->shrinking counts it from its beginning on, though its thread may begin later: weft_comm_abort() is to end it. */
struct shrinking {
    struct weft_making making; /* first, so that one is the other */
    uint64_t aborts;           /* known before */
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
    /* Not the context's lock: its holder may be inside a call. It looks at the bootstrap often. */
    if (atomic_load(&comm->shrinking))
        weft_bootstrap_abort(comm->bootstrap, text);
    else
        weft_bootstrap_revoke(comm->bootstrap, text);
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

int weft_comm_get_failures(weft_comm *comm, weft_failure *failures, int capacity, int *count)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !count)
        return weft_fail(WEFT_INVALID, "%s is NULL", comm ? "count" : "comm");
    if (capacity < 0 || (capacity > 0 && !failures))
        return weft_fail(WEFT_INVALID, "capacity is %d: expected room for so many failures, or 0", capacity);
    static const struct weft_struct about = WEFT_STRUCT(weft_failure, WEFT_FAILURE_INIT, rank);
    int status = capacity > 0 ? weft_struct_check(&about, failures) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    int room = capacity < comm->ranks ? capacity : comm->ranks, known;
    struct weft_boot_death *deaths = calloc((size_t)room + 1, sizeof *deaths);
    if (!deaths)
        return weft_fail(WEFT_NOMEM, "no memory for %d failures", room);
    status = weft_bootstrap_deaths(comm->bootstrap, deaths, room, &known, weft_comm_deadline_ns(comm));
    for (int i = 0; status == WEFT_OK && i < known && i < room; i++) {
        weft_failure failure;
        describe_death(&deaths[i], &failure);
        weft_struct_fill(&about, failures, (size_t)i, &failure);
    }
    if (status == WEFT_OK)
        *count = known;
    free(deaths);
    return status;
}

/* The first exchange. */
static int agree_on_dead(struct attempt *attempt, struct weft_word *heard)
{
    struct weft_meeting *meeting = &attempt->meeting;
    struct weft_boot_agreement *agreement = &attempt->agreement;
    struct invitation invitation = {0};
    int able = meeting->mine.status == WEFT_OK, invites = able && meeting->leads;
    memcpy(invitation.address, meeting->mine.address, sizeof invitation.address);
    memcpy(invitation.seed, meeting->mine.seed, sizeof invitation.seed);
    int status =
        weft_bootstrap_agree(meeting->parent->bootstrap, able ? FLAG_ABLE | FLAG_AGAIN : 0, &invitation,
                             invites ? sizeof invitation : 0, meeting->deadline_ns, agreement);
    weft_crypto_wipe(&invitation, sizeof invitation);
    if (status != WEFT_OK)
        return status;
    if (agreement->flags == FLAG_AGAIN)
        return weft_fail(WEFT_AGAIN, "another survivor was not at the beginning");
    if (!able)
        return weft_fail(meeting->mine.status, "%s", meeting->mine.text);
    if (!(agreement->flags & FLAG_ABLE))
        return weft_fail(WEFT_REVOKED, "rank %d, which would be rank 0 of the survivors, cannot listen",
                         agreement->leader);
    if (agreement->payload_size != sizeof invitation)
        return weft_fail(WEFT_AGAIN, "the lowest survivor has changed meanwhile");
    memcpy(&invitation, agreement->payload, sizeof invitation);
    snprintf(heard->address, sizeof heard->address, "%.63s", invitation.address);
    memcpy(heard->seed, invitation.seed, sizeof heard->seed);
    weft_crypto_wipe(&invitation, sizeof invitation);
    meeting->rank = meeting->ranks = 0;
    for (int r = 0; r < meeting->parent->ranks; r++) {
        meeting->rank += r < meeting->parent->rank && !agreement->dead[r];
        if (!agreement->dead[r])
            meeting->members[meeting->ranks++] = r;
    }
    return WEFT_OK;
}

static int may_work_later(int status)
{
    return status == WEFT_PEER_FAILED || status == WEFT_RANKS_ABSENT || status == WEFT_TIMEOUT ||
           status == WEFT_REVOKED || status == WEFT_CANCELLED || status == WEFT_AGAIN;
}

/* The second. WEFT_AGAIN: not all could meet, another attempt may work. */
static int agree_on_end(struct attempt *attempt, struct weft_word *heard)
{
    struct weft_meeting *meeting = &attempt->meeting;
    const struct weft_word *mine = &meeting->mine;
    int met = mine->status == WEFT_OK;
    uint64_t flags = met ? FLAG_MET | FLAG_AGAIN : may_work_later(mine->status) ? FLAG_AGAIN : 0;
    int status = weft_bootstrap_agree(meeting->parent->bootstrap, flags, NULL, 0, meeting->deadline_ns,
                                      &attempt->agreement);
    if (status != WEFT_OK || (attempt->agreement.flags & FLAG_MET))
        return status;
    *heard = (struct weft_word){.status = WEFT_REVOKED, .text = "another survivor could not join"};
    if (!(attempt->agreement.flags & FLAG_AGAIN))
        return WEFT_OK;
    const char *reason = met ? heard->text : mine->text;
    weft_log(WEFT_LOG_INFO, "rank %d: the survivors could not all meet, and try again: %s",
             meeting->parent->rank, reason);
    return weft_fail(WEFT_AGAIN, "%s", reason);
}

static int exchange(struct weft_meeting *meeting, enum weft_meeting_step step, struct weft_word *heard)
{
    struct attempt *attempt = (struct attempt *)meeting;
    return step == WEFT_MEETING_BEGIN ? agree_on_dead(attempt, heard) : agree_on_end(attempt, heard);
}

/* Another rank died or left since: this meeting cannot become whole. Or a rank has aborted. */
static int has_news(struct weft_meeting *meeting)
{
    const struct weft_boot_agreement *agreement = &((const struct attempt *)meeting)->agreement;
    struct weft_bootstrap *bootstrap = meeting->parent->bootstrap;
    return weft_bootstrap_aborts(bootstrap) != agreement->aborts ||
           weft_bootstrap_lost_more(bootstrap, agreement->dead);
}

/* WEFT_AGAIN: try again. */
static int attempt_once(struct attempt *attempt, struct weft_comm **smaller)
{
    struct weft_meeting *meeting = &attempt->meeting;
    meeting->leads = weft_bootstrap_lowest(meeting->parent->bootstrap) == meeting->parent->rank;
    meeting->mine = (struct weft_word){0};
    return weft_meeting_hold(meeting, smaller);
}

/* Whatever keeps the survivors from meeting, they do not try at full speed. */
static void pause_before_next(struct attempt *attempt)
{
    int pause_ms = weft_clock_left_ms(attempt->meeting.deadline_ns, attempt->pause_ms);
    struct timespec pause = {.tv_nsec = pause_ms * 1000000L};
    nanosleep(&pause, NULL);
    attempt->pause_ms = attempt->pause_ms < PAUSE_MS_MAX / 2 ? 2 * attempt->pause_ms : PAUSE_MS_MAX;
}

static int make(struct weft_making *making, struct weft_comm **smaller)
{
    struct weft_comm *comm = making->comm;
    struct attempt attempt = {.meeting = {.parent = comm,
                                          .generation = comm->generation + 1,
                                          .deadline_ns = making->deadline_ns,
                                          .exchange = exchange,
                                          .is_vain = has_news},
                              .agreement = {.dead = calloc((size_t)comm->ranks, 1),
                                            .aborts = ((const struct shrinking *)making)->aborts},
                              .pause_ms = 1};
    attempt.meeting.members = malloc((size_t)comm->ranks * sizeof *attempt.meeting.members);
    int status = attempt.agreement.dead && attempt.meeting.members
                     ? WEFT_OK
                     : weft_fail(WEFT_NOMEM, "no memory for %d ranks", comm->ranks);
    if (status == WEFT_OK) {
        while ((status = attempt_once(&attempt, smaller)) == WEFT_AGAIN &&
               weft_clock_ns() < attempt.meeting.deadline_ns)
            pause_before_next(&attempt);
    }
    weft_crypto_wipe(attempt.agreement.payload, sizeof attempt.agreement.payload);
    free(attempt.agreement.dead);
    free(attempt.meeting.members);
    if (status != WEFT_AGAIN)
        return status;
    char reason[WEFT_DETAIL_MAX];
    snprintf(reason, sizeof reason, "%.900s", weft_error_detail());
    return weft_fail(WEFT_TIMEOUT, "the survivors could not meet within %lld ms: %s",
                     (long long)making->timeout_ms, reason);
}

static void release(struct weft_making *making)
{
    atomic_fetch_sub(&making->comm->shrinking, 1);
}

int weft_comm_shrink(weft_comm *comm, weft_comm **smaller, const weft_call_options *options)
{
    weft_work **work;
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!comm || !smaller)
        return weft_fail(WEFT_INVALID, "%s is NULL", comm ? "smaller" : "comm");
    struct shrinking shrinking = {
        .making = {.comm = comm, .out = smaller, .is_collective = 1, .make = make, .release = release}};
    int status = weft_making_read(&shrinking.making, options, &work);
    if (status == WEFT_OK)
        status = weft_comm_check_free(comm);
    if (status != WEFT_OK)
        return status;
    shrinking.aborts = weft_bootstrap_aborts(comm->bootstrap);
    atomic_fetch_add(&comm->shrinking, 1);
    return weft_making_run(&shrinking.making, sizeof shrinking, work);
}
