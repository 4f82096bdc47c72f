/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the limit of locked memory was in the way: what errors advise rests on it. */
#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "tests/support/lock_right.h"
#include "tests/support/skip.h"

static struct rlimit before, lower;

static int lower_limit(void **state)
{
    (void)state;
    if (getrlimit(RLIMIT_MEMLOCK, &before) != 0)
        return -1;
    lower = before;
    lower.rlim_cur = before.rlim_max < 65536 ? before.rlim_max : 65536;
    return setrlimit(RLIMIT_MEMLOCK, &lower);
}

static int restore_limit(void **state)
{
    (void)state;
    return setrlimit(RLIMIT_MEMLOCK, &before);
}

/* Nothing is pinned here, so what is larger than the limit goes beyond it. */
static void test_limit(void **state)
{
    (void)state;
    struct weft_limits_locked locked;
    int had = test_lock_right(0);
    assert_true(had >= 0);
    assert_false(weft_limits_locked(lower.rlim_cur, &locked));
    assert_int_equal(locked.limit, lower.rlim_cur);
    assert_int_equal(locked.pinned, 0);
    assert_true(weft_limits_locked(lower.rlim_cur + 1, &locked));
    assert_int_equal(test_lock_right(had), 0);
}

/* Nobody with the right is advised to raise a limit that does not count for him. */
static void test_right(void **state)
{
    (void)state;
    struct weft_limits_locked locked;
    struct stat space;
    int had = test_lock_right(1);
    if (had < 0)
        TEST_SKIP("CAP_IPC_LOCK is not for this user");
    assert_int_equal(stat("/proc/self/ns/user", &space), 0);
    int counts = space.st_ino == 0xeffffffd; /* the right counts in the machine's own user namespace alone */
    assert_int_equal(weft_limits_locked(lower.rlim_cur + 1, &locked), !counts);
    assert_true(locked.limit == (counts ? UINT64_MAX : lower.rlim_cur));
    assert_true(test_lock_right(had) >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_limit, lower_limit, restore_limit),
        cmocka_unit_test_setup_teardown(test_right, lower_limit, restore_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
