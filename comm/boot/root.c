/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's side of the start: everybody checks in here (docs/bootstrap.md, sections 1, 2 and 4).
 *
 * One epoll loop on the caller's thread. Who has proven the job's secret (base/net/accept.h) becomes a visitor,
 * and a rank when its check-in has been read. The first problem decides the text that everybody gets.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "comm/boot/boot.h"
#include "comm/boot/record.h"

#define LINGER_NS  INT64_C(2000000000) /* after a problem, for those who are just arriving */
#define EVENTS_MAX 64

struct visitor {
    struct visitor *next;
    struct visitor **at; /* what points here */
    struct weft_boot_link link;
    int rank; /* -1: has not checked in */
    struct weft_auth_claims claims;
};

struct weft_boot_root {
    struct weft_bootstrap *b;
    int poll_fd;
    struct visitor *first;
    struct visitor **by_rank;
    int arrived;                    /* ranks that have, this one included */
    int seen;                       /* check-ins of this job, refused ones included */
    struct weft_boot_record record; /* nonce 0 without one */
    int64_t start_ns, deadline_ns;
    int64_t report_ns; /* when to say who is missing, WEFT_NEVER_NS: not, or not again */
    char elsewhere[WEFT_NET_HOSTPORT_MAX + 80]; /* that the address given is none of this host's; "" */
    int problem;                                /* status, WEFT_OK none */
    char problem_text[WEFT_BOOT_TEXT_MAX];
};

static void visitor_drop(struct weft_boot_root *root, struct visitor *visitor)
{
    *visitor->at = visitor->next;
    if (visitor->next)
        visitor->next->at = visitor->at;
    if (visitor->rank >= 0)
        root->by_rank[visitor->rank] = NULL;
    /* By name: a close leaves it in the set while a copy of it exists, as in a child that is being forked. */
    weft_fd_unpoll(root->poll_fd, visitor->link.fd);
    weft_boot_link_close(&visitor->link);
    free(visitor);
}

/* Answers with a refusal. That it may not arrive is no reason to wait. */
static void refuse(struct visitor *visitor, int status, const char *text)
{
    struct weft_boot_writer body = {0};
    weft_boot_refused_put(&body, status, text);
    weft_boot_send(&visitor->link, WEFT_BOOT_REFUSED, &body);
    free(body.data);
}

static void refuse_all(struct weft_boot_root *root, int status, const char *text)
{
    for (struct visitor *each = root->first, *next; each; each = next) {
        next = each->next;
        if (each->rank >= 0) {
            refuse(each, status, text);
            visitor_drop(root, each);
        }
    }
}

__attribute__((format(printf, 3, 4))) static void problem(struct weft_boot_root *root, int status,
                                                          const char *format, ...)
{
    if (root->problem != WEFT_OK)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(root->problem_text, sizeof root->problem_text, format, args);
    va_end(args);
    root->problem = status;
    int64_t linger_ns = weft_clock_ns() + LINGER_NS;
    if (linger_ns < root->deadline_ns)
        root->deadline_ns = linger_ns;
    refuse_all(root, root->problem, root->problem_text);
}

/* It knows the secret but did not become a rank: one that hung up to try again, for instance. */
static void leave(struct weft_boot_root *root, struct visitor *visitor, const char *why)
{
    weft_log(WEFT_LOG_DEBUG, "bootstrap: rank %u did not check in after all: %s",
             (unsigned)visitor->claims.rank, why);
    visitor_drop(root, visitor);
}

/* What is wrong with a check-in of this job; 0 when nothing is. */
static int disagreement(struct weft_boot_root *root, const struct weft_auth_claims *claims, int version,
                        const struct weft_boot_member *member, char *text, size_t capacity)
{
    int ranks = root->b->ranks;
    unsigned rank = claims->rank, pid = member->pid;
    const char *host = member->host;
    if (version != WEFT_BOOT_VERSION) {
        snprintf(text, capacity, "rank %u speaks version %d of the bootstrap's protocol, rank 0 version %d",
                 rank, version, WEFT_BOOT_VERSION);
        return WEFT_PROTOCOL;
    }
    if (claims->ranks != (uint32_t)ranks) {
        snprintf(text, capacity, "rank %u on host '%s' (pid %u) says there are %u ranks, rank 0 says %d",
                 rank, host, pid, (unsigned)claims->ranks, ranks);
        return WEFT_INVALID;
    }
    if (rank >= (uint32_t)ranks) {
        snprintf(text, capacity, "host '%s' (pid %u) says it is rank %u of %d", host, pid, rank, ranks);
        return WEFT_INVALID;
    }
    const struct weft_boot_member *other = &root->b->members[rank];
    if (rank == 0 || root->by_rank[rank]) {
        snprintf(text, capacity, "rank %u exists twice: on host '%s' (pid %u) and on host '%s' (pid %u)",
                 rank, other->host, (unsigned)other->pid, host, pid);
        return WEFT_INVALID;
    }
    return WEFT_OK;
}

