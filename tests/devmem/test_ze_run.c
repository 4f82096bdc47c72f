/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze */
/* Device collectives of the kind "ze" where the conformance suite does not look: devices that cannot have them, what is said of that, memory that
 * kernels do not reach, and memory for steps. */
#include <pthread.h>
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
#include "devmem/ze/launch.h"
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
    return is_refused("Level Zero device 0 runs no queue beside a kernel that waits, within 500 ms",
                      offsetof(struct ze_fake, one_at_a_time), 1);
}

/* Kernels alone would get on beside each other there. What has a barrier in front does not. */
static int one_engine(void)
{
    return is_refused("Level Zero device 0 runs no queue beside a kernel that waits, within 500 ms",
                      offsetof(struct ze_fake, one_engine), 1);
}

static int host_unseen(void)
{
    return is_refused("Level Zero device 0 has kernels that do not see what the host writes, within 500 ms",
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

/* A kernel that others get on beside, and what then is not reached. */
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
    const struct weft_device_collective signal = ze_scene_signal(&step, words);
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

/* A device with a queue, and eight words that are 0. */
static int begin(struct weft_device_queue **queue, uint64_t **words)
{
    fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake && ops.queue_open(device, 0, queue) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, 64, (void **)words) == WEFT_OK);
    memset(*words, 0, 64);
    return 0;
}

/* Nothing has to be appended behind a launch for its end to be known. */
static int fail_behind(void)
{
    struct weft_device_queue *queue;
    uint64_t *words;
    ZE_CHECK(begin(&queue, &words) == 0);
    int before = fake->allocations;
    fake->fails_behind_launch = ZE_RESULT_ERROR_UNKNOWN;
    ZE_CHECK(run(queue, words, 2) == WEFT_OK);
    fake->fails_behind_launch = fake->append_result = 0;
    __atomic_store_n(&words[2], 1, __ATOMIC_RELEASE);
    ZE_CHECK(ze_scene_finish(&ops, queue) == 1 && words[1] == 1);
    ZE_CHECK(run(queue, words, 2) == WEFT_OK && ze_scene_finish(&ops, queue) == 1);
    ZE_CHECK(fake->allocations == before + 1); /* the steps' memory has been used again */
    ops.queue_close(queue);
    ZE_CHECK(ops.release(device, words) == WEFT_OK);
    return ze_scene_end(&ops, fake, device);
}

/* A launch that has failed as memory was short may run later: its steps stay as they are, and the queue takes nothing any more. */
static int fail_late(void)
{
    struct weft_device_queue *queue;
    uint64_t *words;
    struct weft_device_step step = {.kind = WEFT_DEVICE_STEP_SIGNAL, .value = 1};
    ZE_CHECK(begin(&queue, &words) == 0);
    step.word = words + 1;
    const struct weft_device_collective signal = ze_scene_signal(&step, words);
    int before = fake->allocations;
    fake->append_late = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ZE_CHECK(ops.run(queue, &signal) == WEFT_NOMEM && strstr(ze_said, "launching a device collective"));
    fake->append_late = 0;
    ZE_CHECK(fake->allocations == before + 1);
    ZE_CHECK(ops.run(queue, &signal) == WEFT_NOMEM && strstr(ze_said, "takes nothing any more"));
    ops.queue_close(queue);
    ZE_CHECK(fake->allocations == before + 1 && words[1] == 0);
    ZE_CHECK(ops.release(device, words) == WEFT_OK);
    ops.close(device);
    return fake->violations != 0;
}

/* --- before peers wait */

static int ask(struct weft_device_queue *queue, weft_dtype dtype)
{
    _Alignas(16) char nothing[16] = {0};
    const void *const sources[] = {nothing, nothing};
    void *const destinations[] = {nothing};
    const struct weft_device_reduction none = {.size = sizeof none,
                                               .dtype = dtype,
                                               .op = WEFT_SUM,
                                               .source_count = 2,
                                               .destination_count = 1,
                                               .sources = sources,
                                               .destinations = destinations};
    return ops.reduce(queue, &none);
}

