/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside drivers */
/* Whose memory a pointer is: every kind, addresses that are used again, and drivers that know less. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "tests/support/cuda_scene.h"

#define MIB ((size_t)1 << 20)

static const struct weft_device_ops *ops = &weft_cuda_ops;
static struct cuda_fake *fake;
static struct weft_device *device;
static CUcontext context;

static int setup(void **state)
{
    (void)state;
    return scene_begin(&fake, &device, &context);
}

/* Nothing stays behind, and the program's context is still current. */
static int teardown(void **state)
{
    (void)state;
    fake->needs_context = 0;
    return scene_end(fake, device, context);
}

static struct weft_device_span look(uint64_t pointer)
{
    struct weft_device_span span = {.size = sizeof span};
    assert_int_equal(ops->identify(device, (void *)pointer, &span), WEFT_OK);
    return span;
}

static void assert_missing(const void *pointer)
{
    struct weft_device_span span = {.size = sizeof span};
    scene_text();
    assert_int_equal(ops->identify(device, pointer, &span), WEFT_NOT_FOUND);
    assert_string_equal(scene_text(), "");
}

static void assert_span(struct weft_device_span span, uint32_t kind, uint64_t base, uint64_t length,
                        int ordinal, uint32_t flags)
{
    assert_int_equal(span.kind, kind);
    assert_int_equal(span.base, base);
    assert_int_equal(span.length, length);
    assert_int_equal(span.ordinal, ordinal);
    assert_int_equal(span.flags, flags);
}

static void test_host(void **state)
{
    (void)state;
    int local = 0;
    void *heap = malloc(100);
    assert_missing(&local);
    assert_missing(heap);
    assert_missing(NULL);
    free(heap);
}

static void test_device(void **state)
{
    (void)state;
    CUdeviceptr memory;
    assert_int_equal(CU(cuMemAlloc_v2)(&memory, 5000), 0);
    int before = fake->calls("cuPointerGetAttributes");
    struct weft_device_span span = look(memory + 4999);
    assert_int_equal(fake->calls("cuPointerGetAttributes"), before + 1);
    assert_int_equal(fake->calls("cuMemGetAddressRange_v2") + fake->calls("cuPointerGetAttribute"), 0);
    assert_span(span, WEFT_MEMORY_DEVICE, memory, 5000, 1,
                WEFT_SPAN_IPC | WEFT_SPAN_DMABUF | WEFT_SPAN_PEER_MEMORY);
    assert_int_not_equal(span.identity, 0);
    assert_int_equal(look(memory).identity, span.identity);
    assert_missing((void *)(uintptr_t)(memory + 5000));
    /* An older caller's struct. */
    struct weft_device_span small;
    memset(&small, 0xee, sizeof small);
    small.size = offsetof(struct weft_device_span, base);
    assert_int_equal(ops->identify(device, (void *)(uintptr_t)memory, &small), WEFT_OK);
    assert_int_equal(small.ordinal, 1);
    assert_int_equal(small.base, UINT64_C(0xeeeeeeeeeeeeeeee));
    CU(cuMemFree_v2)(memory);
    assert_missing((void *)(uintptr_t)memory);
}

/* The same address again is other memory. */
static void test_reused(void **state)
{
    (void)state;
    CUdeviceptr first, second;
    assert_int_equal(CU(cuMemAlloc_v2)(&first, MIB), 0);
    uint64_t identity = look(first).identity;
    CU(cuMemFree_v2)(first);
    assert_int_equal(CU(cuMemAlloc_v2)(&second, MIB), 0);
    assert_int_equal(second, first);
    assert_int_not_equal(look(second).identity, identity);
    CU(cuMemFree_v2)(second);
}

static void test_pinned_and_managed(void **state)
{
    (void)state;
    void *pinned, *combined, *host = aligned_alloc(4096, 3 * 4096);
    CUdeviceptr managed;
    assert_int_equal(CU(cuMemHostAlloc)(&pinned, 10000, 1), 0);
    assert_span(look((uint64_t)pinned + 1), WEFT_MEMORY_PINNED, (uint64_t)pinned, 10000, -1,
                WEFT_SPAN_HOST_ACCESS);
    assert_int_equal(CU(cuMemHostRegister_v2)((char *)host + 100, 8000, 1), 0);
    assert_span(look((uint64_t)host + 100), WEFT_MEMORY_PINNED, (uint64_t)host + 100, 8000, -1,
                WEFT_SPAN_HOST_ACCESS);
    assert_missing(host);
    /* Write-combined: the device has another address for it. */
    assert_int_equal(CU(cuMemHostAlloc)(&combined, 4096, 4), 0);
    assert_missing(combined);
    assert_int_equal(CU(cuMemAllocManaged)(&managed, MIB, 1), 0);
    assert_span(look(managed + 5), WEFT_MEMORY_MANAGED, managed, MIB, 1, WEFT_SPAN_HOST_ACCESS);
    CU(cuMemFreeHost)(pinned);
    CU(cuMemFreeHost)(combined);
    CU(cuMemHostUnregister)((char *)host + 100);
    CU(cuMemFree_v2)(managed);
    free(host);
}

