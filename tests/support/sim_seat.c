#include "tests/support/sim_seat.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/device-sim/sim.h"
#include "tests/support/plugins.h"

static struct test_plugin plugin;

void sim_seats_prepare(const char *options)
{
    if (test_plugin_put("examples/device-sim/device-sim.so", &plugin) != 0) {
        fprintf(stderr, "the plug-in cannot be put\n");
        abort();
    }
    setenv("WEFT_DEVICE_PLUGIN", plugin.path, 1);
    setenv("WEFT_DEVICE_OPTIONS", options, 1);
}

void sim_seats_end(void)
{
    unsetenv("WEFT_DEVICE_PLUGIN");
    unsetenv("WEFT_DEVICE_OPTIONS");
    test_plugin_remove(&plugin);
}

static const struct sim_api *api_of(const struct weft_device_kind *kind)
{
    const struct sim_api *api = dlsym(kind->plugin.handle, SIM_API_SYMBOL);
    if (!api) {
        fprintf(stderr, "the simulated device lacks its own calls\n");
        abort();
    }
    return api;
}

static void find_streams(const struct weft_device_kind *kind, struct device_streams *streams)
{
    const struct sim_api *api = api_of(kind);
    *streams = (struct device_streams){api->stream_open, api->stream_close, api->stream_wait,
                                       api->stream_fill, api->stream_sync,  api->stream_is_idle};
}

static int count_left(const struct device_seat *seat)
{
    struct sim_counts counts;
    api_of(seat->kind)->counts(&counts);
    int left = counts.spans + counts.queues + counts.streams + counts.events + counts.gates;
    if (left)
        fprintf(stderr, "left on the device: %d spans, %d queues, %d streams, %d events, %d gates\n",
                counts.spans, counts.queues, counts.streams, counts.events, counts.gates);
    return left;
}

const struct device_bench sim_bench = {
    .kind = "sim", .options = "sim:seed=1", .streams = find_streams, .left = count_left};
