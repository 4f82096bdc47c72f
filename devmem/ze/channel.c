/* SPDX-License-Identifier: Apache-2.0 */
/* Where commands go: an immediate command list, which runs what is appended at once; or, of a driver that has none, a command queue, to
 * which each command goes in a list of its own. Lists are used again when the event at their end has been signalled.
 *
 * Intel's driver copies between device memory and host memory that it did not allocate by the processor, while the copy is appended to an immediate
 * list, and waits there for all that the list holds. weft must not wait: what the list waits for may have to come from the same thread.
 * A list that is executed later has no such copies. So a channel becomes a command queue in front of the first copy of such memory.
 *
 * Where memory is short when Intel's driver submits what was appended, the call fails, and the commands stay in the list: they run with the next ones. The
 * caller has been given an error by then, and may have freed its memory. So nothing more is appended to such a queue, and what it has, events and
 * steps as well, stays as it is.
 *
 * Source: oneAPI Level Zero Specification, "Core Programming Guide", Command Queues and Command Lists; Low-Latency Immediate Command Lists.
 */
#include <stdlib.h>

#include "devmem/ze/ze.h"

static ze_command_queue_desc_t describe(const struct weft_ze_ordinal *known, int is_plain)
{
    ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .ordinal = known->group,
                                    .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    if (!is_plain) { /* those are of index 0 most often, and drivers may run all of an index in one order */
        desc.priority = ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_HIGH;
        desc.index = known->last_index;
        desc.flags = known->last_index ? ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY : 0;
    }
    return desc;
}

ze_result_t weft_ze_channel_open(struct weft_device *device, int ordinal, int is_plain,
                                 struct weft_ze_channel *channel)
{
    const struct weft_ze_driver *driver = &device->driver;
    const struct weft_ze_ordinal *known = &device->ordinals[ordinal];
    ze_context_handle_t context = weft_ze_context_of(device, ordinal);
    const ze_command_queue_desc_t desc = describe(known, is_plain);
    *channel = (struct weft_ze_channel){.list = NULL};
    ze_result_t result = driver->zeCommandListCreateImmediate(context, known->device, &desc, &channel->list);
    if (result != ZE_RESULT_ERROR_UNSUPPORTED_FEATURE)
        return result;
    channel->list = NULL;
    return driver->zeCommandQueueCreate(context, known->device, &desc, &channel->commands);
}

void weft_ze_channel_close(struct weft_device *device, struct weft_ze_channel *channel)
{
    struct weft_ze_batch *batch;
    while ((batch = channel->batches)) {
        channel->batches = batch->next;
        device->driver.zeCommandListDestroy(batch->list);
        weft_ze_event_put(batch->end);
        free(batch);
    }
    if (channel->list)
        device->driver.zeCommandListDestroy(channel->list);
    if (channel->commands)
        device->driver.zeCommandQueueDestroy(channel->commands);
    if (channel->former)
        device->driver.zeCommandListDestroy(channel->former);
    if (channel->turn)
        weft_ze_event_put(channel->turn);
}

ze_result_t weft_ze_list_append(const struct weft_ze_driver *driver, ze_command_list_handle_t list,
                                const struct weft_ze_command *command)
{
    ze_event_handle_t wait = command->wait;
    const ze_group_count_t groups = {command->blocks, 1, 1};
    if (command->kernel)
        return driver->zeCommandListAppendLaunchKernel(list, command->kernel, &groups, command->signal,
                                                       wait != NULL, wait ? &wait : NULL);
    if (command->destination)
        return driver->zeCommandListAppendMemoryCopy(list, command->destination, command->source,
                                                     command->size, command->signal, wait != NULL,
                                                     wait ? &wait : NULL);
    if (command->ticks)
        return driver->zeCommandListAppendWriteGlobalTimestamp(list, command->ticks, command->signal,
                                                               wait != NULL, wait ? &wait : NULL);
    return driver->zeCommandListAppendBarrier(list, command->signal, wait != NULL, wait ? &wait : NULL);
}

/* The oldest list where it has ended, ready to be filled again; NULL: it has not, or there is none. */
static struct weft_ze_batch *take(struct weft_device *device, struct weft_ze_channel *channel)
{
    struct weft_ze_batch *batch = channel->batches;
    if (!batch || device->driver.zeEventQueryStatus(batch->end->handle) != ZE_RESULT_SUCCESS ||
        device->driver.zeCommandListReset(batch->list) != ZE_RESULT_SUCCESS)
        return NULL;
    channel->batches = batch->next;
    weft_ze_event_put(batch->end);
    batch->end = NULL;
    return batch;
}

