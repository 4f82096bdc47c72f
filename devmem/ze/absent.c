/* SPDX-License-Identifier: Apache-2.0 */
/* Level Zero, left out of this build: open() says so. */
#include <weft/device.h>

static int ze_open(const struct weft_device_params *params, struct weft_device **device)
{
    (void)device;
    return params->fail(WEFT_NOT_FOUND, "built without Level Zero: WITH_ZE=no, or libze-dev was missing");
}

extern const struct weft_device_ops weft_ze_ops;
const struct weft_device_ops weft_ze_ops = {
    .size = sizeof weft_ze_ops, .abi = WEFT_DEVICE_ABI, .name = "ze", .open = ze_open};
