/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze */
/* The kernels for Level Zero by a real compiler of OpenCL C and a real runtime, PoCL on the processor: every type and operation gives the
 * host's bits. PoCL as Debian has it takes no SPIR-V, so it gets the source that the modules are made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/skip.h"

#if __has_include(<CL/cl.h>)
#include <dlfcn.h>
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "devmem/ze/modules.h"
#include "tests/support/effort.h"
#include "tests/support/reduce_table.h"

#define FUNCTIONS(X)                                                                                         \
    X(clGetPlatformIDs)                                                                                      \
    X(clGetPlatformInfo)                                                                                     \
    X(clGetDeviceIDs)                                                                                        \
    X(clCreateContext)                                                                                       \
    X(clCreateCommandQueue)                                                                                  \
    X(clCreateProgramWithSource)                                                                             \
    X(clBuildProgram)                                                                                        \
    X(clGetProgramBuildInfo)                                                                                 \
    X(clCreateKernel)                                                                                        \
    X(clSetKernelArg)                                                                                        \
    X(clCreateBuffer)                                                                                        \
    X(clEnqueueNDRangeKernel)                                                                                \
    X(clFinish)                                                                                              \
    X(clReleaseMemObject)

static struct {
#define FIELD(symbol) __typeof__(symbol) *symbol;
    FUNCTIONS(FIELD)
#undef FIELD
} cl;

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static cl_kernel kernels[WEFT_KERNEL_FAMILY_COUNT];

/* NULL, or why not. */
static const char *find_pocl(void)
{
    cl_platform_id platforms[8];
    cl_uint count = 0;
    char name[128];
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return "no libOpenCL.so.1 here";
#define FIND(symbol)                                                                                         \
    *(void **)&cl.symbol = dlsym(library, #symbol);                                                          \
    assert_non_null((void *)cl.symbol);
    FUNCTIONS(FIND)
#undef FIND
    if (cl.clGetPlatformIDs(8, platforms, &count) != CL_SUCCESS)
        return "no OpenCL platform here";
    for (cl_uint i = 0; i < count && i < 8; i++) {
        if (cl.clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL) == CL_SUCCESS &&
            strstr(name, "Portable Computing Language") &&
            cl.clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &device, NULL) == CL_SUCCESS)
            return NULL;
    }
    return "no PoCL among the OpenCL platforms here";
}

/* The text alone, which includes the rest. */
static void build(int group, cl_program *made)
{
    static const char text[] = "#include \"devmem/ze/reduce.cl\"\n";
    const char *source = text;
    char options[128], log[4096] = "";
    cl_int error;
    snprintf(options, sizeof options, "-cl-std=CL1.2 %s-I. -DWEFT_GROUP=%s",
             test_effort() == TEST_LONG ? "" : "-cl-opt-disable ", weft_ze_group_name(group));
    *made = cl.clCreateProgramWithSource(context, 1, &source, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    if (cl.clBuildProgram(*made, 1, &device, options, NULL, NULL) != CL_SUCCESS) {
        cl.clGetProgramBuildInfo(*made, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        fail_msg("%s: %s", weft_ze_group_name(group), log);
    }
}

/* PoCL's memory on the processor is the host's, wherever that begins. */
static cl_int set_pointer(cl_kernel kernel, cl_uint index, const void *pointer, size_t size, cl_mem *memory)
{
    cl_int error = CL_SUCCESS;
    *memory = pointer ? cl.clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size,
                                          (void *)(uintptr_t)pointer, &error)
                      : NULL;
    return error == CL_SUCCESS ? cl.clSetKernelArg(kernel, index, sizeof *memory, memory) : error;
}

static int reduce(const struct weft_device_reduction *reduction)
{
    struct weft_kernel_piece piece = {.count = 0};
    int family = weft_kernel_family_of(reduction);
    size_t bytes = reduction->count * weft_dtype_size(reduction->dtype);
    const size_t local = WEFT_KERNEL_THREADS;
    cl_mem memory[WEFT_ZE_POINTERS] = {NULL};
    cl_uint at = 0;
    cl_int error = CL_SUCCESS;
    if (!bytes)
        return 0;
    assert_true(family >= 0);
    weft_kernel_piece_reduce(&piece, reduction, family);
    cl_kernel kernel = kernels[family];
    for (; at < WEFT_ZE_POINTERS; at++)
        error |= set_pointer(kernel, at,
                             at < WEFT_KERNEL_SOURCES ? piece.sources[at]
                                                      : piece.destinations[at - WEFT_KERNEL_SOURCES],
                             bytes, &memory[at]);
    const uint64_t longs[] = {piece.count, piece.head_bytes, piece.vectors, piece.scalar[0], piece.scalar[1]};
    const uint32_t ints[] = {piece.source_count, piece.finish, piece.flags};
    for (int i = 0; i < WEFT_ZE_LONGS; i++)
        error |= cl.clSetKernelArg(kernel, at++, sizeof longs[i], &longs[i]);
    for (int i = 0; i < WEFT_ZE_INTS; i++)
        error |= cl.clSetKernelArg(kernel, at++, sizeof ints[i], &ints[i]);
    const size_t all = local * (1 + reduction->count % 3);
    error |= cl.clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &all, &local, 0, NULL, NULL);
    error |= cl.clFinish(queue);
    for (int i = 0; i < WEFT_ZE_POINTERS; i++)
        error |= memory[i] ? cl.clReleaseMemObject(memory[i]) : CL_SUCCESS;
    return error;
}

static void test_table(void **state)
{
    (void)state;
    cl_program built[WEFT_ZE_GROUP_COUNT];
    char cache[] = "/tmp/weft-test-pocl-XXXXXX", clean_up[64];
    cl_int error;
    assert_non_null(mkdtemp(cache));
    setenv("POCL_CACHE_DIR", cache, 1);
    snprintf(clean_up, sizeof clean_up, "rm -rf %s", cache);
    const char *reason = find_pocl();
    if (reason && rmdir(cache) == 0)
        TEST_SKIP("%s", reason);
    context = cl.clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    queue = cl.clCreateCommandQueue(context, device, 0, &error);
    assert_int_equal(error, CL_SUCCESS);
    for (int group = 0; group < WEFT_ZE_GROUP_COUNT; group++)
        build(group, &built[group]);
    for (int family = 0; family < WEFT_KERNEL_copy; family++) {
        kernels[family] =
            cl.clCreateKernel(built[weft_ze_group_of(family)], weft_ze_kernel_name(family), &error);
        assert_int_equal(error, CL_SUCCESS);
    }
    struct reduce_table table = {.memory = aligned_alloc(64, REDUCE_TABLE_BYTES),
                                 .reduce = reduce,
                                 .stride = (int)test_by_effort(16, 8, 1)};
    assert_non_null(table.memory);
    reduce_table_run(&table);
    printf("PoCL: %lu types and operations, %lu reductions, #wrong %lu\n", table.pairs, table.tried,
           table.wrong);
    assert_int_equal(table.wrong + table.failed, 0);
    free(table.memory);
    assert_int_equal(system(clean_up), 0);
}

#else
static void test_table(void **state)
{
    (void)state;
    TEST_SKIP("no CL/cl.h on this machine to ask PoCL with");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