static int accept_rank(struct weft_boot_root *root, struct visitor *visitor)
{
    struct weft_boot_writer body = {0};
    weft_boot_put(&body, root->b->session, 8);
    int status = weft_boot_send(&visitor->link, WEFT_BOOT_ACCEPTED, &body);
    free(body.data);
    return status;
}

static void checkin(struct weft_boot_root *root, struct visitor *visitor, const struct weft_boot_frame *frame)
{
    const struct weft_auth_claims *claims = &visitor->claims;
    struct weft_boot_checkin in = {0};
    if (claims->purpose != WEFT_AUTH_CHECKIN) {
        leave(root, visitor, "its check-in is not what it proved to come for");
        return;
    }
    if (frame->version == WEFT_BOOT_VERSION &&
        weft_boot_checkin_get(frame->body, frame->size, &in) != WEFT_OK) {
        leave(root, visitor, weft_error_detail());
        return;
    }
    if (claims->name_hash != root->b->name_hash || claims->nonce != root->record.nonce ||
        claims->generation != root->b->generation) {
        refuse(visitor, WEFT_AGAIN, "rank 0 of another communicator or job listens there");
        visitor_drop(root, visitor);
        return;
    }
    char text[WEFT_BOOT_TEXT_MAX];
    int status = disagreement(root, claims, frame->version, &in.member, text, sizeof text);
    root->seen++;
    if (status != WEFT_OK)
        problem(root, status, "%s", text);
    if (root->problem != WEFT_OK) {
        refuse(visitor, root->problem, root->problem_text);
        visitor_drop(root, visitor);
        return;
    }
    if (!in.member.address.family || !in.member.address.port) {
        leave(root, visitor, "check-in without an address");
        return;
    }
    if (accept_rank(root, visitor) != WEFT_OK) {
        visitor_drop(root, visitor); /* it will come again */
        return;
    }
    visitor->rank = (int)claims->rank;
    visitor->link.reader.accepts = 0; /* it has nothing more to say */
    root->by_rank[visitor->rank] = visitor;
    root->b->members[visitor->rank] = in.member;
    root->arrived++;
    weft_log(WEFT_LOG_DEBUG, "bootstrap: rank %d on host '%s' (pid %u) has checked in, %d of %d are here",
             visitor->rank, in.member.host, (unsigned)in.member.pid, root->arrived, root->b->ranks);
    if (in.left_ms != UINT64_MAX && in.left_ms < INT64_MAX / 2000000) {
        int64_t theirs_ns = weft_clock_ns() + (int64_t)in.left_ms * 1000000;
        if (theirs_ns < root->deadline_ns)
            root->deadline_ns = theirs_ns;
    }
}

static void visitor_read(struct weft_boot_root *root, struct visitor *visitor)
{
    int idle = 0, status = 0;
    while (status == 0 && !idle)
        status = weft_boot_receive(&visitor->link, &idle);
    if (status == 1) {
        struct weft_boot_frame frame;
        weft_boot_reader_take(&visitor->link.reader, &frame);
        checkin(root, visitor, &frame);
        free(frame.body);
    } else if (status < 0 && visitor->rank < 0) {
        leave(root, visitor, weft_error_detail());
    } else if (status < 0) {
        const struct weft_boot_member *member = &root->b->members[visitor->rank];
        problem(root, WEFT_PEER_FAILED, "rank %d on host '%s' (pid %u) died while the ranks met: %s",
                visitor->rank, member->host, (unsigned)member->pid, weft_error_detail());
    }
}

static void visitor_add(struct weft_boot_root *root, const struct weft_net_proven *proven)
{
    struct visitor *visitor = calloc(1, sizeof *visitor);
    if (!visitor) {
        weft_fd_close(proven->fd);
        problem(root, WEFT_NOMEM, "rank 0 has no memory for another connection");
        return;
    }
    weft_boot_link_open(&visitor->link, proven->fd, &proven->session, WEFT_BOOT_BIT(WEFT_BOOT_CHECKIN));
    visitor->rank = -1;
    visitor->claims = proven->claims;
    visitor->next = root->first;
    visitor->at = &root->first;
    if (root->first)
        root->first->at = &visitor->next;
    root->first = visitor;
    if (weft_net_welcome(proven) != WEFT_OK) {
        leave(root, visitor, weft_error_detail());
        return;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = visitor};
    if (epoll_ctl(root->poll_fd, EPOLL_CTL_ADD, visitor->link.fd, &event) != 0) {
        visitor_drop(root, visitor);
        problem(root, WEFT_SYSTEM, "rank 0 cannot poll another connection");
    }
}