/* Who asks for a type has all of its kernels compiled. */
static int load_when_asked(void)
{
    struct weft_device_queue *queue;
    uint64_t *words;
    ZE_CHECK(begin(&queue, &words) == 0 && has(0));
    words[2] = 1;
    ZE_CHECK(ask(queue, WEFT_INT32) == WEFT_OK);
    int builds = fake->builds;
    ZE_CHECK(run(queue, words, 2) == WEFT_OK && ze_scene_finish(&ops, queue) == 1);
    ZE_CHECK(fake->builds == builds && ask(queue, WEFT_INT32) == WEFT_OK && fake->builds == builds);
    ops.queue_close(queue);
    ZE_CHECK(ops.release(device, words) == WEFT_OK);
    return ze_scene_end(&ops, fake, device);
}

static void *ask_for_float32(void *queue)
{
    return ask(queue, WEFT_FLOAT32) == WEFT_OK ? queue : NULL;
}

/* A stream call and a device collective, as a program makes them. */
static int use_stream(struct weft_device_queue *queue, uint64_t *words)
{
    const ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, .ordinal = 1};
    ze_command_list_handle_t stream;
    struct weft_device_event *event;
    struct weft_device_wait *wait;
    ZE_CHECK(device->driver.zeCommandListCreateImmediate(
                 device->places[0].context, device->ordinals[0].device, &desc, &stream) == ZE_RESULT_SUCCESS);
    ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &event) == WEFT_OK);
    ZE_CHECK(ops.wait_stream(device, 0, stream, &wait) == WEFT_OK);
    ZE_CHECK(run(queue, words, 2) == WEFT_OK && ops.wait_open(wait, queue) == WEFT_OK);
    ZE_CHECK(ze_scene_finish(&ops, queue) == 1 && words[1] == 1);
    while (ops.test(event) == 0)
        usleep(100);
    ops.event_free(event);
    ops.wait_free(wait);
    ZE_CHECK(ops.mark_stream(device, 0, stream, 0, &event) == WEFT_OK);
    while (ops.test(event) == 0)
        usleep(100);
    ops.event_free(event);
    return device->driver.zeCommandListDestroy(stream) != ZE_RESULT_SUCCESS;
}

/* While modules are compiled, nobody waits but who needs them; and each is compiled once. */
static int compile_beside(void)
{
    struct weft_device_queue *queue, *others[2];
    pthread_t threads[2];
    void *asked;
    uint64_t *words;
    ZE_CHECK(begin(&queue, &words) == 0 && ask(queue, WEFT_INT32) == WEFT_OK);
    words[2] = 1;
    for (int i = 0; i < 2; i++)
        ZE_CHECK(ops.queue_open(device, 0, &others[i]) == WEFT_OK);
    int builds = fake->builds;
    fake->compiler_waits = 1;
    for (int i = 0; i < 2; i++)
        ZE_CHECK(pthread_create(&threads[i], NULL, ask_for_float32, others[i]) == 0);
    while (fake->compiling == 0)
        usleep(100);
    alarm(60); /* who waits for the compiler waits for ever */
    ZE_CHECK(use_stream(queue, words) == 0 && ask(queue, WEFT_INT32) == WEFT_OK && has(0));
    ZE_CHECK(fake->compiling == 1);
    fake->compiler_waits = 0;
    for (int i = 0; i < 2; i++)
        ZE_CHECK(pthread_join(threads[i], &asked) == 0 && asked);
    ZE_CHECK(fake->builds == builds + 2); /* the type's two modules */
    ops.queue_close(queue);
    for (int i = 0; i < 2; i++)
        ops.queue_close(others[i]);
    ZE_CHECK(ops.release(device, words) == WEFT_OK);
    return ze_scene_end(&ops, fake, device);
}

