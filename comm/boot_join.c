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
#include "comm/boot.h"
#include "comm/boot_record.h"

#define CONNECT_NS    INT64_C(2000000000) /* for one of several addresses, and at first for its handshake */
#define REREAD_NS     INT64_C(1000000000) /* not accepted for so long: has the record changed? */
#define STORE_WAIT_MS 200

/* The parent's connection to our listener. */
struct caller {
    int fd; /* -1: none */
    struct weft_auth_channel send;
    struct weft_boot_reader reader;
};

struct join {
    struct weft_bootstrap *b;
    const struct weft_bootstrap_options *options;
    int64_t start_ns;
    uint64_t nonce;
    struct weft_boot_dial root; /* to rank 0; fd -1: none */
    int candidates, candidate;  /* addresses there are, and which was the last, or is the next, to be tried */
    int64_t handshake_ns; /* for a handshake with one of several: longer each time that all were too slow */
    uint32_t sequence;
    struct weft_boot_reader reader;
    int listener; /* -1 none needed */
    struct weft_boot_accept *accept;
    struct weft_boot_address mine;
    struct caller parent;
    char where[WEFT_BOOT_HOSTPORT_MAX + 16]; /* rank 0, as far as known */
    char reason[WEFT_BOOT_TEXT_MAX / 2];     /* why the last attempt failed */
    int unproven; /* attempts that were cut off when this rank had sent its proof */
};

static void note_reason(struct join *join)
{
    snprintf(join->reason, sizeof join->reason, "%.*s", (int)sizeof join->reason - 1, weft_error_detail());
}

static void drop_parent(struct join *join)
{
    weft_fd_close(join->parent.fd);
    weft_boot_reader_clear(&join->parent.reader);
    weft_crypto_wipe(&join->parent, sizeof join->parent);
    join->parent.fd = -1;
}

static void hang_up(struct join *join)
{
    weft_boot_dial_stop(&join->root);
    join->root.state = WEFT_BOOT_DIAL_IDLE;
    weft_boot_retire(join->b, join->accept);
    join->accept = NULL;
    weft_fd_close(join->listener);
    join->listener = -1;
    weft_boot_reader_clear(&join->reader);
    drop_parent(join);
}

static int has_record(const struct join *join)
{
    return join->options->store || join->options->file;
}

/* Where rank 0 may be reached, in the order to try. */
static int find_root(struct join *join, struct weft_boot_addresses *candidates)
{
    if (!has_record(join)) {
        join->nonce = 0;
        snprintf(join->where, sizeof join->where, "%.*s", WEFT_BOOT_HOSTPORT_MAX - 1, join->options->address);
        return weft_boot_hostport_resolve(join->options->address, candidates);
    }
    struct weft_boot_record record;
    int wait_ms = weft_clock_left_ms(join->options->deadline_ns, STORE_WAIT_MS);
    int status = weft_boot_record_fetch(join->options, wait_ms, &record);
    if (status != WEFT_OK)
        return status;
    uint64_t here = weft_boot_host_identity();
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
        const struct weft_boot_address *address = &record.addresses.at[i];
        if (!weft_boot_address_is_loopback(address) || same_host)
            candidates->at[candidates->count++] = *address;
    }
    if (candidates->count == 0)
        return weft_fail(WEFT_ABSENT, "rank 0 is on another host and has no address but loopback");
    weft_boot_address_text(&candidates->at[0], 1, join->where);
    return WEFT_OK;
}

