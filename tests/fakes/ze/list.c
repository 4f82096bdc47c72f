/* SPDX-License-Identifier: Apache-2.0 */
/* Command lists and queues. Immediate lists and queues have a thread each (list_run.c), other lists keep their commands until a queue gets them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/fakes/ze/fake_list.h"

#define COPY_WAIT_S 5

static ze_result_t create(enum kind kind, ze_context_handle_t context, ze_device_handle_t device,
                          uint32_t ordinal, uint32_t index, const char *call, void **created)
{
    struct fake_context *of = fake_context_find(context, call);
    int on = of ? fake_device_index(device, call) : -1;
    if (on < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect(ordinal < 2, call, "Command Queue Groups", "ordinal is no group's") ||
        !fake_expect(index < fake_index_count(), call, "ze_command_queue_desc_t",
                     "index is beyond the group"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (ze_fake.list_result)
        return (ze_result_t)ze_fake.list_result;
    struct fake_list *made = calloc(1, sizeof *made);
    if (!made)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    made->kind = kind;
    made->context = of;
    made->device = on;
    made->group = ordinal;
    made->index = index;
    made->end = &made->first;
    if (kind != RECORDED && pthread_create(&made->thread, NULL, fake_list_run, made) != 0) {
        free(made);
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    fake_context_count(of, 1);
    if (kind == QUEUE)
        ze_fake.queues++;
    else
        ze_fake.lists++;
    *created = made;
    return ZE_RESULT_SUCCESS;
}

static int check_desc(const ze_command_queue_desc_t *desc, const char *call)
{
    return fake_expect_struct(desc, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, call) &&
           fake_expect(desc->index == 0 || (desc->flags & ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY), call,
                       "ze_command_queue_desc_t", "index without EXPLICIT_ONLY");
}

ze_result_t fake_list_immediate(ze_context_handle_t context, ze_device_handle_t device,
                                const ze_command_queue_desc_t *desc, ze_command_list_handle_t *list)
{
    static const char call[] = "zeCommandListCreateImmediate";
    if (!check_desc(desc, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (ze_fake.no_immediate)
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    return create(IMMEDIATE, context, device, desc->ordinal, desc->index, call, (void **)list);
}

ze_result_t fake_list_create(ze_context_handle_t context, ze_device_handle_t device,
                             const ze_command_list_desc_t *desc, ze_command_list_handle_t *list)
{
    static const char call[] = "zeCommandListCreate";
    if (!fake_expect_struct(desc, ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return create(RECORDED, context, device, desc->commandQueueGroupOrdinal, 0, call, (void **)list);
}

ze_result_t fake_queue_create(ze_context_handle_t context, ze_device_handle_t device,
                              const ze_command_queue_desc_t *desc, ze_command_queue_handle_t *queue)
{
    static const char call[] = "zeCommandQueueCreate";
    if (!check_desc(desc, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return create(QUEUE, context, device, desc->ordinal, desc->index, call, (void **)queue);
}

static ze_result_t destroy(struct fake_list *found, const char *call)
{
    struct command *command;
    pthread_mutex_lock(&fake_lock);
    int is_idle = found->in_flight == 0;
    found->is_ending = is_idle;
    pthread_cond_broadcast(&fake_moved);
    pthread_mutex_unlock(&fake_lock);
    if (!fake_expect(is_idle, call, call, "the device still runs the list"))
        return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
    if (found->kind != RECORDED)
        pthread_join(found->thread, NULL);
    *found->end = found->late;
    while ((command = found->first)) {
        found->first = command->next;
        free(command);
    }
    fake_context_count(found->context, -1);
    if (found->kind == QUEUE)
        ze_fake.queues--;
    else
        ze_fake.lists--;
    free(found);
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_list_destroy(ze_command_list_handle_t list)
{
    return destroy((struct fake_list *)(void *)list, "zeCommandListDestroy");
}

ze_result_t fake_queue_destroy(ze_command_queue_handle_t queue)
{
    return destroy((struct fake_list *)(void *)queue, "zeCommandQueueDestroy");
}

/* With fake_lock. */
static int check_event(const struct fake_event *signal, const char *call)
{
    return fake_expect(!signal || (!signal->is_signalled && !signal->signals), call,
                       "Core Programming Guide, Synchronization Primitives, Events",
                       "the event has not been reset since it was signalled last");
}

