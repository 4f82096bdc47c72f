/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled instead of the rest of this folder where rdma-core's headers are missing. */
#include "base/error.h"
#include "base/transport_absent.h"
#include "transport/verbs/verbs.h"

static int absent_open(const struct weft_transport_params *params, struct weft_transport **transport)
{
    (void)params, (void)transport;
    return weft_fail(WEFT_NOT_FOUND,
                     "verbs: this build of weft has no support for RDMA devices; install libibverbs-dev "
                     "(rdma-core 32 or later) and build again");
}

const struct weft_transport_ops weft_verbs_ops = {.name = "verbs", .open = absent_open, WEFT_ABSENT_OPS};
