/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap weft_kernel_image; beside drivers */
/* Loading the kernels and launching them. What kernels compute is tested elsewhere; here they are counted and looked at. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "devmem/cuda/kernels.h"
#include "tests/support/bits.h"
#include "tests/support/cuda_checks.h"
#include "tests/support/cuda_scene.h"

#define COUNT 1000

static const struct weft_device_ops *ops = &weft_cuda_ops;
static struct cuda_fake *fake;
static struct weft_device *device;
static int has_image;

/* The fake loads anything. */
const void *__wrap_weft_kernel_image(size_t *size);
const void *__wrap_weft_kernel_image(size_t *size)
{
    *size = has_image ? 5 : 0;
    return has_image ? "image" : NULL;
}

static struct {
    char kernel[64];
    unsigned grid, block;
    struct weft_kernel_batch batch;
    int runs;
} ran;
static pthread_mutex_t ran_lock = PTHREAD_MUTEX_INITIALIZER; /* two streams may run at once */

/* Sums float32, which is what the test launches, in the fake's thread. */
static void run(const char *kernel, unsigned grid, unsigned block, const struct weft_kernel_batch *batch)
{
    pthread_mutex_lock(&ran_lock);
    strncpy(ran.kernel, kernel, sizeof ran.kernel - 1);
    ran.grid = grid;
    ran.block = block;
    ran.batch = *batch;
    ran.runs++;
    pthread_mutex_unlock(&ran_lock);
    for (uint32_t i = 0; i < batch->piece_count; i++) {
        const struct weft_kernel_piece *piece = &batch->pieces[i];
        for (uint64_t j = 0; j < piece->count; j++) {
            float sum = ((const float *)piece->sources[0])[j];
            for (uint32_t s = 1; s < piece->source_count; s++)
                sum += ((const float *)piece->sources[s])[j];
            for (int d = 0; d < 2; d++) {
                if (piece->destinations[d])
                    ((float *)piece->destinations[d])[j] = sum;
            }
        }
    }
}

static struct {
    char kernel[64];
    unsigned grid;
    uint32_t meeting, words;
    int runs;
} collectives;

static void run_collective(const char *kernel, unsigned grid, const struct weft_kernel_collective *collective)
{
    strncpy(collectives.kernel, kernel, sizeof collectives.kernel - 1);
    collectives.grid = grid;
    collectives.meeting = collective->meeting;
    collectives.words = collective->word_count;
    collectives.runs++;
}

static int setup(void **state)
{
    (void)state;
    int bad = scene_begin(&fake, &device, NULL);
    if (!bad)
        fake->run = run;
    if (!bad)
        fake->run_collective = run_collective;
    has_image = 1;
    memset(&ran, 0, sizeof ran);
    memset(&collectives, 0, sizeof collectives);
    return bad;
}

static int teardown(void **state)
{
    (void)state;
    return scene_end(fake, device, NULL);
}

static void *get(int ordinal, float value)
{
    void *memory = cuda_check_memory(device, ordinal, WEFT_MEMORY_DEVICE, COUNT * sizeof(float));
    float *bytes = fake->look(memory);
    for (int i = 0; i < COUNT; i++)
        bytes[i] = value + (float)i;
    return memory;
}

static struct weft_device_reduction sum_of(const void *const *sources, uint32_t source_count,
                                           void *const *destinations, uint32_t destination_count)
{
    return (struct weft_device_reduction){.size = sizeof(struct weft_device_reduction),
                                          .dtype = WEFT_FLOAT32,
                                          .op = WEFT_SUM,
                                          .source_count = source_count,
                                          .destination_count = destination_count,
                                          .sources = sources,
                                          .destinations = destinations,
                                          .count = COUNT};
}

