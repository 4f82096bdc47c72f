/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and collectives from memory that the program may only read, over shared memory and libfabric. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/read_only.h"

static const char *transports, *provider;

static int body(int rank, int ranks, void *arg)
{
    struct job job;
    (void)rank, (void)ranks, (void)arg;
    CHECK_OK(job_open(&job, transports, provider));
    CHECK(read_only_is_sent_from(&job) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_shm(void **state)
{
    (void)state;
    transports = "shm";
    assert_int_equal(test_ranks_fork(2, body, NULL), 0);
    setenv("WEFT_DIRECT", "0", 1); /* staged */
    int failed = test_ranks_fork(2, body, NULL);
    unsetenv("WEFT_DIRECT");
    assert_int_equal(failed, 0);
}

static void over(const char *name)
{
    if (!job_has_ofi(name))
        skip();
    transports = "ofi";
    provider = name;
    assert_int_equal(test_ranks_fork(2, body, NULL), 0);
}

static void test_tcp(void **state)
{
    (void)state;
    over("tcp");
}

static void test_tcp_messages(void **state)
{
    (void)state;
    over("tcp;ofi_rxm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shm),
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_tcp_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
