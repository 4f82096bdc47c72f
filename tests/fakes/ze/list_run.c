/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of immediate lists and queues. Commands between two barriers run in any order, says the specification: here the last one
 * comes first, so that a barrier that is missing is missed. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fakes/ze/fake_list.h"

#define INDICES 2

/* Of the lists of an index, or of an engine: how many commands have come, and have been passed by what comes behind; and how many that have been
 * passed still run. With fake_lock. */
static struct turns {
    uint64_t last, passed, running;
} turns[ZE_FAKE_DEVICES][2][INDICES];

static struct turns *turns_of(const struct fake_list *list)
{
    return &turns[list->device][list->group][ze_fake.one_engine ? 0 : list->index];
}

uint64_t fake_list_turn(const struct fake_list *list)
{
    return ++turns_of(list)->last;
}

/* With fake_lock, which is let go while it waits. */
static void await(const struct command *command)
{
    for (uint32_t w = 0; w < command->wait_count; w++) {
        while (!command->waits[w]->is_signalled)
            pthread_cond_wait(&fake_moved, &fake_lock);
    }
}

void fake_command_use(const struct command *command, int commands)
{
    if (command->launch.kernel)
        command->launch.kernel->in_flight += commands;
    for (int i = 0; i < FAKE_POINTERS && command->launch.kernel; i++) {
        if (command->launch.pointers >> i & 1)
            fake_use((const void *)(uintptr_t)command->launch.arguments[i], commands);
    }
    fake_use(command->to, commands);
    fake_use(command->from_memory, commands);
}

/* Beside what other lists do: the memory stays, as the command is in flight. */
static void run_kernel(const struct command *command)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    int backwards = ze_fake.launches++ % 2, is_alone = ze_fake.one_at_a_time != 0;
    pthread_mutex_unlock(&fake_lock);
    while (ze_fake.busy)
        usleep(50);
    if (is_alone)
        pthread_mutex_lock(&one);
    fake_function_run(&command->launch, backwards);
    if (is_alone)
        pthread_mutex_unlock(&one);
    pthread_mutex_lock(&fake_lock);
}

/* Without the lock: others go on. */
static void spin(const int *flag)
{
    pthread_mutex_unlock(&fake_lock);
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
        usleep(50);
    pthread_mutex_lock(&fake_lock);
}

/* On an engine all but barriers lets what comes behind begin. */
static int is_passed_by(const struct command *command)
{
    return ze_fake.one_engine && command->what != BARRIER;
}

/* Whether it is the command's turn, which is then taken. With fake_lock. */
static int take_turn(struct turns *of, const struct command *command)
{
    if (command->turn != of->passed + 1 || (command->what == BARRIER && of->running))
        return 0;
    if (is_passed_by(command)) {
        of->passed++;
        of->running++;
        pthread_cond_broadcast(&fake_moved);
    }
    return 1;
}

/* With fake_lock. */
static void run(struct fake_list *list, struct command *command)
{
    await(command);
    while (ze_fake.is_lost >> list->device & 1)
        pthread_cond_wait(&fake_moved, &fake_lock);
    while (ze_fake.stalls) {
        pthread_mutex_unlock(&fake_lock);
        usleep(50);
        pthread_mutex_lock(&fake_lock);
    }
    if (command->flag)
        spin(command->flag);
    if (command->what == LAUNCH)
        run_kernel(command);
    else if (command->what == COPY)
        memmove(command->destination, command->source, command->size);
    else if (command->what == TIME)
        fake_note_time(command->destination);
    for (size_t i = 0; command->what == FILL && i < command->size; i++)
        ((unsigned char *)command->destination)[i] = command->pattern[i % command->pattern_size];
    fake_command_use(command, -1);
    for (uint32_t w = 0; w < command->wait_count; w++)
        command->waits[w]->waits--;
    if (command->signal) {
        command->signal->signals--;
        command->signal->is_signalled = 1;
    }
    list->in_flight--;
    turns_of(list)->running -= command->turn && is_passed_by(command);
    turns_of(list)->passed += command->turn && !is_passed_by(command);
    if (command->from)
        command->from->in_flight--;
    pthread_cond_broadcast(&fake_moved);
    free(command);
}

/* Takes what may run now: a barrier, or all that stands before the next one, the last in front. With fake_lock. */
static struct command *take(struct fake_list *list)
{
    struct command *taken = NULL, *command;
    while ((command = list->first) && !(taken && (command->what == BARRIER || command->turn))) {
        if (command->turn && !take_turn(turns_of(list), command))
            break;
        list->first = command->next;
        if (!list->first)
            list->end = &list->first;
        command->next = taken;
        taken = command;
        if (command->what == BARRIER)
            break;
    }
    return taken;
}

void *fake_list_run(void *arg)
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
