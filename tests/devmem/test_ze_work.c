/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze */
/* Memory, queues and events of the kind "ze" where the conformance suite does not look: the program's own memory, tiles, failures of the
 * driver, a device that is lost; and what the fake driver finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <level_zero/ze_api.h>

#include "devmem/registry.h"
#include "devmem/ze/ze.h"
#include "tests/support/child.h"
#include "tests/support/ze_scene.h"

static struct weft_device_ops ops; /* complete */

static struct ze_fake *begin(struct weft_device **device)
{
    struct ze_fake *fake = ze_scene_load();
    if (!fake || weft_device_complete(&weft_ze_ops, &ops) != WEFT_OK)
        return NULL;
    fake->device_count = 2;
    *device = ze_scene_open();
    return *device ? fake : NULL;
}

static int identify(struct weft_device *device, const void *pointer, struct weft_device_span *span)
{
    *span = (struct weft_device_span){.size = sizeof *span};
    return ops.identify(device, pointer, span);
}

/* --- the program's memory */

/* In a context of the program's own, of both tiles of a device, which are one device to weft. */
static int find_the_users_memory(void)
{
    struct weft_device *device;
    struct ze_fake *fake = begin(&device);
    ZE_CHECK(fake);
    fake->devices[1].tiles = 2;
    struct weft_ze_driver driver;
    ze_driver_handle_t from;
    ze_device_handle_t places[2], tiles[2];
    ze_context_handle_t context;
    uint32_t count = 1, device_count = 2, tile_count = 2;
    void *of_tile, *of_host;
    struct weft_device_span span;
    const ze_context_desc_t plain = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    const ze_device_mem_alloc_desc_t on_device = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    const ze_host_mem_alloc_desc_t on_host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    ZE_CHECK(ops.in_use(device) == 0);
    ZE_CHECK(weft_ze_driver_load(&driver, ze_said, sizeof ze_said) == 1 && driver.zeInit(0) == 0);
    ZE_CHECK(driver.zeDriverGet(&count, &from) == 0 && driver.zeDeviceGet(from, &device_count, places) == 0);
    ZE_CHECK(driver.zeDeviceGetSubDevices(places[1], &tile_count, tiles) == 0 && tile_count == 2);
    ZE_CHECK(driver.zeContextCreate(from, &plain, &context) == 0);
    ZE_CHECK(driver.zeMemAllocDevice(context, &on_device, 5000, 0, tiles[1], &of_tile) == 0);
    ZE_CHECK(driver.zeMemAllocHost(context, &on_host, 5000, 0, &of_host) == 0);
    ZE_CHECK(ops.in_use(device) == 1 && !*ze_said);
    ZE_CHECK(identify(device, (char *)of_tile + 4999, &span) == WEFT_OK);
    ZE_CHECK(span.kind == WEFT_MEMORY_DEVICE && span.ordinal == 1 && span.length == 5000);
    ZE_CHECK(span.base == (uint64_t)(uintptr_t)of_tile && span.flags == (WEFT_SPAN_IPC | WEFT_SPAN_DMABUF));
    ZE_CHECK(identify(device, of_host, &span) == WEFT_OK);
    ZE_CHECK(span.kind == WEFT_MEMORY_PINNED && span.ordinal == -1 && span.flags == WEFT_SPAN_HOST_ACCESS);
    ZE_CHECK(ops.release(device, of_tile) == WEFT_INVALID && strstr(ze_said, "was not allocated by weft"));
    driver.zeMemFree(context, of_tile);
    driver.zeMemFree(context, of_host);
    ZE_CHECK(identify(device, of_tile, &span) == WEFT_NOT_FOUND);
    driver.zeContextDestroy(context);
    ops.close(device);
    ZE_CHECK(fake->violations == 0 && fake->contexts == 0);
    return 0;
}

static void test_users_memory(void **state)
{
    (void)state;
    assert_int_equal(test_child(find_the_users_memory), 0);
}

/* --- failures */

