/* SPDX-License-Identifier: Apache-2.0 */
/* A kind of another age. */
#define KIND_NAME "other"
#include "kind.h"

const struct weft_device_ops *weft_device_plugin(void)
{
    static struct weft_device_ops ops;
    ops = kind_ops;
    ops.abi = 1;
    return &ops;
}
