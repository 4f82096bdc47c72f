/* SPDX-License-Identifier: Apache-2.0 */
/* A kind that thinks better of it. */
#include <weft/device.h>

const struct weft_device_ops *weft_device_plugin(void);

const struct weft_device_ops *weft_device_plugin(void)
{
    return NULL;
}
