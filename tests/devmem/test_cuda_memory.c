/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside drivers */
/* Allocating and pinning, and the end: of the driver, and in forked children. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fork.h"
#include "tests/support/cuda_checks.h"
#include "tests/support/cuda_scene.h"

#define PAGE ((size_t)4096)

static const struct weft_device_ops *ops = &weft_cuda_ops;
static struct cuda_fake *fake;
static struct weft_device *device, *other;
static char *host; /* 16 pages */

static int setup(void **state)
{
    (void)state;
    int bad = scene_begin(&fake, &device, NULL);
    other = bad ? NULL : scene_open();
    host = aligned_alloc(PAGE, 16 * PAGE);
    return other && host ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    ops->close(other);
    free(host);
    return scene_end(fake, device, NULL) || CU(cuInit)(0) != 0;
}

static int is_pinned(const void *memory)
{
    struct weft_device_span span = {.size = sizeof span};
    return ops->identify(device, memory, &span) == WEFT_OK && span.kind == WEFT_MEMORY_PINNED;
}

static void assert_pages(const char *wanted)
{
    char seen[17] = "";
    for (int i = 0; i < 16; i++)
        seen[i] = is_pinned(host + (size_t)i * PAGE) ? '#' : '.';
    assert_string_equal(seen, wanted);
}

static void pin(struct weft_device *by, size_t page, size_t pages)
{
    assert_int_equal(ops->pin(by, host + page * PAGE, pages * PAGE), WEFT_OK);
}

static void unpin(struct weft_device *by, size_t page, size_t pages)
{
    assert_int_equal(ops->unpin(by, host + page * PAGE, pages * PAGE), WEFT_OK);
}

static void test_pin(void **state)
{
    (void)state;
    assert_int_equal(ops->pin(device, host + 100, 1), WEFT_OK); /* its page */
    assert_pages("#...............");
    pin(device, 0, 1);
    unpin(device, 0, 1);
    assert_pages("#...............");
    unpin(device, 0, 1);
    assert_pages("................");
    assert_int_equal(ops->unpin(device, host, PAGE), WEFT_INVALID);
    cuda_check_said("have not been pinned");
    assert_int_equal(ops->pin(device, host, 0), WEFT_INVALID);
    assert_int_equal(ops->pin(device, (void *)UINTPTR_MAX, 100), WEFT_INVALID);
}

/* Ranges that overlap, of several users in the process. */
static void test_pin_overlaps(void **state)
{
    (void)state;
    pin(device, 4, 4);
    pin(other, 10, 2);
    pin(device, 2, 12);
    assert_pages("..############..");
    assert_int_equal(fake->calls("cuMemHostRegister_v2"), 5);
    unpin(other, 10, 2);
    unpin(device, 4, 4);
    assert_pages("..############..");
    pin(other, 6, 1);
    unpin(device, 2, 12);
    assert_pages("....####........");
    unpin(other, 6, 1);
    assert_pages("................");
}

/* What the program has pinned itself is neither pinned again nor let go. */
static void test_pin_around_collectives(void **state)
{
    (void)state;
    CUcontext context, popped;
    assert_int_equal(ops->count(device), 2);
    assert_int_equal(scene_enter(0, &context), 0);
    assert_int_equal(CU(cuMemHostRegister_v2)(host + 4 * PAGE, 2 * PAGE, 1), 0);
    assert_int_equal(CU(cuMemHostRegister_v2)(host + 8 * PAGE, PAGE, 1), 0);
    CU(cuCtxPopCurrent_v2)(&popped);
    pin(device, 2, 10);
    assert_pages("..##########....");
    pin(device, 4, 2); /* all of it the program's */
    unpin(device, 4, 2);
    unpin(device, 2, 10);
    assert_pages("....##..#.......");
    CU(cuMemHostUnregister)(host + 4 * PAGE);
    CU(cuMemHostUnregister)(host + 8 * PAGE);
    CU(cuDevicePrimaryCtxRelease_v2)(100);
}

static void test_pin_errors(void **state)
{
    (void)state;
    pin(device, 4, 1);
    fake->let_fail("cuMemHostRegister_v2", 2, 1); /* the second of two gaps */
    assert_int_equal(ops->pin(device, host, 8 * PAGE), WEFT_NOMEM);
    cuda_check_said("pinning 32768 bytes");
    assert_pages("....#...........");
    fake->let_fail("cuMemHostUnregister", 999, 0);
    assert_int_equal(ops->unpin(device, host + 4 * PAGE, PAGE), WEFT_SYSTEM);
    fake->let_fail("cuCtxPushCurrent_v2", 999, 0);
    assert_int_equal(ops->pin(device, host, PAGE), WEFT_SYSTEM);
    fake->let_fail("cuCtxPushCurrent_v2", 999, 0);
    assert_int_equal(ops->unpin(device, host, PAGE), WEFT_SYSTEM);
    struct weft_device_info info = {.size = sizeof info};
    fake->uses_host_pointers = 0;
    struct weft_device *fresh = scene_open();
    assert_int_equal(ops->pin(fresh, host, PAGE), WEFT_UNSUPPORTED);
    assert_int_equal(ops->describe(fresh, 0, &info), WEFT_OK);
    ops->close(fresh);
    CU(cuMemHostUnregister)(host + 4 * PAGE); /* what the failure above left */
}

