/* SPDX-License-Identifier: Apache-2.0 */
/* A kind that calls itself as a built-in one. */
#define KIND_NAME "host"
#include "kind.h"

const struct weft_device_ops *weft_device_plugin(void)
{
    return &kind_ops;
}
