/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a bootstrap: what the files of comm/boot/ share.
 *
 * During open everything belongs to the caller's thread. Once weft_boot_overlay_start() has run, `lock`
 * guards all fields but `failed` (atomic) and those that never change (rank, ranks, service, members,
 * options). Functions marked "locked" are called with the lock held. Lock order: this lock, then the
 * service's; nothing here waits for the service thread with the lock held.
 */
#ifndef WEFT_COMM_BOOT_BOOT_H
#define WEFT_COMM_BOOT_BOOT_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/net/accept.h"
#include "base/net/dial.h"
#include "comm/boot/body.h"
#include "comm/boot/bootstrap.h"
#include "base/net/socket.h"
#include "base/service.h"
#include "comm/boot/net.h"

#define WEFT_BOOT_ARITY      4
#define WEFT_BOOT_DEGREE_MAX 64                 /* more than 5 + 2 * 19 */
#define WEFT_BOOT_CANCEL_MS  50                 /* how often to ask whether a meeting is cancelled */
#define WEFT_BOOT_GRACE_NS   INT64_C(300000000) /* to hear from others who is missing, beyond the deadline */

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
    struct weft_boot_link link;
    struct weft_boot_out *first, *last;
    unsigned char *wire; /* the piece that is being sent, sealed */
    size_t wire_capacity, wire_size, wire_sent;
    int watched, wants_output;
    int broken; /* cannot be written; reading will say why */
    int said_goodbye, heard_goodbye;
    int doomed;                /* the neighbour is dead: the service thread closes */
    int loss_due;              /* nothing comes here any more, which the consensus does not know yet */
    int oobs;                  /* of those queued frames that are out-of-band messages */
    int64_t sent_ns, heard_ns; /* when the last bytes went out and came in */
    int64_t silent_ns;         /* how long nothing came while this process ran */
    char *words;               /* of the neighbour's program, which is ending; NULL: none */
    int64_t words_ns;          /* when they came */
};

/* An out-of-band message that waits for the callback. */
struct weft_boot_oob {
    struct weft_boot_oob *next;
    int rank;
    enum weft_oob_channel channel;
    size_t size;
    unsigned char data[];
};

/* Rank 0 collects a round here. */
struct weft_boot_slot {
    unsigned char *body; /* of the CONTRIBUTION, round and rank included; NULL: it has not come */
    size_t size;
};

struct weft_bootstrap {
    int rank, ranks;
    struct weft_service *service;
    struct weft_key job; /* has_job: given; otherwise it comes with each record */
    int has_job;
    uint32_t generation;
    uint64_t session, name_hash;
    unsigned strangers; /* that came to the listener */
    struct weft_boot_member *members;
    char local_address[64];

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct weft_boot_edge *edges; /* parent first, unless this is rank 0, children, then the mesh */
    int edge_count, tree_count;
    int (*cancelled)(void *arg); /* of the options, NULL once the ranks have met */
    void *cancelled_arg;
    int listener; /* -1 none: for the lower neighbours, or at rank 0 for everybody, while the ranks meet */
    struct weft_net_accept *accept;
    int active; /* service callbacks inside this object */
    int closing;
    int stopped; /* by weft_bootstrap_stop(), which alone looks at it */

    struct weft_service_timer timer; /* of the overlay */
    int is_timed;                    /* from weft_boot_beat_start() to the overlay's end */
    int64_t heartbeat_ns;
    int64_t ticked_ns, planned_ns; /* the last tick, and how long after it the next was to come */

    int failed; /* atomic: a failure or revocation is known */
    int failure_status;
    char failure_text[WEFT_BOOT_TEXT_MAX + 160];
    unsigned char *noticed; /* per rank: bits of notices seen already */
    uint32_t *aborts_of;    /* per rank: of its aborts of a shrink, the last one seen */
    uint64_t aborts;        /* of all ranks, and what the last one said: */
    char abort_text[WEFT_BOOT_TEXT_MAX + 160];
    atomic_int gone; /* how many ranks have left while others stay; noticed[] says which */
    int gone_due;    /* on_failed is to be called, as there are more of them */
    int outcast; /* this rank takes no part any more, with this status (weft_boot_cast_out()), and this is why: */
    char outcast_text[WEFT_BOOT_TEXT_MAX + 160];
    int doomed;                     /* some edge is */
    struct weft_boot_death *deaths; /* in order of rank */
    int death_count, death_capacity;
    void (*on_failed)(void *arg);
    void *on_failed_arg;
    int armed, heard_failure, reported; /* open has succeeded; on_failed is due; on_failed was called */
    void (*on_oob)(void *arg, int rank, enum weft_oob_channel channel, const void *bytes, size_t size);
    void *on_oob_arg;
    struct weft_boot_oob *oobs, *oobs_last; /* that wait for it */
    int oob_count;

    const struct weft_boot_consensus *consensus;
    int agree_due, death_due, loss_due; /* for its run(): what to begin; a rank has died; some edge is lost */
    struct weft_boot_wave *waves;
    uint64_t wave_number;                 /* of the last that began here */
    struct weft_boot_instance *instances; /* agreements in order, none before instances_from */
    uint32_t instances_from, agreements;  /* ..., the next of this rank */
    int lowest;                           /* see weft_boot_coordinator() */
    int agree_seen;
    uint64_t asked; /* the last ASK that came back, and who has not come */
    unsigned char *ask_set;

