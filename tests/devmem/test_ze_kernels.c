/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze; wrap weft_ze_module_image */
/* Reductions of the kind "ze" where the conformance suite does not look: the table of all types and operations, memory that kernels do not reach, devices
 * that lack something, modules that cannot be made. */
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
#include "tests/support/effort.h"
#include "tests/support/reduce_table.h"
#include "tests/support/skip.h"
#include "tests/support/ze_scene.h"

static struct weft_device_ops ops; /* complete */
static struct weft_device *device;
static struct ze_fake *fake;
static int is_absent;

const void *__real_weft_ze_module_image(int group, size_t *size);
const void *__wrap_weft_ze_module_image(int group, size_t *size);
const void *__wrap_weft_ze_module_image(int group, size_t *size)
{
    return is_absent ? NULL : __real_weft_ze_module_image(group, size);
}

/* What a device's first queue adds, which shows whether two kernels run side by side. */
enum { PROBE_BUILDS = 1, PROBE_LAUNCHES = 2 };

static int begin(void)
{
    fake = ze_scene_begin(&ops, &device);
    return fake != NULL;
}

/* Nothing is left, not of the kernels either. */
static int end(void)
{
    int status = ze_scene_end(&ops, fake, device);
    return status || fake->modules || fake->kernels || fake->logs || fake->lists || fake->queues;
}

/* A sum of float32 of two sources, or what else becomes of it. */
static struct weft_device_reduction sum_of(const void *const *sources, void *const *destinations,
                                           uint64_t count)
{
    return (struct weft_device_reduction){.size = sizeof(struct weft_device_reduction),
                                          .dtype = WEFT_FLOAT32,
                                          .op = WEFT_SUM,
                                          .source_count = 2,
                                          .destination_count = 1,
                                          .sources = sources,
                                          .destinations = destinations,
                                          .count = count};
}

/* --- the table */

static struct weft_device_queue *table_queue;

static int table_reduce(const struct weft_device_reduction *reduction)
{
    return ops.reduce(table_queue, reduction) != WEFT_OK || ze_scene_finish(&ops, table_queue) != 1;
}

static int run_table(void)
{
    void *memory;
    ZE_CHECK(begin());
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, REDUCE_TABLE_BYTES, &memory) == WEFT_OK);
    ZE_CHECK(ops.queue_open(device, 0, &table_queue) == WEFT_OK);
    struct reduce_table table = {
        .memory = memory, .reduce = table_reduce, .stride = (int)test_by_effort(16, 4, 1)};
    reduce_table_run(&table);
    printf("ze: %lu types and operations, %lu reductions, #wrong %lu\n", table.pairs, table.tried,
           table.wrong);
    fflush(stdout);
    ZE_CHECK(table.pairs == 107 && table.wrong + table.failed == 0);
    ZE_CHECK(fake->builds == WEFT_ZE_GROUP_COUNT + PROBE_BUILDS &&
             (unsigned)fake->launches == table.tried + PROBE_LAUNCHES);
    ops.queue_close(table_queue);
    ZE_CHECK(ops.release(device, memory) == WEFT_OK);
    return end();
}

/* --- memory */

/* Pinned memory, more than a queue keeps for it, on a device's and the other way round. */
static int reduce_pinned_memory(void)
{
    enum { COUNT = 300007 };
    struct weft_device_queue *queue;
    float *host = malloc(4 * COUNT * sizeof *host), *near;
    ZE_CHECK(host && begin());
    ZE_CHECK(ops.pin(device, host, 4 * COUNT * sizeof *host) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, COUNT * sizeof *near, (void **)&near) == WEFT_OK);
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK);
    for (size_t i = 0; i < COUNT; i++) {
        host[1 + i] = (float)i;
        near[i] = (float)(2 * i);
    }
    const void *sources[] = {host + 1, near};
    void *destinations[] = {host + 2 * COUNT, near};
    struct weft_device_reduction reduction = sum_of(sources, destinations, COUNT);
    reduction.destination_count = 2;
    ZE_CHECK(ops.reduce(queue, &reduction) == WEFT_OK);
    destinations[0] = host + 1; /* in place of what is pinned */
    reduction.destination_count = 1;
    ZE_CHECK(ops.reduce(queue, &reduction) == WEFT_OK && ze_scene_finish(&ops, queue) == 1);
    for (size_t i = 0; i < COUNT; i++) {
        float once = (float)i + (float)(2 * i);
        ZE_CHECK(host[2 * COUNT + i] == once && near[i] == once && host[1 + i] == (float)i + once);
    }
    ZE_CHECK(fake->launches == 10 + PROBE_LAUNCHES &&
             fake->allocations == 2); /* parts of 256 KiB; the queue's own memory */
    ops.queue_close(queue);
    ZE_CHECK(ops.unpin(device, host, 4 * COUNT * sizeof *host) == WEFT_OK);
    ZE_CHECK(ops.release(device, near) == WEFT_OK);
    free(host);
    return end();
}

