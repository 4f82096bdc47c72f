/* SPDX-License-Identifier: Apache-2.0 */
/* Work that keeps a command queue from getting on: a program that waits for a word of the test's. */
#ifndef WEFT_TESTS_SUPPORT_COMMAND_QUEUE_STALL_H
#define WEFT_TESTS_SUPPORT_COMMAND_QUEUE_STALL_H

#include <stdint.h>

#include "devmem/command_queue.h"

struct command_queue_stall {
    const struct weft_device_kind *kind;
    uint64_t *words; /* pinned: what is awaited, and the stop */
};

/* Readies it for one command queue of the kind. Fails the test where there is no memory. */
void command_queue_stall_open(struct command_queue_stall *stall, const struct weft_device_kind *kind);
/* What is queued in the command queue from now on waits for command_queue_stall_end(). Returns what queueing it returned. */
int command_queue_stall_put(struct command_queue_stall *stall, struct weft_command_queue *commands);
void command_queue_stall_end(struct command_queue_stall *stall);
/* The command queue's work has ended, or the device's queue has been closed. */
void command_queue_stall_close(struct command_queue_stall *stall);

#endif