static void test_allocate(void **state)
{
    (void)state;
    void *memory, *pinned;
    struct weft_device_span span = {.size = sizeof span};
    assert_int_equal(ops->allocate(device, 1, WEFT_MEMORY_DEVICE, 1000, &memory), WEFT_OK);
    assert_int_equal(ops->allocate(device, -1, WEFT_MEMORY_PINNED, 1000, &pinned), WEFT_OK);
    assert_int_equal(ops->identify(device, memory, &span), WEFT_OK);
    assert_int_equal(span.ordinal, 1);
    assert_int_equal(ops->identify(device, pinned, &span), WEFT_OK);
    assert_int_equal(span.kind, WEFT_MEMORY_PINNED);
    memset(pinned, 1, 1000);
    assert_int_equal(ops->release(device, (char *)memory + 1), WEFT_INVALID);
    assert_int_equal(ops->release(other, memory), WEFT_INVALID); /* it was not that one's */
    fake->let_fail("cuMemFree_v2", 999, 0);
    assert_int_equal(ops->release(device, memory), WEFT_SYSTEM);
    fake->let_fail("cuCtxPushCurrent_v2", 999, 0);
    assert_int_equal(ops->release(device, pinned), WEFT_SYSTEM);
    assert_int_equal(ops->allocate(device, 2, WEFT_MEMORY_DEVICE, 1, &memory), WEFT_INVALID);
    assert_int_equal(ops->allocate(device, -1, WEFT_MEMORY_DEVICE, 1, &memory), WEFT_INVALID);
    assert_int_equal(ops->allocate(device, 0, WEFT_MEMORY_DEVICE, 0, &memory), WEFT_INVALID);
    assert_int_equal(ops->allocate(device, 0, WEFT_MEMORY_MANAGED, 1, &memory), WEFT_UNSUPPORTED);
    assert_int_equal(ops->allocate(device, 0, WEFT_MEMORY_DEVICE, (size_t)1 << 50, &memory), WEFT_NOMEM);
    cuda_check_said("1125899906842624 bytes of device memory on device 0");
    /* What the failures left behind. */
    CUcontext context;
    assert_int_equal(scene_enter(1, &context), 0);
    CU(cuMemFree_v2)(span.base == (uintptr_t)pinned ? (uintptr_t)memory : 0);
    CU(cuMemFreeHost)(pinned);
    assert_int_equal(scene_leave(1, context), 0);
}

/* At the process's end the driver may be gone before weft is: nothing waits, crashes, or stays closed. */
static void shut_down(void)
{
    struct weft_device_queue *queue;
    struct weft_device_event *event, *later;
    struct weft_device_wait *wait, *second;
    struct weft_device_span span = {.size = sizeof span};
    void *memory;
    struct weft_device *dying = scene_open();
    assert_int_equal(ops->queue_open(dying, 0, &queue), WEFT_OK);
    assert_int_equal(ops->allocate(dying, 0, WEFT_MEMORY_DEVICE, 100, &memory), WEFT_OK);
    assert_int_equal(ops->wait_stream(dying, 0, NULL, &wait), WEFT_OK);
    assert_int_equal(ops->wait_stream(dying, 0, NULL, &second), WEFT_OK);
    assert_int_equal(ops->mark(queue, &event), WEFT_OK);
    assert_int_equal(scene_wait(event), 1);
    fake->shut_down(1);
    assert_int_equal(ops->test(event), WEFT_NOT_FOUND);
    cuda_check_said("driver shutting down");
    assert_int_equal(ops->mark(queue, &later), WEFT_NOT_FOUND);
    assert_int_equal(ops->identify(dying, memory, &span), WEFT_NOT_FOUND);
    assert_int_equal(ops->wait_open(wait, queue), WEFT_OK);
    assert_int_equal(ops->wait_open(second, NULL), WEFT_OK);
    ops->wait_free(wait);
    ops->wait_free(second);
    ops->event_free(event);
    ops->queue_close(queue);
    assert_int_equal(ops->release(dying, memory), WEFT_NOT_FOUND);
    ops->close(dying);
}

/* In a process of its own, as a driver that is gone takes nothing back. */
static void test_shut_down(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0) {
        shut_down();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* In a child of fork() the driver's copy must not be touched: no call, and closing is safe. */
static int child_uses(struct weft_device *inherited)
{
    struct weft_device_span span = {.size = sizeof span};
    struct weft_device_info info = {.size = sizeof info};
    int before = fake->calls("cuCtxPushCurrent_v2") + fake->calls("cuDevicePrimaryCtxRelease_v2");
    if (ops->identify(inherited, host, &span) != WEFT_NOT_FOUND)
        return 1;
    struct weft_device *fresh = scene_open();
    if (ops->describe(fresh, 0, &info) != WEFT_NOT_FOUND)
        return 2;
    if (!strstr(scene_text(), "CUDA_ERROR_NOT_INITIALIZED"))
        return 3;
    ops->close(fresh);
    weft_fork_child = 1; /* as base/fork.c sets it where something of weft was open */
    if (ops->describe(inherited, 0, &info) != WEFT_INVALID || !strstr(scene_text(), "forked"))
        return 4;
    ops->close(inherited);
    return fake->calls("cuCtxPushCurrent_v2") + fake->calls("cuDevicePrimaryCtxRelease_v2") == before ? 0 : 5;
}

static void test_fork(void **state)
{
    (void)state;
    struct weft_device_queue *queue;
    int status;
    assert_int_equal(ops->queue_open(device, 0, &queue), WEFT_OK);
    pid_t child = fork();
    if (child == 0)
        _exit(child_uses(device));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ops->queue_close(queue);
}

int main(void)
{
#define SCENE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        SCENE(test_shut_down), /* before this process has started the driver */
        SCENE(test_pin),        SCENE(test_pin_overlaps), SCENE(test_pin_around_collectives),
        SCENE(test_pin_errors), SCENE(test_allocate),     SCENE(test_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
