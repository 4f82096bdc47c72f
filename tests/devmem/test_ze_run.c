/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze */
/* Device collectives of the kind "ze" where the conformance suite does not look: devices that cannot have them, what is said of that, memory that
 * kernels do not reach, and memory for steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "devmem/registry.h"
#include "devmem/ze/ze.h"
#include "tests/support/child.h"
#include "tests/support/skip.h"
#include "tests/support/ze_scene.h"

static struct weft_device_ops ops; /* complete */
static struct weft_device *device;
static struct ze_fake *fake;

static int has(int ordinal)
{
    struct weft_device_info info = {.size = sizeof info};
    return ops.describe(device, ordinal, &info) == WEFT_OK && (info.flags & WEFT_DEVICE_COLLECTIVES);
}

/* Signals words[1], as many times as there are steps, behind waiting for words[2]. */
static int run(struct weft_device_queue *queue, uint64_t *words, uint32_t steps)
{
    static struct weft_device_step all[WEFT_DEVICE_STEPS_MAX];
    const struct weft_device_collective collective = {.size = sizeof collective,
                                                      .dtype = WEFT_INT32,
                                                      .op = WEFT_SUM,
                                                      .step_count = steps,
                                                      .steps = all,
                                                      .stop = words};
    for (uint32_t i = 0; i < steps; i++)
        all[i] = (struct weft_device_step){.kind = i ? WEFT_DEVICE_STEP_SIGNAL : WEFT_DEVICE_STEP_AWAIT,
                                           .word = i ? words + 1 : words + 2,
                                           .value = i ? i : 1};
    return ops.run(queue, &collective);
}

/* A device that cannot: it does not say that it can, the log says why, once, and run() refuses by the same words. */
static int is_refused(const char *why, size_t field, uint32_t value)
{
    struct weft_device_queue *queue, *other;
    uint64_t *words;
    fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake);
    *ze_logged = '\0';
    memcpy((char *)fake + field, &value, sizeof value);
    fake->probe_looks = fake->stale_words ? 1 << 10 : 0; /* no stop ends it before those are over */
    ZE_CHECK(!has(0) && !has(0));
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK && ops.queue_open(device, 0, &other) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, 64, (void **)&words) == WEFT_OK);
    memset(words, 0, 64);
    ZE_CHECK(!has(0));
    for (int i = 0; i < 2; i++)
        ZE_CHECK(run(queue, words, 1) == WEFT_UNSUPPORTED && strstr(ze_said, why) &&
                 strstr(ze_said, "runs no device collectives"));
    ZE_CHECK(ze_logged_count("it runs no device collectives") == 1 && ze_logged_count(why) == 1);
    ops.queue_close(queue);
    ops.queue_close(other);
    ZE_CHECK(ops.release(device, words) == WEFT_OK);
    return ze_scene_end(&ops, fake, device) || fake->lists || fake->queues || fake->kernels;
}

static int one_at_a_time(void)
{
    return is_refused("Level Zero device 0 did not run two kernels side by side within 500 ms",
                      offsetof(struct ze_fake, one_at_a_time), 1);
}

static int host_unseen(void)
{
    return is_refused(
        "Level Zero device 0 did not run two kernels side by side that see what the host writes "
        "within 500 ms",
        offsetof(struct ze_fake, stale_words), 1);
}

/* Which nothing needs: of a word it is loads and stores. */
static int no_atomics(void)
{
    fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake);
    fake->no_atomics = 1;
    ZE_CHECK(has(0) && has(1));
    return ze_scene_end(&ops, fake, device);
}

/* A device that was busy when it was asked first: asked again it meets. Three times busy it is not asked any more. */
static int busy(void)
{
    for (int times = 1; times <= 3; times += 2) {
        fake = ze_scene_begin(&ops, &device);
        ZE_CHECK(fake);
        *ze_logged = '\0';
        fake->busy = 1;
        for (int i = 0; i < times; i++)
            ZE_CHECK(!has(0));
        fake->busy = 0;
        ZE_CHECK(has(0) == (times == 1));
        ZE_CHECK(ze_logged_count("did not begin a kernel within 500 ms; it runs no device collectives") ==
                 (times == 3));
        ops.close(device);
        device = NULL;
        ZE_CHECK(!fake->violations && !fake->lists && !fake->queues);
    }
    return 0;
}