/* Where those for device collectives alone fail, the host reduces the type: no call gets as far as run(). */
static int fail_when_asked(void)
{
    struct weft_device_queue *queue;
    fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake && ops.queue_open(device, 0, &queue) == WEFT_OK && has(0));
    *ze_logged = '\0';
    fake->bad_module = ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    for (int i = 0; i < 2; i++)
        ZE_CHECK(ask(queue, WEFT_INT32) == WEFT_UNSUPPORTED);
    ZE_CHECK(ze_logged_count("device collectives of int32 on device 0") == 1 &&
             ze_logged_count("the host reduces") == 1);
    ZE_CHECK(ask(queue, WEFT_FLOAT32) == WEFT_OK);
    ops.queue_close(queue);
    return ze_scene_end(&ops, fake, device);
}

/* --- memory of another device */

struct far {
    struct weft_device_queue *queue;
    uint64_t *stop, *memory; /* the second one on device 1 */
};

static int far_open(struct far *far)
{
    fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake && ops.queue_open(device, 0, &far->queue) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, 64, (void **)&far->stop) == WEFT_OK);
    memset(far->stop, 0, 64);
    *ze_logged = '\0';
    return ops.allocate(device, 1, WEFT_MEMORY_DEVICE, 64, (void **)&far->memory) != WEFT_OK;
}

static int far_run(const struct far *far)
{
    const struct weft_device_step step = {.kind = WEFT_DEVICE_STEP_SIGNAL, .word = far->memory, .value = 1};
    const struct weft_device_collective signal = ze_scene_signal(&step, far->stop);
    int status = ops.run(far->queue, &signal);
    return status == WEFT_OK && ze_scene_finish(&ops, far->queue) != 1 ? WEFT_SYSTEM : status;
}

static int far_close(const struct far *far)
{
    ops.queue_close(far->queue);
    ZE_CHECK(ops.release(device, far->memory) == WEFT_OK && ops.release(device, far->stop) == WEFT_OK);
    return ze_scene_end(&ops, fake, device) || fake->residents;
}

/* It is made resident when that is asked for, once, also what comes at the address of freed memory. */
static int make_resident(void)
{
    struct far far;
    ZE_CHECK(far_open(&far) == 0);
    ZE_CHECK(ops.reaches(device, 0, far.memory, 0) == 0);
    for (int round = 0; round < 3; round++) {
        const void *before = far.memory;
        ZE_CHECK(ops.reaches(device, 0, far.memory, 1) == 1 && ops.reaches(device, 0, far.memory, 0) == 1);
        ZE_CHECK(fake->residents == 1 && far_run(&far) == WEFT_OK && far_run(&far) == WEFT_OK);
        ZE_CHECK(fake->residents == 1 && fake->violations == 0);
        ZE_CHECK(ops.release(device, far.memory) == WEFT_OK && fake->residents == 0);
        ZE_CHECK(ops.allocate(device, 1, WEFT_MEMORY_DEVICE, 64, (void **)&far.memory) == WEFT_OK);
        ZE_CHECK(before == far.memory && ops.reaches(device, 0, far.memory, 0) == 0);
    }
    /* It is too late in run(): making it so may wait for the device, which a stream may keep until the call is queued. */
    ZE_CHECK(far_run(&far) == WEFT_UNSUPPORTED && strstr(ze_said, "which has not been made resident"));
    ZE_CHECK(fake->residents == 0 && fake->resident_calls == 3);
    ZE_CHECK(ops.reaches(device, 0, far.memory, 1) == 1 && far_run(&far) == WEFT_OK);
    ZE_CHECK(fake->residents == 1 && fake->resident_calls == 4);
    return far_close(&far);
}