/* Takes in who has proven the secret. Visitors of events that are still to be handled must not vanish, so this
 * runs last in a round of events. */
static void accept_some(struct weft_boot_root *root)
{
    struct weft_net_proven proven;
    for (int i = 0; i < EVENTS_MAX; i++) {
        int status = weft_net_accept_step(root->b->accept, &proven);
        if (status < 0) {
            problem(root, WEFT_SYSTEM, "rank 0: %s", weft_error_detail());
            weft_fd_unpoll(root->poll_fd, weft_net_accept_fd(root->b->accept));
        }
        if (status != 1)
            break;
        visitor_add(root, &proven);
    }
    weft_crypto_wipe(&proven, sizeof proven);
}

static int is_done(const struct weft_boot_root *root)
{
    int ranks = root->b->ranks;
    return root->problem == WEFT_OK ? root->arrived == ranks : root->seen >= ranks - 1;
}

static int list_absent(const struct weft_boot_root *root, char *list, size_t capacity)
{
    int count = 0;
    unsigned char *absent = calloc(weft_boot_set_bytes(root->b->ranks), 1);
    snprintf(list, capacity, "ranks");
    for (int i = 1; absent && i < root->b->ranks; i++) {
        if (!root->by_rank[i])
            weft_boot_set_add(absent, i);
    }
    if (absent)
        count = weft_boot_set_text(absent, root->b->ranks, list, capacity);
    free(absent);
    return count;
}

static void report_absent(struct weft_boot_root *root)
{
    char list[256], text[sizeof list + sizeof root->elsewhere + 64];
    int64_t now_ns = weft_clock_ns();
    if (now_ns < root->report_ns)
        return;
    root->report_ns = WEFT_NEVER_NS;
    if (root->problem != WEFT_OK)
        return;
    int count = list_absent(root, list, sizeof list);
    snprintf(text, sizeof text, "%s of %d %s not arrived after %.1f s%s", list, root->b->ranks,
             count == 1 ? "has" : "have", (double)(now_ns - root->start_ns) / 1e9, root->elsewhere);
    weft_boot_say_trying(text, "waiting", root->start_ns, 0, root->deadline_ns);
}

static void serve(struct weft_boot_root *root)
{
    struct epoll_event events[EVENTS_MAX];
    while (!is_done(root)) {
        if (weft_clock_left_ms(root->deadline_ns, weft_boot_nap_ms(root->b)) == 0)
            return;
        report_absent(root);
        int64_t until_ns = root->report_ns < root->deadline_ns ? root->report_ns : root->deadline_ns;
        int left_ms = weft_clock_left_ms(until_ns, weft_boot_nap_ms(root->b));
        if (weft_boot_check_cancelled(root->b) != WEFT_OK)
            problem(root, WEFT_CANCELLED, "%s", weft_error_detail());
        int count = epoll_wait(root->poll_fd, events, EVENTS_MAX, left_ms);
        int knock = 0;
        for (int i = 0; i < count; i++) {
            if (!events[i].data.ptr) {
                knock = 1;
                continue;
            }
            int before = root->problem;
            visitor_read(root, events[i].data.ptr);
            if (root->problem != before) { /* all that had checked in are gone: fetch the events anew */
                knock = 0;
                break;
            }
        }
        if (knock)
            accept_some(root);
    }
}

/* As the address under which all others reach this host: loopback is none, and a link-local one is one of a link only. */
static int is_better(const struct weft_net_address *address, const struct weft_net_address *than)
{
    if (weft_net_address_is_loopback(address))
        return 0;
    return than->family == 0 ||
           (weft_net_address_is_link_local6(than) && !weft_net_address_is_link_local6(address));
}

