/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on device memory, for whoever makes an executor. */
#ifndef WEFT_COMM_EXEC_DEVICE_OPS_H
#define WEFT_COMM_EXEC_DEVICE_OPS_H

#include "comm/exec/devices.h"

extern const struct weft_exec_device_ops weft_exec_devices;

#endif