/* Two allocations side by side, and an element that lies across their border. */
static int reduce_across_allocations(void)
{
    enum { BYTES = 4096, COUNT = 400 };
    struct weft_device_queue *queue;
    unsigned char *first, *second;
    double *to;
    ZE_CHECK(begin());
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, BYTES, (void **)&first) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, BYTES, (void **)&second) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, COUNT * 16, (void **)&to) == WEFT_OK);
    ZE_CHECK(second == first + BYTES && ops.queue_open(device, 0, &queue) == WEFT_OK);
    double *from = (double *)(void *)(first + 1000);
    const void *sources[] = {from, from};
    void *destinations[] = {to};
    struct weft_device_reduction reduction = sum_of(sources, destinations, COUNT);
    reduction.dtype = WEFT_COMPLEX128;
    for (int i = 0; i < 2 * COUNT; i++)
        from[i] = i + 1;
    ZE_CHECK(ops.reduce(queue, &reduction) == WEFT_OK && ze_scene_finish(&ops, queue) == 1);
    for (int i = 0; i < 2 * COUNT; i++)
        ZE_CHECK(to[i] == 2 * (i + 1));
    ZE_CHECK(fake->launches == 2 + PROBE_LAUNCHES);
    ops.queue_close(queue);
    ZE_CHECK(ops.release(device, first) == WEFT_OK && ops.release(device, second) == WEFT_OK &&
             ops.release(device, to) == WEFT_OK);
    return end();
}

static int refuse_memory(void)
{
    struct weft_device_queue *queue;
    float host[16], *memory, *far, *others;
    ZE_CHECK(begin());
    fake->device_count = 3;
    fake->driver_count = 2;
    fake->devices[2].driver = 1;
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, sizeof host, (void **)&memory) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, 1, WEFT_MEMORY_DEVICE, sizeof host, (void **)&far) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, 2, WEFT_MEMORY_DEVICE, sizeof host, (void **)&others) == WEFT_OK);
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK);
    const void *sources[] = {memory, host};
    void *destinations[] = {memory};
    struct weft_device_reduction reduction = sum_of(sources, destinations, 16);
    ZE_CHECK(ops.reduce(queue, &reduction) == WEFT_INVALID && strstr(ze_said, "has to be pinned first"));
    sources[1] = others;
    ZE_CHECK(ops.reduce(queue, &reduction) == WEFT_UNSUPPORTED &&
             strstr(ze_said, "device 0 cannot reach memory on device 2"));
    sources[1] = far; /* nobody has asked yet */
    ZE_CHECK(ops.reduce(queue, &reduction) == WEFT_UNSUPPORTED);
    ZE_CHECK(ops.reaches(device, 0, far, 1) == 1 && ops.reduce(queue, &reduction) == WEFT_OK);
    ZE_CHECK(ze_scene_finish(&ops, queue) == 1 && fake->launches == 1 + PROBE_LAUNCHES);
    sources[1] = memory;
    reduction.source_count = 9;
    ZE_CHECK(ops.reduce(queue, &reduction) == WEFT_INVALID && strstr(ze_said, "from 9 sources (1 to 8)"));
    reduction.source_count = 2;
    reduction.op = WEFT_XOR;
    ZE_CHECK(ops.reduce(queue, &reduction) == WEFT_UNSUPPORTED &&
             strstr(ze_said, "do not reduce float32 by xor"));
    reduction.op = WEFT_SUM;
    fake->append_result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    ZE_CHECK(ops.reduce(queue, &reduction) == WEFT_NOMEM && strstr(ze_said, "launching weft_ze_float32_sum"));
    fake->append_result = 0;
    ZE_CHECK(ops.reduce(queue, &reduction) == WEFT_NOMEM && strstr(ze_said, "takes nothing any more"));
    ZE_CHECK(ops.release(device, memory) == WEFT_OK && ops.release(device, far) == WEFT_OK &&
             ops.release(device, others) == WEFT_OK);
    ops.queue_close(queue); /* which is left: its last commands may yet run */
    ops.close(device);
    return fake->violations || fake->allocations || fake->lists != 1;
}

/* --- devices that lack something */