/* Ranks that came over loopback are in this network namespace: others reach them where they reach us. */
static void settle_addresses(struct weft_boot_root *root, uint16_t port)
{
    struct weft_boot_member *members = root->b->members;
    struct weft_net_address outside = {0}, here = {.family = 4, .ip = {127, 0, 0, 1}};
    int known = 0;
    for (int i = 1; i < root->b->ranks; i++) {
        struct weft_net_address local, peer;
        int fd = root->by_rank[i]->link.fd;
        if (weft_net_local_address(fd, &local) != WEFT_OK)
            continue;
        if (!known++)
            here = local;
        if (is_better(&local, &outside))
            outside = local;
        if (weft_net_address_is_link_local6(&members[i].address) &&
            weft_net_peer_address(fd, &peer) == WEFT_OK)
            members[i].address.scope = peer.scope;
    }
    members[0].address = here;
    members[0].address.port = port;
    for (int i = 0; i < root->b->ranks && outside.family; i++) {
        struct weft_net_address *address = &members[i].address;
        if (i == 0 || weft_net_address_is_loopback(address)) {
            address->family = outside.family;
            address->scope = outside.scope;
            memcpy(address->ip, outside.ip, sizeof address->ip);
        }
    }
}

/* Adds to the error of listening where the port comes from, for who has set another variable. */
static int name_port(const struct weft_bootstrap_options *options, unsigned port, int status)
{
    char reason[WEFT_DETAIL_MAX / 2];
    if (!options->port_is)
        return status;
    snprintf(reason, sizeof reason, "%.*s", (int)sizeof reason - 1, weft_error_detail());
    return weft_fail(status, "%s (%u is %s: set another %s on all ranks, unless two processes have RANK 0)",
                     reason, port, options->port_is,
                     strcmp(options->port_is, "WEFT_PORT") == 0 ? "WEFT_PORT" : "MASTER_PORT, or WEFT_PORT,");
}

/* Where to listen for an address of the caller's: literally there if it is numeric or loopback, on the
 * wildcard for a host name, which may mean different interfaces to different hosts. */
static int listen_at(const struct weft_bootstrap_options *options, int *fd, uint16_t *port, int *is_elsewhere)
{
    char host[WEFT_NET_HOSTPORT_MAX];
    struct weft_net_address any = {0};
    struct weft_net_addresses found = {0};
    int64_t start_ns = weft_clock_ns();
    int said_why = 0, status = weft_net_hostport_split(options->address, host, &any.port);
    if (status != WEFT_OK)
        return status;
    found.count = weft_net_hostport_read(options->address, &found.at[0]);
    if (found.count < 0)
        return found.count;
    if (!found.count && weft_net_hostport_is_loopback(options->address)) {
        status = weft_net_hostport_resolve(options->address, &found);
        if (status != WEFT_OK)
            return status;
    }
    int pause_ms = WEFT_NET_PAUSE_FIRST_MS;
    for (;;) {
        for (int i = 0; i < found.count; i++) {
            status = weft_net_listen(&found.at[i], fd, port);
            if (status == WEFT_OK || errno == EADDRINUSE)
                break;
        }
        *is_elsewhere = found.count && status != WEFT_OK && errno == EADDRNOTAVAIL &&
                        !weft_net_hostport_is_loopback(options->address);
        if (found.count == 0 || *is_elsewhere)
            status = weft_net_listen(&any, fd, port); /* an address that is forwarded to this host, perhaps */
        /* An earlier communicator of this process, or of the job before, may be just about to close it. */
        if (status == WEFT_OK)
            return status;
        int is_taken = errno == EADDRINUSE;
        if (is_taken || errno == EACCES)
            status = name_port(options, any.port, status);
        if (!is_taken || weft_clock_ns() >= options->deadline_ns)
            return status;
        if (!said_why)
            said_why = weft_boot_say_trying(weft_error_detail(), "trying", start_ns, WEFT_BOOT_TRYING_NS,
                                            options->deadline_ns);
        weft_net_pause(&pause_ms, options->deadline_ns);
    }
}

/* A copy of the caller's. */
static int use_listener(int fd, int *listener, uint16_t *port)
{
    int listening = 0;
    socklen_t size = sizeof listening;
    struct weft_net_address local;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || !listening)
        return weft_fail(WEFT_INVALID, "listen_fd %d is not a listening socket", fd);
    int status = weft_net_local_address(fd, &local);
    if (status != WEFT_OK)
        return status;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return weft_fail_errno("listen_fd %d", fd);
    /* A short queue that strangers fill would turn ranks away for a second each. Best effort. */
    listen(fd, WEFT_NET_BACKLOG);
    *listener = weft_fd_add(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (*listener < 0)
        return weft_fail_errno("listen_fd %d", fd);
    *port = local.port;
    return WEFT_OK;
}

