/* SPDX-License-Identifier: Apache-2.0 */
/* The other ranks' side of the start: find rank 0, check in, receive the table (docs/bootstrap.md, 1 and 2).
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "comm/boot/boot.h"
#include "comm/boot/record.h"

#define CONNECT_NS    INT64_C(2000000000) /* for one of several addresses, and at first for its handshake */
#define REREAD_NS     INT64_C(1000000000) /* not accepted for so long: has the record changed? */
#define STORE_WAIT_MS 200

struct join {
    struct weft_bootstrap *b;
    const struct weft_bootstrap_options *options;
    int64_t start_ns, reread_ns;
    uint64_t nonce;
    struct weft_net_dial root;  /* to rank 0, until it is welcomed */
    struct weft_boot_link link; /* to rank 0, from then on */
    int candidates, candidate;  /* addresses there are, and which was the last, or is the next, to be tried */
    int64_t handshake_ns; /* for a handshake with one of several: longer each time that all were too slow */
    struct weft_net_address mine;
    int said_why, reported;                 /* that it is still trying */
    char where[WEFT_NET_HOSTPORT_MAX + 16]; /* rank 0, as far as known */
    char reason[WEFT_BOOT_TEXT_MAX / 2];    /* why the last attempt failed */
    int unproven;                           /* attempts that were cut off when this rank had sent its proof */
};

static void hang_up(struct join *join)
{
    weft_net_dial_stop(&join->root);
    join->root.state = WEFT_NET_DIAL_IDLE;
    weft_boot_link_close(&join->link);
}

static int has_record(const struct join *join)
{
    return join->options->store || join->options->file;
}

/* Where rank 0 may be reached, in the order to try. */
static int find_root(struct join *join, struct weft_net_addresses *candidates)
{
    if (!has_record(join)) {
        join->nonce = 0;
        snprintf(join->where, sizeof join->where, "%.*s", WEFT_NET_HOSTPORT_MAX - 1, join->options->address);
        int status = weft_net_hostport_resolve(join->options->address, candidates);
        if (status == WEFT_RANKS_ABSENT && !join->said_why)
            join->said_why = weft_boot_say_trying(weft_error_detail(), "trying", join->start_ns,
                                                  WEFT_BOOT_TRYING_NS, join->options->deadline_ns);
        return status;
    }
    struct weft_boot_record record;
    int wait_ms = weft_clock_left_ms(join->options->deadline_ns, STORE_WAIT_MS);
    int status = weft_boot_record_fetch(join->options, wait_ms, &record);
    if (status != WEFT_OK)
        return status;
    uint64_t here = weft_net_host_identity();
    int same_host = here != 0 && here == record.host;
    candidates->count = 0;
    if (record.nonce != join->nonce)
        join->candidate = 0;
    join->nonce = record.nonce;
    status = weft_boot_secret_take(join->b, &record);
    weft_crypto_wipe(record.secret, sizeof record.secret);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < record.addresses.count; i++) {
        const struct weft_net_address *address = &record.addresses.at[i];
        if (!weft_net_address_is_loopback(address) || same_host)
            candidates->at[candidates->count++] = *address;
    }
    if (candidates->count == 0)
        return weft_fail(WEFT_RANKS_ABSENT, "rank 0 is on another host and has no address but loopback");
    weft_net_addresses_spread(candidates);
    if (candidates->count == 0)
        return weft_fail(WEFT_RANKS_ABSENT,
                         "rank 0 is on another host and has link-local addresses alone, and no "
                         "interface of this host has any");
    weft_net_address_text(&candidates->at[0], 1, join->where);
    return WEFT_OK;
}

/* The deadline, or a moment before it if there are other addresses to try. */
static int64_t until(const struct join *join, int64_t wait_ns)
{
    int64_t until_ns = weft_clock_ns() + wait_ns;
    return join->candidates > 1 && until_ns < join->options->deadline_ns ? until_ns
                                                                         : join->options->deadline_ns;
}

/* What answers at this address is not rank 0, or has no time. A rank 0 that has little gets more of it when all
 * addresses have had their turn. */
static void try_next(struct join *join, int status)
{
    join->candidate++;
    if (status == WEFT_TIMEOUT && join->candidate >= join->candidates)
        join->handshake_ns *= 2;
}

static int record_changed(struct join *join)
{
    struct weft_boot_record record;
    if (!has_record(join))
        return 0;
    int changed = weft_boot_record_fetch(join->options, 0, &record) == WEFT_OK && record.nonce != join->nonce;
    weft_crypto_wipe(&record, sizeof record);
    return changed;
}

