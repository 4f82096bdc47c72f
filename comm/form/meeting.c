/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/form/meeting.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "comm/drive/progress.h"
#include "comm/form/create.h"

/* To meet takes that at most, or three quarters of what is left of the deadline: should somebody not come, because he
 * cannot, all are to hear why. */
#define MEETING_NS INT64_C(30000000000)

/* The same at all members, and for no other meeting. */
static void derive_secret(const struct weft_meeting *meeting, const struct weft_word *first,
                          unsigned char secret[WEFT_KEY_BYTES])
{
    struct {
        unsigned char seed[WEFT_SEED_BYTES], members[WEFT_MAC_BYTES];
    } purpose;
    memcpy(purpose.seed, first->seed, sizeof purpose.seed);
    weft_ranks_hash(meeting->members, meeting->ranks, purpose.members);
    weft_bootstrap_derive(meeting->parent->bootstrap, &purpose, sizeof purpose, secret);
    weft_crypto_wipe(&purpose, sizeof purpose);
}

static int is_in_vain(void *arg)
{
    struct weft_meeting *meeting = arg;
    return meeting->is_vain ? meeting->is_vain(meeting)
                            : weft_bootstrap_has_failed(meeting->parent->bootstrap);
}

/* Newcomers may take as long as the call may. */
static int64_t meet_until_ns(const struct weft_meeting *meeting)
{
    int64_t now_ns = weft_clock_ns(), longest_ns = meeting->place ? WEFT_NEVER_NS : MEETING_NS;
    int64_t soon_ns =
        meeting->deadline_ns == WEFT_NEVER_NS ? WEFT_NEVER_NS : (meeting->deadline_ns - now_ns) / 4 * 3;
    if (soon_ns > longest_ns)
        soon_ns = longest_ns;
    return soon_ns == WEFT_NEVER_NS ? WEFT_NEVER_NS : now_ns + soon_ns;
}

/* While a rank waits there the service thread drives its transports: others may need what it has sent. */
static int meet(struct weft_meeting *meeting, const struct weft_word *first, int listen_fd,
                struct weft_comm **made)
{
    struct weft_comm *parent = meeting->parent;
    unsigned char secret[WEFT_KEY_BYTES];
    char address[sizeof first->address];
    snprintf(address, sizeof address, "%s", first->address);
    weft_bootstrap_complete(parent->bootstrap, address, sizeof address);
    struct weft_bootstrap_options options = {.name = parent->name,
                                             .listen_fd = listen_fd,
                                             .address = address,
                                             .secret = secret,
                                             .secret_size = sizeof secret};
    if (meeting->place)
        options = *meeting->place;
    else if (meeting->ranks > 1)
        derive_secret(meeting, first, secret);
    options.rank = meeting->rank;
    options.ranks = meeting->ranks;
    options.generation = meeting->generation;
    options.cancelled = is_in_vain;
    options.cancelled_arg = meeting;
    weft_progress_background(parent->context, 1);
    int status = weft_comm_open(parent->context, &options, parent->timeout_ms, meet_until_ns(meeting), made);
    weft_progress_background(parent->context, -1);
    weft_crypto_wipe(secret, sizeof secret);
    return status;
}

static int run(struct weft_meeting *meeting, int listen_fd, struct weft_comm **made)
{
    struct weft_word first = {0}, last = {0};
    int status = meeting->exchange(meeting, WEFT_MEETING_BEGIN, &first);
    if (status != WEFT_OK)
        return status;
    int goes_on = meeting->ranks > 0 && meeting->mine.status == WEFT_OK && first.status == WEFT_OK;
    int met = goes_on ? meet(meeting, &first, listen_fd, made) : meeting->mine.status;
    weft_crypto_wipe(first.seed, sizeof first.seed);
    if (goes_on)
        weft_word_set(&meeting->mine, met);
    memset(meeting->mine.address, 0, sizeof meeting->mine.address);
    weft_crypto_wipe(meeting->mine.seed, sizeof meeting->mine.seed);
    status = meeting->exchange(meeting, WEFT_MEETING_END, &last);
    if (status != WEFT_OK)
        return status;
    const struct weft_word *others = first.status != WEFT_OK ? &first : &last;
    const struct weft_word *failed = weft_word_choose(&meeting->mine, others);
    return failed->status == WEFT_OK ? WEFT_OK : weft_fail(failed->status, "%s", failed->text);
}

int weft_meeting_hold(struct weft_meeting *meeting, struct weft_comm **out)
{
    struct weft_comm *made = NULL;
    int listen_fd = -1;
    if (meeting->leads && meeting->parent->ranks > 1 && meeting->mine.status == WEFT_OK) {
        int listens = weft_bootstrap_listen(meeting->parent->bootstrap, &listen_fd, meeting->mine.address,
                                            sizeof meeting->mine.address);
        if (listens == WEFT_OK)
            weft_crypto_random(meeting->mine.seed, sizeof meeting->mine.seed);
        else
            weft_word_set(&meeting->mine, listens);
    }
    int status = run(meeting, listen_fd, &made);
    weft_crypto_wipe(meeting->mine.seed, sizeof meeting->mine.seed);
    if (listen_fd >= 0)
        weft_fd_close(listen_fd);
    if (status == WEFT_OK) {
        *out = made;
        return WEFT_OK;
    }
    char reason[WEFT_DETAIL_MAX];
    snprintf(reason, sizeof reason, "%s", weft_error_detail());
    if (made) /* others may have heard that it worked, and be in it already */
        weft_bootstrap_revoke(made->bootstrap, reason);
    if (made)
        weft_comm_discard(made);
    return weft_fail(status, "%s", reason);
}
