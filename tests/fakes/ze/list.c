/* SPDX-License-Identifier: Apache-2.0 */
/* Immediate command lists, each with a thread. Commands between two barriers run in any order, says the specification: here the last one
 * comes first, so that a barrier that is missing is missed. */
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/ze/fake.h"

#define WAITS 8

struct command {
    int is_barrier;
    void *to;
    const void *from;
    void *destination; /* as the driver reaches them */
    const void *source;
    size_t size;
    struct fake_event *signal, *waits[WAITS];
    uint32_t wait_count;
    struct command *next;
};

struct fake_list {
    struct fake_context *context;
    int device, is_ending, in_flight;
    struct command *first, **end;
    pthread_t thread;
};

/* With fake_lock, which is let go while it waits. */
static void await(const struct command *command)
{
    for (uint32_t w = 0; w < command->wait_count; w++) {
        while (!command->waits[w]->is_signalled)
            pthread_cond_wait(&fake_moved, &fake_lock);
    }
}

/* With fake_lock. */
static void run(struct fake_list *list, struct command *command)
{
    await(command);
    while (ze_fake.is_lost)
        pthread_cond_wait(&fake_moved, &fake_lock);
    if (!command->is_barrier)
        memmove(command->destination, command->source, command->size);
    fake_use(command->to, -1);
    fake_use(command->from, -1);
    for (uint32_t w = 0; w < command->wait_count; w++)
        command->waits[w]->waits--;
    if (command->signal) {
        command->signal->signals--;
        command->signal->is_signalled = 1;
    }
    list->in_flight--;
    pthread_cond_broadcast(&fake_moved);
    free(command);
}

/* Takes what may run now: a barrier, or all that stands before the next one, the last in front. With fake_lock. */
static struct command *take(struct fake_list *list)
{
    struct command *taken = NULL, *command;
    while ((command = list->first) && !(taken && command->is_barrier)) {
        list->first = command->next;
        if (!list->first)
            list->end = &list->first;
        command->next = taken;
        taken = command;
        if (command->is_barrier)
            break;
    }
    return taken;
}

static void *work(void *arg)
{
    struct fake_list *list = arg;
    pthread_mutex_lock(&fake_lock);
    while (!list->is_ending) {
        struct command *taken = take(list), *command;
        if (!taken)
            pthread_cond_wait(&fake_moved, &fake_lock);
        while ((command = taken)) {
            taken = command->next;
            run(list, command);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return NULL;
}

ze_result_t fake_list_immediate(ze_context_handle_t context, ze_device_handle_t device,
                                const ze_command_queue_desc_t *desc, ze_command_list_handle_t *list)
{
    static const char call[] = "zeCommandListCreateImmediate";
    struct fake_context *of = fake_context_find(context, call);
    int on = of ? fake_device_index(device, call) : -1;
    if (on < 0)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!fake_expect_struct(desc, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, call) ||
        !fake_expect(desc->ordinal < 2, call, "Command Queue Groups", "ordinal is no group's") ||
        !fake_expect(desc->index == 0 || (desc->flags & ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY), call,
                     "ze_command_queue_desc_t", "index without EXPLICIT_ONLY"))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (ze_fake.list_result)
        return (ze_result_t)ze_fake.list_result;
    struct fake_list *made = calloc(1, sizeof *made);
    if (!made)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    made->context = of;
    made->device = on;
    made->end = &made->first;
    if (pthread_create(&made->thread, NULL, work, made) != 0) {
        free(made);
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    fake_context_count(of, 1);
    ze_fake.lists++;
    *list = (ze_command_list_handle_t)(void *)made;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_list_destroy(ze_command_list_handle_t list)
{
    struct fake_list *found = (void *)list;
    pthread_mutex_lock(&fake_lock);
    int is_idle = found->in_flight == 0;
    found->is_ending = is_idle;
    pthread_cond_broadcast(&fake_moved);
    pthread_mutex_unlock(&fake_lock);
    if (!fake_expect(is_idle, "zeCommandListDestroy", "zeCommandListDestroy",
                     "the device still runs the list"))
        return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
    pthread_join(found->thread, NULL);
    fake_context_count(found->context, -1);
    ze_fake.lists--;
    free(found);
    return ZE_RESULT_SUCCESS;
}

/* With fake_lock. */
static int check_events(const struct fake_event *signal, uint32_t wait_count, ze_event_handle_t *waits,
                        const char *call)
{
    static const char section[] = "Core Programming Guide, Synchronization Primitives, Events";
    return fake_expect(!wait_count == !waits && wait_count <= WAITS, call, section,
                       "numWaitEvents without phWaitEvents") &&
           fake_expect(!signal || (!signal->is_signalled && !signal->signals), call, section,
                       "the event has not been reset since it was signalled last");
}

static ze_result_t append(ze_command_list_handle_t list, const struct command *wanted,
                          ze_event_handle_t signal, uint32_t wait_count, ze_event_handle_t *waits,
                          const char *call)
{
    struct fake_list *to = (void *)list;
    if (!fake_expect(to != NULL, call, "Fundamentals, Object Handles", "hCommandList is NULL"))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (ze_fake.append_result)
        return (ze_result_t)ze_fake.append_result;
    struct command *command = malloc(sizeof *command);
    if (!command)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    *command = *wanted;
    command->signal = (void *)signal;
    pthread_mutex_lock(&fake_lock);
    command->destination = fake_reach(command->to, command->size);
    command->source = fake_reach(command->from, command->size);
    int is_good = check_events(command->signal, wait_count, waits, call) &&
                  fake_expect(command->is_barrier || (command->destination && command->source), call,
                              "zeCommandListAppendMemoryCopy", "memory that is not of this driver");
    if (is_good) {
        for (uint32_t w = 0; w < wait_count; w++) {
            command->waits[w] = (void *)waits[w];
            command->waits[w]->waits++;
        }
        command->wait_count = wait_count;
        if (command->signal)
            command->signal->signals++;
        fake_use(command->to, 1);
        fake_use(command->from, 1);
        *to->end = command;
        to->end = &command->next;
        to->in_flight++;
        pthread_cond_broadcast(&fake_moved);
    } else {
        free(command);
    }
    pthread_mutex_unlock(&fake_lock);
    return is_good ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

ze_result_t fake_append_barrier(ze_command_list_handle_t list, ze_event_handle_t signal, uint32_t wait_count,
                                ze_event_handle_t *waits)
{
    const struct command barrier = {.is_barrier = 1};
    return append(list, &barrier, signal, wait_count, waits, "zeCommandListAppendBarrier");
}

ze_result_t fake_append_copy(ze_command_list_handle_t list, void *destination, const void *source,
                             size_t size, ze_event_handle_t signal, uint32_t wait_count,
                             ze_event_handle_t *waits)
{
    const struct command copy = {.to = destination, .from = source, .size = size};
    return append(list, &copy, signal, wait_count, waits, "zeCommandListAppendMemoryCopy");
}
