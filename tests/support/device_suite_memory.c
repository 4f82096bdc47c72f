/* SPDX-License-Identifier: Apache-2.0 */
/* Whose memory is at a pointer, what identity it has, and host memory that devices may reach. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

#include "tests/support/device_suite.h"

#define REUSES 8

static void devices_are_described(void **state)
{
    struct device_world world;
    device_open(&world, device_row(state));
    for (int i = 0; i < world.count; i++) {
        struct weft_device_info info = {.size = sizeof info};
        DEVICE_OK(world.ops->describe(world.device, i, &info));
        assert_int_equal(info.size, sizeof info);
        assert_true(strnlen(info.name, sizeof info.name) > 0);
        assert_true(strnlen(info.name, sizeof info.name) < sizeof info.name);
        assert_true(strnlen(info.runtime, sizeof info.runtime) < sizeof info.runtime);
        assert_true(info.memory_bytes > 0);
        assert_int_equal((info.flags & WEFT_DEVICE_IPC) != 0, world.row->shares);
        assert_int_equal((info.flags & WEFT_DEVICE_DMABUF) != 0, world.row->dmabufs);
        assert_int_equal((info.flags & WEFT_DEVICE_COLLECTIVES) != 0, world.row->collectives);
        assert_int_equal((info.flags & WEFT_DEVICE_COLLECTIVES_BESIDE) != 0, world.row->collectives_beside);

        /* A caller of another age: what is behind its struct stays. */
        struct weft_device_info old;
        memset(&old, 0x5a, sizeof old);
        old.size = offsetof(struct weft_device_info, pci);
        DEVICE_OK(world.ops->describe(world.device, i, &old));
        assert_string_equal(old.name, info.name);
        assert_int_equal(old.pci[0], 0x5a);
    }
    struct weft_device_info info = {.size = sizeof info};
    assert_int_equal(world.ops->describe(world.device, world.count, &info), WEFT_INVALID);
    assert_int_equal(world.ops->describe(world.device, -2, &info), WEFT_INVALID);
    device_close(&world);
}

static int identify(struct device_world *world, const void *pointer, struct weft_device_span *span)
{
    memset(span, 0, sizeof *span);
    span->size = sizeof *span;
    return world->ops->identify(world->device, pointer, span);
}

static void check_span(struct device_world *world, char *memory, size_t size, int ordinal)
{
    struct weft_device_span first, span;
    const size_t places[] = {0, size / 2, size - 1};
    DEVICE_OK(identify(world, memory, &first));
    for (size_t i = 0; i < 3; i++) {
        DEVICE_OK(identify(world, memory + places[i], &span));
        assert_memory_equal(&span, &first, sizeof span);
    }
    if (!world->row->owns)
        return;
    assert_true(first.base <= (uintptr_t)memory);
    assert_true(first.base + first.length >= (uintptr_t)memory + size);
    assert_true(first.identity != 0);
    assert_int_equal(first.ordinal, ordinal);
    if (identify(world, memory + size - 1 + first.length, &span) == WEFT_OK)
        assert_true(span.identity != first.identity);
}

static void spans_are_reported(void **state)
{
    static const size_t sizes[] = {1, 100, 4096, 65537, (1 << 20) + 3};
    struct device_world world;
    struct weft_device_span span;
    device_open(&world, device_row(state));
    for (int ordinal = 0; ordinal < world.count; ordinal++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            char *memory = device_allocate(&world, ordinal, WEFT_MEMORY_DEVICE, sizes[i]);
            check_span(&world, memory, sizes[i], ordinal);
            DEVICE_OK(world.ops->release(world.device, memory));
            if (world.row->owns)
                assert_int_equal(identify(&world, memory, &span), WEFT_NOT_FOUND);
        }
    }
    char on_the_stack;
    assert_int_equal(identify(&world, &on_the_stack, &span), world.row->owns ? WEFT_NOT_FOUND : WEFT_OK);
    assert_int_equal(identify(&world, NULL, &span), world.row->owns ? WEFT_NOT_FOUND : WEFT_OK);
    device_close(&world);
}

static void kinds_of_memory_are_distinct(void **state)
{
    struct device_world world;
    device_open(&world, device_row(state));
    static const enum weft_memory_kind kinds[] = {WEFT_MEMORY_DEVICE, WEFT_MEMORY_PINNED,
                                                  WEFT_MEMORY_MANAGED};
    for (int i = 0; i < 2 + world.row->managed; i++) {
        struct weft_device_span span, shorter;
        int ordinal = kinds[i] == WEFT_MEMORY_PINNED ? -1 : 0;
        char *memory = device_allocate(&world, ordinal, kinds[i], 5000);
        DEVICE_OK(identify(&world, memory + 4999, &span));
        assert_int_equal(span.kind, world.row->owns ? kinds[i] : WEFT_MEMORY_HOST);
        if (world.row->owns)
            assert_int_equal((span.flags & WEFT_SPAN_HOST_ACCESS) != 0, kinds[i] != WEFT_MEMORY_DEVICE);
        if (span.flags & WEFT_SPAN_HOST_ACCESS)
            memory[4999] = 1;
        memset(&shorter, 0x5a, sizeof shorter);
        shorter.size = offsetof(struct weft_device_span, base);
        DEVICE_OK(world.ops->identify(world.device, memory, &shorter));
        assert_int_equal(shorter.kind, span.kind);
        assert_true(shorter.base == 0x5a5a5a5a5a5a5a5a);
        DEVICE_OK(world.ops->release(world.device, memory));
    }
    device_close(&world);
}

