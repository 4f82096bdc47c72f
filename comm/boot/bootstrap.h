/* SPDX-License-Identifier: Apache-2.0 */
/* Bootstrap: how ranks find each other, and the overlay that stays for the life of the job.
 *
 * Wire protocol and rounds: docs/bootstrap.md. In short: every rank checks in with rank 0, rank 0 sends the
 * address table down a tree, tree edges stay open as the overlay, over which gathers run in O(log n) rounds
 * and on which the death of a neighbour shows as a closed socket and is flooded to everybody.
 *
 * Threads: open runs on the caller's thread; afterwards the service thread is the only reader of the sockets.
 * allgather and barrier block the calling thread; at most one of them at a time per bootstrap. The failure
 * query is safe from any thread and costs one atomic load.
 */
#ifndef WEFT_COMM_BOOT_BOOTSTRAP_H
#define WEFT_COMM_BOOT_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>
#include "base/crypto.h"
#include "base/service.h"
#include <weft/weft.h>

struct weft_bootstrap;
struct weft_pmix_source;

/* What an out-of-band message is about. */
enum weft_oob_channel {
    WEFT_OOB_REPORT = 1,   /* for rank 0: a call that waits, comm/core/stall.h */
    WEFT_OOB_TRANSPORT = 2 /* of a transport that connects so */
};

struct weft_bootstrap_options {
    int rank, ranks;  /* resolved already, 0 <= rank < ranks <= 2^20 */
    const char *name; /* tells communicators of one job apart; "" allowed */
    /* Where to find rank 0. Exactly one of store, file and listen_fd/address is used, in this order; all ranks
     * that have neither store nor file need address, but rank 0 with a listen_fd. */
    const weft_store *store;
    const char *launcher; /* the store is this launcher's ("PMIx"), not the caller's; NULL otherwise */
    const char *file;
    int listen_fd; /* rank 0: an already listening socket, -1 none; made non-blocking, and stays the caller's */
    const char *address; /* "host:port" of rank 0 */
    const char
        *port_is; /* "MASTER_PORT + 1", "WEFT_PORT": which the port in address is. NULL: the caller's own */
    int64_t deadline_ns;
    int64_t report_ns; /* a meeting that takes longer is reported to the log: who is missing; 0 never */
    struct weft_service *service;
    /* Called on the service thread when a rank is known to have failed, once, and when one has left while others stay. */
    void (*failed)(void *arg);
    void *failed_arg;
    /* NULL allowed: an out-of-band message of a rank. On the service thread, with no lock held, and not before open has
     * succeeded; may call everything here that does not wait. */
    void (*received)(void *arg, int rank, enum weft_oob_channel channel, const void *bytes, size_t size);
    void *received_arg;
    /* A rank from which nothing came for so long is dead, 200 to 600,000; 0 is the default. Rank 0's counts for everybody. */
    int64_t heartbeat_ms;
    struct weft_pmix_source *pmix; /* for resolve: what it may use (comm/boot/modex.h), NULL: no PMIx */
    /* What every rank of the job knows, NULL: WEFT_SECRET_FD, WEFT_SECRET_FILE, or the record in store or file.
     * Read during open only. generation tells communicators of one job apart that were shrunk from each other. */
    const void *secret;
    size_t secret_size;
    uint32_t generation;
    /* NULL, or asked now and then while ranks meet, on the caller's thread: 1 ends open with WEFT_CANCELLED. */
    int (*cancelled)(void *arg);
    void *cancelled_arg;
};

#define WEFT_HEARTBEAT_DEFAULT_MS 10000
#define WEFT_HEARTBEAT_MIN_MS     200
#define WEFT_HEARTBEAT_MAX_MS     600000

/* Fills rank, ranks, name and the source of rank 0's address from options (may be NULL), else the environment,
 * else PMIx if such a launcher started this process (store is then that of the source, valid as long as it);
 * strings from the environment are copied into buffer (WEFT_BOOTSTRAP_BUFFER bytes suffice), those of options
 * are borrowed. deadline_ns, service, failed, failed_arg and pmix are left alone. WEFT_INVALID names the variable
 * that is missing or malformed and what was expected; with PMIx also the statuses of weft_pmix_hold(). */