/* A kernel's memory: what its arguments point to, which the driver has to find. With fake_lock. */
static int reach(const struct fake_list *to, struct fake_launch *launch)
{
    int is_good = 1;
    for (int i = 0; i < FAKE_POINTERS && launch->kernel; i++) {
        const void *memory = (const void *)(uintptr_t)launch->arguments[i];
        is_good &= !memory || !(launch->pointers >> i & 1) ||
                   fake_expect(fake_kernel_reach(memory, to->device, &launch->reached[i], &launch->spans[i]),
                               "zeCommandListAppendLaunchKernel", "Core Programming Guide, Memory, Residency",
                               "an argument points to memory that the device does not reach");
    }
    return is_good;
}

/* The memory of a command that is none of a kernel. With fake_lock. */
static int find_memory(const struct fake_list *to, struct command *command, const char *call)
{
    struct fake_span span;
    char *reached = NULL;
    command->destination = fake_reach(command->to, command->size, to->context->driver);
    command->source = fake_reach(command->from_memory, command->size, to->context->driver);
    if (command->what == COPY || command->what == FILL)
        return fake_expect(command->destination && (command->what == FILL || command->source), call, call,
                           "memory that is not of this driver");
    return command->what != TIME ||
           fake_expect(fake_kernel_reach(command->to, to->device, &reached, &span), call,
                       "zeCommandListAppendWriteGlobalTimestamp", "the device does not reach dstptr");
}

/* Lists and events have to be of one context, says the specification; drivers ask for less, and SYCL and weft have one each. */
static int check_events(const struct fake_list *to, const struct command *command, const char *call)
{
    int is_good = !command->signal || fake_event_driver(command->signal) == to->context->driver;
    for (uint32_t w = 0; w < command->wait_count; w++)
        is_good &= fake_event_driver(command->waits[w]) == to->context->driver;
    return fake_expect(is_good, call, "zeCommandListAppendBarrier", "an event of another driver") &&
           check_event(command->signal, call);
}