/* Whether a queue of a device reduces a type, as calls ask it: without elements. */
static int asks(struct weft_device_queue *queue, weft_dtype dtype, weft_op op)
{
    char nothing[16];
    const void *sources[] = {nothing, nothing};
    void *destinations[] = {nothing};
    struct weft_device_reduction reduction = sum_of(sources, destinations, 0);
    reduction.dtype = dtype;
    reduction.op = op;
    return ops.reduce(queue, &reduction);
}

static int lack_things(void)
{
    struct weft_device_queue *queue;
    static const weft_dtype floats[] = {WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2, WEFT_FLOAT16,
                                        WEFT_BFLOAT16,    WEFT_FLOAT32,     WEFT_COMPLEX64};
    struct weft_device_info info = {.size = sizeof info};
    ZE_CHECK(begin());
    fake->no_float64 = 1;
    ZE_CHECK(ops.describe(device, 0, &info) == WEFT_OK && info.flags & WEFT_DEVICE_REDUCES);
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK);
    for (int i = 0; i < 3; i++) {
        ZE_CHECK(asks(queue, WEFT_FLOAT64, i ? WEFT_SUM : WEFT_AVG) == WEFT_UNSUPPORTED);
        ZE_CHECK(asks(queue, WEFT_COMPLEX128, WEFT_SUM) == WEFT_UNSUPPORTED);
        for (size_t f = 0; f < sizeof floats / sizeof *floats; f++)
            ZE_CHECK(asks(queue, floats[f], WEFT_AVG) == WEFT_OK);
        ZE_CHECK(asks(queue, WEFT_INT64, WEFT_SUM) == WEFT_OK);
    }
    ZE_CHECK(
        ze_logged_count("device 0 has no 64-bit floating-point arithmetic, as kernels for float64 need; the "
                        "host reduces") == 1);
    ZE_CHECK(ze_logged_count("\n") == 2); /* and complex128 */
    ops.queue_close(queue);
    ops.close(device);
    fake->no_float64 = 0;
    fake->no_division = 1;
    *ze_logged = '\0';
    ZE_CHECK((device = ze_scene_open()) && ops.queue_open(device, 1, &queue) == WEFT_OK);
    ZE_CHECK(asks(queue, WEFT_FLOAT64, WEFT_SUM) == WEFT_OK &&
             asks(queue, WEFT_FLOAT64, WEFT_PROD) == WEFT_OK);
    ZE_CHECK(asks(queue, WEFT_FLOAT64, WEFT_AVG) == WEFT_UNSUPPORTED && strstr(ze_said, "round divisions"));
    ZE_CHECK(asks(queue, WEFT_COMPLEX128, WEFT_AVG) == WEFT_UNSUPPORTED &&
             ze_logged_count("the host averages") == 1);
    ZE_CHECK(asks(queue, WEFT_FLOAT32, WEFT_AVG) == WEFT_OK && asks(queue, WEFT_INT64, WEFT_AVG) == WEFT_OK);
    ops.queue_close(queue);
    ops.close(device);
    fake->no_denormals = 1;
    ZE_CHECK((device = ze_scene_open()) && ops.queue_open(device, 0, &queue) == WEFT_OK);
    for (size_t f = 0; f < sizeof floats / sizeof *floats; f++)
        ZE_CHECK(asks(queue, floats[f], WEFT_SUM) == WEFT_UNSUPPORTED && strstr(ze_said, "denormals"));
    ZE_CHECK(asks(queue, WEFT_INT8, WEFT_MAX) == WEFT_OK && asks(queue, WEFT_BOOL, WEFT_MAX) == WEFT_OK);
    ops.queue_close(queue);
    return end();
}

/* No type at all. */
static int lack_everything(void)
{
    struct weft_device_queue *queue;
    for (int i = 0; i < 3; i++) {
        struct weft_device_info info = {.size = sizeof info};
        static const char *const words[] = {"has no SPIR-V", "has no work groups of 256",
                                            "was built without clang"};
        if (i == 0)
            ZE_CHECK(begin());
        else
            ZE_CHECK((device = ze_scene_open()) != NULL);
        *ze_logged = '\0';
        fake->no_spirv = i == 0;
        fake->group_size = i == 1 ? 128 : 0;
        is_absent = i == 2;
        ZE_CHECK(ops.describe(device, 0, &info) == WEFT_OK);
        ZE_CHECK(!(info.flags & WEFT_DEVICE_REDUCES));
        ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK);
        for (int t = 0; t < WEFT_DTYPE_COUNT; t++)
            ZE_CHECK(asks(queue, (weft_dtype)t, WEFT_SUM) == WEFT_UNSUPPORTED && strstr(ze_said, words[i]));
        ZE_CHECK(ze_logged_count(words[i]) ==
                 (i == 2 ? 1 : 12 + PROBE_BUILDS)); /* once, or once for each module that was wanted */
        ZE_CHECK(fake->builds == 0);
        ops.queue_close(queue);
        if (i < 2)
            ops.close(device);
    }
    return end();
}