static int publish(struct weft_boot_root *root, const struct weft_bootstrap_options *options, uint16_t port)
{
    root->record.nonce = weft_net_random();
    root->record.host = weft_net_host_identity();
    weft_net_interfaces(&root->record.addresses);
    for (int i = 0; i < root->record.addresses.count; i++)
        root->record.addresses.at[i].port = port;
    int status = weft_boot_record_publish(options, &root->record);
    weft_crypto_wipe(root->record.secret, sizeof root->record.secret);
    return status;
}

static int start_listening(struct weft_boot_root *root, const struct weft_bootstrap_options *options,
                           int *listener, uint16_t *port)
{
    int is_elsewhere = 0;
    static const struct weft_net_address any;
    if (options->store || options->file)
        return weft_net_listen(&any, listener, port);
    if (options->listen_fd >= 0)
        return use_listener(options->listen_fd, listener, port);
    int status = listen_at(options, listener, port, &is_elsewhere);
    if (is_elsewhere)
        snprintf(root->elsewhere, sizeof root->elsewhere,
                 "; %.*s is none of rank 0's addresses, and it listens on all it has", WEFT_NET_HOSTPORT_MAX,
                 options->address);
    return status;
}

static int conclude(struct weft_boot_root *root)
{
    if (root->problem == WEFT_OK && root->arrived < root->b->ranks) {
        char list[256];
        list_absent(root, list, sizeof list);
        double waited_s = (double)(weft_clock_ns() - root->start_ns) / 1e9;
        char strangers[96] = "";
        if (root->b->strangers)
            snprintf(strangers, sizeof strangers, "; %u connections did not prove the job's secret",
                     root->b->strangers);
        problem(root, WEFT_RANKS_ABSENT, "%s of %d did not arrive within %.1f s%s%s", list, root->b->ranks,
                waited_s, strangers, root->elsewhere);
    }
    return root->problem == WEFT_OK ? WEFT_OK : weft_fail(root->problem, "%s", root->problem_text);
}

void weft_boot_root_end(struct weft_boot_root *root, int status, const char *text)
{
    if (!root)
        return;
    if (status != WEFT_OK)
        refuse_all(root, status, text);
    while (root->first)
        visitor_drop(root, root->first);
    weft_fd_close(root->poll_fd);
    free(root->by_rank);
    weft_crypto_wipe(&root->record, sizeof root->record); /* its secret, unless it was published */
    free(root);
}

static int open_poll(struct weft_boot_root *root)
{
    struct weft_bootstrap *b = root->b;
    int status = weft_net_accept_open("bootstrap", b->listener, &b->job, b->ranks, &b->strangers, &b->accept);
    if (status != WEFT_OK)
        return status;
    root->poll_fd = weft_fd_add(epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (root->poll_fd < 0 ||
        epoll_ctl(root->poll_fd, EPOLL_CTL_ADD, weft_net_accept_fd(b->accept), &event) != 0)
        return weft_fail_errno("bootstrap: epoll");
    return WEFT_OK;
}

int weft_boot_root_meet(struct weft_bootstrap *b, const struct weft_bootstrap_options *options,
                        struct weft_boot_root **result)
{
    uint16_t port = 0;
    struct weft_boot_root *root = calloc(1, sizeof *root);
    if (!root || !(root->by_rank = calloc((size_t)b->ranks, sizeof(struct visitor *)))) {
        free(root);
        return weft_fail(WEFT_NOMEM, "bootstrap: no memory for %d ranks", b->ranks);
    }
    *result = root;
    root->b = b;
    root->poll_fd = -1;
    root->arrived = 1;
    root->start_ns = weft_clock_ns();
    root->deadline_ns = options->deadline_ns;
    root->report_ns = options->report_ns ? root->start_ns + options->report_ns : WEFT_NEVER_NS;
    weft_boot_self(&b->members[0]);
    b->session = weft_net_random();
    int status = weft_boot_secret_make(b, &root->record);
    if (status == WEFT_OK)
        status = start_listening(root, options, &b->listener, &port);
    if (status == WEFT_OK)
        status = open_poll(root);
    int published = 0;
    if (status == WEFT_OK && (options->store || options->file)) {
        status = publish(root, options, port);
        published = status == WEFT_OK;
    }
    if (status == WEFT_OK) {
        serve(root);
        weft_boot_listener_close(b); /* first, as it counts those who never answered */
        status = conclude(root);
    }
    if (published)
        weft_boot_record_withdraw(options, &root->record);
    if (status == WEFT_OK)
        settle_addresses(root, port);
    return status;
}
