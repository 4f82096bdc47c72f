/* SPDX-License-Identifier: Apache-2.0 */
/* Whose memory a call is about, and where it is worked on.
 *
 * Memory that the program has of a device is worked on by that device, through a command queue (devmem/command_queue.h). Pinned host memory is host
 * memory to weft, but a device works on it as well, so it goes with the other buffer's. Where a call has one buffer on a device
 * and the other one in ordinary host memory, the host works, on copies of what the device has. It does so too where a call reduces
 * and its buffers are on two devices that do not reach each other's memory.
 */
#ifndef WEFT_COMM_REGIONS_DEVICE_MEMORY_H
#define WEFT_COMM_REGIONS_DEVICE_MEMORY_H

#include "comm/drive/context.h"
#include "comm/regions/shadows.h"
#include "devmem/command_queue.h"

struct weft_where {
    const struct weft_device_kind *kind; /* NULL: all is host memory, and nothing else is set */
    int ordinal;
    int on_host; /* as in weft_exec_request */
};

/* What a call does with its buffers. */
enum weft_where_work {
    WEFT_WHERE_COPIES,
    WEFT_WHERE_REDUCES,
    WEFT_WHERE_HOST, /* what only the host can compute */
};

/* Asks for the two buffers of a call; NULL: there is none. WEFT_UNSUPPORTED, naming both, for memory of two kinds of devices.
 * Needs no lock. */
int weft_where_look(struct weft_context *context, const void *input, const void *output,
                    enum weft_where_work work, struct weft_where *where);

/* Whether it is memory that only a device can be asked to work on. Needs no lock. */
int weft_where_is_device(struct weft_context *context, const void *memory);

/* The executor's hook: the context's set, NULL where it cannot be had. [lock] */
struct weft_shares *weft_where_shares(void *context);
/* Undoes mappings of peers' memory that are not used any more, and gives back surplus memory of command queues, if no stream stands at a
 * wait. Lets go of the lock meanwhile. [lock] */
void weft_where_tidy(struct weft_context *context);

/* A command queue for it; weft_command_queue_put() when the operation has been freed. The lock is let go of while the first one of a device is
 * opened, unless progress starts the call. [lock] */
int weft_where_command_queue(struct weft_context *context, const struct weft_where *where,
                             struct weft_command_queue **commands);

/* The same where the lock must be kept: weft_where_prepare() has opened the first one. [lock] */
int weft_where_next_command_queue(struct weft_context *context, const struct weft_where *where,
                                  struct weft_command_queue **commands);
/* Takes the lock. What fails here fails again with the command queue that is needed. */
void weft_where_prepare(struct weft_context *context, const struct weft_where *where);

#endif