static void test_sum(void **state)
{
    (void)state;
    void *a = get(0, 1), *b = get(0, 2), *c = get(0, 0), *d = get(1, 0), *pinned;
    assert_int_equal(ops->allocate(device, -1, WEFT_MEMORY_PINNED, COUNT * sizeof(float), &pinned), WEFT_OK);
    struct weft_device_queue *queue = cuda_check_queue(device, 0);
    const void *sources[] = {a, b};
    void *destinations[] = {c, pinned};
    struct weft_device_reduction reduction = sum_of(sources, 2, destinations, 2);
    assert_int_equal(ops->reduce(queue, &reduction), WEFT_OK);
    destinations[0] = d; /* device 1's, which device 0 reaches */
    assert_int_equal(ops->reduce(queue, &reduction), WEFT_OK);
    cuda_check_finish(queue);
    assert_int_equal(ran.runs, 2);
    assert_true(strncmp(ran.kernel, "weft_cuda_float32_sum", 21) == 0);
    assert_int_equal(ran.block, WEFT_KERNEL_THREADS);
    for (int i = 0; i < COUNT; i++) {
        float wanted = 3 + 2 * (float)i;
        assert_bits(((float *)fake->look(c))[i] == wanted && ((float *)fake->look(d))[i] == wanted &&
                    ((float *)pinned)[i] == wanted);
    }
    reduction.count = 0;
    assert_int_equal(ops->reduce(queue, &reduction), WEFT_OK);
    assert_int_equal(fake->calls("cuLaunchKernel"), 2);
    ops->queue_close(queue);
    queue = cuda_check_queue(device, 0);
    assert_int_equal(fake->calls("cuModuleLoadDataEx"), 1); /* loaded once */
    ops->queue_close(queue);
    ops->release(device, a);
    ops->release(device, b);
    ops->release(device, c);
    ops->release(device, d);
    ops->release(device, pinned);
}

static void test_refused(void **state)
{
    (void)state;
    float host[COUNT] = {0};
    void *a = get(0, 1);
    struct weft_device_queue *queue = cuda_check_queue(device, 0);
    const void *sources[] = {a, a};
    void *destinations[] = {a};
    struct weft_device_reduction reduction = sum_of(sources, 2, destinations, 1);
    reduction.op = WEFT_AND;
    assert_int_equal(ops->reduce(queue, &reduction), WEFT_UNSUPPORTED);
    cuda_check_said("device 0 (sm_90) does not reduce float32 by and from 2 sources into 1");
    reduction.op = WEFT_SUM;
    reduction.source_count = 9;
    assert_int_equal(ops->reduce(queue, &reduction), WEFT_INVALID);
    cuda_check_said("from 9 sources (1 to 8) into 1");
    reduction.source_count = 2;
    sources[1] = host;
    assert_int_equal(ops->reduce(queue, &reduction), WEFT_INVALID);
    cuda_check_said("it has to be pinned first");
    sources[1] = a;
    fake->let_fail("cuLaunchKernel", 701, 0);
    assert_int_equal(ops->reduce(queue, &reduction), WEFT_SYSTEM);
    cuda_check_said("launching weft_cuda_float32_sum");
    fake->let_fail("cuCtxPushCurrent_v2", 999, 0);
    assert_int_equal(ops->reduce(queue, &reduction), WEFT_SYSTEM);
    ops->queue_close(queue);
    ops->release(device, a);
}

/* Devices that do not reach each other: refused, before a kernel dies of it and takes the context along. */
static void test_unreachable(void **state)
{
    (void)state;
    fake->has_peers = 0;
    void *a = get(0, 1), *b = get(1, 1);
    struct weft_device_queue *queue = cuda_check_queue(device, 0);
    const void *sources[] = {a, b};
    void *destinations[] = {a};
    struct weft_device_reduction reduction = sum_of(sources, 2, destinations, 1);
    assert_int_equal(ops->reduce(queue, &reduction), WEFT_UNSUPPORTED);
    cuda_check_said("device 0 cannot reach memory on device 1");
    assert_int_equal(fake->calls("cuLaunchKernel"), 0);
    ops->queue_close(queue);
    /* The driver may say no where it said that it could. */
    fake->has_peers = 1;
    fake->let_fail("cuCtxEnablePeerAccess", 711, 0);
    queue = cuda_check_queue(device, 0);
    assert_int_equal(ops->reduce(queue, &reduction), WEFT_UNSUPPORTED);
    ops->queue_close(queue);
    queue = cuda_check_queue(device, 0);
    assert_int_equal(ops->reduce(queue, &reduction), WEFT_OK);
    cuda_check_finish(queue);
    ops->queue_close(queue);
    ops->release(device, a);
    ops->release(device, b);
}