static ze_result_t make(struct weft_device_queue *queue, struct weft_ze_batch **made)
{
    struct weft_device *device = queue->device;
    const struct weft_ze_ordinal *known = &device->ordinals[queue->ordinal];
    const ze_command_list_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC,
                                         .commandQueueGroupOrdinal = known->group};
    struct weft_ze_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ze_result_t result = device->driver.zeCommandListCreate(weft_ze_context_of(device, queue->ordinal),
                                                            known->device, &desc, &batch->list);
    if (result == ZE_RESULT_SUCCESS)
        *made = batch;
    else
        free(batch);
    return result;
}

int weft_ze_may_run(ze_result_t result)
{
    return result == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY || result == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
}

static ze_result_t note(struct weft_device_queue *queue, ze_result_t result)
{
    if (weft_ze_may_run(result))
        queue->broken = result;
    return result;
}

/* Behind all that the command queue holds, or, where this is the first list, the former channel; and in front of all that follows. */
static ze_result_t execute(struct weft_device_queue *queue, struct weft_ze_batch *batch,
                           const struct weft_ze_command *command)
{
    const struct weft_ze_driver *driver = &queue->device->driver;
    struct weft_ze_channel *channel = &queue->channel;
    const struct weft_ze_command begin = {.wait = channel->is_turning ? channel->turn->handle : NULL};
    ze_result_t result = weft_ze_list_append(driver, batch->list, &begin);
    if (result == ZE_RESULT_SUCCESS)
        result = weft_ze_list_append(driver, batch->list, command);
    if (result == ZE_RESULT_SUCCESS)
        result = driver->zeCommandListAppendBarrier(batch->list, batch->end->handle, 0, NULL);
    if (result == ZE_RESULT_SUCCESS)
        result = driver->zeCommandListClose(batch->list);
    if (result == ZE_RESULT_SUCCESS)
        result =
            note(queue, driver->zeCommandQueueExecuteCommandLists(channel->commands, 1, &batch->list, NULL));
    channel->is_turning &= result != ZE_RESULT_SUCCESS;
    return result;
}

ze_result_t weft_ze_channel_append(struct weft_device_queue *queue, const struct weft_ze_command *command)
{
    struct weft_device *device = queue->device;
    if (queue->broken != ZE_RESULT_SUCCESS)
        return queue->broken;
    if (queue->channel.list)
        return note(queue, weft_ze_list_append(&device->driver, queue->channel.list, command));
    struct weft_ze_batch *batch = take(device, &queue->channel), **end = &queue->channel.batches;
    ze_result_t result = batch ? ZE_RESULT_SUCCESS : make(queue, &batch);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    batch->end = weft_ze_event_get(device, queue->ordinal);
    result = batch->end ? execute(queue, batch, command) : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    if (result != ZE_RESULT_SUCCESS && queue->broken == ZE_RESULT_SUCCESS) {
        if (batch->end)
            weft_ze_event_unused(batch->end);
        device->driver.zeCommandListDestroy(batch->list);
        free(batch);
        return result;
    }
    batch->next = NULL;
    while (*end)
        end = &(*end)->next;
    *end = batch;
    return result;
}

void weft_ze_channel_drop(const struct weft_device_queue *queue, struct weft_device_event *event)
{
    if (queue->broken == ZE_RESULT_SUCCESS)
        weft_ze_event_unused(event);
}

ze_result_t weft_ze_channel_turn(struct weft_device_queue *queue)
{
    struct weft_device *device = queue->device;
    const struct weft_ze_ordinal *known = &device->ordinals[queue->ordinal];
    const ze_command_queue_desc_t desc = describe(known, 0);
    struct weft_ze_channel *channel = &queue->channel;
    ze_command_queue_handle_t commands = NULL;
    if (!channel->list)
        return ZE_RESULT_SUCCESS;
    struct weft_device_event *turn = weft_ze_event_get(device, queue->ordinal);
    if (!turn)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ze_result_t result = device->driver.zeCommandQueueCreate(weft_ze_context_of(device, queue->ordinal),
                                                             known->device, &desc, &commands);
    if (result == ZE_RESULT_SUCCESS) {
        result = weft_ze_channel_append(queue, &(struct weft_ze_command){.signal = turn->handle});
        if (result != ZE_RESULT_SUCCESS)
            device->driver.zeCommandQueueDestroy(commands);
    }
    if (result != ZE_RESULT_SUCCESS) {
        weft_ze_channel_drop(queue, turn);
        return result;
    }
    channel->former = channel->list;
    channel->list = NULL;
    channel->commands = commands;
    channel->turn = turn;
    channel->is_turning = 1;
    return result;
}
