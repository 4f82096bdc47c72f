/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap weft_kernel_image; beside device-sim drivers */
/* run: elsewhere (tests/system/test_device_collectives) */
/* Collectives on device memory, between real ranks: over shared memory and over tcp, with processes and with threads that share devices,
 * all on the device, and mixed with ranks and buffers of the host. On the simulated device, and on the kind "cuda" with the fake
 * driver (tests/fakes/drivers/cuda_fake.h). The memory of neither can be touched by the host: a load or store by the library would
 * end the test. */
#include "tests/support/cuda_bench.h"
#include "tests/support/device_jobs.h"
#include "tests/support/sim_seat.h"

/* And the driver's device has computed. */
static int on_cuda(int rank, int ranks, void *arg)
{
    CHECK(device_job_calls(rank, ranks, arg) == 0);
    CHECK(ranks == 1 || cuda_bench_fake->calls("cuLaunchKernel") > 0);
    return 0;
}

#define SIM(options)  .bench = &sim_bench, .sim = options, .body = device_job_calls
#define CUDA(of)      .bench = &(of), .body = on_cuda
#define TOGETHER(how) .place = device_calls_together, .ways = how
#define SCATTERED     .place = device_calls_scatter

static const struct device_job jobs[] = {
    {"sim: processes", SIM("sim:seed=1"), .ranks = 2, TOGETHER(DEVICE_DIRECT)},
    {"sim: processes, mixed", SIM("sim:seed=2"), .ranks = 4, SCATTERED},
    {"sim: tcp", SIM("sim:seed=3"), .ranks = 2, .on_tcp = 1, TOGETHER(DEVICE_ANY_WAY)},
    {"sim: tcp, mixed", SIM("sim:seed=4,delay=10"), .ranks = 3, .on_tcp = 1, SCATTERED},
    {"sim: threads share devices", SIM("sim:seed=5"), .ranks = 4, .in_threads = 1, SCATTERED},
    {"sim: out of reach", SIM("sim:seed=7,peers=0"), .ranks = 2, .in_threads = 1,
     TOGETHER(DEVICE_NOT_DIRECT)},
    {"sim: one rank", SIM("sim:seed=6"), .ranks = 1, TOGETHER(DEVICE_ANY_WAY)},
    {"cuda: processes", CUDA(cuda_bench), .ranks = 2, TOGETHER(DEVICE_DIRECT)},
    {"cuda: processes, mixed", CUDA(cuda_bench), .ranks = 3, SCATTERED},
    {"cuda: out of reach", CUDA(cuda_bench_apart), .ranks = 2, TOGETHER(DEVICE_NOT_DIRECT)},
    {"cuda: tcp", CUDA(cuda_bench_apart), .ranks = 2, .on_tcp = 1, TOGETHER(DEVICE_NOT_DIRECT)},
    {"cuda: threads share devices", CUDA(cuda_bench), .ranks = 4, .in_threads = 1, SCATTERED},
    {"cuda: one rank", CUDA(cuda_bench), .ranks = 1, TOGETHER(DEVICE_ANY_WAY)},
};

int main(void)
{
    return device_jobs_run(jobs, sizeof jobs / sizeof *jobs);
}
