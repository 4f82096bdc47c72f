/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated device as a bench (device_seat.h).
 *
 * The plug-in is put and named in the environment before contexts are opened. A seat's set of kinds shares the device with those of the
 * process's contexts; its own memory and copies never fail, as the options are those of contexts. */
#ifndef WEFT_TESTS_SIM_SEAT_H
#define WEFT_TESTS_SIM_SEAT_H

#include "tests/support/device_seat.h"

extern const struct device_bench sim_bench;

/* Before ranks are started or contexts opened, and behind them; any number of times in turn. options: "sim:seed=1". What end() returns is to
 * be 0: how often devices were to work on memory that had been released, as this process and those forked in between have logged it.
 * A log that says nothing counts, too. It is one file from the first prepare() to the end of the process, and WEFT_LOG_FILE stays
 * its name; nothing may be logged before. One thread calls them. */
void sim_seats_prepare(const char *options);
int sim_seats_end(void);

#endif
