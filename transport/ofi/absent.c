/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled instead of the rest of this folder where libfabric's headers are missing. */
#include "base/error.h"
#include "base/transport_absent.h"
#include "transport/ofi/ofi.h"

static int absent_open(const struct weft_transport_params *params, struct weft_transport **transport)
{
    (void)params, (void)transport;
    return weft_fail(WEFT_NOT_FOUND,
                     "ofi: this build of weft has no libfabric support; install libfabric-dev "
                     "(1.17 or later) and build again");
}

const struct weft_transport_ops weft_ofi_ops = {.name = "ofi", .open = absent_open, WEFT_ABSENT_OPS};
