/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/fakes/verbs/; beside device-sim */
/* The executor, the transport verbs and device memory that a NIC in memory registers as dma-bufs: every collective by every
 * algorithm, where the host can touch nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "tests/fakes/verbs/rdma_fake.h"
#include "tests/support/sim_scene.h"
#include "tests/support/exec_sweep.h"

/* Returns the bytes that had to be staged, beside those inside messages, at both ends. */
static uint64_t sweep(uint32_t ranks, uint64_t refuses, const char *options)
{
    uint32_t random = 11;
    sim_scene_open(options);
    struct exec_world_options world = {.ranks = ranks,
                                       .window = 32,
                                       .transport = "verbs",
                                       .eager_bytes = 64,
                                       .slice_bytes = 4096,
                                       .registers = sim_scene.sim,
                                       .refuses = refuses};
    const struct weft_exec_stats sum = exec_sweep_world(&world, sim_scene_on_sim, sim_scene.queues, &random);
    assert_true(sum.bytes_direct > 0);
    sim_scene_close();
    assert_int_equal(rdma_fake_count(), 0);
    return sum.bytes_staged - 2 * sum.bytes_eager;
}

static void nothing_long_is_staged(void **state)
{
    (void)state;
    assert_int_equal(sweep(2, 0, "sim:seed=1,dmabuf=1"), 0);
    assert_int_equal(sweep(4, 0, "sim:seed=2,dmabuf=1,delay=20"), 0);
}

static void where_it_is_refused(void **state)
{
    (void)state;
    assert_true(sweep(3, 2, "sim:seed=3,dmabuf=1") > 0);
    assert_true(sweep(3, 0, "sim:seed=4") > 0); /* the device exports none */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_long_is_staged),
        cmocka_unit_test(where_it_is_refused),
    };
    setenv("WEFT_LOG", "error", 0);
    return cmocka_run_group_tests_name("the executor on devices' memory, by a NIC", tests, NULL, NULL);
}