/* A device that cannot share managed memory while it works leaves the host out. */
static void test_managed_in_turn(void **state)
{
    (void)state;
    CUdeviceptr managed;
    fake->has_concurrent_managed = 0;
    assert_int_equal(CU(cuMemAllocManaged)(&managed, MIB, 1), 0);
    assert_span(look(managed), WEFT_MEMORY_MANAGED, managed, MIB, 1, 0);
    CU(cuMemFree_v2)(managed);
}

static void test_pool(void **state)
{
    (void)state;
    CUmemoryPool open, closed;
    CUdeviceptr shared, own;
    CUmemPoolProps props = {.allocType = 1, .handleTypes = 1, .location = {1, 1}};
    assert_int_equal(CU(cuMemPoolCreate)(&open, &props), 0);
    props.handleTypes = 0;
    assert_int_equal(CU(cuMemPoolCreate)(&closed, &props), 0);
    assert_int_equal(CU(cuMemAllocFromPoolAsync)(&shared, 1000, open, NULL), 0);
    assert_int_equal(CU(cuMemAllocFromPoolAsync)(&own, 1000, closed, NULL), 0);
    assert_span(look(shared + 10), WEFT_MEMORY_DEVICE, shared, 1000, 1, WEFT_SPAN_ORDERED | WEFT_SPAN_IPC);
    assert_span(look(own + 10), WEFT_MEMORY_DEVICE, own, 1000, 1, WEFT_SPAN_ORDERED);
    assert_int_not_equal(look(own).identity, look(shared).identity);
    CU(cuMemFreeAsync)(shared, NULL);
    CU(cuMemFreeAsync)(own, NULL);
    CU(cuMemPoolDestroy)(open);
    CU(cuMemPoolDestroy)(closed);
}

struct mapped {
    CUdeviceptr range;
    CUhandle handles[2];
};

/* Two pieces side by side in a range of three. */
static struct mapped map_two(int handle_types)
{
    struct mapped mapped;
    const CUmemAllocationProp prop = {.type = 1, .requestedHandleTypes = handle_types, .location = {1, 1}};
    assert_int_equal(CU(cuMemAddressReserve)(&mapped.range, 3 * MIB, 0, 0, 0), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(CU(cuMemCreate)(&mapped.handles[i], MIB, &prop, 0), 0);
        assert_int_equal(CU(cuMemMap)(mapped.range + (size_t)i * MIB, MIB, 0, mapped.handles[i], 0), 0);
    }
    return mapped;
}

static void unmap_two(const struct mapped *mapped)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(CU(cuMemUnmap)(mapped->range + (size_t)i * MIB, MIB), 0);
        assert_int_equal(CU(cuMemRelease)(mapped->handles[i]), 0);
    }
    assert_int_equal(CU(cuMemAddressFree)(mapped->range, 3 * MIB), 0);
}

static void test_mapped(void **state)
{
    (void)state;
    struct mapped mapped = map_two(1);
    struct weft_device_span first = look(mapped.range + 5), second = look(mapped.range + MIB + 5);
    assert_span(first, WEFT_MEMORY_DEVICE, mapped.range, MIB, 1, WEFT_SPAN_IPC | WEFT_SPAN_DMABUF);
    assert_span(second, WEFT_MEMORY_DEVICE, mapped.range + MIB, MIB, 1, WEFT_SPAN_IPC | WEFT_SPAN_DMABUF);
    assert_int_not_equal(first.identity, second.identity);
    assert_int_not_equal(first.identity, 0);
    assert_missing((void *)(uintptr_t)(mapped.range + 2 * MIB)); /* reserved, nothing there */
    /* Other memory at the same place, in the same range. */
    assert_int_equal(CU(cuMemUnmap)(mapped.range, MIB), 0);
    assert_missing((void *)(uintptr_t)mapped.range);
    assert_int_equal(CU(cuMemMap)(mapped.range, MIB, 0, mapped.handles[1], 0), 0);
    assert_int_not_equal(look(mapped.range).identity, first.identity);
    assert_int_not_equal(look(mapped.range).identity, second.identity);
    unmap_two(&mapped);
    mapped = map_two(0);
    assert_int_equal(look(mapped.range).flags, WEFT_SPAN_DMABUF);
    unmap_two(&mapped);
    mapped = map_two(8); /* fabric handles */
    assert_int_equal(look(mapped.range).flags, WEFT_SPAN_DMABUF | WEFT_SPAN_IPC);
    unmap_two(&mapped);
}

