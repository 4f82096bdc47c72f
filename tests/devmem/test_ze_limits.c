/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze */
/* What i915 says of engines, from a folder with such files, and what a device collective says of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "devmem/ze/ze.h"
#include "tests/support/child.h"
#include "tests/support/sys_tree.h"
#include "tests/support/ze_scene.h"

#define ENGINES "/sys/bus/pci/devices/0000:10:00.0/drm/card1/engine" /* of the fake driver's first device */

static struct weft_device_ops ops; /* complete */
static struct weft_device *device;
static struct ze_fake *fake;

static char root[SYS_TREE_ROOT_MAX];

static int limit(const char *preempt, const char *heartbeat)
{
    sys_tree_file(root, ENGINES "/ccs0/preempt_timeout_ms", preempt);
    sys_tree_file(root, ENGINES "/ccs0/heartbeat_interval_ms", heartbeat);
    return weft_ze_limit_ms(device, 0);
}

static int run(struct weft_device_queue *queue, uint64_t *words)
{
    const struct weft_device_step step = {.kind = WEFT_DEVICE_STEP_SIGNAL, .word = words + 1, .value = 1};
    const struct weft_device_collective signal = ze_scene_signal(&step, words);
    return ops.run(queue, &signal);
}

static int read_and_say(void)
{
    static const char why[] = "may reset Level Zero device 0 when a device collective waits for a peer for "
                              "longer than 640 ms";
    struct weft_device_queue *queue;
    uint64_t *words;
    fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake && ops.count(device) == 2);
    ZE_CHECK(weft_ze_limit_ms(device, 1) == 0); /* the machine's own files, of which there are none */
    device->root = root;
    ZE_CHECK(weft_ze_limit_ms(device, 0) == 0);
    sys_tree_file(root, ENGINES "/bcs0/preempt_timeout_ms", "5"); /* it runs no kernels */
    ZE_CHECK(limit("7500", "2500") == 7500 && limit("0", "2500") == 2500);
    ZE_CHECK(limit("0", "0") == 0 && limit("-1", "x") == 0 && limit("7500", "2500") == 7500);
    sys_tree_file(root, ENGINES "/rcs0/preempt_timeout_ms", "640");
    ZE_CHECK(weft_ze_limit_ms(device, 0) == 640 && weft_ze_limit_ms(device, 1) == 0);
    *ze_logged = '\0';
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, 64, (void **)&words) == WEFT_OK);
    memset(words, 0, 64);
    ZE_CHECK(ze_logged_count(why) == 0); /* nobody has run any */
    for (int i = 0; i < 2 && weft_ze_has_kernels(); i++)
        ZE_CHECK(run(queue, words) == WEFT_OK && ze_scene_finish(&ops, queue) == 1 &&
                 ze_logged_count(why) == 1);
    ops.queue_close(queue);
    ZE_CHECK(ops.release(device, words) == WEFT_OK);
    return ze_scene_end(&ops, fake, device);
}

static void test_limits(void **state)
{
    (void)state;
    sys_tree_make(root);
    int failed = test_child(read_and_say);
    sys_tree_remove(root);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
