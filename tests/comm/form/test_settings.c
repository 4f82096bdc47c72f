/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that ranks must agree on, each of one rank in turn: every rank's creation fails, and names that rank and the setting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define RANKS_MAX 5

static const char *const settings[][2] = {
    {"WEFT_ALGO", "tree"},        {"WEFT_CONNECT", "eager"},   {"WEFT_DIRECT", "0"},
    {"WEFT_EAGER_OFI", "1024"},   {"WEFT_EAGER_SHM", "1024"},  {"WEFT_EAGER_VERBS", "1024"},
    {"WEFT_FAST_PATH", "128"},    {"WEFT_RAB_BYTES", "12345"}, {"WEFT_RD_BYTES", "12345"},
    {"WEFT_SLICE_OFI", "8192"},   {"WEFT_SLICE_SHM", "8192"},  {"WEFT_SLICE_VERBS", "8192"},
    {"WEFT_VERBS_FAILOVER", "1"}, {"WEFT_VERBS_QPS", "3"},     {"WEFT_VERBS_STRIPE", "8192"},
    {"WEFT_WINDOW", "8"},
};
#define SETTINGS ((int)(sizeof settings / sizeof *settings))

struct setting {
    const char *const *pair;
    int wrong;
};

static int settings_body(int rank, int ranks, void *arg)
{
    const struct setting *setting = arg;
    char expected[100];
    if (rank == setting->wrong)
        setenv(setting->pair[0], setting->pair[1], 1);
    struct job job;
    int status = job_open(&job, "shm", NULL), named = ranks == 2 ? 1 : setting->wrong;
    int length = snprintf(expected, sizeof expected, "rank %d on host '", named);
    CHECK(length > 0);
    if (status == WEFT_SETTINGS && strstr(weft_error_detail(), expected) &&
        strstr(weft_error_detail(), setting->pair[0]) && strstr(weft_error_detail(), setting->pair[1]))
        return 0;
    fprintf(stderr, "rank %d of %d, rank %d wrong: status %d, '%s': expected %s and %s\n", rank, ranks,
            setting->wrong, status, weft_error_detail(), expected, setting->pair[0]);
    return 1;
}

static void test_settings(void **state)
{
    (void)state;
    int everything = getenv("WEFT_LONG") != NULL;
    for (int s = 0; s < SETTINGS; s++) {
        for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
            for (int wrong = 0; wrong < ranks; wrong++) {
                if (!everything && (s + ranks + wrong) % 7)
                    continue;
                struct setting setting = {settings[s], wrong};
                assert_int_equal(test_ranks_fork(ranks, settings_body, &setting), 0);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_settings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