/* --- modules that cannot be made */

static int fail_to_build(void)
{
    struct weft_device_queue *queue, *other;
    ZE_CHECK(begin());
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK && ops.queue_open(device, 0, &other) == WEFT_OK);
    fake->module_result = ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    for (int i = 0; i < 3; i++)
        ZE_CHECK(asks(i % 2 ? queue : other, WEFT_FLOAT32, WEFT_SUM) == WEFT_UNSUPPORTED);
    ZE_CHECK(
        strstr(ze_said, "loading kernels for float32 on device 0: ZE_RESULT_ERROR_MODULE_BUILD_FAILURE"));
    ZE_CHECK(ze_logged_count(
                 "could not compile the kernels): error: unknown word in line 7; the host reduces") == 1);
    ZE_CHECK(ze_logged_count("\n") == 1 && fake->builds == 1 + PROBE_BUILDS && fake->logs == 0);
    fake->module_result = ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY; /* that may go by */
    ZE_CHECK(asks(queue, WEFT_INT32, WEFT_SUM) == WEFT_UNSUPPORTED);
    ZE_CHECK(asks(queue, WEFT_INT32, WEFT_SUM) == WEFT_UNSUPPORTED && ze_logged_count("\n") == 2);
    fake->module_result = 0;
    /* And with it the module for device collectives of the type. */
    ZE_CHECK(asks(queue, WEFT_INT32, WEFT_SUM) == WEFT_OK && fake->builds == 5 + PROBE_BUILDS);
    ZE_CHECK(asks(queue, WEFT_FLOAT32, WEFT_SUM) == WEFT_UNSUPPORTED && fake->builds == 5 + PROBE_BUILDS);
    fake->kernel_result = ZE_RESULT_ERROR_INVALID_KERNEL_NAME;
    ZE_CHECK(asks(queue, WEFT_INT16, WEFT_SUM) == WEFT_UNSUPPORTED && ze_logged_count("for int16") == 1);
    ZE_CHECK(fake->modules == 2 + PROBE_BUILDS && fake->logs == 0);
    fake->kernel_result = 0;
    ops.queue_close(queue);
    ops.queue_close(other);
    return end();
}

/* --- threads, and queues that are left */

enum { THREADS = 4, ROUNDS = 60, ELEMENTS = 500 };

struct worker {
    pthread_t thread;
    struct weft_device_queue *queue;
    int32_t *memory; /* two sources and a result */
    int failed;
};

/* Each with numbers of its own, in the same kernel. */
static void *work(void *arg)
{
    struct worker *worker = arg;
    int32_t *to = worker->memory + 2 * ELEMENTS;
    const void *sources[] = {worker->memory, worker->memory + ELEMENTS};
    void *destinations[] = {to};
    for (int r = 0; r < ROUNDS; r++) {
        struct weft_device_reduction reduction = sum_of(sources, destinations, (uint64_t)(ELEMENTS - r));
        reduction.dtype = WEFT_INT32;
        worker->failed |=
            ops.reduce(worker->queue, &reduction) != WEFT_OK || ze_scene_finish(&ops, worker->queue) != 1;
        for (int i = 0; i < ELEMENTS - r; i++)
            worker->failed |= to[i] != worker->memory[i] + worker->memory[ELEMENTS + i];
        worker->memory[r] += r;
    }
    return NULL;
}

static int reduce_in_threads(void)
{
    struct worker workers[THREADS];
    ZE_CHECK(begin());
    for (int w = 0; w < THREADS; w++) {
        workers[w].failed = 0;
        ZE_CHECK(ops.queue_open(device, 0, &workers[w].queue) == WEFT_OK);
        ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, 3 * ELEMENTS * sizeof(int32_t),
                              (void **)&workers[w].memory) == WEFT_OK);
        for (int i = 0; i < 2 * ELEMENTS; i++)
            workers[w].memory[i] = w * 100000 + i;
        ZE_CHECK(pthread_create(&workers[w].thread, NULL, work, &workers[w]) == 0);
    }
    for (int w = 0; w < THREADS; w++) {
        pthread_join(workers[w].thread, NULL);
        ZE_CHECK(!workers[w].failed);
        ops.queue_close(workers[w].queue);
        ZE_CHECK(ops.release(device, workers[w].memory) == WEFT_OK);
    }
    ZE_CHECK(fake->builds == 1 + PROBE_BUILDS && fake->launches == THREADS * ROUNDS + PROBE_LAUNCHES);
    return end();
}

