/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (reads files) */
/* What nvcc made of the kernels, without running them: that all of them are there, use no local memory, and round
 * after every operation. Skipped in a build without nvcc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "devmem/cuda/kernels.h"

#define LINE 4096

/* The image that the library carries, and skips the test when it has none. */
static const unsigned char *image_or_skip(size_t *size)
{
    const unsigned char *image = weft_kernel_image(size);
    if (!image) {
        printf("SKIP: the library was built without nvcc\n");
        skip();
    }
    return image;
}

/* Opens what a command prints. */
static FILE *command_open(const char *command)
{
    FILE *output = popen(command, "r");
    assert_non_null(output);
    return output;
}

static void image_is_the_compilers(void **state)
{
    (void)state;
    static const unsigned char magic[] = {0x50, 0xed, 0x55, 0xba}; /* of what nvcc calls a fat binary */
    size_t size;
    const unsigned char *image = image_or_skip(&size);
    assert_true(size > sizeof magic);
    assert_memory_equal(image, magic, sizeof magic);
    assert_int_equal((uintptr_t)image % 64, 0);
    FILE *file = fopen(KERNEL_FOLDER "/reduce.fatbin", "rb");
    assert_non_null(file);
    unsigned char *content = malloc(size + 1);
    assert_non_null(content);
    assert_int_equal(fread(content, 1, size + 1, file), size);
    fclose(file);
    assert_memory_equal(image, content, size);
    free(content);
}

/* nvcc gives static functions that are not inlined names with a part of their own in each build. */
static void image_is_the_same_in_each_build(void **state)
{
    (void)state;
    size_t size;
    image_or_skip(&size);
    FILE *names = command_open("cat " KERNEL_FOLDER "/nvcc/*.ptx | grep -c _INTERNAL_");
    int count = -1;
    assert_int_equal(fscanf(names, "%d", &count), 1);
    pclose(names);
    assert_int_equal(count, 0);
}

static int kernel_named(const char *name)
{
    for (int k = 0; k < WEFT_KERNEL_COUNT; k++)
        if (strcmp(weft_kernel_name(k), name) == 0)
            return k;
    return -1;
}

/* Every kernel is named once by the lines of a command. */
static void names_check(const char *command)
{
    static int seen[WEFT_KERNEL_COUNT];
    char name[LINE];
    FILE *names = command_open(command);
    memset(seen, 0, sizeof seen);
    while (fgets(name, sizeof name, names)) {
        name[strcspn(name, "\n")] = 0;
        int kernel = kernel_named(name);
        if (kernel < 0)
            fail_msg("%s: %s is not known to the host", command, name);
        seen[kernel]++;
    }
    assert_int_equal(pclose(names), 0);
    for (int k = 0; k < WEFT_KERNEL_COUNT; k++)
        if (seen[k] != 1)
            fail_msg("%s: %s is there %d times", command, weft_kernel_name(k), seen[k]);
}

static void all_kernels_are_in_every_image(void **state)
{
    (void)state;
    size_t size;
    image_or_skip(&size);
    names_check("readelf -sW " KERNEL_FOLDER
                "/nvcc/*80.cubin | awk '$4 == \"FUNC\" && $5 == \"GLOBAL\" { print $NF }'");
    names_check("readelf -sW " KERNEL_FOLDER
                "/nvcc/*90.cubin | awk '$4 == \"FUNC\" && $5 == \"GLOBAL\" { print $NF }'");
    names_check("sed -n 's/.*\\.entry \\([a-z0-9_]*\\)(.*/\\1/p' " KERNEL_FOLDER "/nvcc/*compute_80.ptx");
}

/* The compiler's report has one line for each kernel and architecture. */
static void nothing_spills(void **state)
{
    (void)state;
    size_t size;
    char line[LINE], kernel[LINE] = "";
    int kernels = 0;
    image_or_skip(&size);
    FILE *report = fopen(KERNEL_FOLDER "/reduce.log", "r");
    assert_non_null(report);
    while (fgets(line, sizeof line, report)) {
        if (strstr(line, "Function properties for"))
            memcpy(kernel, line, sizeof line);
        if (!strstr(line, "bytes stack frame") || !strstr(kernel, "weft_cuda_"))
            continue;
        kernels++;
        if (!strstr(line, " 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"))
            fail_msg("%s%s", kernel, line);
    }
    fclose(report);
    assert_int_equal(kernels, 2 * WEFT_KERNEL_COUNT);
}

