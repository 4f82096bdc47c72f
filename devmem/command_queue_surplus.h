/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory that a pool of command queues has more than it keeps, or that a command queue has outgrown.
 *
 * Giving it back may wait for all work of a device, and where a stream stands at a stream wait for ever: so that is done apart
 * from the operations, by whoever may wait. Meanwhile the next command queue that needs about as much takes it.
 *
 * Threads: the caller serialises everything on one list. A list that was taken off (its head copied, and NULL left there) is the
 * taker's.
 */
#ifndef WEFT_DEVMEM_COMMAND_QUEUE_SURPLUS_H
#define WEFT_DEVMEM_COMMAND_QUEUE_SURPLUS_H

#include <stddef.h>

#include "devmem/devices.h"

struct weft_command_queue_surplus;

/* Owns the memory from now on. */
void weft_command_queue_surplus_add(struct weft_command_queue_surplus **list,
                                    const struct weft_device_kind *kind, int ordinal, void *memory,
                                    size_t bytes);
/* Memory of at least size bytes, and not much more: how many; 0: there is none. It is the caller's. */
size_t weft_command_queue_surplus_find(struct weft_command_queue_surplus **list,
                                       const struct weft_device_kind *kind, int ordinal, size_t size,
                                       void **memory);
/* Puts one list in front of another. */
void weft_command_queue_surplus_join(struct weft_command_queue_surplus **list,
                                     struct weft_command_queue_surplus *more);
/* Gives all of it back, unless a command queue of this process has a closed stream wait. Waits. */
void weft_command_queue_surplus_release(struct weft_command_queue_surplus **list);
/* Gives all of it back, whatever that waits for. */
void weft_command_queue_surplus_end(struct weft_command_queue_surplus **list);

#endif
