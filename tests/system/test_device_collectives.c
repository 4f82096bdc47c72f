/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap weft_kernel_image; beside device-sim drivers */
/* Device collectives between real ranks: on the simulated device, and on the kind "cuda" with the fake driver
 * (tests/fakes/drivers/cuda_fake.h). */
#include "tests/support/cuda_bench.h"
#include "tests/support/device_collectives.h"
#include "tests/support/sim_seat.h"

int main(void)
{
    const struct device_collectives sim = {.bench = &sim_bench, .many = 3, .beside = 1},
                                    cuda = {.bench = &cuda_bench, .many = 3};
    sim_seats_prepare("sim:seed=1");
    int failed = device_collectives_run(&sim);
    failed += sim_seats_end();
    sim_seats_prepare("sim:seed=2,delay=5000");
    failed += device_collectives_run_slow(&sim);
    failed += sim_seats_end();
    return failed + device_collectives_run(&cuda);
}
