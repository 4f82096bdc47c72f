/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets which message: receives that wait for a message, and messages that wait for a receive.
 *
 * A message has a source and a tag; a receive names both, or takes any source, any tag. MPI's rule: a message goes to the
 * receive that was posted first among those that it fits, and a receive takes the message that came first among those
 * that fit it. Since messages of one sender come in the order in which it sent them, none overtakes another.
 *
 * Both sides are queues by key, found by hashing, so that the cost does not grow with what is outstanding:
 *   receives  each stands in one queue, that of (source, tag) as it names them, "any" being a value like others. A
 *             message looks at the heads of the four queues that it fits, and takes the oldest by a common stamp.
 *   messages  each stands in four queues, (source, tag), (any, tag), (source, any) and (any, any); a receive looks at
 *             the head of the one that it names.
 * A space keeps weft's own messages apart from the program's.
 *
 * Pure: no I/O, no clock, no lock. The entries belong to the caller and lie in its structures.
 */
#ifndef WEFT_COMM_P2P_MATCH_H
#define WEFT_COMM_P2P_MATCH_H

#include <stddef.h>
#include <stdint.h>

enum weft_match_space { WEFT_SPACE_USER, WEFT_SPACE_INTERNAL };

#define WEFT_MATCH_ANY (-1) /* as WEFT_ANY_SOURCE and WEFT_ANY_TAG */

struct weft_match_queue;

struct weft_match_node {
    struct weft_match_node *next, *previous;
    struct weft_match_queue *queue; /* NULL: in none */
    uint64_t stamp;
};

/* A receive that waits. The caller sets space, source and tag. */
struct weft_posted {
    struct weft_match_node node;
    int32_t space, source;
    int64_t tag;
};

/* A message that waits; source and tag are not "any". */
struct weft_arrived {
    struct weft_match_node nodes[4];
    int32_t space, source;
    int64_t tag;
};

/* One side: queues by key. */
struct weft_match_table {
    struct weft_match_queue **buckets;
    size_t capacity, count; /* of buckets, of queues */
};

struct weft_match {
    struct weft_match_table posted, arrived;
    struct weft_match_queue *spare;
    size_t posted_like[4];              /* receives with [any source] + 2 * [any tag] */
    size_t posted_count, arrived_count; /* in the queues */
    struct weft_posted *lone; /* the only receive that waits: it need not be found, and stands in no queue */
    uint64_t stamp;
};

/* *match is {0} at first; nothing may be in it when it is closed. */
void weft_match_close(struct weft_match *match);

/* Adds a receive behind those that are there. WEFT_NOMEM leaves everything as it was. */
int weft_match_post(struct weft_match *match, struct weft_posted *posted);
void weft_match_withdraw(struct weft_match *match, struct weft_posted *posted);
/* The receive that a message from source is for, taken out; NULL when none waits for it. */
struct weft_posted *weft_match_claim(struct weft_match *match, int32_t space, int32_t source, int64_t tag);

/* The same for messages. */
int weft_match_keep(struct weft_match *match, struct weft_arrived *arrived);
void weft_match_remove(struct weft_match *match, struct weft_arrived *arrived);
/* The message that a receive of source and tag, both of which may be "any", takes next. It stays. */
struct weft_arrived *weft_match_find(const struct weft_match *match, int32_t space, int32_t source,
                                     int64_t tag);
/* Messages of a space in order of arrival: the first (after: NULL), or the next one. */
struct weft_arrived *weft_match_next(const struct weft_match *match, int32_t space,
                                     const struct weft_arrived *after);
/* The next one of the same space, source and tag. */
struct weft_arrived *weft_match_next_alike(const struct weft_arrived *after);

#endif
