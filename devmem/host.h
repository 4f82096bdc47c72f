/* SPDX-License-Identifier: Apache-2.0 */
/* The kind "host": ordinary memory and the calling thread, in the form of a device.
 *
 * It is there so that code above needs no case of its own for buffers without a device. Every pointer is its memory. A copy or
 * a reduction is done when the call returns, by the kernels of devmem/reduce.h, so queues hold nothing and events
 * have happened when they are made. It has no streams: only NULL can be followed and held. Nothing of it is exported.
 *
 * Threads: any; queues, events and stream waits have no state.
 */
#ifndef WEFT_DEVMEM_HOST_H
#define WEFT_DEVMEM_HOST_H

#include <weft/device.h>

extern const struct weft_device_ops weft_host_device_ops;

/* What its identify() says of any pointer. */
void weft_host_span(struct weft_device_span *span);

#endif