/* Device memory that is used only after a queue was opened is reached when that is asked for, and not before. */
static void test_reached_later(void **state)
{
    (void)state;
    struct weft_device_queue *queue = cuda_check_queue(device, 0);
    void *a = get(0, 1), *b = get(1, 1), *pinned;
    const void *sources[] = {a, b};
    void *destinations[] = {a};
    struct weft_device_reduction reduction = sum_of(sources, 2, destinations, 1);
    assert_int_equal(ops->allocate(device, -1, WEFT_MEMORY_PINNED, 100, &pinned), WEFT_OK);
    assert_int_equal(ops->reaches(device, 0, a, 0), 1);
    assert_int_equal(ops->reaches(device, 0, pinned, 0), 1);
    assert_int_equal(ops->reaches(device, 0, b, 0), 0);
    assert_int_equal(ops->reduce(queue, &reduction), WEFT_UNSUPPORTED);
    fake->has_peers = 0;
    assert_int_equal(ops->reaches(device, 0, b, 1), 0);
    fake->has_peers = 1;
    assert_int_equal(ops->reaches(device, 0, b, 1), 1);
    assert_int_equal(ops->reaches(device, 0, b, 0), 1);
    assert_int_equal(ops->reaches(device, 1, a, 0), 0); /* one way */
    assert_int_equal(ops->reaches(device, 2, a, 1), 0);
    assert_int_equal(ops->reduce(queue, &reduction), WEFT_OK);
    cuda_check_finish(queue);
    ops->queue_close(queue);
    ops->release(device, a);
    ops->release(device, b);
    ops->release(device, pinned);
}

/* Access between contexts is no access to pools and mapped memory. */
static void test_other_access(void **state)
{
    (void)state;
    static const enum scene_way ways[] = {SCENE_MAPPED, SCENE_POOL};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct scene_memory theirs;
        CUcontext context;
        assert_int_equal(scene_enter(1, &context), 0);
        assert_int_equal(scene_memory_make(&theirs, ways[w], 1), 0);
        void *a = get(0, 1), *b = get(1, 1);
        struct weft_device_queue *queue = cuda_check_queue(device, 0);
        const void *sources[] = {a, (void *)theirs.memory};
        void *destinations[] = {a};
        struct weft_device_reduction reduction = sum_of(sources, 2, destinations, 1);
        assert_int_equal(ops->reaches(device, 0, b, 1), 1);
        assert_int_equal(ops->reaches(device, 0, sources[1], 1), 0);
        assert_int_equal(ops->reaches(device, 1, sources[1], 0), 1);
        assert_int_equal(ops->reduce(queue, &reduction), WEFT_UNSUPPORTED);
        ops->queue_close(queue);
        ops->release(device, a);
        ops->release(device, b);
        scene_memory_free(&theirs);
        assert_int_equal(scene_leave(1, context), 0);
    }
}

/* A device with nothing on it gets no context for the sake of being reached. */
static void test_makes_no_context(void **state)
{
    (void)state;
    struct weft_device_queue *queue = cuda_check_queue(device, 0);
    assert_int_equal(fake->calls("cuDevicePrimaryCtxRetain"), 1);
    assert_int_equal(fake->calls("cuCtxEnablePeerAccess"), 0);
    ops->queue_close(queue);
}

/* What keeps the kernels from being loaded is no reason for a queue to fail, and is said by every reduction. */
static void test_not_loaded(void **state)
{
    (void)state;
    static const struct {
        int result, status;
        const char *text, *call;
    } rows[] = {
        {222, WEFT_UNSUPPORTED,
         "loading the kernels on device 0 (sm_90) with a driver for CUDA 13.0: an unknown error, 222: ptxas "
         "fatal: too new",
         "cuModuleLoadDataEx"},
        {209, WEFT_UNSUPPORTED, "CUDA_ERROR_NO_BINARY_FOR_GPU, 209", "cuModuleLoadDataEx"},
        {2, WEFT_NOMEM, "CUDA_ERROR_OUT_OF_MEMORY", "cuModuleLoadDataEx"},
        {500, WEFT_SYSTEM, "loading weft_cuda_", "cuModuleGetFunction"},
        {2, WEFT_NOMEM, "loading weft_cuda_", "cuFuncLoad"},
        {0, WEFT_UNSUPPORTED, "was built without nvcc", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weft_device_info info = {.size = sizeof info};
        struct weft_device *fresh = scene_open();
        struct weft_device_queue *queue;
        void *memory;
        has_image = rows[i].result != 0;
        if (has_image)
            fake->let_fail(rows[i].call, rows[i].result, 0);
        assert_int_equal(ops->describe(fresh, 0, &info), WEFT_OK);
        assert_int_equal((info.flags & WEFT_DEVICE_REDUCES) != 0, has_image);
        assert_int_equal(ops->queue_open(fresh, 0, &queue), WEFT_OK);
        assert_int_equal(ops->allocate(fresh, 0, WEFT_MEMORY_DEVICE, 4000, &memory), WEFT_OK);
        const void *sources[] = {memory};
        void *destinations[] = {memory};
        struct weft_device_reduction reduction = sum_of(sources, 1, destinations, 1);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(ops->reduce(queue, &reduction), rows[i].status);
            cuda_check_said(rows[i].text);
        }
        ops->release(fresh, memory);
        ops->queue_close(queue);
        ops->close(fresh);
    }
}