static void a_reused_address_has_another_identity(void **state)
{
    struct device_world world;
    void *last = NULL;
    uint64_t identity = 0;
    int reuses = 0;
    device_open(&world, device_row(state));
    for (int i = 0; i < REUSES; i++) {
        struct weft_device_span span;
        void *memory = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, 1 << 20);
        DEVICE_OK(identify(&world, memory, &span));
        assert_true(span.identity != identity);
        reuses += memory == last;
        last = memory;
        identity = span.identity;
        DEVICE_OK(world.ops->release(world.device, memory));
    }
    if (world.row->reuses)
        assert_int_equal(reuses, REUSES - 1);
    device_close(&world);
}

static void the_host_cannot_touch_device_memory(void **state)
{
    struct device_world world;
    int ends[2], status;
    device_open(&world, device_row(state));
    volatile char *memory = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, 100);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], (const void *)memory, 1), -1);
    assert_int_equal(errno, EFAULT);
    close(ends[0]);
    close(ends[1]);
    for (int writes = 0; writes < 2; writes++) {
        fflush(NULL);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            signal(SIGSEGV, SIG_DFL);
            if (writes)
                memory[99] = 1;
            _exit(memory[0] & 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSEGV);
    }
    DEVICE_OK(world.ops->release(world.device, (void *)(uintptr_t)memory));
    device_close(&world);
}

/* Overlapping ranges, each pinned once and given back once. */
static void pinned_pages_are_counted(void **state)
{
    struct device_world world;
    struct weft_device_span span;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    device_open(&world, device_row(state));
    char *memory = aligned_alloc(page, 4 * page),
         *device = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, 100);
    struct weft_device_queue *queue = device_queue(&world, 0);
    assert_non_null(memory);
    memset(memory, 7, 4 * page);
    if (world.row->owns) {
        assert_int_equal(world.ops->copy(queue, device, memory + page, 100), WEFT_INVALID);
        assert_int_equal(world.ops->unpin(world.device, memory, page), WEFT_INVALID);
    }
    DEVICE_OK(world.ops->pin(world.device, memory, 3 * page));
    DEVICE_OK(world.ops->pin(world.device, memory + page + 10, 100));
    DEVICE_OK(identify(&world, memory + page, &span));
    if (world.row->owns) {
        assert_int_equal(span.kind, WEFT_MEMORY_PINNED);
        assert_true(span.flags & WEFT_SPAN_HOST_ACCESS);
        assert_int_equal(identify(&world, memory + 3 * page, &span), WEFT_NOT_FOUND);
    }
    DEVICE_OK(world.ops->unpin(world.device, memory, 3 * page));
    DEVICE_OK(world.ops->copy(queue, device, memory + page + 10, 100));
    assert_int_equal(device_finish(&world, queue), 1);
    DEVICE_OK(world.ops->unpin(world.device, memory + page + 10, 100));
    if (world.row->owns)
        assert_int_equal(identify(&world, memory + page, &span), WEFT_NOT_FOUND);
    char back[100];
    device_get(&world, back, device, sizeof back);
    assert_memory_equal(back, memory, sizeof back);
    world.ops->queue_close(queue);
    DEVICE_OK(world.ops->release(world.device, device));
    free(memory);
    device_close(&world);
}

static void what_was_not_allocated_is_not_released(void **state)
{
    struct device_world world;
    void *memory;
    device_open(&world, device_row(state));
    char *own = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, 100);
    assert_int_equal(world.ops->release(world.device, own + 1), WEFT_INVALID);
    assert_int_equal(world.ops->release(world.device, &world), WEFT_INVALID);
    int unimported = world.ops->unimport(world.device, own);
    assert_true(unimported == WEFT_INVALID || (unimported == WEFT_UNSUPPORTED && !world.row->shares));
    assert_int_equal(world.ops->allocate(world.device, world.count, WEFT_MEMORY_DEVICE, 1, &memory),
                     WEFT_INVALID);
    DEVICE_OK(world.ops->release(world.device, own));
    assert_int_equal(world.ops->release(world.device, own), WEFT_INVALID);
    device_close(&world);
}

size_t device_memory_tests(const struct device_row *row, struct CMUnitTest *tests)
{
    size_t used = 0;
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(devices_are_described);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(spans_are_reported);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(kinds_of_memory_are_distinct);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(pinned_pages_are_counted);
    if (row->owns)
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(a_reused_address_has_another_identity);
    if (row->owns)
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(what_was_not_allocated_is_not_released);
    if (row->faults)
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(the_host_cannot_touch_device_memory);
    return used;
}
