/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/command_queue_surplus.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "devmem/command_queue.h"

struct weft_command_queue_surplus {
    struct weft_command_queue_surplus *next;
    const struct weft_device_kind *kind;
    int ordinal;
    void *memory;
    size_t bytes;
};

static void give_back(const struct weft_device_kind *kind, int ordinal, void *memory, size_t bytes)
{
    if (kind->ops.release(kind->device, memory) != WEFT_OK)
        weft_log(WEFT_LOG_WARN, "%zu bytes of %s device %d cannot be released: %s", bytes, kind->name,
                 ordinal, weft_error_detail());
}

/* Without memory for the note it is given back at once. */
void weft_command_queue_surplus_add(struct weft_command_queue_surplus **list,
                                    const struct weft_device_kind *kind, int ordinal, void *memory,
                                    size_t bytes)
{
    struct weft_command_queue_surplus *surplus = malloc(sizeof *surplus);
    if (!surplus) {
        give_back(kind, ordinal, memory, bytes);
        return;
    }
    *surplus = (struct weft_command_queue_surplus){*list, kind, ordinal, memory, bytes};
    *list = surplus;
}

size_t weft_command_queue_surplus_find(struct weft_command_queue_surplus **list,
                                       const struct weft_device_kind *kind, int ordinal, size_t size,
                                       void **memory)
{
    for (struct weft_command_queue_surplus **at = list, *surplus; (surplus = *at); at = &surplus->next) {
        size_t bytes = surplus->bytes;
        if (surplus->kind != kind || surplus->ordinal != ordinal || bytes < size || bytes / 2 > size)
            continue;
        *at = surplus->next;
        *memory = surplus->memory;
        free(surplus);
        return bytes;
    }
    return 0;
}

void weft_command_queue_surplus_join(struct weft_command_queue_surplus **list,
                                     struct weft_command_queue_surplus *more)
{
    while (more) {
        struct weft_command_queue_surplus *next = more->next;
        more->next = *list;
        *list = more;
        more = next;
    }
}

static void release(void *arg)
{
    weft_command_queue_surplus_end(arg);
}

void weft_command_queue_surplus_release(struct weft_command_queue_surplus **list)
{
    if (*list)
        weft_command_queues_without_waits(release, list);
}

void weft_command_queue_surplus_end(struct weft_command_queue_surplus **list)
{
    while (*list) {
        struct weft_command_queue_surplus *surplus = *list;
        *list = surplus->next;
        give_back(surplus->kind, surplus->ordinal, surplus->memory, surplus->bytes);
        free(surplus);
    }
}
