/* SPDX-License-Identifier: Apache-2.0 */
/* build: injected */
/* Each allocation fails in turn while hosts and plans for them are made, verified and priced: WEFT_NOMEM with a reason, and
 * nothing is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <weft/weft.h>

#include "algos/cost.h"
#include "algos/hosts.h"
#include "algos/proof/cost_plan.h"
#include "algos/proof/verify.h"
#include "tests/faults/every.h"
#include "topo/order.h"

static int make_hosts(struct weft_hosts **hosts)
{
    static const uint32_t sizes[] = {3, 1, 2}, order[] = {4, 1, 0, 3, 5, 2};
    return weft_hosts_make(sizes, 3, order, hosts);
}

static int take_layout(void)
{
    uint32_t order[] = {4, 1, 0, 3, 2}, host_of[] = {1, 0, 2, 2, 0};
    struct weft_layout layout = {.ranks = 5, .host_count = 3, .order = order, .host_of = host_of};
    struct weft_hosts *hosts = NULL;
    int status = weft_hosts_of_layout(&layout, &hosts);
    weft_hosts_free(hosts);
    return status;
}

/* Plans that are written in loops and ones that are longer than a builder's first room. */
static int make_plans(void)
{
    static const struct weft_plan_request requests[] = {
        {WEFT_ALLREDUCE, WEFT_ALGO_HIER, 6, 0, 0, -1, 0, 0, NULL},
        {WEFT_REDUCE_SCATTER, WEFT_ALGO_HIER, 6, 0, 0, -1, 0, 0, NULL},
        {WEFT_BROADCAST, WEFT_ALGO_LEADER, 6, 0, 0, 2, 0, 0, NULL},
    };
    struct weft_hosts *hosts = NULL;
    int status = make_hosts(&hosts);
    for (size_t i = 0; i < sizeof requests / sizeof *requests && status == WEFT_OK; i++) {
        struct weft_plan_request request = requests[i];
        struct weft_hosts_cost cost = {weft_link_cost_of(1, 0), weft_link_cost_of(0, 0), 1};
        struct weft_verify_report report;
        struct weft_plan **plans = NULL;
        double time_ns;
        request.hosts = hosts;
        status = weft_plans_make(&request, &plans);
        const struct weft_plan *const *made = (const struct weft_plan *const *)plans;
        if (status == WEFT_OK)
            status = weft_plans_verify(made, 6, NULL, &report);
        if (status == WEFT_OK)
            status = weft_plans_cost_hosts(made, hosts, 100, &cost, &time_ns);
        weft_plans_free(plans, 6);
    }
    weft_hosts_free(hosts);
    return status;
}

static void test_layout(void **state)
{
    (void)state;
    assert_int_equal(fault_try_first("a layout", take_layout, fault_expect_error), 2);
}

static void test_plans(void **state)
{
    (void)state;
    assert_true(fault_try_first("plans", make_plans, fault_expect_error) > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layout), cmocka_unit_test(test_plans)};
    fault_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