/* Ranks that are threads have a set of kinds each, and streams of one context: what the first one's queue has loaded is there when the others
 * come, who may find a stream at a stream wait; and it stays while one of them is there. */
static void test_loaded_once(void **state)
{
    (void)state;
    struct weft_device *other = scene_open();
    struct weft_device_wait *wait;
    CUcontext context;
    CUstream stream;
    struct weft_device_queue *queue = cuda_check_queue(device, 0), *late;
    void *a = get(0, 1), *b = get(0, 0), *c = get(0, 0);
    const void *sources[] = {a};
    void *destinations[] = {b}, *late_destinations[] = {c};
    struct weft_device_reduction reduction = sum_of(sources, 1, destinations, 1);
    struct weft_device_reduction late_reduction = sum_of(sources, 1, late_destinations, 1);
    assert_int_equal(fake->calls("cuFuncLoad"), WEFT_KERNEL_COUNT);
    assert_int_equal(scene_enter(0, &context), 0);
    assert_int_equal(CU(cuStreamCreate)(&stream, 0), 0);
    assert_int_equal(ops->wait_stream(device, 0, stream, &wait), WEFT_OK);
    assert_int_equal(ops->queue_open(other, 0, &late), WEFT_OK);
    for (int op = WEFT_SUM; op <= WEFT_MIN; op++) {
        reduction.op = late_reduction.op = (weft_op)op;
        assert_int_equal(ops->reduce(queue, &reduction), WEFT_OK);
        assert_int_equal(ops->reduce(late, &late_reduction), WEFT_OK);
    }
    cuda_check_finish(queue);
    cuda_check_finish(late);
    assert_int_equal(ops->wait_open(wait, NULL), WEFT_OK);
    ops->wait_free(wait);
    scene_drain(stream);
    assert_int_equal(fake->late_loads(), 0);
    ops->release(device, a);
    ops->release(device, b);
    ops->release(device, c);
    ops->queue_close(queue);
    ops->close(device);
    assert_int_equal(fake->calls("cuModuleUnload"), 0);
    device = other;
    a = get(0, 1);
    sources[0] = destinations[0] = a;
    assert_int_equal(ops->reduce(late, &reduction), WEFT_OK);
    cuda_check_finish(late);
    ops->queue_close(late);
    ops->release(device, a);
    assert_int_equal(CU(cuStreamDestroy_v2)(stream), 0);
    assert_int_equal(scene_leave(0, context), 0);
    assert_int_equal(fake->calls("cuModuleLoadDataEx"), 1);
}

/* A copy from a to b, to be changed. */
static struct weft_device_collective collective_of(struct weft_device_step *step, void *a, void *b,
                                                   const uint64_t *stop)
{
    *step = (struct weft_device_step){
        .source_count = 1, .destination_count = 1, .count = COUNT, .sources = {a}, .destinations = {b}};
    return (struct weft_device_collective){
        sizeof(struct weft_device_collective), WEFT_FLOAT32, WEFT_SUM, 1, 0, step, stop};
}

