/* SPDX-License-Identifier: Apache-2.0 */
/* What a device collective may not be, for all kinds of devices that have kernels for them. Whose memory it uses is the kind's to say.
 *
 * Ownership: nothing is kept. Threads: any. Errors: a negative enum weft_status, with a text by params.fail; a step is named by its number.
 */
#ifndef WEFT_DEVMEM_KERNELS_CHECK_H
#define WEFT_DEVMEM_KERNELS_CHECK_H

#include <stdint.h>
#include <weft/device.h>

/* The memory around an address that kernels of a queue reach: [*begin, *end). prefix begins the text of an error. */
typedef int weft_kernel_reach(void *arg, const void *pointer, const char *prefix, uintptr_t *begin,
                              uintptr_t *end);

/* The struct itself. */
int weft_kernel_collective_check(const struct weft_device_params *params,
                                 const struct weft_device_collective *collective);
/* Its steps. The kind is asked once for each span, as far as those are few. */
int weft_kernel_steps_check(const struct weft_device_params *params,
                            const struct weft_device_collective *collective, weft_kernel_reach *reach,
                            void *arg);

#endif
