/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that the tests of this folder are to use, WEFT_RDMA_DEVICE, are there and active. */
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/rdma_device.h"

/* NULL when there is none of this name. */
static struct ibv_context *device_open(const char *name)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    assert_non_null(list);
    struct ibv_context *opened = NULL;
    for (int i = 0; i < count && !opened; i++)
        if (strcmp(ibv_get_device_name(list[i]), name) == 0)
            opened = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    return opened;
}

static void device_check(const char *name, int number)
{
    struct ibv_context *context = device_open(name);
    if (!context)
        fail_msg("no RDMA device %s here", name);
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(context, (uint8_t)number, &port), 0);
    if (port.state != IBV_PORT_ACTIVE)
        fail_msg("port %d of %s is %s, not active", number, name, ibv_port_state_str(port.state));
    assert_true(port.gid_tbl_len > 0);

    struct ibv_pd *domain = ibv_alloc_pd(context);
    assert_non_null(domain);
    char memory[64];
    struct ibv_mr *region = ibv_reg_mr(domain, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(region);
    assert_int_equal(ibv_dereg_mr(region), 0);
    assert_int_equal(ibv_dealloc_pd(domain), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void test_devices_are_active(void **state)
{
    (void)state;
    const char *names = getenv("WEFT_RDMA_DEVICE");
    if (!names || !*names)
        fail_msg("WEFT_RDMA_DEVICE names no device; run this by make check-rdma");
    char name[64];
    int count = 0;
    for (int port; (port = test_rdma_device(count, name, sizeof name)); count++)
        device_check(name, port);
    assert_true(count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices_are_active)};
    return cmocka_run_group_tests_name("rdma device", tests, NULL, NULL);
}
