/* SPDX-License-Identifier: Apache-2.0 */
/* A kind with what every kind must have, and nothing else. */
#define KIND_NAME "least"
#include "kind.h"

const struct weft_device_ops *weft_device_plugin(void)
{
    return &kind_ops;
}
