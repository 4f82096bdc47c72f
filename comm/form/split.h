/* SPDX-License-Identifier: Apache-2.0 */
/* Who is in which group (comm/form/split.c). Pure, for who feeds it bytes. */
#ifndef WEFT_COMM_FORM_SPLIT_H
#define WEFT_COMM_FORM_SPLIT_H

#include "comm/core/comm.h"

/* What each rank brings to the first round. */
struct weft_group_choice {
    int32_t colour, key; /* colour WEFT_UNDEFINED: no group */
};

/* The members of rank's group from everybody's choices, ordered by key and then by rank: how many, 0 for WEFT_UNDEFINED. WEFT_PROTOCOL
 * when what rank *wrong brought is no choice. members has room for all. */
int weft_group_choose(const struct weft_blob *choices, int ranks, int rank, int *members, int *wrong);

#endif
