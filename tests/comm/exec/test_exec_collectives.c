/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (ranks take turns) */
/* Every collective by every algorithm that serves it, run by the executor on the loop transport against a plain
 * reference: all ways bytes can travel, roots, in place, blocks of unequal size with gaps and empty ones, many ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/support/exec_sweep.h"
#include "tests/support/plan_hosts.h"
#include "tests/support/effort.h"

/* hosts: NULL, or only what follows their order. */
static void check_everything(struct exec_world *world, uint32_t ranks, const struct weft_hosts *hosts,
                             const char *mode, uint32_t *random)
{
    static const size_t counts[] = {0, 1, 2, 5, 16, 333, 5000};
    const struct exec_sweep sweep = {.world = world,
                                     .ranks = ranks,
                                     .hosts = hosts,
                                     .mode = mode,
                                     .counts = counts,
                                     .count_count = sizeof counts / sizeof *counts};
    exec_sweep(&sweep, random);
}

static const char *const modes[] = {"map",         "pull",        "put",           "eager",
                                    "map:storm=3", "put:storm=5", "eager:storm=7", "pull:storm=11"};

static void test_every_way(void **state)
{
    (void)state;
    static const uint32_t rank_counts[] = {1, 2, 3, 4, 5, 7, 8, 13};
    uint32_t random = 7;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        for (size_t n = 0; n < sizeof rank_counts / sizeof *rank_counts; n++) {
            if (test_is_sanitized() && (m + n) % 4)
                continue;
            struct exec_world_options options = {.ranks = rank_counts[n],
                                                 .window = n % 2 ? 32 : 4,
                                                 .mode = modes[m],
                                                 .eager_bytes = m % 2 ? 64 : 1024,
                                                 .slice_bytes = n % 3 ? 4096 : 1024,
                                                 .first_sequence = UINT32_MAX - 5,
                                                 .stage_only = m == 0 && n == 2,
                                                 .seed = (uint32_t)(m % 2 ? 17 + n : 0)};
            struct exec_world *world;
            assert_int_equal(exec_world_open(&options, &world), 0);
            check_everything(world, rank_counts[n], NULL, modes[m], &random);
            exec_world_close(world);
        }
    }
}

static void test_many_ranks(void **state)
{
    (void)state;
    uint32_t random = 99;
    for (uint32_t ranks = 33; ranks <= (test_is_sanitized() ? 33 : SWEEP_RANKS_MAX); ranks += 31) {
        struct exec_world_options options = {.ranks = ranks,
                                             .window = 16,
                                             .mode = "map",
                                             .eager_bytes = 256,
                                             .slice_bytes = 4096,
                                             .seed = ranks};
        struct exec_world *world;
        assert_int_equal(exec_world_open(&options, &world), 0);
        check_everything(world, ranks, NULL, "map", &random);
        exec_world_close(world);
    }
}

/* Ranks on hosts of any sizes, in any order. */
static void test_hosts(void **state)
{
    (void)state;
    static const uint32_t rank_counts[] = {2, 3, 5, 8, 12, 17};
    uint32_t random = 5;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m += 3) {
        for (size_t n = 0; n < sizeof rank_counts / sizeof *rank_counts; n++) {
            if (test_is_sanitized() && (m / 3 + n) % 2)
                continue;
            struct weft_hosts *hosts = n % 3 == 2 ? plan_hosts_rings(rank_counts[n], 2 + (uint32_t)m % 3, n)
                                                  : plan_hosts_random(rank_counts[n], m * 16 + n);
            struct exec_world_options options = {.ranks = rank_counts[n],
                                                 .window = n % 2 ? 32 : 4,
                                                 .mode = modes[m],
                                                 .eager_bytes = m % 2 ? 64 : 1024,
                                                 .slice_bytes = 1024,
                                                 .seed = (uint32_t)(m % 2 ? 3 + n : 0)};
            struct exec_world *world;
            assert_int_equal(exec_world_open(&options, &world), 0);
            check_everything(world, rank_counts[n], hosts, modes[m], &random);
            exec_world_close(world);
            weft_hosts_free(hosts);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
