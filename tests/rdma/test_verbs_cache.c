/* SPDX-License-Identifier: Apache-2.0 */
/* Ordinary memory over verbs: kept between operations where the device has memory windows, and never mistaken for what was
 * at its address before, which a device that has pinned it would show at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/cache_job.h"
#include "tests/support/cache_scene.h"
#include "tests/support/ranks.h"
#include "tests/support/rdma_device.h"
#include "tests/support/skip.h"

static void test_kept(void **state)
{
    (void)state;
    struct cache_job job = {1, "verbs", NULL};
    NEED_WATCHING();
    assert_int_equal(test_ranks_fork(2, cache_job_body, &job), 0);
}

/* Peers get the keys of regions, so each operation has its own. */
static void test_without_windows(void **state)
{
    (void)state;
    struct cache_job job = {0, "verbs", NULL};
    setenv("WEFT_VERBS_WINDOWS", "0", 1);
    assert_int_equal(test_ranks_fork(2, cache_job_body, &job), 0);
    unsetenv("WEFT_VERBS_WINDOWS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_without_windows),
    };
    const char *reason = test_rdma_absent(0);
    if (reason) {
        printf("SKIP: %s\n", reason);
        return 77;
    }
    test_ranks_limit(120);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
