/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/fakes/verbs/; beside device-sim */
/* Device memory on a NIC in memory: what verbs takes of it, and how a context comes to its regions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#include "comm/drive/context.h"
#include "tests/fakes/verbs/verbs_nodes.h"
#include "tests/support/device_suite.h"
#include "transport/verbs/region.h"
#include "transport/verbs/verbs_private.h"

#define BYTES 100000
#define CAPS  (WEFT_CAP_DMABUF | WEFT_CAP_DEVICE_POINTER)

static uint8_t target[BYTES];

/* --- the transport */

static void what_verbs_takes(void **state)
{
    struct weft_transport_caps caps = {.size = sizeof caps};
    struct weft_device_memory memory = {
        .size = sizeof memory, .memory = target, .bytes = BYTES, .kind = "cuda", .fd = -1};
    struct weft_region *region = NULL;
    int pipes[2];
    (void)state;
    struct weft_transport *transport = verbs_nodes[0].transport;
    verbs_nodes_ops.caps(transport, &caps);
    assert_int_equal(caps.flags & CAPS, CAPS);
    assert_int_equal(verbs_nodes_ops.reg_device(transport, &memory, &region), WEFT_UNSUPPORTED);
    assert_non_null(strstr(weft_error_detail(), "take pointers of kind cuda"));
    memory.flags = WEFT_SPAN_PEER_MEMORY;
    /* Windows suit it, paging on demand does not: that would be found out at the first write. */
    transport->rails[0].limits.paging = 1;
    assert_int_equal(verbs_nodes_ops.reg_device(transport, &memory, &region), WEFT_OK);
    assert_true(region->is_windowed && !region->is_paged);
    verbs_nodes_ops.dereg(region);
    assert_int_equal(verbs_nodes_ops.reg(transport, target, BYTES, &region), WEFT_OK);
    assert_true(region->is_windowed && region->is_paged);
    verbs_nodes_ops.dereg(region);
    assert_int_equal(pipe(pipes), 0);
    memory.fd = pipes[0];
    memory.offset = (uintptr_t)target & 4095;
    assert_true(verbs_nodes_ops.reg_device(transport, &memory, &region) < 0);
    assert_non_null(strstr(weft_error_detail(), "a dma-buf of 100000 bytes"));
    close(pipes[0]);
    close(pipes[1]);
}

/* --- a context's */

static uint64_t registrations(weft_context *context)
{
    weft_context_lock(context);
    uint64_t count = context->regions.registrations;
    weft_context_unlock(context);
    return count;
}

static void region_use(weft_context *context, const void *memory, size_t size)
{
    struct weft_region *region = NULL;
    weft_context_lock(context);
    DEVICE_OK(weft_memory_region_get(context, WEFT_VERBS, memory, size, &region));
    weft_memory_region_put(context, WEFT_VERBS, region);
    weft_context_unlock(context);
}

static void contexts_keep_them(void **state)
{
    struct test_plugin plugin;
    weft_context *context;
    (void)state;
    assert_int_equal(test_plugin_put("examples/device-sim/device-sim.so", &plugin), 0);
    setenv("WEFT_DEVICE", "sim", 1);
    setenv("WEFT_DEVICE_PLUGIN", plugin.path, 1);
    setenv("WEFT_DEVICE_OPTIONS", "sim:seed=1,dmabuf=1", 1);
    DEVICE_OK(weft_context_open(NULL, &context));
    weft_context_lock(context);
    DEVICE_OK(weft_context_transport(context, WEFT_VERBS, "127.0.0.1"));
    weft_context_unlock(context);
    const struct weft_device_kind *kind = weft_devices_find(context->devices.kinds, "sim");
    assert_non_null(kind);
    char *memory = NULL;
    void *again;
    struct weft_region *region = NULL;
    DEVICE_OK(kind->ops.allocate(kind->device, 0, WEFT_MEMORY_DEVICE, BYTES, (void **)&memory));
    region_use(context, memory, BYTES);
    region_use(context, memory + 100, BYTES - 200);
    assert_int_equal(registrations(context), 1);
    /* As the program wishes. */
    DEVICE_OK(weft_mem_register(context, memory, BYTES));
    region_use(context, memory + 100, BYTES - 200);
    assert_int_equal(registrations(context), 2);
    weft_context_lock(context);
    DEVICE_OK(weft_memory_region_get(context, WEFT_VERBS, memory, BYTES, &region));
    weft_context_unlock(context);
    assert_int_equal(weft_mem_deregister(context, memory), WEFT_BUSY);
    weft_context_lock(context);
    weft_memory_region_put(context, WEFT_VERBS, region);
    weft_context_unlock(context);
    DEVICE_OK(weft_mem_deregister(context, memory));
    assert_int_equal(registrations(context), 1);
    DEVICE_OK(kind->ops.release(kind->device, memory));
    DEVICE_OK(kind->ops.allocate(kind->device, 0, WEFT_MEMORY_DEVICE, BYTES, &again));
    assert_ptr_equal(again, memory);
    region_use(context, again, BYTES);
    assert_int_equal(registrations(context), 1);
    DEVICE_OK(kind->ops.release(kind->device, again));
    /* What cannot be registered is said to be so, and asked for again only as other memory. */
    DEVICE_OK(kind->ops.allocate(kind->device, 0, WEFT_MEMORY_MANAGED, BYTES, &again));
    weft_context_lock(context);
    assert_int_equal(weft_memory_region_get(context, WEFT_VERBS, again, BYTES, &region), WEFT_UNSUPPORTED);
    weft_context_unlock(context);
    DEVICE_OK(weft_mem_register(context, again, BYTES));
    weft_context_lock(context);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weft_memory_region_get(context, WEFT_VERBS, again, BYTES, &region),
                         WEFT_UNSUPPORTED);
        assert_non_null(strstr(weft_error_detail(), i ? "as was found before" : "managed memory moves"));
    }
    weft_context_unlock(context);
    DEVICE_OK(weft_mem_deregister(context, again));
    DEVICE_OK(kind->ops.release(kind->device, again));
    DEVICE_OK(weft_context_close(context));
    test_plugin_remove(&plugin);
    unsetenv("WEFT_DEVICE");
    unsetenv("WEFT_DEVICE_PLUGIN");
    unsetenv("WEFT_DEVICE_OPTIONS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_verbs_takes, verbs_nodes_setup, verbs_nodes_teardown),
        cmocka_unit_test(contexts_keep_them),
    };
    setenv("WEFT_LOG", "error", 0);
    return cmocka_run_group_tests_name("devices' memory on a NIC", tests, NULL, NULL);
}