#define WEFT_BOOTSTRAP_BUFFER 4608
int weft_bootstrap_resolve(const weft_comm_options *options, struct weft_bootstrap_options *resolved,
                           char *buffer, size_t capacity);

/* Meets all ranks. WEFT_RANKS_ABSENT names the missing ranks when the deadline passes. failed is not called before
 * this has succeeded: a death in between is an error of open. Resolving a host name may outlast the deadline.
 */
int weft_bootstrap_open(const struct weft_bootstrap_options *options, struct weft_bootstrap **bootstrap);

/* The program ends with this, which neighbours hear at once and everybody when it has ended: the connections stay for the system to close. For
 * exit handlers: gives up where the lock cannot be had in a moment. */
void weft_bootstrap_end(struct weft_bootstrap *b, const char *text);
/* This rank leaves while others may stay (exits: because its program ends): all are to know it, and nothing of it has failed. What comes behind
 * is weft_bootstrap_stop(). */
void weft_bootstrap_leave(struct weft_bootstrap *b, int exits);
/* How many ranks have left so. From any thread; costs one atomic load. */
int weft_bootstrap_gone(const struct weft_bootstrap *b);
/* Whether a rank has, and in words (text may be NULL) that say so of rank, host and process. */
int weft_bootstrap_is_gone(struct weft_bootstrap *b, int rank, char *text, size_t capacity);

/* Says goodbye on every edge and closes; at most about 1 s. Call after a barrier, or after a failure, and not
 * from failed. NULL is allowed. */
void weft_bootstrap_close(struct weft_bootstrap *bootstrap);

/* The first half of closing: says good-bye. No callback runs after it returns; what the bootstrap knows can still be asked. */
void weft_bootstrap_stop(struct weft_bootstrap *bootstrap);

/* Everybody's contribution at everybody: at most 64 MiB each, 1 GiB together. *blobs is one block to free():
 * blobs[i].data points into it. WEFT_TIMEOUT names the ranks that had not come to this call (it may take 300
 * ms beyond the deadline to ask); after it no gather or barrier can succeed, so the caller revokes or closes.
 * Errors begin with `what`: the call of the program that this is part of. */
struct weft_blob {
    const void *data;
    size_t size;
};
int weft_bootstrap_allgather(struct weft_bootstrap *bootstrap, const char *what, const void *mine,
                             size_t size, struct weft_blob **blobs, int64_t deadline_ns);
int weft_bootstrap_barrier(struct weft_bootstrap *bootstrap, const char *what, int64_t deadline_ns);

/* The numeric IP address under which peers reached this rank ("127.0.0.1" when all are on one host; "fe80::1%eth0", with an
 * interface of this host, where it is link-local). Static for the life of the bootstrap. */
const char *weft_bootstrap_local_address(const struct weft_bootstrap *bootstrap);

/* The first failure known here: 0 when there is none, else WEFT_PEER_FAILED (or WEFT_REVOKED when a rank gave
 * up) with a one-line text naming rank and host. A death that becomes known after a revocation replaces it.
 */
int weft_bootstrap_failure(const struct weft_bootstrap *bootstrap, char *text, size_t capacity);

/* The same as one atomic load for polling loops. */
int weft_bootstrap_has_failed(const struct weft_bootstrap *bootstrap);

/* Says to every rank that this one gives up on the communicator (deadline passed, transport broke, ...). */
void weft_bootstrap_revoke(struct weft_bootstrap *bootstrap, const char *reason);

/* The same when the program says so: it also ends the agreements of everybody (below) that are part of something that
 * began before this. Any thread, never blocks. */
void weft_bootstrap_abort(struct weft_bootstrap *bootstrap, const char *reason);

/* How many aborts are known here. */
uint64_t weft_bootstrap_aborts(struct weft_bootstrap *bootstrap);

/* The same with the status that the failure shall have everywhere (WEFT_MISMATCH, say), unless a death or another
 * such status is known there already; it replaces a plain revocation. Everybody's text is reason word for word.
 * Other than after weft_bootstrap_revoke(), failed is called on this rank too. Any thread, never blocks. */
void weft_bootstrap_revoke_as(struct weft_bootstrap *bootstrap, int status, const char *reason);

