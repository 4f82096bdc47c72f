/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs */
/* What a verbs instance is asked for: settings of callers that know fewer or more of them, or none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include <weft/weft.h>

#include "base/settings.h"
#include "transport/verbs/device.h"

static struct weft_verbs_settings of(const struct weft_verbs_settings *given, size_t params_size)
{
    struct weft_transport_params params = {.size = params_size, .verbs = given};
    struct weft_verbs_settings read;
    memset(&read, 0x5a, sizeof read);
    assert_int_equal(verbs_settings(&params, &read), WEFT_OK);
    assert_int_equal(read.size, sizeof read);
    return read;
}

static void test_without_settings_there_are_the_context_s(void **state)
{
    (void)state;
    struct weft_settings context;
    assert_int_equal(weft_settings_read(&context, NULL), WEFT_OK);
    struct weft_verbs_settings read = of(NULL, sizeof(struct weft_transport_params));
    assert_memory_equal(&read, &context.verbs, sizeof read);
    read = of(&context.verbs, sizeof(struct weft_transport_params));
    assert_memory_equal(&read, &context.verbs, sizeof read);
}

static void test_an_older_caller_s_end_early(void **state)
{
    (void)state;
    struct weft_verbs_settings given = {.size = offsetof(struct weft_verbs_settings, timeout),
                                        .qps = 3,
                                        .service_level = 5,
                                        .timeout = 7,
                                        .failover = 1};
    struct weft_verbs_settings read = of(&given, sizeof(struct weft_transport_params));
    assert_int_equal(read.qps, 3);
    assert_int_equal(read.service_level, 5);
    assert_int_equal(read.timeout, 18);
    assert_int_equal(read.windows, 1);
    assert_int_equal(read.failover, 0);
}

static void test_a_newer_caller_s_are_cut(void **state)
{
    (void)state;
    struct {
        struct weft_verbs_settings known;
        int64_t more;
    } given = {{.size = sizeof given, .qps = 2, .failover = 1}, 99};
    struct weft_verbs_settings read = of(&given.known, sizeof(struct weft_transport_params));
    assert_int_equal(read.qps, 2);
    assert_int_equal(read.failover, 1);
    assert_int_equal(read.windows, 0);
}

static void test_params_that_end_before_them_have_none(void **state)
{
    (void)state;
    struct weft_verbs_settings given = {.size = sizeof given, .qps = 2};
    assert_int_equal(of(&given, offsetof(struct weft_transport_params, verbs)).qps, 1);
}

static void test_a_size_is_wanted(void **state)
{
    (void)state;
    struct weft_verbs_settings given = {.qps = 2}, read = {.qps = 77};
    struct weft_transport_params params = {.size = sizeof params, .verbs = &given};
    assert_int_equal(verbs_settings(&params, &read), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "size of the settings is 0: expected sizeof"));
    assert_int_equal(read.qps, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_settings_there_are_the_context_s),
        cmocka_unit_test(test_an_older_caller_s_end_early),
        cmocka_unit_test(test_a_newer_caller_s_are_cut),
        cmocka_unit_test(test_params_that_end_before_them_have_none),
        cmocka_unit_test(test_a_size_is_wanted),
    };
    return cmocka_run_group_tests_name("verbs settings", tests, NULL, NULL);
}
