/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/command_queue_stall.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { AWAITED, STOP, WORDS };

void command_queue_stall_open(struct command_queue_stall *stall, const struct weft_device_kind *kind)
{
    void *words;
    assert_int_equal(
        kind->ops.allocate(kind->device, -1, WEFT_MEMORY_PINNED, WORDS * sizeof(uint64_t), &words), WEFT_OK);
    *stall = (struct command_queue_stall){kind, words};
    stall->words[AWAITED] = stall->words[STOP] = 0;
}

int command_queue_stall_put(struct command_queue_stall *stall, struct weft_command_queue *commands)
{
    const struct weft_device_step step = {
        .kind = WEFT_DEVICE_STEP_AWAIT, .word = &stall->words[AWAITED], .value = 1};
    const struct weft_device_collective collective = {.size = sizeof collective,
                                                      .dtype = WEFT_INT32,
                                                      .op = WEFT_SUM,
                                                      .step_count = 1,
                                                      .steps = &step,
                                                      .stop = &stall->words[STOP]};
    return weft_command_queue_run(commands, &collective);
}

void command_queue_stall_end(struct command_queue_stall *stall)
{
    __atomic_store_n(&stall->words[AWAITED], 1, __ATOMIC_RELEASE);
}

void command_queue_stall_close(struct command_queue_stall *stall)
{
    assert_int_equal(stall->kind->ops.release(stall->kind->device, stall->words), WEFT_OK);
}
