/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/ofi_absent.h"

#include <weft/weft.h>
#include "transport/registry.h"

const char *test_ofi_absent(void)
{
    struct weft_transport_params params = {.size = sizeof params, .provider = "tcp"};
    struct weft_transport_ops ops;
    struct weft_transport *transport;
    int status = weft_transport_complete(weft_transport_find("ofi"), &ops);
    if (!status)
        status = ops.open(&params, &transport);
    if (status)
        return weft_error_detail();
    ops.close(transport);
    return NULL;
}