    uint32_t round;               /* of the next gather of this rank */
    struct weft_boot_slot *slots; /* rank 0 only */
    int arrived_count;
    size_t arrived_bytes;
    uint32_t slots_round;
    struct weft_boot_bytes *result;
    uint32_t result_round;
    unsigned late_count; /* LATEs received or sent, and what the last one says: */
    uint32_t late_round;
    char late_text[256];
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

/* Not locked, while ranks meet: WEFT_CANCELLED when this meeting cannot become whole any more. */
static inline int weft_boot_check_cancelled(const struct weft_bootstrap *b)
{
    if (!b->cancelled || !b->cancelled(b->cancelled_arg))
        return WEFT_OK;
    return weft_fail(WEFT_CANCELLED, "another rank died while the survivors met");
}

/* Until when to wait for those who have the same deadline, and know more. */
static inline int64_t weft_boot_grace(int64_t deadline_ns)
{
    return deadline_ns == WEFT_NEVER_NS ? deadline_ns : deadline_ns + WEFT_BOOT_GRACE_NS;
}

/* The longest to sleep without asking that. */
static inline int weft_boot_nap_ms(const struct weft_bootstrap *b)
{
    return b->cancelled ? WEFT_BOOT_CANCEL_MS : 1000;
}

/* edge.c: frames on edges. */
struct weft_boot_bytes *weft_boot_bytes_new(unsigned char *data, size_t size); /* one reference; data taken
                                                             over, freed on failure too */
struct weft_boot_bytes *
weft_boot_bytes_of(struct weft_boot_writer *writer);      /* the same of what was written */
void weft_boot_bytes_drop(struct weft_boot_bytes *bytes); /* locked; NULL allowed */
/* Locked. A connection that has proven itself becomes the edge's. From the parent nothing may come before the TABLE. */
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

/* scope.c: link-local addresses of others. */
/* All that are among the members' are reached by this interface, 0 not known: by the one that has this rank's own. */
void weft_boot_scopes_set(struct weft_bootstrap *b, uint32_t scope);

/* mesh.c: neighbours. */
/* What this rank says of itself where it dials. */
struct weft_auth_claims weft_boot_claims(const struct weft_bootstrap *b, int purpose);
/* The neighbours of a rank, those in the tree (*tree) first. Returns how many there are. */
int weft_boot_neighbours(int rank, int ranks, int list[WEFT_BOOT_DEGREE_MAX], int *tree);
int weft_boot_edges_make(struct weft_bootstrap *b); /* WEFT_NOMEM */
/* Once the overlay runs: connects to the higher neighbours, hands the table to the children among them, and serves the
 * lower ones, who connect to this rank. */
int weft_boot_mesh_make(struct weft_bootstrap *b, struct weft_boot_bytes *table, int64_t deadline_ns);
void weft_boot_listener_close(struct weft_bootstrap *b); /* of rank 0 as well */
/* Locked, or while nobody else is here: takes in lower neighbours. */
void weft_boot_mesh_serve(struct weft_bootstrap *b);

/* overlay.c: reading edges, and leaving. */
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
 * back, and does what is due: the consensus's run(), on_failed and on_oob. */
void weft_boot_enter(struct weft_bootstrap *b);
void weft_boot_leave(struct weft_bootstrap *b);

/* notice.c: deaths and revocations, known and announced. */
enum {
    WEFT_BOOT_IS_DEAD = 1,
    WEFT_BOOT_GAVE_UP = 2,
    WEFT_BOOT_GAVE_REASON = 4,
    WEFT_BOOT_AGREED_DEAD = 8, /* all survivors know of its death */
    WEFT_BOOT_HAS_LEFT = 16,
    WEFT_BOOT_IS_GONE = 32,    /* it has left, and all are to know that */
    WEFT_BOOT_HAS_EXITED = 64, /* ... because its program has ended */
};                             /* in noticed[] */
static inline int weft_boot_is_dead(const struct weft_bootstrap *b, int rank)
{
    return b->noticed[rank] & WEFT_BOOT_IS_DEAD;
}
/* Locked. This rank has found out that a rank is dead, and announces it to everybody. */
void weft_boot_died(struct weft_bootstrap *b, int rank, const char *reason);
/* Locked. This rank gives up, and announces it to everybody. */
void weft_boot_revoke(struct weft_bootstrap *b, int status, const char *reason);
/* Locked. Nobody listens to this rank any more, or it cannot go on: its edges close, which ends the others' waiting, and every
 * agreement from here on fails with status and text, as the bootstrap does if nothing else is known. 0: it was already. */
int weft_boot_cast_out(struct weft_bootstrap *b, int status, const char *text);
/* Locked. Records that as the calling thread's error. */
int weft_boot_report_outcast(struct weft_bootstrap *b);
/* Locked. The same for want of memory for its part ("to answer", say). */
void weft_boot_drop_out(struct weft_bootstrap *b, const char *what);
/* Locked. Gives up on purpose, which ends agreements too. */
void weft_boot_abort(struct weft_bootstrap *b, const char *reason);
/* Locked. Sends a frame on all edges but one (NULL: on all). Takes over the writer's bytes. */
void weft_boot_flood(struct weft_bootstrap *b, int type, struct weft_boot_writer *writer,
                     const struct weft_boot_edge *except);
/* Locked. Records the failure known here as the calling thread's error. */
int weft_boot_report_failure(struct weft_bootstrap *b);
/* Locked. A FAILED or REVOKED; negative: the peer is at fault. */
int weft_boot_notice_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
/* Locked, on the service thread: closes the edges to the dead. */
void weft_boot_doomed_close(struct weft_bootstrap *b);

/* ending.c: programs that end, and ranks that leave while others stay. All locked. */
/* An ENDING or a GONE; negative: the peer is at fault. */
int weft_boot_ending_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
int weft_boot_gone_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
/* On the service thread: a neighbour whose program has said that it ends, and has not done so since, counts as dead when its time is over.
 * Returns when that is. */
int64_t weft_boot_ending_look(struct weft_boot_edge *edge, int64_t now_ns);
/* Records as the calling thread's error that a rank is gone without which `what` cannot be. Only where there is one. */
int weft_boot_report_gone(const struct weft_bootstrap *b, const char *what);

/* beat.c: heartbeats, and the overlay's timer. */
void weft_boot_beat_start(struct weft_bootstrap *b); /* locked */
/* Locked. In the middle of something long: sends the heartbeats that are due. */
void weft_boot_beat(struct weft_bootstrap *b);
/* Locked. Makes the service thread come by soon. */
void weft_boot_kick(struct weft_bootstrap *b);
enum { WEFT_BOOT_BEGIN = 1, WEFT_BOOT_BEGIN_AGAIN = 2 };
/* Locked. This rank may have to begin an agreement, or begin again because of a death: the service thread looks. */
void weft_boot_agree_due(struct weft_bootstrap *b, int due);

/* What stands on top of edges and notices and has frames of its own (comm/boot/consensus/). All locked, on the service
 * thread. */
struct weft_boot_consensus {
    /* GOODBYE, WAVE, ECHO and NEWS. Negative: the peer is at fault. */
    int (*take)(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
    /* At the end of a callback: takes in losses and deaths, and begins what is due. */
    void (*run)(struct weft_bootstrap *b);
};

/* oob.c: out-of-band messages. */
/* Locked: one arrived. Negative: the peer is at fault. */
int weft_boot_oob_take(struct weft_boot_edge *edge, const struct weft_boot_frame *frame);
/* Locked: takes out those that wait for the callback; the caller frees them. */
struct weft_boot_oob *weft_boot_oobs_due(struct weft_bootstrap *b);
void weft_boot_oobs_free(struct weft_boot_oob *first);

/* gather.c. Locked: a frame of a gather arrived, whose body may be kept (NULL then). Negative: the peer is at fault. */
int weft_boot_gather_frame(struct weft_bootstrap *b, struct weft_boot_edge *edge,
                           struct weft_boot_frame *frame);
void weft_boot_gather_clear(struct weft_bootstrap *b);

/* root.c: rank 0 meets the others. On success members are known. *root is to be ended in any case, NULL allowed. */
struct weft_boot_root;
int weft_boot_root_meet(struct weft_bootstrap *b, const struct weft_bootstrap_options *options,
                        struct weft_boot_root **root);
/* Closes what is left of the check-in; with a status other than WEFT_OK those who still wait hear of it. */
void weft_boot_root_end(struct weft_boot_root *root, int status, const char *text);

/* join.c: the others meet rank 0. On success members are known, the parent's edge is connected and perhaps others of lower
 * neighbours, who are listened for, and *table is the TABLE's body to hand on. */
int weft_boot_join(struct weft_bootstrap *b, const struct weft_bootstrap_options *options,
                   struct weft_boot_bytes **table);

/* secret.c: the key of the job, in b->job. */
struct weft_boot_record;
/* From options and environment. WEFT_INVALID when there is none and no record to carry one. */
int weft_boot_secret_find(struct weft_bootstrap *b, const struct weft_bootstrap_options *options);
/* Rank 0: makes one for the record unless there is one. */
int weft_boot_secret_make(struct weft_bootstrap *b, struct weft_boot_record *record);
/* Others: take the record's unless there is one. */
int weft_boot_secret_take(struct weft_bootstrap *b, const struct weft_boot_record *record);

/* text.c */
/* What this rank has tried in vain, or waited for, since start_ns. Warns of it when that is after_ns ago, and says that it is still doing so
 * ("trying") and for how long. Whether it has. */
#define WEFT_BOOT_TRYING_NS INT64_C(5000000000) /* for what seldom comes right by itself */
int weft_boot_say_trying(const char *what, const char *doing, int64_t start_ns, int64_t after_ns,
                         int64_t deadline_ns);
uint64_t weft_boot_name_hash(const char *name);
void weft_boot_self(struct weft_boot_member *member); /* host name and pid; no address */

#endif