/* Earlier releases of Intel's driver refuse it. Then there are no device collectives with such memory, which is said once. */
static int refuse_residents(void)
{
    struct far far;
    ZE_CHECK(far_open(&far) == 0);
    fake->resident_result = ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY; /* another time there may be some */
    ZE_CHECK(ops.reaches(device, 0, far.memory, 1) == 0 && far_run(&far) == WEFT_UNSUPPORTED);
    ZE_CHECK(ze_logged_count("such memory is used by copies alone") == 0);
    fake->resident_result = ZE_RESULT_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < 3; i++) {
        ZE_CHECK(ops.reaches(device, 0, far.memory, 1) == 0 && far_run(&far) == WEFT_UNSUPPORTED);
        ZE_CHECK(strstr(ze_said, "step 0 of a device collective: out of reach"));
    }
    ZE_CHECK(ze_logged_count("such memory is used by copies alone") == 1);
    ZE_CHECK(strstr(ze_logged, "making memory on device 1 at") && strstr(ze_logged, "INVALID_ARGUMENT"));
    return far_close(&far);
}

/* Of a part of a pool nobody can say where the driver would map it. */
static int refuse_parts(void)
{
    struct far far;
    void *parts[2];
    const ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ZE_CHECK(far_open(&far) == 0);
    fake->pool_bytes = 65536;
    for (int i = 0; i < 2; i++)
        ZE_CHECK(device->driver.zeMemAllocDevice(device->places[0].context, &desc, 512, 512,
                                                 device->ordinals[1].device, &parts[i]) == ZE_RESULT_SUCCESS);
    for (int i = 0; i < 2; i++)
        ZE_CHECK(ops.reaches(device, 0, parts[i], 1) == 0 && fake->resident_calls == 0);
    for (int i = 0; i < 2; i++)
        ZE_CHECK(device->driver.zeMemFree(device->places[0].context, parts[i]) == ZE_RESULT_SUCCESS);
    return far_close(&far);
}

/* Who may not wait does not take the launcher's lock. */
static int look_while_locked(void)
{
    struct far far;
    ZE_CHECK(far_open(&far) == 0 && ops.reaches(device, 0, far.memory, 1) == 1);
    struct weft_ze_launcher *launcher = weft_ze_launcher_look(device, 0);
    ZE_CHECK(launcher && ops.reaches(device, 0, far.memory, 0) == 1);
    pthread_mutex_unlock(&launcher->lock);
    return far_close(&far);
}

/* Memory on a device that is none of the kind's. */
static int unknown_owner(void)
{
    void *memory;
    const ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_device_handle_t all[2];
    uint32_t count = 2;
    fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake);
    fake->devices[1].type = ZE_DEVICE_TYPE_VPU;
    ZE_CHECK(ops.count(device) == 1 && has(0));
    ZE_CHECK(device->driver.zeDeviceGet(device->places[0].driver, &count, all) == ZE_RESULT_SUCCESS);
    ZE_CHECK(device->driver.zeMemAllocDevice(device->places[0].context, &desc, 64, 64, all[1], &memory) ==
             ZE_RESULT_SUCCESS);
    ZE_CHECK(ops.reaches(device, 0, memory, 1) == 0 && fake->resident_calls == 0);
    ZE_CHECK(device->driver.zeMemFree(device->places[0].context, memory) == ZE_RESULT_SUCCESS);
    return ze_scene_end(&ops, fake, device);
}

enum { PIECES = 300 };

struct asked {
    pthread_barrier_t barrier;
    void *memory[PIECES];
    const void *known;
    _Atomic int misses;
};

static void *ask_beside(void *arg)
{
    struct asked *asked = arg;
    for (int i = 0; i < PIECES; i++) {
        pthread_barrier_wait(&asked->barrier);
        asked->misses += ops.reaches(device, 0, asked->memory[i], 1) != 1;
        asked->misses += ops.reaches(device, 0, asked->known, 0) != 1;
    }
    return NULL;
}

static void *look_beside(void *arg)
{
    struct asked *asked = arg;
    for (int i = 0; i < PIECES; i++) {
        pthread_barrier_wait(&asked->barrier);
        for (int times = 0; times < 20; times++)
            asked->misses += ops.reaches(device, 0, asked->known, 0) != 1;
    }
    return NULL;
}

