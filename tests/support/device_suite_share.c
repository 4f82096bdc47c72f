/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of another process, handles that lie, forked children, dma-bufs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

#include "tests/support/bits.h"
#include "tests/support/device_suite.h"

#define BYTES       10000
#define OFFSET      1234
#define COLLECTIVES 16384 /* where what programs share begins */

struct offer {
    struct weft_device_handle handle;
    uint64_t offset;
};

/* Handles that a hostile peer could send instead: none of them is taken. How many were. */
static int import_lies(struct device_world *world, const struct weft_device_handle *honest)
{
    static const uint32_t sizes[] = {0, 1, WEFT_DEVICE_HANDLE_MAX, WEFT_DEVICE_HANDLE_MAX + 1, UINT32_MAX};
    struct weft_device_handle lie;
    int taken = 0;
    void *base;
    for (uint32_t i = 0; i < honest->bytes_used; i++) {
        for (int bit = 0; bit < 8; bit++) {
            lie = *honest;
            lie.bytes[i] ^= (uint8_t)(1 << bit);
            taken += world->ops->import_ipc(world->device, 0, &lie, &base) == WEFT_OK;
        }
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        lie = *honest;
        lie.bytes_used = sizes[i];
        taken += world->ops->import_ipc(world->device, 0, &lie, &base) != WEFT_PROTOCOL;
    }
    memset(&lie, 0, sizeof lie);
    lie.bytes_used = honest->bytes_used;
    taken += world->ops->import_ipc(world->device, 0, &lie, &base) != WEFT_PROTOCOL;
    return taken;
}

/* What the other process does: reads, finds 1, writes 2. Then both run programs. */
static int take_part(const struct device_row *row, int from)
{
    struct device_world world;
    struct offer offer;
    struct weft_device_span span = {.size = sizeof span};
    void *base;
    char found[BYTES], expected[BYTES];
    if (read(from, &offer, sizeof offer) != sizeof offer)
        return 1;
    device_open(&world, row);
    if (import_lies(&world, &offer.handle))
        return 2;
    if (world.ops->import_ipc(world.device, world.count - 1, &offer.handle, &base) != WEFT_OK)
        return 3;
    if (world.ops->identify(world.device, (char *)base + offer.offset, &span) != WEFT_OK ||
        span.kind != WEFT_MEMORY_DEVICE || span.base != (uintptr_t)base)
        return 4;
    device_get(&world, found, (char *)base + offer.offset, BYTES);
    memset(expected, 1, BYTES);
    if (!BITS_AGREE(memcmp(found, expected, BYTES) == 0))
        return 5;
    memset(expected, 2, BYTES);
    device_put(&world, (char *)base + offer.offset, expected, BYTES);
    if (row->collectives && !row->no_reductions)
        device_collective_share(&world, world.count - 1, (char *)base + offer.offset - OFFSET + COLLECTIVES,
                                1);
    if (world.ops->unimport(world.device, base) != WEFT_OK)
        return 6;
    device_close(&world);
    return 0;
}

/* The other process is made before this one opens anything, as ranks are. */
static void memory_is_shared_between_processes(void **state)
{
    struct device_world world;
    struct offer offer;
    int ends[2], status;
    char bytes[BYTES], found[BYTES], *nothing = calloc(1, device_collective_shared_bytes);
    assert_non_null(nothing);
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[1]);
        _exit(take_part(device_row(state), ends[0]));
    }
    close(ends[0]);
    device_open(&world, device_row(state));
    char *memory =
        device_allocate(&world, 0, WEFT_MEMORY_DEVICE, COLLECTIVES + device_collective_shared_bytes);
    memset(bytes, 1, BYTES);
    device_put(&world, memory + OFFSET, bytes, BYTES);
    device_put(&world, memory + COLLECTIVES, nothing, device_collective_shared_bytes);
    free(nothing);
    memset(&offer, 0, sizeof offer);
    DEVICE_OK(world.ops->export_ipc(world.device, memory + OFFSET, &offer.handle, &offer.offset));
    assert_int_equal(write(ends[1], &offer, sizeof offer), sizeof offer);
    if (world.row->collectives && !world.row->no_reductions)
        device_collective_share(&world, 0, memory + COLLECTIVES, 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    memset(bytes, 2, BYTES);
    device_get(&world, found, memory + OFFSET, BYTES);
    assert_memory_equal(found, bytes, BYTES);
    DEVICE_OK(world.ops->release(world.device, memory));
    close(ends[1]);
    device_close(&world);
}

