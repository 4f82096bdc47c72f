/* SPDX-License-Identifier: Apache-2.0 */
/* Command lists and queues of the fake: what is appended to them (list.c), and how it runs (list_run.c). */
#ifndef WEFT_TESTS_FAKES_ZE_FAKE_LIST_H
#define WEFT_TESTS_FAKES_ZE_FAKE_LIST_H

#include "tests/fakes/ze/fake_kernel.h"
#include "tests/fakes/ze/fake_memory.h"

#define WAITS         8
#define PATTERN_BYTES 16

enum what { BARRIER, LAUNCH, COPY, FILL, TIME };

struct command {
    enum what what;
    const int *flag; /* of a barrier that ends when this is not 0; NULL: of none such */
    unsigned char pattern[PATTERN_BYTES];
    size_t pattern_size;
    void *to;
    const void *from_memory;
    void *destination; /* as the driver reaches them */
    const void *source;
    size_t size;
    struct fake_launch launch; /* with a kernel: a launch of it */
    struct fake_event *signal, *waits[WAITS];
    uint32_t wait_count;
    uint64_t turn;          /* of all lists of its index or group, where they run in one order; 0: none */
    struct fake_list *from; /* the list that a queue got it from; NULL: none */
    struct command *next;
};

enum kind { IMMEDIATE, RECORDED, QUEUE };

struct fake_list {
    enum kind kind;
    struct fake_context *context;
    int device, is_ending, is_closed, in_flight;
    _Atomic int users;
    uint32_t group, index; /* of command queues */
    struct command *first, **end;
    struct command *late; /* whose append has failed */
    pthread_t thread;     /* not of a recorded one */
};

/* One more command in flight uses what this one does, or one less. With fake_lock. */
void fake_command_use(const struct command *command, int commands);
/* The next turn of all lists of the list's index, or engine. With fake_lock. */
uint64_t fake_list_turn(const struct fake_list *list);
/* A list's thread. */
void *fake_list_run(void *list);

#endif
