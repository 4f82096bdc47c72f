/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a bootstrap: what the files comm/boot_*.c share.
 *
 * During open everything belongs to the caller's thread. Once weft_boot_overlay_start() has run, `lock`
 * guards all fields but `failed` (atomic) and those that never change (rank, ranks, service, members,
 * options). Functions marked "locked" are called with the lock held. Lock order: this lock, then the
 * service's; nothing here waits for the service thread with the lock held.
 */
#ifndef WEFT_COMM_BOOT_H
#define WEFT_COMM_BOOT_H

#include <pthread.h>
#include "base/error.h"
#include "comm/boot_accept.h"
#include "comm/boot_body.h"
#include "comm/bootstrap.h"

#define WEFT_BOOT_ARITY      4
#define WEFT_BOOT_DEGREE_MAX 64                 /* more than 5 + 2 * 19 */
#define WEFT_BOOT_CANCEL_MS  50                 /* how often to ask whether a meeting is cancelled */
#define WEFT_BOOT_GRACE_NS   INT64_C(300000000) /* to hear from rank 0 who is missing, beyond the deadline */

/* Bytes queued on several edges and read by the caller; refs is guarded by the lock. */
struct weft_boot_bytes {
    int refs;
    size_t size;
    unsigned char *data;
};

struct weft_boot_out {
    struct weft_boot_out *next;
    int type;
    struct weft_boot_bytes *body; /* NULL: empty */
    size_t taken;                 /* of body, into pieces */
};

struct weft_boot_edge {
    struct weft_bootstrap *owner;
    int rank; /* of the neighbour */
    int fd;   /* -1: no connection (any more) */
    int made; /* there has been one */
    struct weft_boot_reader reader;
    uint32_t sequence; /* of the next frame sent */
    struct weft_auth_channel send;
    struct weft_boot_out *first, *last;
    unsigned char *wire; /* the piece that is being sent, sealed */
    size_t wire_capacity, wire_size, wire_sent;
    int watched, wants_output;
    int broken; /* cannot be written; reading will say why */
    int said_goodbye, heard_goodbye;
    int doomed;                /* the neighbour is dead: the service thread closes */
    int letters;               /* of those queued frames that are TELLs */
    int64_t sent_ns, heard_ns; /* when the last bytes went out and came in */
    int64_t silent_ns;         /* how long nothing came while this process ran */
    int64_t unheard_ns_max;    /* the longest time between two arrivals, pauses of this process included */
};

/* A record on its way to rank 0's callback, or a letter on its way to its receiver's. */
struct weft_boot_report {
    struct weft_boot_report *next;
    int rank;
    size_t size;
    unsigned char data[];
};

/* Rank 0 collects a round here. */
struct weft_boot_slot {
    unsigned char *body; /* of the CONTRIBUTION, round and rank included */
    size_t size;
};

struct weft_bootstrap {
    int rank, ranks;
    struct weft_service *service;
    struct weft_key job; /* has_job: given; otherwise it comes with each record */
    int has_job;
    uint32_t generation;
    uint64_t session, name_hash;
    struct weft_boot_strangers strangers;
    struct weft_boot_accept *retired; /* with strangers to sweep out, NULL none */
    struct weft_boot_member *members;
    char local_address[64];

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct weft_boot_edge *edges; /* parent first, unless this is rank 0, children, then the mesh */
    int edge_count, tree_count;
    int (*cancelled)(void *arg); /* of the options, NULL once the ranks have met */
    void *cancelled_arg;
    int listener; /* -1 none: for those neighbours that dial this rank, while the ranks meet */
    struct weft_boot_accept *accept;
    int active; /* service callbacks inside this object */
    int closing;

    int timer_fd; /* -1 none */
    int64_t heartbeat_ns;
    int64_t silent_ns_max;         /* the longest silence that an edge was charged with and got away */
    int64_t ticked_ns, planned_ns; /* the last tick, and how long after it the next was to come */

    int failed; /* atomic: a failure or revocation is known */
    int failure_status;
    char failure_text[WEFT_BOOT_TEXT_MAX + 160];
    unsigned char *noticed; /* per rank: bits of notices seen already */
    uint32_t *aborts_of;    /* per rank: of its aborts of a shrink, the last one seen */
    uint64_t aborts;        /* of all ranks, and what the last one said: */
    char abort_text[WEFT_BOOT_TEXT_MAX + 160];
    int outcast;                    /* others have declared this rank dead */
    int doomed;                     /* some edge is */
    struct weft_boot_death *deaths; /* in order of rank */
    int death_count, death_capacity;
    void (*on_failed)(void *arg);
    void *on_failed_arg;
    int armed, heard_failure, told; /* open has succeeded; on_failed is due; on_failed was called */
    void (*on_report)(void *arg, int rank, const void *record, size_t size);
    void *on_report_arg;
    struct weft_boot_report *reports, *reports_last; /* rank 0: for on_report */
    int report_count;
    void (*on_told)(void *arg, int rank, const void *letter, size_t size);
    void *on_told_arg;
    struct weft_boot_report *letters, *letters_last; /* for on_told */
    int letter_count;

