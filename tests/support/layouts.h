/* SPDX-License-Identifier: Apache-2.0 */
/* The layout that a communicator of ranks on named hosts must have, described by strings: "abca" are four ranks on the hosts "a",
 * "b", "c" and "a". */
#ifndef WEFT_TESTS_LAYOUTS_H
#define WEFT_TESTS_LAYOUTS_H

#include <weft/weft.h>

#define TEST_LAYOUT_RANKS 16

struct test_layout {
    const char *hosts;    /* [ranks]: where each rank of the communicator is */
    const char *sequence; /* the hosts as the fabric orders them; NULL: by name */
    int by_rank;          /* WEFT_ORDER=rank */
    const char *numa; /* [ranks]: digits of NUMA nodes, '-' where a rank runs on several; NULL: not known */
    const char *domains; /* [ranks]: characters of who shares memory; NULL: all ranks of a host */
    int same_name;       /* domains of one host's name are on machines of their own */
};

/* Compares with what the communicator has, and who is where. 0, or 1 and said on stderr. */
int test_layout_check(const weft_comm *comm, const struct test_layout *layout);

#endif