static int fail_by_the_driver(void)
{
    struct weft_device *device;
    struct ze_fake *fake = begin(&device);
    struct weft_device_queue *queue;
    struct weft_device_event *event;
    void *memory;
    ZE_CHECK(fake);
    fake->alloc_result = ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    ZE_CHECK(ops.allocate(device, 1, WEFT_MEMORY_DEVICE, 100, &memory) == WEFT_NOMEM);
    ZE_CHECK(
        strstr(ze_said, "allocating 100 bytes of device memory on device 1: ZE_RESULT_ERROR_OUT_OF_DEVICE"));
    fake->alloc_result = 0;
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 0, &memory) == WEFT_INVALID);
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_HOST, 10, &memory) == WEFT_UNSUPPORTED);
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 100, &memory) == WEFT_OK);
    fake->list_result = ZE_RESULT_ERROR_DEVICE_LOST;
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_SYSTEM && strstr(ze_said, "making a command list"));
    fake->list_result = 0;
    fake->pool_result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_NOMEM && strstr(ze_said, "making events on device 0"));
    fake->pool_result = 0;
    fake->event_result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_NOMEM && fake->lists == 0);
    fake->event_result = 0;
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK);
    fake->append_result = ZE_RESULT_ERROR_UNKNOWN;
    ZE_CHECK(ops.mark(queue, &event) == WEFT_SYSTEM && strstr(ze_said, "marking a place"));
    ZE_CHECK(ops.copy(queue, memory, (char *)memory + 50, 50) == WEFT_SYSTEM);
    ZE_CHECK(strstr(ze_said, "copying 50 bytes"));
    fake->append_result = 0;
    ZE_CHECK(ops.mark(queue, &event) == WEFT_OK);
    fake->append_result = ZE_RESULT_ERROR_UNKNOWN;
    ZE_CHECK(ops.await(queue, event) == WEFT_SYSTEM && strstr(ze_said, "waiting for an event"));
    fake->append_result = 0;
    ops.event_free(event);
    ops.queue_close(queue);
    ZE_CHECK(ops.release(device, memory) == WEFT_OK);
    ops.close(device);
    ZE_CHECK(fake->violations == 0 && !fake->contexts && !fake->lists && !fake->queues && !fake->pools &&
             !fake->events);
    return 0;
}

static void test_failures(void **state)
{
    (void)state;
    assert_int_equal(test_child(fail_by_the_driver), 0);
}

/* A queue whose end nobody can see is left as it is: what is in flight there goes on. */
static int close_without_an_end(void)
{
    struct weft_device *device;
    struct ze_fake *fake = begin(&device);
    struct weft_device_queue *queue;
    void *memory;
    ZE_CHECK(fake);
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 100, &memory) == WEFT_OK);
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK);
    ZE_CHECK(ops.copy(queue, memory, (char *)memory + 50, 50) == WEFT_OK);
    fake->append_result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ops.queue_close(queue);
    ZE_CHECK(fake->lists == 1 && device->left == queue);
    ops.close(device);
    ZE_CHECK(fake->violations == 0 && fake->lists == 1 && fake->contexts == 1);
    return 0;
}

/* Two drivers do not know each other's memory; a driver that fails does not stand in the way of the other. */
static int use_two_drivers(void)
{
    struct weft_device *device, *other;
    struct ze_fake *fake = begin(&device);
    struct weft_device_queue *queues[2];
    struct weft_device_event *event;
    void *memory[2];
    ZE_CHECK(fake);
    fake->driver_count = 2;
    fake->devices[1].driver = 1;
    for (int i = 0; i < 2; i++) {
        ZE_CHECK(ops.allocate(device, i, WEFT_MEMORY_DEVICE, 100, &memory[i]) == WEFT_OK);
        ZE_CHECK(ops.queue_open(device, i, &queues[i]) == WEFT_OK);
    }
    ZE_CHECK(ops.copy(queues[0], memory[0], memory[1], 100) == WEFT_UNSUPPORTED);
    ZE_CHECK(strstr(ze_said, "memory of another driver"));
    ZE_CHECK(ops.mark(queues[0], &event) == WEFT_OK && ops.await(queues[1], event) == WEFT_UNSUPPORTED);
    ops.event_free(event);
    for (int i = 0; i < 2; i++) {
        ops.queue_close(queues[i]);
        ZE_CHECK(ops.release(device, memory[i]) == WEFT_OK);
    }
    ops.close(device);
    fake->sick_driver = 1; /* counted from 1: the first */
    ZE_CHECK((other = ze_scene_open()) && ops.count(other) == 1);
    struct weft_device_info info = {.size = sizeof info};
    ZE_CHECK(ops.describe(other, 0, &info) == WEFT_OK && strcmp(info.name, "Fake GPU 1") == 0);
    ops.close(other);
    ZE_CHECK(fake->violations == 0 && !fake->contexts && !fake->lists && !fake->pools && !fake->events);
    return 0;
}

