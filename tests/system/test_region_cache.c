/* SPDX-License-Identifier: Apache-2.0 */
/* Ordinary memory over a transport that registers it: kept between operations, and never mistaken for what was at its
 * address before. Between ranks of one process, on the test provider, which needs every buffer registered; it
 * ends the program when one is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/built.h"
#include "tests/support/cache_job.h"
#include "tests/support/cache_scene.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"

#define NEED_PROVIDER(demands)                                                                               \
    do {                                                                                                     \
        if (!test_provider_use(demands))                                                                     \
            TEST_SKIP("the test provider was not built, as libfabric's headers were missing");               \
    } while (0)

static void run(const char *transports, const char *provider, int keeps)
{
    struct cache_job job = {keeps, transports, provider};
    assert_int_equal(test_ranks_threads(2, cache_job_body, &job), 0);
    assert_int_equal(cache_job_watchers(), 0);
}

static void test_kept(void **state)
{
    (void)state;
    NEED_WATCHING();
    NEED_PROVIDER("tagged,local");
    run("ofi", "wefttest", 1);
}

static void test_off(void **state)
{
    (void)state;
    NEED_PROVIDER("tagged,local");
    setenv("WEFT_CACHE_BYTES", "0", 1);
    run("ofi", "wefttest", 0);
    unsetenv("WEFT_CACHE_BYTES");
}

/* Keys that peers get would live on. */
static void test_remote_keys(void **state)
{
    (void)state;
    NEED_PROVIDER("tagged,local");
    setenv("WEFT_TEST_PROVIDER", "virt_addr,prov_key,allocated,local", 1);
    run("ofi", "wefttest", 0);
}

static void test_shm(void **state)
{
    (void)state;
    run("shm", NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shm),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_remote_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