static void test_collective(void **state)
{
    (void)state;
    struct weft_device_info info = {.size = sizeof info};
    struct weft_device_step step;
    void *a = get(0, 1), *b = get(1, 1), *stop;
    float host[COUNT] = {0};
    assert_int_equal(ops->describe(device, 0, &info), WEFT_OK);
    assert_int_equal(info.flags & (WEFT_DEVICE_COLLECTIVES | WEFT_DEVICE_COLLECTIVES_BESIDE),
                     WEFT_DEVICE_COLLECTIVES);
    assert_int_equal(ops->allocate(device, -1, WEFT_MEMORY_PINNED, 8, &stop), WEFT_OK);
    struct weft_device_queue *queue = cuda_check_queue(device, 0);
    struct weft_device_collective collective = collective_of(&step, a, b, stop);
    assert_int_equal(ops->run(queue, &collective), WEFT_OK);
    cuda_check_finish(queue);
    assert_int_equal(collectives.runs, 1);
    assert_int_equal(collectives.words, 6);
    assert_string_equal(collectives.kernel, "weft_cuda_float32_sum_collective");
    step.count = 0;
    assert_int_equal(ops->run(queue, &collective), WEFT_OK);
    assert_int_equal(fake->calls("cuLaunchKernel"), 1);

    step.count = COUNT + 1; /* beyond its end */
    assert_int_equal(ops->run(queue, &collective), WEFT_INVALID);
    cuda_check_said("step 0 of a device collective: ");
    step.count = COUNT;
    step.sources[0] = host;
    assert_int_equal(ops->run(queue, &collective), WEFT_INVALID);
    cuda_check_said("is memory that CUDA device 0 cannot use: it has to be pinned first");
    step.sources[0] = a;
    collective.op = WEFT_AND;
    assert_int_equal(ops->run(queue, &collective), WEFT_UNSUPPORTED);
    cuda_check_said("device 0 (sm_90) does not reduce float32 by and in device collectives");
    collective.op = WEFT_SUM;
    collective.stop = a;
    assert_int_equal(ops->run(queue, &collective), WEFT_INVALID);
    cuda_check_said("no pinned memory");
    collective.stop = stop;
    fake->let_fail("cuLaunchKernel", 701, 0);
    assert_int_equal(ops->run(queue, &collective), WEFT_SYSTEM);
    cuda_check_said("launching weft_cuda_float32_sum_collective");
    fake->let_fail("cuEventRecord", 999, 0);
    assert_int_equal(ops->run(queue, &collective), WEFT_SYSTEM);
    cuda_check_said("marking the end of a device collective on device 0");
    ops->queue_close(queue);

    /* A device that does not reach the other one. */
    fake->has_peers = 0;
    struct weft_device *fresh = scene_open();
    assert_int_equal(ops->queue_open(fresh, 0, &queue), WEFT_OK);
    assert_int_equal(ops->run(queue, &collective), WEFT_UNSUPPORTED);
    cuda_check_said("step 0 of a device collective: CUDA device 0 cannot reach memory on device 1");
    ops->queue_close(queue);
    ops->close(fresh);
    ops->release(device, a);
    ops->release(device, b);
    ops->release(device, stop);
}

/* Each queue's blocks meet at a place of their own; queues for which there is none have one block. */
static void test_meetings(void **state)
{
    (void)state;
    struct weft_device_queue *queues[WEFT_KERNEL_MEETINGS + 1];
    struct weft_device_step step;
    uint64_t seen = 0;
    void *a = cuda_check_memory(device, 0, WEFT_MEMORY_DEVICE, 1 << 20), *stop;
    assert_int_equal(ops->allocate(device, -1, WEFT_MEMORY_PINNED, 8, &stop), WEFT_OK);
    struct weft_device_collective collective = collective_of(&step, a, (char *)a + (1 << 19), stop);
    step.count = 1 << 17;
    for (int q = 0; q <= WEFT_KERNEL_MEETINGS; q++) {
        queues[q] = cuda_check_queue(device, 0);
        assert_int_equal(ops->run(queues[q], &collective), WEFT_OK);
        cuda_check_finish(queues[q]);
        assert_int_equal(collectives.grid > 1, q < WEFT_KERNEL_MEETINGS);
        if (q < WEFT_KERNEL_MEETINGS)
            seen |= (uint64_t)1 << collectives.meeting;
    }
    assert_true(seen == UINT64_MAX);
    ops->queue_close(queues[7]);
    queues[7] = cuda_check_queue(device, 0);
    assert_int_equal(ops->run(queues[7], &collective), WEFT_OK);
    cuda_check_finish(queues[7]);
    assert_int_equal(collectives.meeting, 7);
    for (int q = 0; q <= WEFT_KERNEL_MEETINGS; q++)
        ops->queue_close(queues[q]);
    ops->release(device, a);
    ops->release(device, stop);
}

int main(void)
{
#define SCENE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        SCENE(test_sum),          SCENE(test_refused),          SCENE(test_not_loaded),
        SCENE(test_unreachable),  SCENE(test_makes_no_context), SCENE(test_reached_later),
        SCENE(test_other_access), SCENE(test_collective),       SCENE(test_meetings),
        SCENE(test_loaded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