static void test_left(void **state)
{
    (void)state;
    assert_int_equal(test_child(close_without_an_end), 0);
}

static void test_two_drivers(void **state)
{
    (void)state;
    assert_int_equal(test_child(use_two_drivers), 0);
}

/* Nothing of it ends any more, and everything says so; what is in flight there stays where it is. */
static int lose_the_device(void)
{
    struct weft_device *device;
    struct ze_fake *fake = begin(&device);
    struct weft_device_queue *queue, *waiting;
    struct weft_device_event *before, *event, *behind;
    void *memory;
    ZE_CHECK(fake);
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 100, &memory) == WEFT_OK);
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK && ops.queue_open(device, 0, &waiting) == WEFT_OK);
    ZE_CHECK(ops.mark(queue, &before) == WEFT_OK);
    while (ops.test(before) == 0)
        usleep(20);
    fake->is_lost = 1;
    ZE_CHECK(ops.copy(queue, memory, (char *)memory + 50, 50) == WEFT_OK &&
             ops.mark(queue, &event) == WEFT_OK);
    ZE_CHECK(ops.await(waiting, event) == WEFT_OK && ops.mark(waiting, &behind) == WEFT_OK);
    ZE_CHECK(ops.test(before) == 1);
    ZE_CHECK(ops.test(event) == WEFT_SYSTEM && strstr(ze_said, "work on device 0 has failed"));
    ZE_CHECK(ops.test(behind) == WEFT_SYSTEM && strstr(ze_said, "ZE_RESULT_ERROR_DEVICE_LOST"));
    ops.event_free(before);
    ops.event_free(event);
    ops.event_free(behind);
    return 0; /* as a process ends whose device is lost */
}

static void test_lost(void **state)
{
    (void)state;
    assert_int_equal(test_child(lose_the_device), 0);
}

/* A driver without immediate command lists gets command queues. */
static int go_without_immediate_lists(void)
{
    struct weft_device *device;
    struct ze_fake *fake = begin(&device);
    struct weft_device_queue *queues[2];
    struct weft_device_event *event;
    char *host, *memory;
    ZE_CHECK(fake);
    fake->no_immediate = 1;
    ZE_CHECK(ops.queue_open(device, 0, &queues[0]) == WEFT_OK &&
             ops.queue_open(device, 1, &queues[1]) == WEFT_OK);
    ZE_CHECK(fake->queues == 2 && fake->lists == 0);
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, 300, (void **)&host) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 300, (void **)&memory) == WEFT_OK);
    memset(host, 0, 300);
    for (int i = 1; i <= 200; i++) { /* in one queue and in the other by turns, each behind the one before */
        struct weft_device_queue *queue = queues[i % 2];
        host[0] = (char)i;
        ZE_CHECK(ops.copy(queue, memory, host, 100) == WEFT_OK);
        ZE_CHECK(ops.copy(queue, memory + 100, memory, 100) == WEFT_OK);
        ZE_CHECK(ops.copy(queue, host + 200, memory + 100, 100) == WEFT_OK &&
                 ops.mark(queue, &event) == WEFT_OK);
        ZE_CHECK(ops.await(queues[1 - i % 2], event) == WEFT_OK);
        while (ops.test(event) == 0)
            usleep(20);
        ZE_CHECK(ops.test(event) == 1 && host[200] == (char)i);
        ops.event_free(event);
    }
    ZE_CHECK(fake->lists < 200 && fake->violations == 0); /* lists are used again */
    ops.queue_close(queues[0]);
    ops.queue_close(queues[1]);
    ZE_CHECK(ops.release(device, host) == WEFT_OK && ops.release(device, memory) == WEFT_OK);
    ops.close(device);
    ZE_CHECK(fake->violations == 0 && !fake->contexts && !fake->lists && !fake->queues && !fake->pools);
    return 0;
}

static void test_no_immediate(void **state)
{
    (void)state;
    assert_int_equal(test_child(go_without_immediate_lists), 0);
}

/* A copy of pinned memory never has its caller wait in the driver: what it stands behind may have to come from that thread. It is in order with
 * what the queue holds, and reads its source when it comes to it. */
