/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two real ranks on memory of a kind of device and of the host, mixed: what any kind must do. */
#ifndef WEFT_TESTS_DEVICE_MESSAGES_H
#define WEFT_TESTS_DEVICE_MESSAGES_H

#include "tests/support/device_seat.h"

struct device_messages {
    const struct device_bench *bench;
    const char *provider; /* of libfabric's; NULL: shared memory */
    int in_threads;
    int sends, is_long; /* FAILING: what the rank does whose device fails */
};

enum device_messages_case {
    DEVICE_MESSAGES_PAIRS, /* every pair of memories, every size */
    DEVICE_MESSAGES_ORDER, /* small and large ones under one tag */
    DEVICE_MESSAGES_GROUPS,
    DEVICE_MESSAGES_REFUSED, /* too long; cancelled */
    DEVICE_MESSAGES_FAILING, /* rank 0's device fails: options of its context say so */
    DEVICE_MESSAGES_ABORT,   /* while transfers run */
};

/* How many ranks found something wrong, which is said on stderr. */
int device_messages_run(const struct device_messages *way, enum device_messages_case which);

#endif
