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

/* A communicator of this rank alone, with the name and the deadline of comm. */
int weft_group_alone(struct weft_comm *comm, struct weft_comm **made);

#endif