/* Older drivers report mappings by another call, and cannot distinguish one from the next in the same place. */
static void test_without_mappings(void **state)
{
    (void)state;
    struct mapped mapped = map_two(1);
    CUdeviceptr memory;
    fake->knows_mappings = 0;
    struct weft_device_span span = look(mapped.range + MIB + 5);
    assert_span(span, WEFT_MEMORY_DEVICE, mapped.range + MIB, MIB, 1, WEFT_SPAN_DMABUF);
    assert_int_equal(span.identity, 0);
    int asked = fake->calls("cuPointerGetAttributes");
    assert_int_equal(CU(cuMemAlloc_v2)(&memory, 100), 0);
    assert_int_not_equal(look(memory).identity, 0);
    assert_int_equal(fake->calls("cuPointerGetAttributes"), asked + 1); /* and not the long question again */
    fake->let_fail("cuMemGetAddressRange_v2", 500, 0);
    assert_span(look(mapped.range), WEFT_MEMORY_DEVICE, mapped.range, 3 * MIB, 1, WEFT_SPAN_DMABUF);
    fake->let_fail("cuCtxPushCurrent_v2", 999, 0);
    assert_span(look(mapped.range), WEFT_MEMORY_DEVICE, mapped.range, 3 * MIB, 1, WEFT_SPAN_DMABUF);
    CU(cuMemFree_v2)(memory);
    unmap_two(&mapped);
}

/* A driver that wants a context gets one that is there, and makes none. */
static void test_without_context(void **state)
{
    (void)state;
    CUdeviceptr memory;
    CUcontext popped, now;
    assert_int_equal(CU(cuMemAlloc_v2)(&memory, 100), 0);
    fake->needs_context = 1;
    assert_int_equal(CU(cuCtxPopCurrent_v2)(&popped), 0);
    fake->let_fail("cuDevicePrimaryCtxGetState", 999, 0);
    assert_span(look(memory), WEFT_MEMORY_DEVICE, memory, 100, 1,
                WEFT_SPAN_IPC | WEFT_SPAN_DMABUF | WEFT_SPAN_PEER_MEMORY);
    unsigned flags;
    int active = -1;
    assert_int_equal(CU(cuDevicePrimaryCtxGetState)(100, &flags, &active), 0);
    assert_int_equal(active, 0);
    assert_int_equal(CU(cuCtxGetCurrent)(&now), 0);
    assert_null(now);
    fake->let_fail("cuDeviceGetCount", 999, 0);
    assert_missing((void *)(uintptr_t)memory);
    fake->let_fail("cuCtxPushCurrent_v2", 999, 0);
    assert_missing((void *)(uintptr_t)memory);
    assert_int_equal(CU(cuCtxPushCurrent_v2)(popped), 0);
    CU(cuMemFree_v2)(memory);
}

static void test_peer_and_imports(void **state)
{
    (void)state;
    CUdeviceptr memory;
    CUcontext other, popped;
    assert_int_equal(scene_enter(0, &other), 0);
    assert_int_equal(CU(cuMemAlloc_v2)(&memory, 100), 0);
    assert_int_equal(CU(cuCtxPopCurrent_v2)(&popped), 0);
    fake->has_dmabuf = 0;
    struct weft_device *fresh = scene_open();
    struct weft_device_span span = {.size = sizeof span};
    assert_int_equal(ops->identify(fresh, (void *)(uintptr_t)memory, &span), WEFT_OK);
    assert_span(span, WEFT_MEMORY_DEVICE, memory, 100, 0, WEFT_SPAN_IPC | WEFT_SPAN_PEER_MEMORY);
    ops->close(fresh);
    fake->let_fail("cuPointerGetAttributes", 999, 0);
    assert_missing((void *)(uintptr_t)memory);
    CU(cuMemFree_v2)(memory);
    CU(cuDevicePrimaryCtxRelease_v2)(100);
}

int main(void)
{
#define SCENE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        SCENE(test_host),
        SCENE(test_device),
        SCENE(test_reused),
        SCENE(test_pinned_and_managed),
        SCENE(test_managed_in_turn),
        SCENE(test_pool),
        SCENE(test_mapped),
        SCENE(test_without_mappings),
        SCENE(test_without_context),
        SCENE(test_peer_and_imports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
