/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/sim_seat.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "examples/device-sim/sim.h"
#include "tests/support/plugins.h"

static struct test_plugin plugin;

/* One file for all of the process's life: the library asks for its name once. */
static char log_path[64]; /* empty before the first prepare() */
static pid_t log_owner;   /* forked ranks log into it too, but leave it where it is */

#define FREED   "was freed before the work"
#define PREPARE "the test prepares devices: "

static void remove_log(void)
{
    if (getpid() == log_owner)
        unlink(log_path);
}

/* The line is looked for at the end: a log that says nothing because it goes elsewhere would hide what the devices say. */
static void prepare_log(const char *options)
{
    if (!log_path[0]) {
        char path[] = "/tmp/weft-test-sim-XXXXXX";
        int log = mkstemp(path);
        if (log < 0 || close(log)) {
            fprintf(stderr, "there is no room for a log\n");
            abort();
        }
        strcpy(log_path, path);
        log_owner = getpid();
        atexit(remove_log);
    }
    setenv("WEFT_LOG_FILE", log_path, 1);
    weft_log(WEFT_LOG_ERROR, PREPARE "%s", options);
}

/* Lines about work on memory that is gone: nobody may wait for that work any more. A log that cannot be read, or emptied for the next
 * devices, counts as one. */
static int end_log(void)
{
    char line[1024];
    int count = 0, is_kept = 0;
    FILE *file = fopen(log_path, "r");
    while (file && fgets(line, sizeof line, file)) {
        is_kept |= strstr(line, PREPARE) != NULL;
        if (!strstr(line, FREED))
            continue;
        fputs(line, stderr);
        count++;
    }
    if (file)
        fclose(file);
    if (is_kept && truncate(log_path, 0) == 0)
        return count;
    fprintf(stderr, "what devices say does not reach %s\n", log_path);
    return count + 1;
}

void sim_seats_prepare(const char *options)
{
    if (test_plugin_put("examples/device-sim/device-sim.so", &plugin) != 0) {
        fprintf(stderr, "the plug-in cannot be put\n");
        abort();
    }
    setenv("WEFT_DEVICE_PLUGIN", plugin.path, 1);
    setenv("WEFT_DEVICE_OPTIONS", options, 1);
    prepare_log(options);
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
    int left = counts.spans + counts.queues + counts.streams + counts.events + counts.waits;
    if (left)
        fprintf(stderr, "left on the device: %d spans, %d queues, %d streams, %d events, %d stream waits\n",
                counts.spans, counts.queues, counts.streams, counts.events, counts.waits);
    return left;
}

const struct device_bench sim_bench = {
    .kind = "sim", .options = "sim:seed=1", .streams = find_streams, .left = count_left};