/* Takes the command over. With fake_lock. */
static ze_result_t enqueue(struct fake_list *to, struct command *command, const char *call)
{
    int is_good =
        check_events(to, command, call) && reach(to, &command->launch) && find_memory(to, command, call);
    if (!is_good) {
        free(command);
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    for (uint32_t w = 0; w < command->wait_count; w++)
        command->waits[w]->waits++;
    if (command->signal) {
        command->signal->signals++;
        command->signal->device = to->device;
    }
    fake_command_use(command, 1);
    command->next = NULL;
    command->turn = ze_fake.one_order || ze_fake.one_engine ? fake_list_turn(to) : 0;
    *to->end = command;
    to->end = &command->next;
    to->in_flight++;
    if (command->from)
        command->from->in_flight++;
    pthread_cond_broadcast(&fake_moved);
    return ZE_RESULT_SUCCESS;
}

/* Intel's driver copies ordinary memory by the processor, and has who appends the copy wait without an end until an immediate list is empty.
 * Here the wait has one, so that a test fails and does not hang. With fake_lock. */
static void wait_to_copy(const struct fake_list *to, const struct command *copy)
{
    struct timespec until;
    int is_ordinary = copy->what == COPY && !(fake_find(copy->to) && fake_find(copy->from_memory));
    if (!ze_fake.copies_wait || to->kind != IMMEDIATE || !is_ordinary || !to->in_flight)
        return;
    ze_fake.copies_waited++;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += COPY_WAIT_S;
    while (to->in_flight && pthread_cond_timedwait(&fake_moved, &fake_lock, &until) != ETIMEDOUT)
        ;
}

/* What Intel's driver has encoded stays in the list where memory is short when it is to be submitted: it goes with what comes next. */
static void enqueue_late(struct fake_list *to, const char *call)
{
    struct command *late;
    while ((late = to->late)) {
        to->late = late->next;
        enqueue(to, late, call);
    }
}

static ze_result_t put(struct fake_list *to, const struct command *wanted, ze_event_handle_t signal,
                       uint32_t wait_count, ze_event_handle_t *waits, const char *call)
{
    if (!fake_expect(!wait_count == !waits && wait_count <= WAITS, call, "Events",
                     "numWaitEvents without phWaitEvents") ||
        !fake_expect(!to->is_closed, call, "Command Lists, Recording", "the list is closed"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (ze_fake.append_result)
        return (ze_result_t)ze_fake.append_result;
    if (ze_fake.fails_behind_launch && wanted->what == LAUNCH)
        ze_fake.append_result = ze_fake.fails_behind_launch;
    struct command *command = malloc(sizeof *command);
    if (!command)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    *command = *wanted;
    command->signal = (void *)signal;
    for (uint32_t w = 0; w < wait_count; w++)
        command->waits[w] = (void *)waits[w];
    command->wait_count = wait_count;
    ze_result_t result = ZE_RESULT_SUCCESS;
    pthread_mutex_lock(&fake_lock);
    wait_to_copy(to, command);
    if (to->kind == RECORDED) {
        *to->end = command;
        to->end = &command->next;
    } else if (ze_fake.append_late) {
        command->next = to->late;
        to->late = command;
        result = (ze_result_t)ze_fake.append_late;
    } else {
        enqueue_late(to, call);
        result = enqueue(to, command, call);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

static int is_list(const struct fake_list *given, const char *call)
{
    return fake_expect(given->kind != QUEUE, call, "Fundamentals, Object Handles",
                       "a command queue is given as a command list");
}

static int is_queue(const struct fake_list *given, const char *call)
{
    return fake_expect(given->kind == QUEUE, call, "Fundamentals, Object Handles",
                       "a command list is given as a command queue");
}

static ze_result_t append(ze_command_list_handle_t list, const struct command *wanted,
                          ze_event_handle_t signal, uint32_t wait_count, ze_event_handle_t *waits,
                          const char *call)
{
    struct fake_list *to = (void *)list;
    if (!fake_expect(to != NULL, call, "Fundamentals, Object Handles", "hCommandList is NULL"))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!is_list(to, call))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    fake_expect(to->users++ == 0, call, "Core Programming Guide, Command Lists",
                "two threads append to one list");
    ze_result_t result = put(to, wanted, signal, wait_count, waits, call);
    to->users--;
    return result;
}

ze_result_t fake_list_close(ze_command_list_handle_t list)
{
    struct fake_list *found = (void *)list;
    if (!fake_expect(found->kind == RECORDED && !found->is_closed, "zeCommandListClose", "Command Lists",
                     "the list is closed, or an immediate one"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    found->is_closed = 1;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_list_reset(ze_command_list_handle_t list)
{
    struct fake_list *found = (void *)list;
    struct command *command;
    pthread_mutex_lock(&fake_lock);
    int is_idle = found->in_flight == 0;
    while (is_idle && (command = found->first)) {
        found->first = command->next;
        free(command);
    }
    if (is_idle)
        found->end = &found->first;
    found->is_closed = !is_idle && found->is_closed;
    pthread_mutex_unlock(&fake_lock);
    return fake_expect(is_idle, "zeCommandListReset", "zeCommandListReset", "the device still runs the list")
               ? ZE_RESULT_SUCCESS
               : ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
}

ze_result_t fake_queue_execute(ze_command_queue_handle_t queue, uint32_t count,
                               ze_command_list_handle_t *lists, ze_fence_handle_t fence)
{
    static const char call[] = "zeCommandQueueExecuteCommandLists";
    struct fake_list *to = (void *)queue;
    ze_result_t result = is_queue(to, call) ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
    (void)fence;
    pthread_mutex_lock(&fake_lock);
    for (uint32_t i = 0; i < count && result == ZE_RESULT_SUCCESS; i++) {
        struct fake_list *list = (void *)lists[i];
        if (!fake_expect(list->is_closed, call, "Command Lists, Submission", "the list is not closed") ||
            !fake_expect(list->in_flight == 0, call, "Command Lists, Submission", "the list is in flight") ||
            !fake_expect(list->group == to->group, call, call, "the list is of another group"))
            result = ZE_RESULT_ERROR_INVALID_ARGUMENT;
        for (const struct command *one = list->first; one && result == ZE_RESULT_SUCCESS; one = one->next) {
            struct command *copy = malloc(sizeof *copy);
            if (!copy) {
                result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
                break;
            }
            *copy = *one;
            copy->from = list;
            result = enqueue(to, copy, call);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

ze_result_t fake_append_barrier(ze_command_list_handle_t list, ze_event_handle_t signal, uint32_t wait_count,
                                ze_event_handle_t *waits)
{
    const struct command barrier = {.what = BARRIER};
    return append(list, &barrier, signal, wait_count, waits, "zeCommandListAppendBarrier");
}

ze_result_t fake_append_launch(ze_command_list_handle_t list, ze_kernel_handle_t kernel,
                               const ze_group_count_t *groups, ze_event_handle_t signal, uint32_t wait_count,
                               ze_event_handle_t *waits)
{
    static const char call[] = "zeCommandListAppendLaunchKernel";
    const struct fake_list *to = (const void *)list;
    struct command launch = {.what = LAUNCH};
    if (!fake_expect(to != NULL, call, "Fundamentals, Object Handles", "hCommandList is NULL"))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect(to->group == 1, call, call, "the list's group does not compute") ||
        !fake_kernel_launch(kernel, to->context, to->device, groups, &launch.launch))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return append(list, &launch, signal, wait_count, waits, call);
}

ze_result_t fake_append_copy(ze_command_list_handle_t list, void *destination, const void *source,
                             size_t size, ze_event_handle_t signal, uint32_t wait_count,
                             ze_event_handle_t *waits)
{
    const struct command copy = {.what = COPY, .to = destination, .from_memory = source, .size = size};
    return append(list, &copy, signal, wait_count, waits, "zeCommandListAppendMemoryCopy");
}

ze_result_t fake_append_fill(ze_command_list_handle_t list, void *destination, const void *pattern,
                             size_t pattern_size, size_t size, ze_event_handle_t signal, uint32_t wait_count,
                             ze_event_handle_t *waits)
{
    static const char call[] = "zeCommandListAppendMemoryFill";
    struct command fill = {.what = FILL, .to = destination, .size = size, .pattern_size = pattern_size};
    if (!fake_expect(pattern_size && pattern_size <= PATTERN_BYTES && !(pattern_size & (pattern_size - 1)),
                     call, call, "pattern_size is no power of two, or too large"))
        return ZE_RESULT_ERROR_INVALID_SIZE;
    memcpy(fill.pattern, pattern, pattern_size);
    return append(list, &fill, signal, wait_count, waits, call);
}

ze_result_t fake_append_time(ze_command_list_handle_t list, uint64_t *ticks, ze_event_handle_t signal,
                             uint32_t wait_count, ze_event_handle_t *waits)
{
    static const char call[] = "zeCommandListAppendWriteGlobalTimestamp";
    const struct command time = {.what = TIME, .to = ticks, .size = sizeof *ticks};
    if (!fake_expect(ticks && (uintptr_t)ticks % sizeof *ticks == 0, call, call,
                     "dstptr is NULL or not aligned to 8 bytes"))
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    return append(list, &time, signal, wait_count, waits, call);
}

/* --- what only tests find */

__attribute__((visibility("default"))) ze_result_t ze_fake_append_spin(ze_command_list_handle_t list,
                                                                       const int *flag)
{
    const struct command spin = {.what = BARRIER, .flag = flag};
    return append(list, &spin, NULL, 0, NULL, "a kernel of the program's");
}

__attribute__((visibility("default"))) int ze_fake_is_idle(const void *list)
{
    const struct fake_list *found = list;
    pthread_mutex_lock(&fake_lock);
    int is_idle = found->in_flight == 0;
    pthread_mutex_unlock(&fake_lock);
    return is_idle;
}

__attribute__((visibility("default"))) ze_result_t ze_fake_list_is_immediate(ze_command_list_handle_t list,
                                                                             ze_bool_t *is_immediate)
{
    *is_immediate = ((const struct fake_list *)(const void *)list)->kind == IMMEDIATE;
    return ZE_RESULT_SUCCESS;
}

__attribute__((visibility("default"))) ze_result_t ze_fake_list_device(ze_command_list_handle_t list,
                                                                       ze_device_handle_t *device)
{
    *device = fake_device_handle(((const struct fake_list *)(const void *)list)->device);
    return ZE_RESULT_SUCCESS;
}

__attribute__((visibility("default"))) ze_result_t ze_fake_queue_group(ze_command_queue_handle_t queue,
                                                                       uint32_t *group)
{
    *group = ((const struct fake_list *)(const void *)queue)->group;
    return ZE_RESULT_SUCCESS;
}
