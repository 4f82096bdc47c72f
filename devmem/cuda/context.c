/* SPDX-License-Identifier: Apache-2.0 */
/* Primary contexts, and being in one without the program noticing. */
#include "devmem/cuda/cuda.h"

static int retain(struct weft_device *device, int ordinal, cuda_context *context)
{
    struct weft_cuda_ordinal *place = &device->ordinals[ordinal];
    int result = CUDA_SUCCESS;
    pthread_mutex_lock(&device->lock);
    if (!place->context)
        result = device->driver.primary_retain(&place->context, place->device);
    *context = place->context;
    pthread_mutex_unlock(&device->lock);
    return result ? weft_cuda_fail(device, result, "using device %d", ordinal) : WEFT_OK;
}

int weft_cuda_enter_context(struct weft_device *device, int ordinal, cuda_context context,
                            struct weft_cuda_turn *turn)
{
    turn->device = device;
    turn->mode = CUDA_CAPTURE_MODE_RELAXED;
    int result = device->driver.exchange_capture_mode(&turn->mode);
    if (result)
        return weft_cuda_fail(device, result, "entering device %d", ordinal);
    result = device->driver.push(context);
    if (!result)
        return WEFT_OK;
    device->driver.exchange_capture_mode(&turn->mode);
    /* What weft's queues do goes on where a context of the program's own has ended: stream waits are theirs to open. */
    if (context == device->ordinals[ordinal].context && weft_cuda_is_fatal(result))
        weft_cuda_waits_rescue(ordinal);
    return weft_cuda_fail(device, result, "entering the context of device %d", ordinal);
}

int weft_cuda_enter(struct weft_device *device, int ordinal, struct weft_cuda_turn *turn)
{
    cuda_context context;
    int status = weft_cuda_check(device, ordinal);
    if (!status)
        status = retain(device, ordinal, &context);
    return status ? status : weft_cuda_enter_context(device, ordinal, context, turn);
}

void weft_cuda_leave(struct weft_cuda_turn *turn)
{
    cuda_context popped;
    turn->device->driver.pop(&popped);
    turn->device->driver.exchange_capture_mode(&turn->mode);
}

/* An event can be recorded only in a stream of its own context, which need not be the primary one. */
int weft_cuda_enter_stream(struct weft_device *device, int ordinal, cuda_stream stream, cuda_context *context,
                           struct weft_cuda_turn *turn)
{
    const struct weft_cuda_driver *driver = &device->driver;
    int is_capturing = CUDA_CAPTURE_NONE;
    int status = weft_cuda_enter(device, ordinal, turn);
    if (status)
        return status;
    *context = device->ordinals[ordinal].context;
    int result = driver->stream_is_capturing(stream, &is_capturing);
    if (!result && is_capturing == CUDA_CAPTURE_NONE && stream && stream != CUDA_STREAM_LEGACY &&
        stream != CUDA_STREAM_PER_THREAD)
        result = driver->stream_get_context(stream, context);
    if (!result && is_capturing == CUDA_CAPTURE_NONE && *context == device->ordinals[ordinal].context)
        return WEFT_OK;
    weft_cuda_leave(turn);
    if (result)
        return weft_cuda_fail(device, result, "looking at stream %p", stream);
    if (is_capturing != CUDA_CAPTURE_NONE)
        return device->params.fail(
            WEFT_UNSUPPORTED, "stream %p is being captured into a graph, which weft's work cannot be part of",
            stream);
    return weft_cuda_enter_context(device, ordinal, *context, turn);
}

int weft_cuda_some_ordinal(struct weft_device *device)
{
    int found = 0;
    pthread_mutex_lock(&device->lock);
    for (int i = 0; i < device->count; i++) {
        if (device->ordinals[i].context) {
            found = i;
            break;
        }
    }
    pthread_mutex_unlock(&device->lock);
    return found;
}

/* A device that has no context yet has nobody's buffer, so no context is made for this. */
static void reach(struct weft_device *device, int ordinal, int peer)
{
    const struct weft_cuda_driver *driver = &device->driver;
    struct weft_cuda_turn turn;
    cuda_context context;
    unsigned flags;
    int can = 0, is_active = 0;
    if (driver->device_can_access_peer(&can, device->ordinals[ordinal].device,
                                       device->ordinals[peer].device) ||
        !can || driver->primary_get_state(device->ordinals[peer].device, &flags, &is_active) || !is_active ||
        retain(device, peer, &context) || weft_cuda_enter(device, ordinal, &turn))
        return;
    int result = driver->enable_peer(context, 0);
    if (result == CUDA_SUCCESS || result == CUDA_PEER_ACCESS_ALREADY_ENABLED)
        __atomic_or_fetch(&device->ordinals[ordinal].peers, (uint64_t)1 << peer, __ATOMIC_RELEASE);
    weft_cuda_leave(&turn);
}

void weft_cuda_reach_peers(struct weft_device *device, int ordinal)
{
    uint64_t peers = __atomic_load_n(&device->ordinals[ordinal].peers, __ATOMIC_ACQUIRE);
    for (int peer = 0; peer < device->count; peer++) {
        if (peer != ordinal && !(peers >> peer & 1))
            reach(device, ordinal, peer);
    }
}

/* Access between contexts is for what the driver allocates as a whole: of pools and of mapped memory, each says itself which devices
 * reach it. */
int weft_cuda_is_reached(struct weft_device *device, int ordinal, const void *pointer,
                         const struct weft_cuda_memory *memory)
{
    int place = memory->span.ordinal;
    if (memory->span.kind != WEFT_MEMORY_DEVICE || place == ordinal)
        return 1;
    uint64_t peers = __atomic_load_n(&device->ordinals[ordinal].peers, __ATOMIC_ACQUIRE);
    return (memory->is_legacy_ipc && peers >> place & 1) || weft_cuda_is_imported(ordinal, pointer);
}

int weft_cuda_reaches(struct weft_device *device, int ordinal, const void *pointer, int may_wait)
{
    struct weft_cuda_memory memory;
    if (weft_cuda_check(device, ordinal) || weft_cuda_look(device, pointer, &memory))
        return 0;
    int is_reached = weft_cuda_is_reached(device, ordinal, pointer, &memory);
    if (is_reached || !may_wait || !memory.is_legacy_ipc)
        return is_reached;
    reach(device, ordinal, memory.span.ordinal);
    return weft_cuda_is_reached(device, ordinal, pointer, &memory);
}