static int too_slow(const struct join *join)
{
    char text[WEFT_NET_ADDRESS_TEXT];
    weft_net_address_text(&join->root.address, 1, text);
    if (join->root.state == WEFT_NET_DIAL_CONNECTING)
        return weft_fail(WEFT_TIMEOUT, "connect to %s: no answer", text);
    if (join->root.state == WEFT_NET_DIAL_WELCOMED)
        return weft_fail(WEFT_TIMEOUT, "connected, but the check-in was not answered");
    return weft_fail(WEFT_TIMEOUT, "connected to %s, but the check-in was not answered: no handshake", text);
}

/* Once, when the meeting takes long. */
static void report(struct join *join, const char *reason)
{
    char text[WEFT_DETAIL_MAX];
    const struct weft_bootstrap_options *options = join->options;
    if (join->reported || !options->report_ns || weft_clock_ns() < join->start_ns + options->report_ns)
        return;
    snprintf(text, sizeof text, "rank 0 has not answered%s%s after %.1f s: %s", join->where[0] ? " at " : "",
             join->where, (double)(weft_clock_ns() - join->start_ns) / 1e9, reason);
    join->reported = weft_boot_say_trying(text, "trying", join->start_ns, 0, options->deadline_ns);
}

/* Waits for an answer of rank 0, and looks now and then whether to go on waiting. */
static int await_root(struct join *join, int fd, short events, int64_t until_ns)
{
    struct pollfd wait = {.fd = fd, .events = events};
    int64_t look_ns = until_ns < join->reread_ns ? until_ns : join->reread_ns;
    int ready = weft_net_poll(&wait, 1, look_ns, weft_boot_nap_ms(join->b));
    int status = weft_boot_check_cancelled(join->b);
    if (status != WEFT_OK || ready > 0)
        return status;
    if (weft_clock_ns() >= until_ns)
        return too_slow(join);
    if (weft_clock_ns() >= join->reread_ns) {
        if (record_changed(join))
            return weft_fail(WEFT_AGAIN, "the record of rank 0 has changed");
        join->reread_ns = weft_clock_ns() + REREAD_NS;
        too_slow(join);
        report(join, weft_error_detail());
    }
    return WEFT_OK;
}

/* Carries the handshake on until it is past this state. */
static int pass_state(struct join *join, enum weft_net_dial_state state, int64_t until_ns)
{
    int status = WEFT_OK;
    while (status == WEFT_OK && join->root.state <= state) {
        status = await_root(join, join->root.fd, weft_net_dial_events(&join->root), until_ns);
        if (status == WEFT_OK)
            status = weft_net_dial_step(&join->root);
    }
    return status;
}

/* Connects, no more: what is there may take its time before it speaks. */
static int connect_root(struct join *join, const struct weft_net_address *address)
{
    struct weft_auth_claims claims = weft_boot_claims(join->b, WEFT_AUTH_CHECKIN);
    claims.nonce = join->nonce;
    int status = weft_net_dial_start(&join->root, &join->b->job, address, &claims);
    if (status == WEFT_OK)
        status = pass_state(join, WEFT_NET_DIAL_CONNECTING, until(join, CONNECT_NS));
    if (status != WEFT_OK)
        weft_net_dial_stop(&join->root);
    return status;
}

/* That somebody takes the connection says little: the same private address may be another host's here, or a network's
 * that every host has for itself. So each attempt begins behind the address of the last. */
static int reach_root(struct join *join)
{
    struct weft_net_addresses candidates;
    int status = find_root(join, &candidates);
    if (status != WEFT_OK)
        return status;
    join->candidates = candidates.count;
    for (int i = 0; i < candidates.count; i++, join->candidate++) {
        join->candidate %= candidates.count;
        const struct weft_net_address *address = &candidates.at[join->candidate];
        status = connect_root(join, address);
        if (status == WEFT_OK && has_record(join))
            weft_net_address_text(address, 1, join->where);
        if (status == WEFT_OK)
            break;
    }
    return status;
}

/* Both ends prove the secret. */
static int shake_hands(struct join *join)
{
    int64_t until_ns = until(join, join->handshake_ns);
    int status = pass_state(join, WEFT_NET_DIAL_PROVEN, until_ns);
    if (status != WEFT_OK)
        return status;
    weft_boot_link_open(&join->link, join->root.fd, &join->root.session,
                        WEFT_BOOT_BIT(WEFT_BOOT_ACCEPTED) | WEFT_BOOT_BIT(WEFT_BOOT_REFUSED));
    join->root.fd = -1;
    return WEFT_OK;
}

