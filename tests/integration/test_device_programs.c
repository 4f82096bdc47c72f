/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* Collectives on the simulated device as programs of it, between real ranks. */
#include "tests/support/device_programs.h"
#include "tests/support/sim_seat.h"

int main(void)
{
    const struct device_programs programs = {.bench = &sim_bench, .many = 3, .beside = 1};
    sim_seats_prepare("sim:seed=1");
    int failed = device_programs_run(&programs);
    failed += sim_seats_end();
    sim_seats_prepare("sim:seed=2,delay=5000");
    failed += device_programs_run_slow(&programs);
    return failed + sim_seats_end();
}
