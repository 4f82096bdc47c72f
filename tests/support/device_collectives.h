/* SPDX-License-Identifier: Apache-2.0 */
/* Device collectives between real ranks: by what the setting says, in processes and threads, with several
 * communicators at once, and when a rank is killed or gives up while the others' devices wait. What any kind that runs programs must
 * do. */
#ifndef WEFT_TESTS_SUPPORT_DEVICE_COLLECTIVES_H
#define WEFT_TESTS_SUPPORT_DEVICE_COLLECTIVES_H

#include "tests/support/device_seat.h"

struct device_collectives {
    const struct device_bench *bench;
    int many;   /* ranks, where two do not do; 3 or more */
    int beside; /* threads that share a device have programs, too */
};

/* Number of failed tests. */
int device_collectives_run(const struct device_collectives *collectives);
/* On devices that take milliseconds for each step: a rank leaves in the middle. */
int device_collectives_run_slow(const struct device_collectives *collectives);

#endif