/* Opens the listener for the lower neighbours, on the address by which rank 0 was reached. */
static int listen_for_neighbours(struct join *join)
{
    struct weft_bootstrap *b = join->b;
    int expected = 0, status = weft_net_local_address(join->link.fd, &join->mine);
    if (status != WEFT_OK)
        return status;
    join->mine.port = 0;
    struct weft_net_address at = join->mine;
    int given_loopback = !has_record(join) && weft_net_hostport_is_loopback(join->options->address);
    if (weft_net_address_is_loopback(&at) && !given_loopback)
        memset(&at, 0, sizeof at); /* rank 0 may give others another address of this host */
    status = weft_net_listen(&at, &b->listener, &join->mine.port);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < b->edge_count; i++)
        expected += b->edges[i].rank < b->rank;
    return weft_net_accept_open("bootstrap", b->listener, &b->job, expected, &b->strangers, &b->accept);
}

static int send_checkin(struct join *join)
{
    int64_t deadline_ns = join->options->deadline_ns;
    int64_t left_ns = deadline_ns - weft_clock_ns();
    struct weft_boot_checkin checkin = {
        .left_ms = deadline_ns == WEFT_NEVER_NS ? UINT64_MAX
                   : left_ns < 0                ? 0
                                                : (uint64_t)left_ns / 1000000,
    };
    weft_boot_self(&checkin.member);
    checkin.member.address = join->mine;
    struct weft_boot_writer body = {0};
    weft_boot_checkin_put(&body, &checkin);
    int status = weft_boot_send(&join->link, WEFT_BOOT_CHECKIN, &body);
    free(body.data);
    return status;
}

/* A refusal as an error of this rank. WEFT_AGAIN: look elsewhere. */
static int refused(const struct weft_boot_frame *frame)
{
    struct weft_boot_refused refusal;
    int status = weft_boot_refused_get(frame->body, frame->size, &refusal);
    if (status != WEFT_OK)
        return status;
    status = refusal.status >= WEFT_INTERNAL ? refusal.status : WEFT_PROTOCOL;
    return weft_fail(status, "%s", refusal.text);
}

static int read_answer(struct join *join)
{
    struct weft_boot_frame frame;
    weft_boot_reader_take(&join->link.reader, &frame);
    int status;
    if (frame.type == WEFT_BOOT_REFUSED)
        status = refused(&frame);
    else
        status = weft_boot_accepted_get(frame.body, frame.size, &join->b->session);
    free(frame.body);
    return status;
}

/* Waits to be accepted. *final: the answer concerns this rank and trying again would not change it. */
static int await_accepted(struct join *join, int *final)
{
    for (;;) {
        int idle = 0;
        int status = weft_boot_receive(&join->link, &idle);
        if (status < 0)
            return status; /* whatever listens there is not rank 0, or not any more */
        if (status == 1) {
            int refusal = join->link.reader.frame.type == WEFT_BOOT_REFUSED;
            status = read_answer(join);
            *final = refusal && status != WEFT_AGAIN;
            return status;
        }
        if (idle && (status = await_root(join, join->link.fd, POLLIN, join->options->deadline_ns)) != WEFT_OK)
            return status;
    }
}

static int check_in(struct join *join)
{
    int pause_ms = WEFT_NET_PAUSE_FIRST_MS;
    for (;;) {
        int final = 0;
        join->reread_ns = weft_clock_ns() + REREAD_NS;
        int status = reach_root(join);
        if (status == WEFT_INVALID)
            return status;
        int reached = status == WEFT_OK;
        if (status == WEFT_OK)
            status = shake_hands(join);
        if (status == WEFT_OK)
            status = listen_for_neighbours(join);
        if (status == WEFT_OK)
            status = send_checkin(join);
        if (status == WEFT_OK)
            status = await_accepted(join, &final);
        if (status == WEFT_OK || final)
            return status;
        join->unproven += status == WEFT_PEER_FAILED && join->root.state == WEFT_NET_DIAL_PROVEN;
        snprintf(join->reason, sizeof join->reason, "%.*s", (int)sizeof join->reason - 1,
                 weft_error_detail());
        hang_up(join);
        weft_boot_listener_close(join->b);
        report(join, join->reason);
        if (reached)
            try_next(join, status);
        status = weft_boot_check_cancelled(join->b);
        if (status != WEFT_OK)
            return status;
        if (weft_clock_ns() >= join->options->deadline_ns) {
            double waited_s = (double)(weft_clock_ns() - join->start_ns) / 1e9;
            return weft_fail(WEFT_RANKS_ABSENT, "rank 0 did not answer%s%s within %.1f s: %s%s",
                             join->where[0] ? " at " : "", join->where, waited_s, join->reason,
                             join->unproven
                                 ? "; what listens there does not accept this rank's proof: has every rank "
                                   "the same secret?"
                                 : "");
        }
        weft_net_pause(&pause_ms, join->options->deadline_ns);
    }
}