static void own_handles_are_not_imported(void **state)
{
    struct device_world world;
    struct offer offer;
    void *base;
    device_open(&world, device_row(state));
    char *memory = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, 100);
    DEVICE_OK(world.ops->export_ipc(world.device, memory + 7, &offer.handle, &offer.offset));
    assert_int_equal(offer.offset, 7);
    assert_int_equal(world.ops->import_ipc(world.device, 0, &offer.handle, &base), WEFT_UNSUPPORTED);
    assert_int_equal(import_lies(&world, &offer.handle), 0);
    assert_int_equal(world.ops->import_ipc(world.device, world.count, &offer.handle, &base), WEFT_INVALID);
    DEVICE_OK(world.ops->release(world.device, memory));
    assert_int_equal(world.ops->import_ipc(world.device, 0, &offer.handle, &base), WEFT_PROTOCOL);
    assert_int_equal(world.ops->export_ipc(world.device, &world, &offer.handle, &offer.offset),
                     WEFT_UNSUPPORTED);
    device_close(&world);
}

/* A child has neither the device's threads nor its memory. */
static void forked_children_are_refused(void **state)
{
    struct device_world world;
    int status;
    device_open(&world, device_row(state));
    char *memory = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, 100);
    struct weft_device_queue *queue = device_queue(&world, 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct weft_device_span span = {.size = sizeof span};
        struct weft_device_queue *other;
        void *more;
        int wrong = world.ops->identify(world.device, memory, &span) == WEFT_OK;
        wrong |= (world.ops->copy(queue, memory, memory + 50, 50) != WEFT_INVALID) << 1;
        wrong |= (world.ops->queue_open(world.device, 0, &other) != WEFT_INVALID) << 2;
        wrong |= (world.ops->allocate(world.device, 0, WEFT_MEMORY_DEVICE, 1, &more) != WEFT_INVALID) << 3;
        _exit(wrong);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    DEVICE_OK(world.ops->copy(queue, memory, memory + 50, 50));
    assert_int_equal(device_finish(&world, queue), 1);
    world.ops->queue_close(queue);
    DEVICE_OK(world.ops->release(world.device, memory));
    device_close(&world);
}

static void dmabufs_are_descriptors(void **state)
{
    struct device_world world;
    uint64_t offset = 0;
    int fd = -1;
    struct weft_device_span span = {.size = sizeof span};
    device_open(&world, device_row(state));
    char *memory = device_allocate(&world, 0, WEFT_MEMORY_DEVICE, 5000);
    DEVICE_OK(world.ops->identify(world.device, memory, &span));
    assert_int_equal((span.flags & WEFT_SPAN_DMABUF) != 0, world.row->dmabufs);
    int status = world.ops->export_dmabuf(world.device, memory + 100, 4900, &fd, &offset);
    assert_int_equal(status, world.row->dmabufs ? WEFT_OK : WEFT_UNSUPPORTED);
    if (world.row->dmabufs) {
        assert_int_equal(offset, (uintptr_t)memory + 100 - span.base);
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
        assert_true(world.ops->export_dmabuf(world.device, memory + 100, 4901, &fd, &offset) < 0);
        close(fd);
    }
    DEVICE_OK(world.ops->release(world.device, memory));
    device_close(&world);
}

size_t device_share_tests(const struct device_row *row, struct CMUnitTest *tests)
{
    size_t used = 0;
    if (row->shares) {
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(memory_is_shared_between_processes);
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(own_handles_are_not_imported);
    }
    if (row->owns) {
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(dmabufs_are_descriptors);
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(forked_children_are_refused);
    }
    return used;
}