/* Sends an out-of-band message of at most WEFT_BOOTSTRAP_OOB_MAX bytes to a rank's callback, which may be its own. It comes
 * once, or is lost: with a rank on the way, or where too many wait. WEFT_AGAIN: there is no way now, it is not sent;
 * WEFT_PEER_FAILED: the rank is dead, or has left. Any thread, never blocks. */
#define WEFT_BOOTSTRAP_OOB_MAX 1024
int weft_bootstrap_send_oob(struct weft_bootstrap *bootstrap, int rank, enum weft_oob_channel channel,
                            const void *bytes, size_t size);

/* Opens a listening socket where the others reach this rank: *fd is the caller's (weft_fd_close()), address
 * becomes "ip:port" for them (64 bytes suffice), which each completes. */
int weft_bootstrap_listen(const struct weft_bootstrap *bootstrap, int *fd, char *address, size_t capacity);

/* What another rank has given as its address: puts in the interface by which this rank reaches it, where it is link-local. */
void weft_bootstrap_complete(const struct weft_bootstrap *bootstrap, char *address, size_t capacity);

/* A secret that all ranks of this bootstrap can make and nobody else, the same for the same purpose: the caller keeps
 * purposes apart, and wipes what comes of it. */
void weft_bootstrap_derive(const struct weft_bootstrap *bootstrap, const void *purpose, size_t size,
                           unsigned char secret[WEFT_KEY_BYTES]);

/* A known death. */
struct weft_boot_death {
    int rank;
    int64_t time_ns; /* CLOCK_REALTIME of the rank that noticed */
    char host[65];
    char reason[160];
};

/* Lists deaths in order of rank: *count are known, of which deaths takes capacity. Waits, until deadline_ns at
 * most, while a death known here is not yet known to all survivors that can be reached. WEFT_OK; WEFT_PEER_FAILED: declared
 * dead or cut off, as in an agreement. */
int weft_bootstrap_deaths(struct weft_bootstrap *bootstrap, struct weft_boot_death *deaths, int capacity,
                          int *count, int64_t deadline_ns);

/* Agreement among the survivors; collective over them: the k-th call of one rank meets the k-th of the others. It
 * works after deaths, revocations and timeouts. All survivors get the same answer, also when ranks die meanwhile:
 * dead holds a 1 for each rank that takes no part (dead, left, unreachable), flags are ANDed over the others, and
 * payload is that of leader, the lowest of them when the outcome was proposed. A rank in dead may have been heard
 * of alive for the last time a moment ago, and one that is not may have died since: the next call will show it.
 *
 * WEFT_TIMEOUT names the ranks that have not come (it may take 300 ms beyond the deadline to ask); what this rank
 * brought counts for the others all the same. WEFT_PEER_FAILED: the others have declared this rank dead, or too few
 * survivors can be reached from here (the text names those that cannot). Of two parts that cannot reach each other at
 * most one gets an answer.
 * WEFT_REVOKED: a rank has aborted, and aborts did not count that yet. WEFT_NOMEM. One thread at a time. */
#define WEFT_BOOTSTRAP_PAYLOAD_MAX 512
struct weft_boot_agreement {
    uint64_t flags;
    unsigned char *dead; /* [ranks], the caller's; NULL allowed */
    int leader;
    size_t payload_size;
    unsigned char payload[WEFT_BOOTSTRAP_PAYLOAD_MAX];
    uint64_t aborts; /* in: weft_bootstrap_aborts() when that began which the agreement is part of */
};
int weft_bootstrap_agree(struct weft_bootstrap *bootstrap, uint64_t flags, const void *payload,
                         size_t payload_size, int64_t deadline_ns, struct weft_boot_agreement *out);

/* What it has allocated for as long as it lives: tables and edges, without what is in flight. */
size_t weft_bootstrap_bytes(const struct weft_bootstrap *bootstrap);

/* Whether a rank is known to be dead here. */
int weft_bootstrap_is_dead(struct weft_bootstrap *bootstrap, int rank);

/* The lowest rank that is neither dead nor gone as far as this one knows: it leads the next agreement. */
int weft_bootstrap_lowest(struct weft_bootstrap *bootstrap);

/* Whether a rank that has no 1 in known[ranks] is dead or gone, agreed upon or not. */
int weft_bootstrap_lost_more(struct weft_bootstrap *bootstrap, const unsigned char *known);

#endif
