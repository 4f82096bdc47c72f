/* SPDX-License-Identifier: Apache-2.0 */
/* Rails that go down and come back: what failover.c and replay.c share, and what they offer to the others. */
#ifndef WEFT_TRANSPORT_VERBS_FAILOVER_H
#define WEFT_TRANSPORT_VERBS_FAILOVER_H

#include "transport/verbs/rbuf.h"

#define VERBS_KEPT_MAX    256 /* messages kept per link: a peer that grants more is not believed */
#define VERBS_KEY_ENTRIES 64  /* of a KEYS frame, at most */

/* A message until the peer has consumed it. */
struct verbs_kept {
    uint8_t *bytes;
    uint32_t size, capacity;
};

/* What is known of the peer's receive buffer of a slot. */
struct verbs_renewal {
    struct verbs_token token; /* if announced anew; its immediate says which receive buffer */
    uint32_t done;            /* immediate of the last put that ended well, with DONE */
    uint32_t expected;        /* link->expected when that one began */
};

/* As KEYS carries it. */
struct verbs_key_entry {
    struct verbs_token token;
    uint32_t sent_at; /* number of the next message when the receive buffer was made */
    uint32_t zero;
};
_Static_assert(sizeof(struct verbs_key_entry) == 56, "an entry has no holes");

enum verbs_turn {
    VERBS_TURN_NONE,    /* the round's queue pairs are in use, or wait for the peer's */
    VERBS_TURN_STOPPED, /* they are in error, and wait to be destroyed */
};

/* Of a queue pair that failed for no known reason: not to be used for a while. */
struct verbs_ban {
    int64_t failed_ns, until_ns; /* 0: none */
    int64_t length_ns;           /* of the last one */
};

struct verbs_failover {
    enum verbs_turn turn;
    uint8_t has_half;
    uint8_t keys_known;  /* the peer has announced all of this round's */
    uint8_t keys_sent;   /* and we */
    uint32_t next_round; /* that follows when the queue pairs are gone */
    uint32_t replay;     /* next message to be sent again */
    uint32_t expected;   /* what our oob messages of this round say */
    uint32_t consumed;
    int64_t stopped_ns;
    int64_t restore_ns;    /* when to try queue pairs that are not in use; 0: nothing to wait for */
    struct verbs_oob half; /* the peer's, of the next round */
    struct verbs_ban bans[VERBS_QPS];
    uint32_t barren;         /* errors in a row without anything having moved */
    uint32_t mark;           /* what had moved */
    struct verbs_kept *kept; /* ring of VERBS_KEPT_MAX */
    struct verbs_renewal *renewals;
    uint32_t renewals_count;
    uint32_t moved;                                    /* puts of ours that ended, whatever number */
    struct verbs_key_entry entries[VERBS_KEY_ENTRIES]; /* to be announced */
    uint32_t entries_count;
    uint64_t messages, puts; /* that were sent again */
    char why[576];           /* how it began */
};

/* failover.c */
/* Both ends want it. */
int verbs_failover_make(struct weft_link *link);
void verbs_failover_free(struct weft_link *link);
static inline int verbs_failover_is_turning(const struct weft_link *link)
{
    return link->failover && link->failover->turn == VERBS_TURN_STOPPED;
}
/* Whether another rail may do better (enum ibv_wc_status). */
int verbs_failover_helps(int status);
/* What this end says of the round. */
void verbs_failover_oob(const struct weft_link *link, struct verbs_oob *oob);
/* Looks at the round of the peer's half: 1 when there is nothing more to do with it now. */
int verbs_failover_heard(struct weft_link *link, const struct verbs_oob *oob);
/* Connects the queue pairs that both ends have. */
int verbs_failover_adopt(struct weft_link *link, const struct verbs_oob *oob);
/* The queue pairs are connected: a port of theirs may have gone down before there was anyone to notify. */
void verbs_failover_look(struct weft_link *link);
/* Both ends' queue pairs are connected. */
void verbs_failover_resume(struct weft_link *link);
/* The peer, or a rail, has not come back in time. */
void verbs_failover_late(struct weft_link *link);
void verbs_failover_link_failed(struct weft_link *link);

/* replay.c */
/* A copy of what is about to be sent with the number link->sent. */
int verbs_message_keep(struct weft_link *link, const void *header, size_t header_size, const void *payload,
                       size_t payload_size);
/* For VERBS_PENDING_RESUME: keys, then messages. */
int verbs_resume_send(struct weft_link *link);
/* For VERBS_PENDING_REPLAY. */
int verbs_puts_replay(struct weft_link *link);
/* KEYS or KEYS_END has arrived. */
void verbs_keys_receive(struct weft_link *link, const struct verbs_frame *frame, uint32_t size);
/* A token that is not of this round: replaced by the newer one. WEFT_AGAIN: not known yet; WEFT_CANCELLED: there is none. */
int verbs_token_renew(const struct weft_link *link, struct verbs_token *token, size_t size);
/* A put has ended well. */
void verbs_put_note(struct weft_link *link, const struct verbs_put *put);

/* put.c */
/* The receive buffer has new keys: its put is written again. */
void verbs_put_renew(struct weft_link *link, const struct verbs_token *token);
/* Every receive buffer that is still open has been named: puts to others had arrived. */
void verbs_puts_settle(struct weft_link *link);

#endif
