#include "tests/support/sim_seat.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/device-sim/sim.h"
#include "tests/support/plugins.h"

static struct test_plugin plugin;
static char log_path[64];

static void prepare_log(void)
{
    strcpy(log_path, "/tmp/weft-test-sim-XXXXXX");
    int log = mkstemp(log_path);
    if (log < 0 || close(log)) {
        fprintf(stderr, "there is no room for a log\n");
        abort();
    }
    setenv("WEFT_LOG_FILE", log_path, 1);
}

/* Lines about work on memory that is gone: nobody may wait for that work any more. */
static int end_log(void)
{
    char line[1024];
    int count = 0;
    FILE *file = fopen(log_path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (!strstr(line, "was freed before the work"))
            continue;
        fputs(line, stderr);
        count++;
    }
    if (file)
        fclose(file);
    unlink(log_path);
    unsetenv("WEFT_LOG_FILE");
    return count;
}

void sim_seats_prepare(const char *options)
{
    if (test_plugin_put("examples/device-sim/device-sim.so", &plugin) != 0) {
        fprintf(stderr, "the plug-in cannot be put\n");
        abort();
    }
    setenv("WEFT_DEVICE_PLUGIN", plugin.path, 1);
    setenv("WEFT_DEVICE_OPTIONS", options, 1);
    prepare_log();
}

int sim_seats_end(void)
{
    unsetenv("WEFT_DEVICE_PLUGIN");
    unsetenv("WEFT_DEVICE_OPTIONS");
    test_plugin_remove(&plugin);
    return end_log();
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
