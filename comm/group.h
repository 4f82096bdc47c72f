/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators from communicators: how groups of a communicator's ranks come to meet (comm/group.c). */
#ifndef WEFT_COMM_GROUP_H
#define WEFT_COMM_GROUP_H

#include "comm/comm.h"

/* What each rank brings to the first round. */
struct weft_group_choice {
    int32_t colour, key; /* colour WEFT_UNDEFINED: no group */
};

/* A rank of the parent with what decides on its place. */
struct weft_group_member {
    int32_t key;
    int rank;
};

/* The members of rank's group from everybody's choices, in the group's order: how many, 0 for WEFT_UNDEFINED. WEFT_PROTOCOL
 * when what rank *wrong brought is no choice. members has room for all. */
int weft_group_choose(const struct weft_blob *choices, int ranks, int rank, struct weft_group_member *members,
                      int *wrong);

/* A meeting of some of parent's ranks, after all of them have learnt where. */
struct weft_meeting {
    struct weft_comm *parent;
    int rank, ranks;             /* in the new communicator */
    int listen_fd;               /* rank 0: open, and the caller's */
    const char *address;         /* rank 0's */
    const unsigned char *secret; /* [WEFT_KEY_BYTES] */
    int64_t deadline_ns; /* of the call; the meeting ends early enough for its members to tell each other */
};

/* Ends at once when the parent fails. */
int weft_meeting_hold(const struct weft_meeting *meeting, struct weft_comm **made);

/* Frees what a meeting has made, NULL allowed, when it does not count: others may be in it already. Keeps the calling
 * thread's error. */
void weft_meeting_drop(struct weft_comm *made);

/* A communicator of this rank alone, with the name and the deadline of comm. */
int weft_group_alone(struct weft_comm *comm, struct weft_comm **made);

#endif