/* Reads the TABLE; takes over the frame's body. */
static int take_table(struct join *join, struct weft_boot_frame *frame, struct weft_boot_bytes **table)
{
    struct weft_bootstrap *b = join->b;
    int64_t beat_ms;
    int status = weft_boot_table_get(frame->body, frame->size, b->session, &beat_ms, b->members, b->ranks);
    if (status != WEFT_OK) {
        free(frame->body);
        return status;
    }
    weft_boot_scopes_set(b, join->mine.scope);
    b->heartbeat_ns = beat_ms * 1000000;
    b->edges[0].link.reader.accepts = WEFT_BOOT_DOWN;
    *table = weft_boot_bytes_new(frame->body, frame->size);
    return *table ? WEFT_OK : WEFT_NOMEM;
}

/* Reads from the parent. 1: the table has come. */
static int read_parent(struct join *join, struct weft_boot_bytes **table)
{
    struct weft_boot_link *parent = &join->b->edges[0].link;
    int idle = 0;
    while (!idle) {
        int status = weft_boot_receive(parent, &idle);
        if (status == 1) {
            struct weft_boot_frame frame;
            weft_boot_reader_take(&parent->reader, &frame);
            status = take_table(join, &frame, table);
            if (status == WEFT_OK)
                return 1;
        }
        if (status < 0) {
            weft_log(WEFT_LOG_INFO, "bootstrap: lost the parent's connection: %s", weft_error_detail());
            weft_boot_link_close(parent);
            return 0;
        }
    }
    return 0;
}

/* Rank 0 has nothing more to say than why there will be no communicator. */
static int read_root(struct join *join)
{
    int idle = 0, status = 0;
    while (!idle && status == 0)
        status = weft_boot_receive(&join->link, &idle);
    if (status < 0) {
        char reason[128];
        snprintf(reason, sizeof reason, "%.127s", weft_error_detail());
        return weft_fail(WEFT_PEER_FAILED, "rank 0 at %s gave up while the ranks met: %s", join->where,
                         reason);
    }
    if (status == 0)
        return WEFT_OK;
    struct weft_boot_frame frame;
    weft_boot_reader_take(&join->link.reader, &frame);
    status = refused(&frame);
    free(frame.body);
    return status == WEFT_AGAIN ? WEFT_PROTOCOL : status;
}

static int table_late(const struct join *join)
{
    int parent = weft_boot_parent(join->b->rank);
    double waited_s = (double)(weft_clock_ns() - join->start_ns) / 1e9;
    return weft_fail(
        WEFT_RANKS_ABSENT,
        "rank %d checked in at %s, but heard nothing more from rank %d, its parent, within %.1f s",
        join->b->rank, join->where, parent, waited_s);
}

static int await_table(struct join *join, struct weft_boot_bytes **table)
{
    struct weft_bootstrap *b = join->b;
    int64_t give_up_ns = weft_boot_grace(join->options->deadline_ns);
    join->link.reader.accepts = WEFT_BOOT_BIT(WEFT_BOOT_REFUSED);
    for (;;) {
        struct pollfd wait[3] = {{.fd = join->link.fd, .events = POLLIN},
                                 {.fd = weft_net_accept_fd(b->accept), .events = POLLIN},
                                 {.fd = b->edges[0].link.fd, .events = POLLIN}};
        weft_net_poll(wait, 3, give_up_ns, weft_boot_nap_ms(b));
        int status = weft_boot_check_cancelled(b);
        if (status != WEFT_OK)
            return status;
        if (wait[2].revents && read_parent(join, table))
            return WEFT_OK;
        if (wait[0].revents)
            status = read_root(join);
        if (status != WEFT_OK)
            return status;
        if (wait[1].revents)
            weft_boot_mesh_serve(b);
        if (weft_clock_ns() >= give_up_ns)
            return table_late(join);
    }
}

int weft_boot_join(struct weft_bootstrap *b, const struct weft_bootstrap_options *options,
                   struct weft_boot_bytes **table)
{
    struct join *join = calloc(1, sizeof *join);
    if (!join)
        return weft_fail(WEFT_NOMEM, "bootstrap: no memory");
    join->b = b;
    join->options = options;
    join->start_ns = weft_clock_ns();
    join->handshake_ns = CONNECT_NS;
    join->root.fd = join->link.fd = -1;
    int status = check_in(join);
    if (status == WEFT_OK)
        status = await_table(join, table);
    hang_up(join);
    free(join);
    return status;
}