static int copy_pinned(void)
{
    enum { SIZE = 4096 };
    static char pages[2 * SIZE] __attribute__((aligned(SIZE)));
    struct weft_device *device;
    struct ze_fake *fake = begin(&device);
    struct weft_device_queue *queue;
    struct weft_device_event *late, *end;
    char *memory, *old;
    ZE_CHECK(fake && ops.pin(device, pages, sizeof pages) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 2 * SIZE, (void **)&memory) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, SIZE, (void **)&old) == WEFT_OK);
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK && (late = weft_ze_event_get(device, 0)));
    memset(old, 1, SIZE);
    ZE_CHECK(ops.await(queue, late) == WEFT_OK);
    ZE_CHECK(ops.copy(queue, memory, old, SIZE) == WEFT_OK);
    ZE_CHECK(ops.copy(queue, memory + SIZE, memory, SIZE) == WEFT_OK);
    fake->list_result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ZE_CHECK(ops.copy(queue, memory, pages, SIZE) == WEFT_NOMEM && strstr(ze_said, "copying 4096 bytes"));
    fake->list_result = 0;
    ZE_CHECK(ops.copy(queue, memory, pages, SIZE) == WEFT_OK);
    ZE_CHECK(ops.copy(queue, pages + SIZE, memory, SIZE) == WEFT_OK);
    ZE_CHECK(ops.copy(queue, old, memory + SIZE, SIZE) == WEFT_OK && ops.mark(queue, &end) == WEFT_OK);
    ZE_CHECK(ops.test(end) == 0 && fake->copies_waited == 0);
    memset(pages, 2, SIZE);
    memset(old, 3, SIZE);
    ZE_CHECK(device->driver.zeEventHostSignal(late->handle) == ZE_RESULT_SUCCESS);
    while (ops.test(end) == 0)
        usleep(20);
    ZE_CHECK(ops.test(end) == 1 && pages[SIZE] == 2 && pages[2 * SIZE - 1] == 2 && old[0] == 3);
    ops.event_free(end);
    ops.event_free(late);
    ops.queue_close(queue);
    ZE_CHECK(ops.unpin(device, pages, sizeof pages) == WEFT_OK);
    ZE_CHECK(ops.release(device, memory) == WEFT_OK && ops.release(device, old) == WEFT_OK);
    ops.close(device);
    ZE_CHECK(fake->violations == 0 && !fake->contexts && !fake->lists && !fake->queues && !fake->pools);
    return 0;
}

static void test_pinned(void **state)
{
    (void)state;
    assert_int_equal(test_child(copy_pinned), 0);
}

static __typeof__(zeMemGetAddressRange) *find_range;
static int ranges_found;

static ze_result_t count_ranges(ze_context_handle_t context, const void *memory, void **base, size_t *size)
{
    ranges_found++;
    return find_range(context, memory, base, size);
}

/* The driver is asked once for each side of a copy, and again for what lies in a second allocation. */
static int ask_once(void)
{
    struct weft_device *device;
    struct ze_fake *fake = begin(&device);
    struct weft_device_queue *queue;
    char *memory[3];
    ZE_CHECK(fake && ops.queue_open(device, 0, &queue) == WEFT_OK);
    for (int i = 0; i < 3; i++) /* side by side, where the driver has pages */
        ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, i < 2 ? 4096 : 8192, (void **)&memory[i]) ==
                 WEFT_OK);
    ZE_CHECK(memory[1] == memory[0] + 4096);
    find_range = device->driver.zeMemGetAddressRange;
    device->driver.zeMemGetAddressRange = count_ranges;
    ZE_CHECK(ops.copy(queue, memory[0], memory[1], 4096) == WEFT_OK && ranges_found == 2);
    ZE_CHECK(ops.copy(queue, memory[2], memory[0], 8192) == WEFT_OK && ranges_found == 2 + 4 + 2);
    ZE_CHECK(ze_scene_finish(&ops, queue) == 1);
    ops.queue_close(queue);
    for (int i = 0; i < 3; i++)
        ZE_CHECK(ops.release(device, memory[i]) == WEFT_OK);
    ops.close(device);
    ZE_CHECK(fake->violations == 0 && !fake->contexts);
    return 0;
}

static void test_asked(void **state)
{
    (void)state;
    assert_int_equal(test_child(ask_once), 0);
}

