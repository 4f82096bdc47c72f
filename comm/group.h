/* Communicators from communicators: how groups of a communicator's ranks come to meet (comm/group.c). */
#ifndef WEFT_COMM_GROUP_H
#define WEFT_COMM_GROUP_H

#include "comm/comm.h"

/* What each rank brings to the first round. */
struct weft_group_choice {
    int32_t colour, key; /* colour WEFT_UNDEFINED: no group */
};

/* What a rank brings to the later rounds when it has something to say; most have not, and bring nothing. */
struct weft_group_word {
    int32_t status; /* WEFT_OK, or why this rank's group cannot be */
    uint32_t unused;
    char text[304];   /* the reason */
    char address[64]; /* "ip:port" where the group's first rank listens; "" where that is no matter */
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

/* Reads a word. WEFT_OK also when there is none: then it is all zero. WEFT_PROTOCOL. */
int weft_group_read(const struct weft_blob *blob, struct weft_group_word *word);

/* A communicator of this rank alone, with the name and the deadline of comm. */
int weft_group_alone(struct weft_comm *comm, struct weft_comm **made);

#endif