/* Connects, no more: what is there may take its time before it speaks. */
static int connect_root(struct join *join, const struct weft_boot_address *address, int64_t until_ns)
{
    const struct weft_auth_claims claims = {.purpose = WEFT_AUTH_CHECKIN,
                                            .rank = (uint32_t)join->b->rank,
                                            .ranks = (uint32_t)join->b->ranks,
                                            .generation = join->b->generation,
                                            .name_hash = join->b->name_hash,
                                            .nonce = join->nonce};
    int status = weft_boot_dial_start(&join->root, &join->b->job, address, &claims);
    while (status == WEFT_OK && join->root.state == WEFT_BOOT_DIAL_CONNECTING) {
        char text[WEFT_BOOT_ADDRESS_TEXT];
        struct pollfd wait = {.fd = join->root.fd, .events = weft_boot_dial_events(&join->root)};
        if (weft_boot_poll(&wait, 1, until_ns, weft_boot_nap_ms(join->b)) > 0)
            status = weft_boot_dial_step(&join->root);
        else if ((status = weft_boot_check_cancelled(join->b)) != WEFT_OK)
            break;
        else if (weft_clock_ns() >= until_ns)
            status =
                weft_fail(WEFT_TIMEOUT, "connect to %s: no answer", weft_boot_address_text(address, 1, text));
    }
    if (status != WEFT_OK)
        weft_boot_dial_stop(&join->root);
    return status;
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

/* That somebody takes the connection says little: the same private address may be another host's here, or a network's
 * that every host has for itself. So each attempt begins behind the address of the last. */
static int reach_root(struct join *join)
{
    struct weft_boot_addresses candidates;
    int status = find_root(join, &candidates);
    if (status != WEFT_OK)
        return status;
    join->candidates = candidates.count;
    for (int i = 0; i < candidates.count; i++, join->candidate++) {
        join->candidate %= candidates.count;
        const struct weft_boot_address *address = &candidates.at[join->candidate];
        status = connect_root(join, address, until(join, CONNECT_NS));
        if (status == WEFT_OK && has_record(join))
            weft_boot_address_text(address, 1, join->where);
        if (status == WEFT_OK)
            break;
    }
    join->sequence = WEFT_BOOT_SEQUENCE_START;
    weft_boot_reader_init(&join->reader,
                          WEFT_BOOT_BIT(WEFT_BOOT_ACCEPTED) | WEFT_BOOT_BIT(WEFT_BOOT_REFUSED));
    return status;
}

/* Opens the listener for the neighbours that dial this rank, on the address by which rank 0 was reached. */
static int listen_for_neighbours(struct join *join)
{
    int status = weft_boot_local_address(join->root.fd, &join->mine);
    join->mine.port = 0;
    int inbound = weft_boot_inbound(join->b->rank, join->b->ranks);
    if (status != WEFT_OK || inbound == 0)
        return status;
    struct weft_boot_address at = join->mine;
    int told_loopback = !has_record(join) && weft_boot_hostport_is_loopback(join->options->address);
    if (weft_boot_address_is_loopback(&at) && !told_loopback)
        memset(&at, 0, sizeof at); /* rank 0 may give others another address of this host */
    status = weft_boot_listen(&at, &join->listener, &join->mine.port);
    if (status != WEFT_OK)
        return status;
    return weft_boot_accept_open(join->listener, &join->b->job, inbound, &join->b->strangers, &join->accept);
}

static int send_checkin(struct join *join)
{
    int64_t deadline_ns = join->options->deadline_ns;
    int64_t left_ns = deadline_ns - weft_clock_ns();
    struct weft_boot_checkin checkin = {
        .version_min = WEFT_BOOT_VERSION_MIN,
        .version_max = WEFT_BOOT_VERSION_MAX,
        .method = WEFT_BOOT_METHOD,
        .features = WEFT_BOOT_FEATURES,
        .rank = (uint32_t)join->b->rank,
        .ranks = (uint32_t)join->b->ranks,
        .name_hash = join->b->name_hash,
        .nonce = join->nonce,
        .left_ms = deadline_ns == WEFT_NEVER_NS ? UINT64_MAX
                   : left_ns < 0                ? 0
                                                : (uint64_t)left_ns / 1000000,
    };
    weft_boot_self(&checkin.member);
    checkin.member.address = join->mine;
    struct weft_boot_writer body = {0};
    weft_boot_checkin_put(&body, &checkin);
    int status =
        weft_boot_send(join->root.fd, WEFT_BOOT_CHECKIN, &body, &join->sequence, &join->root.session.send);
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
    weft_boot_reader_take(&join->reader, &frame);
    int status;
    if (frame.type == WEFT_BOOT_REFUSED) {
        status = refused(&frame);
    } else {
        struct weft_boot_accepted accepted;
        status = weft_boot_accepted_get(frame.body, frame.size, &accepted);
        if (status == WEFT_OK)
            join->b->session = accepted.session;
    }
    free(frame.body);
    return status;
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

/* One step of the handshake. The check-in is sent right behind the proof: it costs no round trip of its own. */
static int shake_hands(struct join *join, int *idle)
{
    enum weft_boot_dial_state before = join->root.state;
    int status = weft_boot_dial_step(&join->root);
    *idle = join->root.state == before;
    if (status != WEFT_OK || *idle)
        return status;
    if (join->root.state == WEFT_BOOT_DIAL_PROVEN)
        return send_checkin(join);
    weft_boot_reader_unseal(&join->reader, &join->root.session.receive);
    return WEFT_OK;
}

static int too_slow(const struct join *join)
{
    char text[WEFT_BOOT_ADDRESS_TEXT];
    if (join->root.state == WEFT_BOOT_DIAL_WELCOMED)
        return weft_fail(WEFT_TIMEOUT, "connected, but the check-in was not answered");
    return weft_fail(WEFT_TIMEOUT, "connected to %s, but the check-in was not answered: no handshake",
                     weft_boot_address_text(&join->root.address, 1, text));
}

/* Waits to be accepted. *final: the answer concerns this rank and trying again would not change it. */
static int await_accepted(struct join *join, int *final)
{
    int64_t reread_ns = weft_clock_ns() + REREAD_NS;
    int64_t handshake_until_ns = until(join, join->handshake_ns);
    for (;;) {
        int idle = 0;
        int64_t give_up_ns =
            join->root.state == WEFT_BOOT_DIAL_WELCOMED ? join->options->deadline_ns : handshake_until_ns;
        int status = join->root.state == WEFT_BOOT_DIAL_WELCOMED
                         ? weft_boot_receive(join->root.fd, &join->reader, &idle)
                         : shake_hands(join, &idle);
        if (status < 0)
            return status; /* whatever listens there is not rank 0, or not any more */
        if (status == 1) {
            int refusal = join->reader.frame.type == WEFT_BOOT_REFUSED;
            status = read_answer(join);
            *final = refusal && status != WEFT_AGAIN;
            return status;
        }
        if (!idle)
            continue;
        if ((status = weft_boot_check_cancelled(join->b)) != WEFT_OK)
            return status;
        if (weft_clock_ns() >= give_up_ns)
            return too_slow(join);
        if (weft_clock_ns() >= reread_ns) {
            if (record_changed(join))
                return weft_fail(WEFT_AGAIN, "the record of rank 0 has changed");
            reread_ns = weft_clock_ns() + REREAD_NS;
        }
        struct pollfd wait = {.fd = join->root.fd, .events = POLLIN};
        weft_boot_poll(&wait, 1, give_up_ns < reread_ns ? give_up_ns : reread_ns, weft_boot_nap_ms(join->b));
    }
}

static int check_in(struct join *join)
{
    int pause_ms = WEFT_BOOT_PAUSE_FIRST_MS;
    for (;;) {
        int final = 0;
        int status = reach_root(join);
        if (status == WEFT_INVALID)
            return status;
        int reached = status == WEFT_OK;
        if (status == WEFT_OK)
            status = listen_for_neighbours(join);
        if (status == WEFT_OK)
            status = await_accepted(join, &final);
        if (status == WEFT_OK || final)
            return status;
        join->unproven += status == WEFT_PEER_FAILED && join->root.state == WEFT_BOOT_DIAL_PROVEN;
        note_reason(join);
        hang_up(join);
        if (reached)
            try_next(join, status);
        status = weft_boot_check_cancelled(join->b);
        if (status != WEFT_OK)
            return status;
        if (weft_clock_ns() >= join->options->deadline_ns) {
            double waited_s = (double)(weft_clock_ns() - join->start_ns) / 1e9;
            return weft_fail(WEFT_ABSENT, "rank 0 did not answer%s%s within %.1f s: %s%s",
                             join->where[0] ? " at " : "", join->where, waited_s, join->reason,
                             join->unproven
                                 ? "; what listens there does not accept this rank's proof: has every rank "
                                   "the same secret?"
                                 : "");
        }
        weft_boot_pause(&pause_ms, join->options->deadline_ns);
    }
}

static int accept_callers(struct join *join)
{
    struct weft_bootstrap *b = join->b;
    struct weft_boot_proven proven;
    int status;
    while ((status = weft_boot_accept_step(join->accept, &proven)) == 1) {
        if (weft_boot_mesh_take(b, &proven))
            continue;
        if (!weft_boot_claims_fit(b, &proven.claims, WEFT_AUTH_EDGE) ||
            proven.claims.rank != (uint32_t)weft_boot_parent(b->rank) ||
            weft_boot_welcome(&proven) != WEFT_OK) {
            weft_log(WEFT_LOG_INFO, "bootstrap: dropped a connection of rank %u, which is no neighbour",
                     (unsigned)proven.claims.rank);
            weft_fd_close(proven.fd);
            continue;
        }
        drop_parent(join); /* one that it gave up on */
        join->parent.fd = proven.fd;
        join->parent.send = proven.session.send;
        weft_boot_reader_init(&join->parent.reader, WEFT_BOOT_BIT(WEFT_BOOT_TABLE));
        weft_boot_reader_unseal(&join->parent.reader, &proven.session.receive);
    }
    weft_crypto_wipe(&proven, sizeof proven);
    return status;
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
    b->heartbeat_ns = beat_ms * 1000000;
    *table = weft_boot_bytes_new(frame->body, frame->size);
    return *table ? WEFT_OK : WEFT_NOMEM;
}

/* The connection becomes the parent's edge. */
static void become_edge(struct join *join, int *fd, struct weft_boot_reader *reader,
                        const struct weft_auth_channel *send, uint32_t sequence)
{
    struct weft_boot_edge *edge = &join->b->edges[0];
    uint64_t accepts = edge->reader.accepts;
    edge->fd = *fd;
    edge->made = 1;
    edge->sequence = sequence;
    edge->send = *send;
    edge->reader = *reader;
    edge->reader.accepts = accepts;
    *fd = -1;
    weft_boot_reader_init(reader, 0);
}

/* Reads from the parent's connection to our listener. 1: the table has come. */
static int read_parent(struct join *join, struct weft_boot_bytes **table)
{
    struct caller *parent = &join->parent;
    int idle = 0;
    while (!idle) {
        int status = weft_boot_receive(parent->fd, &parent->reader, &idle);
        if (status == 1) {
            struct weft_boot_frame frame;
            weft_boot_reader_take(&parent->reader, &frame);
            status = take_table(join, &frame, table);
            if (status == WEFT_OK) {
                become_edge(join, &parent->fd, &parent->reader, &parent->send, WEFT_BOOT_SEQUENCE_START);
                return 1;
            }
        }
        if (status < 0) {
            weft_log(WEFT_LOG_INFO, "bootstrap: lost the parent's connection: %s", weft_error_detail());
            drop_parent(join);
            return 0;
        }
    }
    return 0;
}

/* Reads from rank 0. 1: the table has come, which only its children get here. */
static int read_root(struct join *join, struct weft_boot_bytes **table)
{
    int idle = 0;
    while (!idle) {
        int status = weft_boot_receive(join->root.fd, &join->reader, &idle);
        if (status < 0) {
            char reason[128];
            snprintf(reason, sizeof reason, "%.127s", weft_error_detail());
            return weft_fail(WEFT_PEER_FAILED, "rank 0 at %s gave up while the ranks met: %s", join->where,
                             reason);
        }
        if (status == 1) {
            struct weft_boot_frame frame;
            weft_boot_reader_take(&join->reader, &frame);
            if (frame.type == WEFT_BOOT_TABLE) {
                status = take_table(join, &frame, table);
                if (status != WEFT_OK)
                    return status;
                become_edge(join, &join->root.fd, &join->reader, &join->root.session.send, join->sequence);
                return 1;
            }
            status = refused(&frame);
            free(frame.body);
            return status == WEFT_AGAIN ? WEFT_PROTOCOL : status;
        }
    }
    return 0;
}

static int table_late(const struct join *join)
{
    int parent = weft_boot_parent(join->b->rank);
    double waited_s = (double)(weft_clock_ns() - join->start_ns) / 1e9;
    return weft_fail(
        WEFT_ABSENT,
        "rank %d checked in at %s, but heard nothing more from rank %d, its parent, within %.1f s",
        join->b->rank, join->where, parent, waited_s);
}

static int await_table(struct join *join, struct weft_boot_bytes **table)
{
    int64_t deadline_ns = join->options->deadline_ns;
    int64_t give_up_ns = deadline_ns == WEFT_NEVER_NS ? deadline_ns : deadline_ns + WEFT_BOOT_GRACE_NS;
    uint64_t table_bit = weft_boot_parent(join->b->rank) == 0 ? WEFT_BOOT_BIT(WEFT_BOOT_TABLE) : 0;
    join->reader.accepts = WEFT_BOOT_BIT(WEFT_BOOT_REFUSED) | table_bit;
    for (;;) {
        struct pollfd wait[3] = {
            {.fd = join->root.fd, .events = POLLIN},
            {.fd = join->accept ? weft_boot_accept_fd(join->accept) : -1, .events = POLLIN},
            {.fd = join->parent.fd, .events = POLLIN}};
        weft_boot_poll(wait, 3, give_up_ns, weft_boot_nap_ms(join->b));
        int status = weft_boot_check_cancelled(join->b);
        if (status != WEFT_OK)
            return status;
        if (wait[2].revents)
            status = read_parent(join, table);
        if (status == 0 && wait[0].revents)
            status = read_root(join, table);
        if (status == 0 && wait[1].revents)
            status = accept_callers(join);
        if (status != 0)
            return status > 0 ? WEFT_OK : status;
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
    join->root.fd = join->parent.fd = join->listener = -1;
    int status = check_in(join);
    if (status == WEFT_OK)
        status = await_table(join, table);
    if (status == WEFT_OK) { /* some of the neighbours may still come */
        b->listener = join->listener;
        b->accept = join->accept;
        join->listener = -1;
        join->accept = NULL;
    }
    hang_up(join);
    free(join);
    return status;
}