    struct weft_boot_wave *waves;
    uint64_t wave_number;                 /* of the last that began here */
    struct weft_boot_instance *instances; /* agreements in order, none before instances_from */
    uint32_t instances_from, agreements;  /* ..., the next of this rank */
    int lowest;                           /* see weft_boot_coordinator() */
    int agree_due, agree_seen;
    int cut; /* too few of the survivors can be reached */
    char cut_text[512];
    uint64_t asked; /* the last ASK that came back, and what it said */
    unsigned char *ask_set;

    uint32_t round;               /* of the next gather of this rank */
    struct weft_boot_slot *slots; /* rank 0 only */
    unsigned char *arrived;       /* rank 0 only: per rank */
    int arrived_count;
    size_t arrived_bytes;
    uint32_t slots_round;
    struct weft_boot_bytes *result;
    uint32_t result_round;
    struct weft_boot_late late;
    unsigned late_count; /* LATEs received; the last is in late */
    int timed_out;
};

static inline int weft_boot_parent(int rank)
{
    return rank == 0 ? -1 : (rank - 1) / WEFT_BOOT_ARITY;
}

/* Whether a rank is top or in the part of the tree under it. */
static inline int weft_boot_is_below(int rank, int top)
{
    while (rank > top)
        rank = weft_boot_parent(rank);
    return rank == top;
}

static inline struct weft_boot_edge *weft_boot_parent_edge(struct weft_bootstrap *b)
{
    return b->rank == 0 ? NULL : &b->edges[0];
}

/* Not locked, while ranks meet: WEFT_CANCELLED when this meeting cannot become whole any more. */
static inline int weft_boot_check_cancelled(const struct weft_bootstrap *b)
{
    if (!b->cancelled || !b->cancelled(b->cancelled_arg))
        return WEFT_OK;
    return weft_fail(WEFT_CANCELLED, "another rank died while the survivors met");
}

/* The longest to sleep without asking that. */
static inline int weft_boot_nap_ms(const struct weft_bootstrap *b)
{
    return b->cancelled ? WEFT_BOOT_CANCEL_MS : 1000;
}

/* boot_edge.c: frames on edges. */
struct weft_boot_bytes *weft_boot_bytes_new(unsigned char *data, size_t size); /* one reference; data taken
                                                             over, freed on failure too */
void weft_boot_bytes_drop(struct weft_boot_bytes *bytes);                      /* locked; NULL allowed */
/* Locked. A connection that has proven itself becomes the edge's. */
void weft_boot_edge_adopt(struct weft_boot_edge *edge, int fd, const struct weft_auth_session *session);
/* Locked. Queues a frame, sends what the socket takes, never blocks. Takes its own reference. Edges that are gone or
 * have said goodbye swallow it. WEFT_NOMEM. */
int weft_boot_edge_queue(struct weft_boot_edge *edge, int type, struct weft_boot_bytes *body);
/* Locked. The same with a writer's bytes, which are taken over, also on failure. */
int weft_boot_edge_queue_writer(struct weft_boot_edge *edge, int type, struct weft_boot_writer *writer);
/* Locked. Whether neither would swallow a frame. */
int weft_boot_edge_takes(const struct weft_boot_edge *edge);
void weft_boot_edge_flush(struct weft_boot_edge *edge); /* locked */
/* Locked. Something has been queued and not been sent. */
static inline int weft_boot_edge_pending(const struct weft_boot_edge *edge)
{
    return edge->first != NULL || edge->wire_sent < edge->wire_size;
}
void weft_boot_edge_discard(struct weft_boot_edge *edge); /* locked: forgets what is queued */

