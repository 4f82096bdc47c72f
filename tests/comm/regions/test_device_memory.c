/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside device-sim */
/* Command queues for device memory: the first one of a device, which loads what the device computes with, is opened without the context's
 * lock, and memory that is too much goes back without it. */
#include "comm/regions/device_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <weft/weft.h>

#include "base/error.h"
#include "examples/device-sim/sim.h"
#include "tests/support/plugins.h"

static struct test_plugin plugin;
static struct weft_context *context;
static const struct weft_device_kind *sim;
static struct weft_device_kind kind; /* sim's, watched */
static int opened, opened_locked, opening_fails;

static int watch_queue_open(struct weft_device *device, int ordinal, struct weft_device_queue **queue)
{
    opened++;
    if (pthread_mutex_trylock(&context->lock) == 0)
        pthread_mutex_unlock(&context->lock);
    else
        opened_locked++;
    return opening_fails ? weft_fail(WEFT_NOMEM, "the test's device has no queues")
                         : sim->ops.queue_open(device, ordinal, queue);
}

static int set_up(void **state)
{
    (void)state;
    if (test_plugin_put("examples/device-sim/device-sim.so", &plugin) != 0)
        return -1;
    setenv("WEFT_DEVICE_PLUGIN", plugin.path, 1);
    if (weft_context_open(NULL, &context) != WEFT_OK ||
        !(sim = weft_devices_find(context->devices.kinds, "sim")))
        return -1;
    kind = *sim;
    kind.ops.queue_open = watch_queue_open;
    opened = opened_locked = opening_fails = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    int status = weft_context_close(context);
    test_plugin_remove(&plugin);
    return status;
}

static void first_command_queues(void **state)
{
    (void)state;
    struct weft_command_queue *queues[3];
    weft_context_lock(context);
    for (int i = 0; i < 3; i++) {
        const struct weft_where where = {.kind = &kind, .ordinal = i / 2};
        assert_int_equal(weft_where_command_queue(context, &where, &queues[i]), WEFT_OK);
        assert_int_equal(weft_command_queue_ordinal(queues[i]), i / 2);
    }
    for (int i = 0; i < 3; i++)
        weft_command_queue_put(queues[i]);
    weft_context_unlock(context);
    assert_int_equal(opened, 3);
    assert_int_equal(opened_locked, 1); /* the second one of device 0 */
}

static void prepared(void **state)
{
    (void)state;
    const struct weft_where where = {.kind = &kind, .ordinal = 1};
    struct weft_command_queue *commands;
    for (int i = 0; i < 2; i++)
        weft_where_prepare(context, &where);
    weft_context_lock(context);
    assert_int_equal(weft_where_next_command_queue(context, &where, &commands), WEFT_OK);
    weft_command_queue_put(commands);
    weft_context_unlock(context);
    assert_int_equal(opened, 1);
    assert_int_equal(opened_locked, 0);
}

/* The operation that needs the command queue says it. */
static void not_prepared(void **state)
{
    (void)state;
    const struct weft_where where = {.kind = &kind, .ordinal = 0};
    struct weft_command_queue *commands;
    opening_fails = 1;
    weft_where_prepare(context, &where);
    assert_string_equal(weft_error_detail(), "");
    weft_context_lock(context);
    assert_int_equal(weft_where_next_command_queue(context, &where, &commands), WEFT_NOMEM);
    weft_context_unlock(context);
    assert_string_equal(weft_error_detail(), "the test's device has no queues");
}

static int spans(const struct sim_api *api)
{
    struct sim_counts counts;
    api->counts(&counts);
    return counts.spans;
}

/* What a command queue has outgrown goes back when no stream stands at a stream wait, since that may wait for streams. */
static void given_back(void **state)
{
    (void)state;
    const struct weft_where where = {.kind = &kind, .ordinal = 0};
    const struct sim_api *api = dlsym(sim->plugin.handle, SIM_API_SYMBOL);
    struct weft_command_queue *commands, *other;
    void *memory, *stream;
    assert_non_null(api);
    assert_int_equal(api->stream_open(0, &stream), 0);
    weft_context_lock(context);
    assert_int_equal(weft_where_command_queue(context, &where, &commands), WEFT_OK);
    assert_int_equal(weft_where_command_queue(context, &where, &other), WEFT_OK);
    assert_int_equal(weft_command_queue_memory(commands, WEFT_COMMAND_QUEUE_PLAN, 1000, &memory), 0);
    assert_int_equal(weft_command_queue_memory(commands, WEFT_COMMAND_QUEUE_PLAN, 5000, &memory), 0);
    assert_int_equal(weft_command_queue_close_wait(other, stream), 0);
    weft_where_tidy(context);
    assert_int_equal(spans(api), 2);
    assert_int_equal(atomic_load(&context->regions.has_surplus), 1);
    weft_command_queue_put(other);
    weft_where_tidy(context);
    assert_int_equal(spans(api), 1);
    assert_int_equal(atomic_load(&context->regions.has_surplus), 0);
    weft_command_queue_put(commands);
    weft_context_unlock(context);
    assert_int_equal(api->stream_sync(stream), 0);
    assert_int_equal(api->stream_close(stream), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(first_command_queues, set_up, tear_down),
        cmocka_unit_test_setup_teardown(prepared, set_up, tear_down),
        cmocka_unit_test_setup_teardown(not_prepared, set_up, tear_down),
        cmocka_unit_test_setup_teardown(given_back, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