/* Two threads ask for the same memory, which is made resident once. What is resident is so for a third one all the time. */
static int ask_at_once(void)
{
    static struct asked asked;
    struct asked *both = &asked;
    struct far far;
    pthread_t threads[3];
    ZE_CHECK(far_open(&far) == 0 && ops.reaches(device, 0, far.memory, 1) == 1);
    ZE_CHECK(pthread_barrier_init(&both->barrier, NULL, 3) == 0);
    both->known = far.memory;
    for (int i = 0; i < PIECES; i++)
        ZE_CHECK(ops.allocate(device, 1, WEFT_MEMORY_DEVICE, 64, &both->memory[i]) == WEFT_OK);
    for (int i = 0; i < 3; i++)
        ZE_CHECK(pthread_create(&threads[i], NULL, i < 2 ? ask_beside : look_beside, both) == 0);
    for (int i = 0; i < 3; i++)
        ZE_CHECK(pthread_join(threads[i], NULL) == 0);
    ZE_CHECK(both->misses == 0 && fake->resident_calls == PIECES + 1 && fake->residents == PIECES + 1);
    for (int i = 0; i < PIECES; i++)
        ZE_CHECK(ops.release(device, both->memory[i]) == WEFT_OK);
    pthread_barrier_destroy(&both->barrier);
    return far_close(&far);
}

static ze_result_t do_nothing(ze_context_handle_t context, ze_device_handle_t of, void *memory, size_t size)
{
    (void)context, (void)of, (void)memory, (void)size;
    return ZE_RESULT_SUCCESS;
}

/* The fake driver finds a kernel that uses another device's memory which is not resident. */
static int plant_absent(void)
{
    struct far far;
    ZE_CHECK(far_open(&far) == 0);
    device->driver.zeContextMakeMemoryResident = do_nothing;
    ZE_CHECK(ops.reaches(device, 0, far.memory, 1) == 1);
    ZE_CHECK(far_run(&far) == WEFT_OK && fake->violations == 1);
    ZE_CHECK(strstr(fake->first_violation, "another device's memory that is not resident"));
    fake->violations = 0;
    return far_close(&far);
}

/* One behind the other, each with memory of its own as long as the one before waits, and that is used again. */
static int keep_steps(void)
{
    enum { WAITING = 3, ROUNDS = 50 };
    struct weft_device_queue *queue;
    uint64_t *words;
    ZE_CHECK(begin(&queue, &words) == 0);
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
TEST(test_engine, one_engine)
TEST(test_host, host_unseen)
TEST(test_atomics, no_atomics)
TEST(test_busy, busy)
TEST(test_build, no_module)
TEST(test_reach, reach)
TEST(test_steps, keep_steps)
TEST(test_behind, fail_behind)
TEST(test_late, fail_late)
TEST(test_compiler, compile_beside)
TEST(test_asked, load_when_asked)
TEST(test_asked_failed, fail_when_asked)
TEST(test_residents, make_resident)
TEST(test_residents_refused, refuse_residents)
TEST(test_parts, refuse_parts)
TEST(test_locked, look_while_locked)
TEST(test_owner, unknown_owner)
TEST(test_at_once, ask_at_once)
TEST(test_absent, plant_absent)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),     cmocka_unit_test(test_engine),
        cmocka_unit_test(test_host),      cmocka_unit_test(test_atomics),
        cmocka_unit_test(test_busy),      cmocka_unit_test(test_build),
        cmocka_unit_test(test_reach),     cmocka_unit_test(test_steps),
        cmocka_unit_test(test_residents), cmocka_unit_test(test_residents_refused),
        cmocka_unit_test(test_parts),     cmocka_unit_test(test_locked),
        cmocka_unit_test(test_owner),     cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_absent),    cmocka_unit_test(test_behind),
        cmocka_unit_test(test_compiler),  cmocka_unit_test(test_late),
        cmocka_unit_test(test_asked),     cmocka_unit_test(test_asked_failed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
