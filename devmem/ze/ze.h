/* SPDX-License-Identifier: Apache-2.0 */
/* The "ze" kind of devices: Intel GPUs by Level Zero. What has been tried is the real loader with a driver of the tests' own
 * (tests/fakes/ze/): no line of this folder has run on a GPU. Private to devmem/ze/; devmem/registry.c knows weft_ze_ops.
 *
 * Levels, as of the kind "cuda". Opening the kind finds out nothing, so that programs that use no Level Zero pay nothing for it. What
 * needs more loads the loader where the program has not, and initialises the drivers (weft_ze_ready()); where that fails it says why
 * (WEFT_NOT_FOUND), and the next one tries again.
 *
 * Ordinals. Drivers in the loader's order, and of each its GPUs in the driver's: the order in which SYCL counts the devices of a
 * platform, so "ze:1" is PyTorch's "xpu:1" where there is one driver. ZE_AFFINITY_MASK and ZE_FLAT_DEVICE_HIERARCHY decide which devices there are,
 * and whether a tile is one of its own. What Level Zero calls a sub-device belongs to its device's ordinal.
 *
 * Source: oneAPI Level Zero Specification 1.9, "Core Programming Guide", Drivers and Devices.
 */
#ifndef WEFT_DEVMEM_ZE_ZE_H
#define WEFT_DEVMEM_ZE_ZE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <weft/device.h>

#include "devmem/ze/driver.h"

#define WEFT_ZE_ORDINALS_MAX 64
#define WEFT_ZE_DRIVERS_MAX  16

struct weft_ze_ordinal {
    ze_driver_handle_t driver;
    ze_device_handle_t device;
};

struct weft_device {
    struct weft_device_params params;
    pid_t pid; /* a forked child must not touch the drivers */
    pthread_mutex_t lock;
    atomic_int is_ready; /* what follows does not change any more */
    struct weft_ze_driver driver;
    int count;
    struct weft_ze_ordinal ordinals[WEFT_ZE_ORDINALS_MAX];
};

extern const struct weft_device_ops weft_ze_ops;

/* --- error.c */

/* What a result means for weft: WEFT_OK, or a negative status. */
int weft_ze_status(ze_result_t result);
/* weft_ze_status(), with a text that names what was tried and the result as the specification does. */
int weft_ze_fail(struct weft_device *device, ze_result_t result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* --- ze.c */

/* Loads and initialises. */
int weft_ze_ready(struct weft_device *device);
/* WEFT_INVALID for a device that does not exist. Ready afterwards. */
int weft_ze_check(struct weft_device *device, int ordinal);

#endif
