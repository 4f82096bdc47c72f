/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives as programs of devices, between real ranks: by what the setting says, in processes and threads, with several
 * communicators at once, and when a rank is killed or gives up while the others' devices wait. What any kind that runs programs must
 * do. */
#ifndef WEFT_TESTS_DEVICE_PROGRAMS_H
#define WEFT_TESTS_DEVICE_PROGRAMS_H

#include "tests/support/device_seat.h"

struct device_programs {
    const struct device_bench *bench;
    int many;   /* ranks, where two do not do; 3 or more */
    int beside; /* threads that share a device have programs, too */
};

/* Number of failed tests. */
int device_programs_run(const struct device_programs *programs);
/* On devices that take milliseconds for each step: a rank leaves in the middle. */
int device_programs_run_slow(const struct device_programs *programs);

#endif
