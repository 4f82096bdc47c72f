/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside plugins; injected */
/* Each allocation and each system call of making a set of kinds of devices with a plug-in fails in turn: WEFT_NOMEM, or a set
 * in which the plug-in has its reason and host memory works; nothing is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "devmem/devices.h"
#include "tests/faults/inject.h"
#include "tests/support/leak.h"
#include "tests/support/plugins.h"
#include <weft/weft.h>

/* One set, from its making to its end. Whether the plug-in was usable. */
static int use(const char *path)
{
    struct weft_devices *devices;
    struct weft_device_span span;
    int status = weft_devices_create("least", path, "least:x=1", &devices);
    if (status != WEFT_OK) {
        assert_int_equal(status, WEFT_NOMEM);
        return 0;
    }
    assert_string_equal(weft_devices_identify(devices, &span, &span)->name, "host");
    assert_non_null(weft_devices_find(devices, "host"));
    int is_usable = weft_devices_find(devices, "least") != NULL;
    for (int i = 0; i < weft_devices_count(devices); i++) {
        const struct weft_device_kind *kind = weft_devices_kind(devices, i);
        assert_true(kind->status == WEFT_OK || strlen(kind->reason) > 0);
    }
    weft_devices_destroy(devices);
    return is_usable;
}

static void every_call_fails_in_turn(void **state)
{
    static const int calls[] = {FAULT_MALLOC, FAULT_CALLOC,     FAULT_STRDUP, FAULT_OPEN, FAULT_OPENAT,
                                FAULT_FSTAT,  FAULT_READLINKAT, FAULT_DLOPEN, FAULT_DLSYM};
    struct test_plugin plugin;
    struct test_leak before;
    uint32_t failures = 0, unusable = 0;
    (void)state;
    assert_int_equal(test_plugin_put("tests/fakes/plugins/least.so", &plugin), 0);
    assert_int_equal(use(plugin.path), 1);
    test_leak_take(&before);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        for (uint32_t k = 1;; k++) {
            struct fault_aim aim = {.call = calls[c], .way = 0, .k = k};
            struct fault_report report;
            size_t blocks = fault_blocks_live();
            fault_arm(&aim);
            int is_usable = use(plugin.path);
            fault_disarm(&report);
            assert_true(is_usable || report.reached);
            unusable += !is_usable;
            assert_int_equal(fault_blocks_live(), blocks);
            if (!report.reached)
                break;
            failures++;
        }
    }
    assert_int_equal(test_leak_check(&before), 0);
    assert_in_range(failures, 15, 60);
    assert_in_range(unusable, 12, failures); /* what fails may be another kind's */
    test_plugin_remove(&plugin);
}

int main(void)
{
    setenv("WEFT_LOG", "none", 0);
    fault_start();
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_call_fails_in_turn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