/* Many events at once: used again when nobody waits for them any more, whoever gave them back first. */
static int use_events_again(void)
{
    enum { ROUNDS = 300 };
    struct weft_device *device;
    struct ze_fake *fake = begin(&device);
    struct weft_device_queue *queues[2];
    ZE_CHECK(fake);
    ZE_CHECK(ops.queue_open(device, 0, &queues[0]) == WEFT_OK &&
             ops.queue_open(device, 1, &queues[1]) == WEFT_OK);
    for (int i = 0; i < ROUNDS; i++) {
        struct weft_device_event *event, *end;
        ZE_CHECK(ops.mark(queues[i % 2], &event) == WEFT_OK);
        ZE_CHECK(ops.await(queues[1 - i % 2], event) == WEFT_OK);
        ops.event_free(event); /* the other queue waits for it still, or not */
        ZE_CHECK(i % 10 || ops.mark(queues[1 - i % 2], &end) == WEFT_OK);
        while (i % 10 == 0 && ops.test(end) == 0)
            usleep(20);
        if (i % 10 == 0)
            ops.event_free(end);
    }
    ZE_CHECK(fake->events <= 128 && fake->violations == 0);
    ops.queue_close(queues[0]);
    ops.queue_close(queues[1]);
    ops.close(device);
    ZE_CHECK(fake->violations == 0 && !fake->contexts && !fake->lists && !fake->queues && !fake->pools &&
             !fake->events);
    return 0;
}

static void test_events(void **state)
{
    (void)state;
    assert_int_equal(test_child(use_events_again), 0);
}

/* --- the fake driver finds what the specification forbids */

#define PLANT(call, what)                                                                                    \
    do {                                                                                                     \
        fake->violations = 0;                                                                                \
        ZE_CHECK((call) != ZE_RESULT_SUCCESS);                                                               \
        ZE_CHECK(fake->violations == 1 && strstr(fake->first_violation, what));                              \
    } while (0)

static int plant(void)
{
    struct weft_device *device;
    struct ze_fake *fake = begin(&device);
    struct weft_device_queue *queue;
    struct weft_device_event *never, *event;
    void *memory, *freed;
    ZE_CHECK(fake);
    unsetenv("ZE_ENABLE_VALIDATION_LAYER");
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 100, &memory) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 100, &freed) == WEFT_OK);
    ZE_CHECK(ops.release(device, freed) == WEFT_OK);
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK);
    const struct weft_ze_driver *driver = &device->driver;
    ze_context_handle_t context = device->places[0].context;
    ze_command_list_handle_t list = queue->channel.list;
    PLANT(driver->zeCommandListAppendMemoryCopy(list, memory, freed, 100, NULL, 0, NULL),
          "memory that is not");
    PLANT(driver->zeCommandListAppendMemoryCopy(list, memory, memory, 101, NULL, 0, NULL),
          "memory that is not");
    never = weft_ze_event_get(device, 0); /* nothing signals it: what waits for it is in flight */
    event = weft_ze_event_get(device, 0);
    ZE_CHECK(never && event);
    ZE_CHECK(driver->zeCommandListAppendBarrier(list, NULL, 1, &never->handle) == ZE_RESULT_SUCCESS);
    ZE_CHECK(driver->zeCommandListAppendMemoryCopy(list, memory, (char *)memory + 50, 50, event->handle, 0,
                                                   NULL) == ZE_RESULT_SUCCESS);
    PLANT(driver->zeCommandListDestroy(list), "the device still runs the list");
    PLANT(driver->zeMemFree(context, memory), "a command in flight uses the memory");
    PLANT(driver->zeEventHostReset(never->handle), "a command in flight uses the event");
    PLANT(driver->zeEventDestroy(event->handle), "a command in flight uses the event");
    PLANT(driver->zeCommandListAppendBarrier(list, event->handle, 0, NULL), "has not been reset");
    PLANT(driver->zeCommandListAppendBarrier(list, NULL, 1, NULL), "numWaitEvents without phWaitEvents");
    PLANT(driver->zeEventPoolDestroy(device->places[0].pools->handle), "the pool still has events");
    PLANT(driver->zeContextDestroy(context), "the context still has objects");
    PLANT(driver->zeMemFree(context, (char *)memory + 1), "no allocation of this context");
    fake->violations = 0;
    return 0;
}

static void test_plant(void **state)
{
    (void)state;
    assert_int_equal(test_child(plant), 0);
}

