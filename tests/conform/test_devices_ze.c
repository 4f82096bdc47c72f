/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze */
/* The contract for kinds of devices on the kind "ze": Level Zero's own loader, with its validation layer, and the fake driver of
 * tests/fakes/ze/. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "devmem/ze/ze.h"
#include "tests/support/device_suite.h"
#include "tests/support/ze_scene.h"
#include "tests/support/ze_streams.h"

static struct ze_fake *fake;

static const char *load(void)
{
    fake = ze_scene_load();
    if (!fake)
        return "the fake driver cannot be loaded";
    fake->device_count = 3;
    fake->no_immediate = fake->no_dmabuf = 0;
    return NULL;
}

static const char *load_queues(void)
{
    const char *reason = load();
    if (!reason)
        fake->no_immediate = 1;
    return reason;
}

static const char *load_alone(void)
{
    const char *reason = load();
    if (!reason)
        fake->no_dmabuf = 1;
    return reason;
}

/* Nothing that a test has made is left, and no call was one that the specification forbids. What a queue has that was closed while it waited goes when
 * another one is opened. */
static void check_empty(const struct weft_device_kind *kind)
{
    struct weft_device_queue *queue;
    for (int i = 0; i < 20000 && fake->allocations; i++) {
        DEVICE_OK(kind->ops.queue_open(kind->device, 0, &queue));
        kind->ops.queue_close(queue);
        usleep(50);
    }
    assert_int_equal(fake->allocations, 0);
    if (fake->violations)
        fail_msg("%u calls that are forbidden, the first: %s", fake->violations, fake->first_violation);
}

/* And nothing that weft keeps as long as the kind is open. */
static void check_closed(void)
{
    assert_int_equal(fake->lists + fake->queues, 0);
    assert_int_equal(fake->contexts + fake->pools + fake->events, 0);
    assert_int_equal(fake->modules + fake->kernels + fake->logs, 0);
}

#define ZE                                                                                                   \
    .kind = "ze", .owns = 1, .faults = 1, .managed = 1, .reuses = 1, .keeps = 1, .scales_sums = 1,           \
    .streams = ze_streams, .no_own_stream = 1, .collectives = 1, .check_empty = check_empty,                 \
    .check_closed = check_closed

static struct device_row rows[] = {
    {.label = "ze", ZE, .shares = 1, .dmabufs = 1, .absent = load},
    {.label = "ze, command queues", ZE, .shares = 1, .dmabufs = 1, .absent = load_queues},
    {.label = "ze, no dma-bufs", ZE, .absent = load_alone},
};

int main(void)
{
    setenv("WEFT_LOG", "error", 0);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        rows[r].no_reductions = !weft_ze_has_kernels();
    return device_suite_run(rows, sizeof rows / sizeof *rows);
}