/* boot_mesh.c: neighbours. */
/* The neighbours of a rank, those in the tree (*tree) first. Returns how many there are. */
int weft_boot_neighbours(int rank, int ranks, int list[WEFT_BOOT_DEGREE_MAX], int *tree);
/* How many of them dial this rank. */
int weft_boot_inbound(int rank, int ranks);
int weft_boot_edges_make(struct weft_bootstrap *b); /* WEFT_NOMEM */
/* Connects to the children, and queues the table for them. */
int weft_boot_tree_make(struct weft_bootstrap *b, struct weft_boot_bytes *table, int64_t deadline_ns);
/* Once the overlay runs: connects to the rest of the neighbours, and serves those who connect to this rank. */
int weft_boot_mesh_make(struct weft_bootstrap *b, int64_t deadline_ns);
void weft_boot_mesh_close(struct weft_bootstrap *b); /* the listener, that is */
/* Whether they speak of this communicator and rank. */
int weft_boot_claims_fit(const struct weft_bootstrap *b, const struct weft_auth_claims *claims, int purpose);
/* Locked. A proven connection becomes an edge of the mesh. 0: it is none, and the caller's. */
int weft_boot_mesh_take(struct weft_bootstrap *b, const struct weft_boot_proven *proven);

/* boot_overlay.c: reading edges, and leaving. */
/* Locked. Edges that have a connection belong to the service thread from here on. */
int weft_boot_edges_watch(struct weft_bootstrap *b);
int weft_boot_overlay_start(struct weft_bootstrap *b);
/* Says goodbye on all edges, waits for the answers up to 1 s, and closes them. */
void weft_boot_overlay_stop(struct weft_bootstrap *b);
/* Locked, on the service thread. Reads what is there; the edge may be gone afterwards. */
void weft_boot_edge_read(struct weft_boot_edge *edge);
/* Locked, on the service thread. */
void weft_boot_edge_drop(struct weft_boot_edge *edge);
/* At the beginning and end of a callback of the service thread; the first takes the lock, the second gives it
 * back, and calls on_failed and on_report when they are due. */
void weft_boot_enter(struct weft_bootstrap *b);
void weft_boot_leave(struct weft_bootstrap *b);

/* boot_notice.c: deaths and revocations, known and told. */
enum {
    WEFT_BOOT_IS_DEAD = 1,
    WEFT_BOOT_GAVE_UP = 2,
    WEFT_BOOT_GAVE_REASON = 4,
    WEFT_BOOT_AGREED_DEAD = 8, /* all survivors know of its death */
    WEFT_BOOT_HAS_LEFT = 16,
}; /* in noticed[] */
static inline int weft_boot_is_dead(const struct weft_bootstrap *b, int rank)
{
    return b->noticed[rank] & WEFT_BOOT_IS_DEAD;
}
/* Locked. This rank has found out that a rank is dead, and tells everybody. */
void weft_boot_died(struct weft_bootstrap *b, int rank, const char *reason);
/* Locked. This rank gives up, and tells everybody. */
void weft_boot_revoke(struct weft_bootstrap *b, int status, const char *reason);
/* Locked. This rank has no memory for its part ("to answer", say): as if it had died, which ends the others' waiting. */
void weft_boot_drop_out(struct weft_bootstrap *b, const char *what);
/* Locked. Gives up on purpose, which ends agreements too. */
void weft_boot_abort(struct weft_bootstrap *b, const char *reason);
/* Locked. Records the failure known here as the calling thread's error. */
int weft_boot_report_failure(struct weft_bootstrap *b);
/* Locked. A FAILED or REVOKED; negative: the peer is at fault. */
int weft_boot_notice_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
/* Locked, on the service thread: closes the edges to the dead. */
void weft_boot_doomed_close(struct weft_bootstrap *b);

/* boot_beat.c: heartbeats, and the overlay's timer. */
int weft_boot_beat_start(struct weft_bootstrap *b); /* locked */
/* Locked. In the middle of something long: sends the heartbeats that are due. */
void weft_boot_beat(struct weft_bootstrap *b);
/* Locked. Makes the service thread come by soon. */
void weft_boot_kick(struct weft_bootstrap *b);

/* boot_agree.c and boot_sync.c: what all survivors know (docs/bootstrap.md, sections 8 and 9). */
enum { WEFT_BOOT_BEGIN = 1, WEFT_BOOT_BEGIN_AGAIN = 2 };
/* Locked. This rank may have to begin an agreement, or begin again because of a death: the service thread looks. */
void weft_boot_agree_due(struct weft_bootstrap *b, int due);
/* Locked, on the service thread: does what is due. */
void weft_boot_agree_run(struct weft_bootstrap *b);
void weft_boot_agree_clear(struct weft_bootstrap *b);
/* Locked. The lowest rank that is neither dead nor known to have left. */
int weft_boot_coordinator(struct weft_bootstrap *b);
/* Locked. A death or an agreement is there: from now on departures matter to everybody. */
void weft_boot_agree_seen(struct weft_bootstrap *b);
/* Locked. A neighbour has said goodbye. */
void weft_boot_goodbye_heard(struct weft_boot_edge *edge);
/* Locked. An agreement waits for its outcome here. */
int weft_boot_agree_waits(const struct weft_bootstrap *b);
/* Locked. Makes sure that all know who is dead. */
void weft_boot_sync_begin(struct weft_bootstrap *b, int again);
void weft_boot_sync_learn(struct weft_bootstrap *b, const unsigned char *set, int from);
void weft_boot_sync_done(struct weft_bootstrap *b, const unsigned char *reached);
/* Locked. Frames; negative: the peer is at fault. */
int weft_boot_decided_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
int weft_boot_agreed_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
int weft_boot_left_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);