/* The same of memory that leaves the process, and of what comes from others. */
static int plant_external(void)
{
    struct weft_device *device;
    struct ze_fake *fake = begin(&device);
    void *memory, *again;
    ze_ipc_mem_handle_t handle = {{0}};
    uint64_t number;
    ZE_CHECK(fake);
    unsetenv("ZE_ENABLE_VALIDATION_LAYER");
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 100, &memory) == WEFT_OK);
    const struct weft_ze_driver *driver = &device->driver;
    ze_context_handle_t context = device->places[0].context;
    ze_device_handle_t place = device->ordinals[0].device;
    ze_external_memory_export_fd_t to = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD};
    ze_memory_allocation_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES,
                                                    .pNext = &to};
    PLANT(driver->zeMemGetAllocProperties(context, memory, &properties, NULL), "stype is another struct's");
    to.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD;
    PLANT(driver->zeMemGetAllocProperties(context, memory, &properties, NULL), "flags name no type");
    to.flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF;
    fake->no_dmabuf = 1;
    PLANT(driver->zeMemGetAllocProperties(context, memory, &properties, NULL), "exports no memory");
    ze_external_memory_export_desc_t wish = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC,
                                             .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, .pNext = &wish};
    PLANT(driver->zeMemAllocDevice(context, &desc, 100, 0, place, &again), "exports no memory");
    fake->no_dmabuf = 0;
    wish.flags = 1u << 20;
    PLANT(driver->zeMemAllocDevice(context, &desc, 100, 0, place, &again), "flags that are none");
    ze_external_memory_import_fd_t from = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD,
                                           .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF |
                                                    ZE_EXTERNAL_MEMORY_TYPE_FLAG_OPAQUE_FD};
    desc.pNext = &from;
    PLANT(driver->zeMemAllocDevice(context, &desc, 100, 0, place, &again), "flags name no one type");
    from.flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF;
    fake->no_import = 1;
    PLANT(driver->zeMemAllocDevice(context, &desc, 100, 0, place, &again), "imports no memory");
    PLANT(driver->zeMemGetIpcHandle(context, (char *)memory + 1, &handle), "not where device memory begins");
    ze_result_t (*put)(ze_context_handle_t, ze_ipc_mem_handle_t) = ze_scene_function("ze_fake_ipc_put");
    ze_result_t (*find)(ze_context_handle_t, ze_ipc_mem_handle_t, uint64_t *) =
        ze_scene_function("ze_fake_ipc_descriptor");
    ZE_CHECK(put && find);
    PLANT(put(context, handle), "no such handle");
    PLANT(find(context, handle, &number), "no such handle");
    ZE_CHECK(driver->zeMemGetIpcHandle(context, memory, &handle) == ZE_RESULT_SUCCESS);
    ZE_CHECK(put(context, handle) == ZE_RESULT_SUCCESS);
    PLANT(put(context, handle), "more are put than were got");
    PLANT(driver->zeDeviceCanAccessPeer(place, place, NULL), "value is NULL");
    fake->violations = 0;
    return 0;
}

static void test_plant_external(void **state)
{
    (void)state;
    assert_int_equal(test_child(plant_external), 0);
}

/* A queue is closed in time though what it waits for does not come; when it comes, all of it is given back. */
static int close_what_waits(void)
{
    struct weft_device *device;
    struct ze_fake *fake = begin(&device);
    struct weft_device_queue *queue, *other;
    ZE_CHECK(fake);
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK);
    struct weft_device_event *late = weft_ze_event_get(device, 0), *behind;
    ZE_CHECK(late && ops.await(queue, late) == WEFT_OK && ops.mark(queue, &behind) == WEFT_OK);
    ops.queue_close(queue);
    ZE_CHECK(fake->lists == 1 && ops.test(behind) == 0);
    ZE_CHECK(fake->violations == 0);
    ops.event_free(behind);
    ZE_CHECK(ops.queue_open(device, 0, &other) == WEFT_OK && fake->lists == 2);
    ZE_CHECK(device->driver.zeEventHostSignal(late->handle) == ZE_RESULT_SUCCESS);
    while (device->left) {
        weft_ze_queues_sweep(device);
        usleep(20);
    }
    ZE_CHECK(fake->lists == 1);
    weft_ze_event_put(late);
    ops.queue_close(other);
    ops.close(device);
    ZE_CHECK(fake->violations == 0 && !fake->contexts && !fake->lists && !fake->queues && !fake->pools &&
             !fake->events);
    return 0;
}

static void test_close(void **state)
{
    (void)state;
    assert_int_equal(test_child(close_what_waits), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_users_memory), cmocka_unit_test(test_failures),
        cmocka_unit_test(test_left),         cmocka_unit_test(test_two_drivers),
        cmocka_unit_test(test_lost),         cmocka_unit_test(test_no_immediate),
        cmocka_unit_test(test_events),       cmocka_unit_test(test_plant),
        cmocka_unit_test(test_close),        cmocka_unit_test(test_plant_external),
        cmocka_unit_test(test_pinned),       cmocka_unit_test(test_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
