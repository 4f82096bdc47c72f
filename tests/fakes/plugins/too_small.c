/* SPDX-License-Identifier: Apache-2.0 */
/* A kind whose table ends in the middle. */
#define KIND_NAME "small"
#include "kind.h"

const struct weft_device_ops *weft_device_plugin(void)
{
    static struct weft_device_ops ops;
    ops = kind_ops;
    ops.size = offsetof(struct weft_device_ops, identify);
    return &ops;
}
