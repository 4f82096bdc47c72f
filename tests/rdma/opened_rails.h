/* SPDX-License-Identifier: Apache-2.0 */
/* All rails of WEFT_RDMA_DEVICE, opened once for the tests of a program. Included once, after cmocka.h. */
#ifndef WEFT_TESTS_RDMA_OPENED_RAILS_H
#define WEFT_TESTS_RDMA_OPENED_RAILS_H

#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "transport/verbs/device.h"

static struct verbs_rail rails[VERBS_RAILS];
static int rail_count;

static struct weft_verbs_settings quick = WEFT_VERBS_SETTINGS_INIT;

static struct weft_transport_params rails_params(const char *devices)
{
    struct weft_transport_params params = {.size = sizeof params, .devices = devices, .verbs = &quick};
    return params;
}

static int rails_setup(void **state)
{
    (void)state;
    quick.timeout = 10; /* a peer that says nothing is given up within 100 ms */
    quick.retry = 2;
    struct weft_transport_params params = rails_params(getenv("WEFT_RDMA_DEVICE"));
    int status = verbs_rails_open(&params, rails, &rail_count);
    if (status)
        print_error("%s\n", weft_error_detail());
    return status;
}

static int rails_teardown(void **state)
{
    (void)state;
    verbs_rails_close(rails, rail_count);
    return 0;
}

static int rails_are_rxe(void)
{
    return strncmp(rails[0].device, "rxe", 3) == 0;
}

#endif
