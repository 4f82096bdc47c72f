/* SPDX-License-Identifier: Apache-2.0 */
/* What old ranks compare of the place where they would meet new ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "comm/form/grow.h"

static int is_same(const struct weft_bootstrap_options *a, const struct weft_bootstrap_options *b)
{
    struct weft_proposal one, other;
    weft_proposal_set(a, &one);
    weft_proposal_set(b, &other);
    return memcmp(&one, &other, sizeof one) == 0;
}

static int are_same_addresses(const char *a, const char *b)
{
    return is_same(&(struct weft_bootstrap_options){.ranks = 3, .address = a},
                   &(struct weft_bootstrap_options){.ranks = 3, .address = b});
}

/* Each host has a name of its own for the link. */
static void test_scopes(void **state)
{
    (void)state;
    assert_true(are_same_addresses("[fe80::1%east]:4000", "[fe80::1%west0]:4000"));
    assert_false(are_same_addresses("[fe80::1%east]:4000", "[fe80::2%east]:4000"));
    assert_false(are_same_addresses("[fe80::1%east]:4000", "[fe80::1%east]:4001"));
    assert_true(are_same_addresses("node1:4000", "node1:4000"));
    assert_false(are_same_addresses("node1:4000", "node2:4000"));
}

static void test_files(void **state)
{
    (void)state;
    assert_false(is_same(&(struct weft_bootstrap_options){.ranks = 3, .file = "/shared/meet%1"},
                         &(struct weft_bootstrap_options){.ranks = 3, .file = "/shared/meet%2"}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scopes), cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