static int no_module(void)
{
    return is_refused("loading kernels for device collectives of bits on device 0",
                      offsetof(struct ze_fake, module_result), ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
}

/* Kernels that meet, and what then is not reached. */
static int reach(void)
{
    struct weft_device_queue *queue;
    uint64_t *words, *pages;
    fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake && posix_memalign((void **)&pages, 4096, 4096) == 0);
    memset(pages, 0, 4096);
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK && has(0) && has(1));
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, 64, (void **)&words) == WEFT_OK);
    memset(words, 0, 64);
    ZE_CHECK(ops.pin(device, pages, 4096) == WEFT_OK);
    ZE_CHECK(run(queue, pages, 1) == WEFT_UNSUPPORTED && strstr(ze_said, "stop is at"));
    struct weft_device_step step = {.kind = WEFT_DEVICE_STEP_SIGNAL, .word = pages, .value = 1};
    const struct weft_device_collective signal = {.size = sizeof signal,
                                                  .dtype = WEFT_INT32,
                                                  .op = WEFT_SUM,
                                                  .step_count = 1,
                                                  .steps = &step,
                                                  .stop = words};
    ZE_CHECK(ops.run(queue, &signal) == WEFT_UNSUPPORTED);
    ZE_CHECK(strstr(ze_said, "step 0 of a device collective: ") && strstr(ze_said, "did not allocate"));
    fake->append_result = ZE_RESULT_ERROR_UNKNOWN;
    step.word = words + 1;
    int before = fake->allocations;
    ZE_CHECK(ops.run(queue, &signal) == WEFT_SYSTEM && strstr(ze_said, "launching a device collective"));
    ZE_CHECK(fake->allocations == before);
    fake->append_result = 0;
    ZE_CHECK(ops.run(queue, &signal) == WEFT_OK && ze_scene_finish(&ops, queue) == 1 && words[1] == 1);
    ZE_CHECK(ops.unpin(device, pages, 4096) == WEFT_OK);
    ops.queue_close(queue);
    ZE_CHECK(ops.release(device, words) == WEFT_OK);
    free(pages);
    return ze_scene_end(&ops, fake, device);
}

/* One behind the other, each with memory of its own as long as the one before waits, and that is used again. */
static int keep_steps(void)
{
    enum { WAITING = 3, ROUNDS = 50 };
    struct weft_device_queue *queue;
    uint64_t *words;
    fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake && ops.queue_open(device, 0, &queue) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, 64, (void **)&words) == WEFT_OK);
    memset(words, 0, 64);
    int before = fake->allocations;
    for (int i = 0; i < WAITING; i++)
        ZE_CHECK(run(queue, words, 3 + (uint32_t)i) == WEFT_OK);
    ZE_CHECK(fake->allocations == before + WAITING && words[1] == 0);
    __atomic_store_n(&words[2], 1, __ATOMIC_RELEASE);
    ZE_CHECK(ze_scene_finish(&ops, queue) == 1 && words[1] == 2 + WAITING - 1);
    for (uint32_t i = 0; i < ROUNDS; i++)
        ZE_CHECK(run(queue, words, 8 + i % 3) == WEFT_OK && ze_scene_finish(&ops, queue) == 1);
    ZE_CHECK(fake->allocations == before + WAITING && words[1] == 7 + (ROUNDS - 1) % 3);
    ops.queue_close(queue);
    ZE_CHECK(fake->allocations == before && ops.release(device, words) == WEFT_OK);
    return ze_scene_end(&ops, fake, device);
}

static void in_a_child(int (*function)(void))
{
    if (!weft_ze_has_kernels())
        TEST_SKIP("the library was built without clang or llvm-spirv");
    assert_int_equal(test_child(function), 0);
}

#define TEST(name, function)                                                                                 \
    static void name(void **state)                                                                           \
    {                                                                                                        \
        (void)state;                                                                                         \
        in_a_child(function);                                                                                \
    }
TEST(test_alone, one_at_a_time)
TEST(test_host, host_unseen)
TEST(test_atomics, no_atomics)
TEST(test_busy, busy)
TEST(test_build, no_module)
TEST(test_reach, reach)
TEST(test_steps, keep_steps)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alone),   cmocka_unit_test(test_host),
                                       cmocka_unit_test(test_atomics), cmocka_unit_test(test_busy),
                                       cmocka_unit_test(test_build),   cmocka_unit_test(test_reach),
                                       cmocka_unit_test(test_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