/* The same without immediate command lists, where arguments lie in a list until it runs. */
static int reduce_in_lists(void)
{
    ZE_CHECK((fake = ze_scene_load()) != NULL);
    fake->no_immediate = 1;
    return reduce_in_threads();
}

/* Kernels and copies that need each other, all of which wait at first: the fake driver begins with the last one that may begin. */
static int reduce_in_order(void)
{
    enum { COUNT = 100 };
    struct weft_device_queue *queue;
    int32_t *memory;
    ZE_CHECK(begin());
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, 3 * COUNT * sizeof *memory, (void **)&memory) ==
             WEFT_OK);
    for (int i = 0; i < 3 * COUNT; i++)
        memory[i] = 1;
    struct weft_device_event *first = weft_ze_event_get(device, 0);
    ZE_CHECK(first && ops.await(queue, first) == WEFT_OK);
    for (int i = 0; i < 20; i++) { /* Fibonacci's numbers */
        const void *sources[] = {memory, memory + COUNT};
        void *destinations[] = {memory + i % 2 * COUNT};
        struct weft_device_reduction reduction = sum_of(sources, destinations, COUNT);
        reduction.dtype = WEFT_INT32;
        ZE_CHECK(ops.reduce(queue, &reduction) == WEFT_OK);
    }
    ZE_CHECK(ops.copy(queue, memory + 2 * COUNT, memory + COUNT, COUNT * sizeof *memory) == WEFT_OK);
    ZE_CHECK(device->driver.zeEventHostSignal(first->handle) == ZE_RESULT_SUCCESS &&
             ze_scene_finish(&ops, queue) == 1);
    weft_ze_event_put(first);
    for (int i = 0; i < COUNT; i++)
        ZE_CHECK(memory[i] == 10946 && memory[COUNT + i] == 17711 && memory[2 * COUNT + i] == 17711);
    ops.queue_close(queue);
    ZE_CHECK(ops.release(device, memory) == WEFT_OK);
    return end();
}

/* A kernel behind a wait that does not end stays, with its module, when the kind is closed. */
static int leave_a_kernel(void)
{
    struct weft_device_queue *queue;
    void *memory;
    ZE_CHECK(begin());
    ZE_CHECK(ops.queue_open(device, 0, &queue) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 4096, &memory) == WEFT_OK);
    struct weft_device_event *never = weft_ze_event_get(device, 0);
    const void *sources[] = {memory, memory};
    void *destinations[] = {memory};
    struct weft_device_reduction reduction = sum_of(sources, destinations, 100);
    ZE_CHECK(never && ops.await(queue, never) == WEFT_OK && ops.reduce(queue, &reduction) == WEFT_OK);
    ops.queue_close(queue);
    ops.close(device);
    ZE_CHECK(fake->violations == 0 && fake->launches == PROBE_LAUNCHES && fake->modules == 1 + PROBE_BUILDS &&
             fake->lists == 1);
    return 0;
}

static void skip_without_kernels(void)
{
    if (!weft_ze_has_kernels())
        TEST_SKIP("the library was built without clang or llvm-spirv");
}

#define IN_A_CHILD(name, function)                                                                           \
    static void name(void **state)                                                                           \
    {                                                                                                        \
        (void)state;                                                                                         \
        skip_without_kernels();                                                                              \
        assert_int_equal(test_child(function), 0);                                                           \
    }
IN_A_CHILD(test_table, run_table)
IN_A_CHILD(test_pinned, reduce_pinned_memory)
IN_A_CHILD(test_across, reduce_across_allocations)
IN_A_CHILD(test_refused, refuse_memory)
IN_A_CHILD(test_lacks, lack_things)
IN_A_CHILD(test_lacks_all, lack_everything)
IN_A_CHILD(test_build, fail_to_build)
IN_A_CHILD(test_threads, reduce_in_threads)
IN_A_CHILD(test_lists, reduce_in_lists)
IN_A_CHILD(test_order, reduce_in_order)
IN_A_CHILD(test_left, leave_a_kernel)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),   cmocka_unit_test(test_pinned),  cmocka_unit_test(test_across),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_lacks),   cmocka_unit_test(test_lacks_all),
        cmocka_unit_test(test_build),   cmocka_unit_test(test_threads), cmocka_unit_test(test_lists),
        cmocka_unit_test(test_left),    cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