/* Rounded to nearest after every operation, denormals kept. PTX is what both compilers of code start from. */
static void nothing_is_contracted(void **state)
{
    (void)state;
    static const char *const forbidden[] = {"fma.", "mad.rn", ".ftz", ".approx", ".full", ".rz.f", ".sat.f"};
    size_t size;
    char line[LINE];
    int operations = 0, divisions = 0;
    image_or_skip(&size);
    FILE *ptx = command_open("cat " KERNEL_FOLDER "/nvcc/*.ptx");
    while (fgets(line, sizeof line, ptx)) {
        for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
            if (strstr(line, forbidden[i]))
                fail_msg("%s", line);
        int rounded = strstr(line, ".rn.f32") || strstr(line, ".rn.f64");
        operations += (strstr(line, "\tadd.rn.f") || strstr(line, "\tmul.rn.f")) && rounded;
        divisions += strstr(line, "\tdiv.rn.f") && rounded;
        if (!rounded && (strstr(line, "\tadd.f") || strstr(line, "\tmul.f") || strstr(line, "\tsub.f") ||
                         strstr(line, "\tdiv.f")))
            fail_msg("%s", line);
    }
    pclose(ptx);
    assert_true(operations > 100);
    assert_true(divisions > 10);
}

/* Of one kernel, from its disassembly: 128-bit loads before the first 128-bit store, such stores, and fused operations. */
struct counts {
    int loads, stores, fused;
};

/* Loads that a thread of a kernel for a fixed number of sources has in flight; at least one elsewhere. */
#define IN_FLIGHT(name, sources, vectors) [WEFT_KERNEL_##name##_##sources] = (sources) * (vectors),
static const int in_flight[WEFT_KERNEL_COUNT] = {WEFT_KERNEL_FIXED(IN_FLIGHT)};

static void code_check(const char *name, const struct counts *counts)
{
    int kernel = kernel_named(name);
    if (kernel < 0)
        return;
    if (!counts->loads || !counts->stores || counts->loads < in_flight[kernel])
        fail_msg("%s: %d loads before %d stores of 128 bits", name, counts->loads, counts->stores);
    /* Division is made of fused operations, so that sums for any number of sources have some. */
    int is_any = kernel <= WEFT_KERNEL_copy || kernel >= WEFT_KERNEL_COLLECTIVES;
    if (counts->fused && !(strstr(name, "_sum") && is_any))
        fail_msg("%s: %d fused operations", name, counts->fused);
}

static void skip_without_tools(void)
{
    if (system("command -v cuobjdump >/dev/null && command -v nvdisasm >/dev/null") != 0) {
        printf("SKIP: no cuobjdump or no nvdisasm here to look at the kernels' code\n");
        skip();
    }
}

/* Code for two architectures, and PTX for others. */
static void image_holds_three(void **state)
{
    (void)state;
    static const char *const wanted[] = {"ELF file .*sm_80", "ELF file .*sm_90", "PTX file .*sm_80"};
    size_t size;
    char command[LINE];
    image_or_skip(&size);
    skip_without_tools();
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        snprintf(command, sizeof command, "test $(cuobjdump -lelf -lptx %s/reduce.fatbin | grep -c '%s') = 1",
                 KERNEL_FOLDER, wanted[i]);
        if (system(command) != 0)
            fail_msg("not there once: %s", wanted[i]);
    }
}

static void loops_take_128_bits(void **state)
{
    (void)state;
    size_t size;
    char line[LINE], name[LINE] = "";
    struct counts counts = {0};
    int kernels = 0;
    image_or_skip(&size);
    skip_without_tools();
    FILE *code = command_open("for cubin in " KERNEL_FOLDER "/nvcc/*.cubin; do cuobjdump -sass $cubin; done");
    while (fgets(line, sizeof line, code)) {
        char *function = strstr(line, "Function : ");
        if (function) {
            code_check(name, &counts);
            memset(&counts, 0, sizeof counts);
            sscanf(function + strlen("Function : "), "%4000s", name);
            kernels++;
        }
        counts.loads += !counts.stores && strstr(line, "LDG.E") && strstr(line, ".128 ");
        counts.stores += strstr(line, "STG.E") && strstr(line, ".128 ");
        counts.fused += strstr(line, " FFMA") || strstr(line, " DFMA");
    }
    code_check(name, &counts);
    assert_int_equal(pclose(code), 0);
    assert_true(kernels >= 2 * WEFT_KERNEL_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(image_is_the_same_in_each_build),
        cmocka_unit_test(image_is_the_compilers),
        cmocka_unit_test(all_kernels_are_in_every_image),
        cmocka_unit_test(nothing_spills),
        cmocka_unit_test(nothing_is_contracted),
        cmocka_unit_test(image_holds_three),
        cmocka_unit_test(loops_take_128_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