/* boot_reach.c: a part of the survivors that may or may not go on without the rest. All locked. */
/* An own wave, untainted, has been through all of set and could not reach more. 1: these are all. 0: the others have
 * been declared dead, or this part is cut off. */
int weft_boot_reach(struct weft_bootstrap *b, const unsigned char *set);
/* The same for a wave that makes sure of deaths. 1: it has. */
int weft_boot_reach_probed(struct weft_bootstrap *b, const unsigned char *set);
int weft_boot_cut_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
/* Records as the calling thread's error that this rank is cut off. */
int weft_boot_report_cut(struct weft_bootstrap *b);
/* 0: none of a lower rank, as it is for the lowest of each part. */
int weft_boot_has_lower_neighbour(const struct weft_bootstrap *b);

/* boot_report.c: records for rank 0's callback. */
/* Locked: a REPORT arrived. Negative: the peer is at fault. */
int weft_boot_report_take(struct weft_bootstrap *b, const struct weft_boot_frame *frame);
/* Locked: takes out the records that wait for the callback; the caller frees them. */
struct weft_boot_report *weft_boot_reports_due(struct weft_bootstrap *b);
void weft_boot_reports_free(struct weft_boot_report *first);

/* boot_tell.c: letters from rank to rank. Locked: a TELL arrived. Negative: the peer is at fault. */
int weft_boot_tell_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
/* Locked: takes out the letters that wait for the callback; the caller frees them. */
struct weft_boot_report *weft_boot_letters_due(struct weft_bootstrap *b);

/* boot_gather.c. Locked: a frame of a gather arrived; takes over the body. Negative: the peer is at fault. */
int weft_boot_gather_frame(struct weft_bootstrap *b, struct weft_boot_edge *edge,
                           struct weft_boot_frame *frame);
void weft_boot_gather_clear(struct weft_bootstrap *b);

/* boot_root.c: rank 0 meets the others. On success members are known, edges to children connected. */
struct weft_boot_root;
int weft_boot_root_meet(struct weft_bootstrap *b, const struct weft_bootstrap_options *options,
                        struct weft_boot_root **root);
/* Closes what is left of the check-in; with a status other than WEFT_OK those who still wait are told. */
void weft_boot_root_end(struct weft_boot_root *root, int status, const char *text);

/* boot_join.c: the others meet rank 0. On success members are known, the parent's edge is connected, and
 * *table is the TABLE's body to hand on. */
int weft_boot_join(struct weft_bootstrap *b, const struct weft_bootstrap_options *options,
                   struct weft_boot_bytes **table);

/* boot_text.c: takes over an accept whose listener has done its work. NULL is allowed. Locked, or while nobody else is here. */
void weft_boot_retire(struct weft_bootstrap *b, struct weft_boot_accept *accept);
void weft_boot_sweep(struct weft_bootstrap *b); /* locked: a few strangers more */

/* boot_secret.c: the key of the job, in b->job. */
struct weft_boot_record;
/* From options and environment. WEFT_INVALID when there is none and no record to carry one. */
int weft_boot_secret_find(struct weft_bootstrap *b, const struct weft_bootstrap_options *options);
/* Rank 0: makes one for the record unless there is one. */
int weft_boot_secret_make(struct weft_bootstrap *b, struct weft_boot_record *record);
/* Others: take the record's unless there is one. */
int weft_boot_secret_take(struct weft_bootstrap *b, const struct weft_boot_record *record);

/* boot_text.c */
/* The ranks not marked present, as far as they fit. */
void weft_boot_late_collect(const unsigned char *present, int ranks, struct weft_boot_late *late);
/* "rank 3", "ranks 3, 5-7", "ranks 1-4, 6, ... (12 in all)"; never more than 200 characters. */
const char *weft_boot_late_text(const struct weft_boot_late *late, char *text, size_t capacity);
uint64_t weft_boot_name_hash(const char *name);
void weft_boot_self(struct weft_boot_member *member); /* host name and pid; no address */

#endif
