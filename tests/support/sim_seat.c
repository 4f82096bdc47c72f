#include "tests/support/sim_seat.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "examples/device-sim/sim.h"
#include "tests/support/case_device.h"
#include "tests/support/plugins.h"

static struct test_plugin plugin;

static void expect(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, weft_error_detail());
    abort();
}

void sim_seats_prepare(const char *options)
{
    expect(test_plugin_put("examples/device-sim/device-sim.so", &plugin) == 0, "the plug-in");
    setenv("WEFT_DEVICE_PLUGIN", plugin.path, 1);
    setenv("WEFT_DEVICE_OPTIONS", options, 1);
}

void sim_seats_end(void)
{
    unsetenv("WEFT_DEVICE_PLUGIN");
    unsetenv("WEFT_DEVICE_OPTIONS");
    test_plugin_remove(&plugin);
}

/* Its own memory and copies never fail: the options are those of contexts. */
void sim_seat_take(struct sim_seat *seat)
{
    expect(weft_devices_create("host,sim", plugin.path, "sim:seed=1", &seat->devices) == 0, "a set of kinds");
    seat->kind = weft_devices_find(seat->devices, "sim");
    expect(seat->kind != NULL, "the simulated device");
}

int sim_seat_left(const struct sim_seat *seat)
{
    const struct sim_api *api = dlsym(seat->kind->plugin.handle, SIM_API_SYMBOL);
    struct sim_counts counts;
    expect(api != NULL, "the simulated device's own calls");
    api->counts(&counts);
    int left = counts.spans + counts.queues + counts.streams + counts.events + counts.gates;
    if (left)
        fprintf(stderr, "left on the device: %d spans, %d queues, %d streams, %d events, %d gates\n",
                counts.spans, counts.queues, counts.streams, counts.events, counts.gates);
    return left;
}

void sim_seat_leave(struct sim_seat *seat)
{
    weft_devices_destroy(seat->devices);
}

void *sim_seat_get(const struct sim_seat *seat, int ordinal, size_t bytes)
{
    void *memory = NULL;
    bytes = bytes ? bytes : 1;
    if (ordinal < 0)
        memory = malloc(bytes);
    else
        expect(seat->kind->ops.allocate(seat->kind->device, ordinal, WEFT_MEMORY_DEVICE, bytes, &memory) == 0,
               "device memory");
    expect(memory != NULL, "memory");
    return memory;
}

void sim_seat_put(const struct sim_seat *seat, int ordinal, void *memory)
{
    if (ordinal < 0)
        free(memory);
    else
        expect(seat->kind->ops.release(seat->kind->device, memory) == 0, "giving device memory back");
}

void sim_seat_store(const struct sim_seat *seat, int ordinal, void *memory, const uint8_t *bytes, size_t size)
{
    if (ordinal < 0)
        memcpy(memory, bytes, size);
    else
        case_device_move(seat->kind, ordinal, memory, bytes, size);
}

void sim_seat_load(const struct sim_seat *seat, int ordinal, uint8_t *bytes, const void *memory, size_t size)
{
    if (ordinal < 0)
        memcpy(bytes, memory, size);
    else
        case_device_move(seat->kind, ordinal, bytes, memory, size);
}
