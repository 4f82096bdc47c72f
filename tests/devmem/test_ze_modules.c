/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; with tests/fakes/ze/spirv.c */
/* run: unthreaded (reads files, runs the compilers) */
/* The modules of SPIR-V in the library: that they are valid and have every kernel, ask of a device no more than they need, and are the same in each build;
 * and what they compute, when the compilers turn them back into code for this processor. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "devmem/ze/modules.h"
#include "tests/fakes/ze/fake_kernel.h"
#include "tests/support/effort.h"
#include "tests/support/reduce_table.h"
#include "tests/support/skip.h"

#define EACH_MODULE(module) for (int module = 0; module < WEFT_ZE_MODULE_COUNT; module++)
#define EACH_GROUP(group)   for (int group = 0; group < WEFT_ZE_GROUP_COUNT; group++)

static int is_collective(int module)
{
    return module >= WEFT_ZE_GROUP_COUNT;
}

/* Of a module's file. */
static const char *name_of(int module)
{
    static char name[64];
    snprintf(name, sizeof name, "%s%s", is_collective(module) ? "collective/" : "",
             weft_ze_group_name(module % WEFT_ZE_GROUP_COUNT));
    return name;
}

static void skip_without_modules(void)
{
    size_t size;
    if (!weft_ze_module_image(0, &size))
        TEST_SKIP("the library was built without clang or llvm-spirv");
}

static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *format, ...)
{
    char command[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return system(command);
}

static void modules_are_the_compilers(void **state)
{
    (void)state;
    skip_without_modules();
    EACH_MODULE(module)
    {
        char path[512];
        size_t size;
        const unsigned char *image = weft_ze_module_image(module, &size);
        snprintf(path, sizeof path, "%s/%s.spv", SPIRV_FOLDER, name_of(module));
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        unsigned char *content = malloc(size + 1);
        assert_non_null(content);
        assert_int_equal(fread(content, 1, size + 1, file), size);
        fclose(file);
        assert_memory_equal(image, content, size);
        free(content);
    }
}

/* What a driver has to be able to do is what launch.c asks it for: 64-bit floats where the type is one, and 16-bit ones never. */
static void modules_have_every_kernel(void **state)
{
    (void)state;
    struct fake_spirv read;
    uint32_t families = 0;
    skip_without_modules();
    EACH_GROUP(group)
    {
        size_t size;
        const void *image = weft_ze_module_image(group, &size);
        assert_true(fake_spirv_read(image, size, &read));
        assert_int_equal(read.uses_float64, weft_ze_group_float_bits(group) == 64);
        assert_int_equal(read.uses_float16, 0);
        for (uint32_t e = 0; e < read.entry_count; e++) {
            const struct fake_entry *entry = &read.entries[e];
            int family = 0;
            while (family < WEFT_KERNEL_copy && strcmp(weft_ze_kernel_name(family), entry->name) != 0)
                family++;
            if (family == WEFT_KERNEL_copy || weft_ze_group_of(family) != group)
                fail_msg("%s is in the module of %s", entry->name, weft_ze_group_name(group));
            families++;
            assert_int_equal(entry->local_size, WEFT_KERNEL_THREADS);
            assert_int_equal(entry->argument_count, WEFT_ZE_ARGUMENTS);
            for (uint32_t a = 0; a < WEFT_ZE_ARGUMENTS; a++)
                assert_int_equal(entry->argument_bytes[a], a < WEFT_ZE_POINTERS + WEFT_ZE_LONGS ? 8 : 4);
            /* Where products are added, nothing is contracted. */
            int is_sum = strstr(entry->name, "_sum") != NULL,
                is_complex = strstr(entry->name, "complex") != NULL;
            if (weft_ze_group_float_bits(group) && (is_sum || is_complex) && !entry->keeps_operations)
                fail_msg("%s may be contracted", entry->name);
        }
    }
    assert_int_equal(families, WEFT_KERNEL_copy);
}

/* No 64-bit atomic operations: an atomic load may be one that writes. */
static void modules_have_every_collective(void **state)
{
    (void)state;
    struct fake_spirv read;
    uint32_t found = 0;
    skip_without_modules();
    EACH_MODULE(module)
    {
        size_t size;
        const void *image = weft_ze_module_image(module, &size);
        assert_true(fake_spirv_read(image, size, &read));
        assert_int_equal(read.uses_atomics, 0);
        if (!is_collective(module))
            continue;
        assert_int_equal(read.uses_float64, weft_ze_group_float_bits(module % WEFT_ZE_GROUP_COUNT) == 64);
        assert_int_equal(read.uses_float16, 0);
        for (uint32_t e = 0; e < read.entry_count; e++) {
            int kernel = WEFT_ZE_COLLECTIVES;
            while (kernel < WEFT_ZE_KERNEL_COUNT && strcmp(weft_ze_kernel_name(kernel), read.entries[e].name))
                kernel++;
            if (kernel == WEFT_ZE_KERNEL_COUNT || weft_ze_module_of(kernel) != module)
                fail_msg("%s is in the module of %s", read.entries[e].name, name_of(module));
            assert_int_equal(read.entries[e].local_size, WEFT_KERNEL_THREADS);
            found++;
        }
    }
    assert_int_equal(found, WEFT_ZE_KERNEL_COUNT - WEFT_ZE_COLLECTIVES);
}

static void modules_are_valid(void **state)
{
    (void)state;
    skip_without_modules();
    if (run("command -v spirv-val >/dev/null") != 0)
        TEST_SKIP("no spirv-val here to look at the modules");
    EACH_MODULE(module)
    {
        if (run("spirv-val --target-env opencl2.0 %s/%s.spv", SPIRV_FOLDER, name_of(module)) != 0)
            fail_msg("spirv-val does not take the module of %s", name_of(module));
    }
    /* It finds what is wrong: a byte of an instruction. */
    assert_int_not_equal(
        run("{ head -c 2000 %s/bits.spv; printf x; } | spirv-val - >/dev/null 2>&1", SPIRV_FOLDER), 0);
}

static char folder[] = "/tmp/weft-test-spirv-XXXXXX";

static void modules_are_the_same_again(void **state)
{
    (void)state;
    skip_without_modules();
    assert_int_equal(run("env -u MAKEFLAGS -u MFLAGS make --no-print-directory -s SPIRV_FOLDER=%s/again "
                         "%s/again/bits.spv %s/again/complex64.spv %s/again/collective/bits.spv "
                         ">%s/log 2>&1 || { cat %s/log; false; }",
                         folder, folder, folder, folder, folder, folder),
                     0);
    assert_int_equal(run("cmp %s/again/bits.spv %s/bits.spv", folder, SPIRV_FOLDER), 0);
    assert_int_equal(run("cmp %s/again/complex64.spv %s/complex64.spv", folder, SPIRV_FOLDER), 0);
    assert_int_equal(run("cmp %s/again/collective/bits.spv %s/collective/bits.spv", folder, SPIRV_FOLDER), 0);
}

/* --- back to code for this processor */

typedef void kernel(const void *, const void *, const void *, const void *, const void *, const void *,
                    const void *, const void *, void *, void *, uint64_t, uint64_t, uint64_t, uint64_t,
                    uint64_t, uint32_t, uint32_t, uint32_t);
static kernel *kernels[WEFT_KERNEL_FAMILY_COUNT];
/* Group, groups and item of a library: what a module asks its driver for, by the names that OpenCL gives them. */
static uint64_t *items[WEFT_KERNEL_FAMILY_COUNT];
static const char hooks[] = "unsigned long weft_item[3];\n"
                            "unsigned long _Z12get_group_idj(unsigned d) { return d ? 0 : weft_item[0]; }\n"
                            "unsigned long _Z14get_num_groupsj(unsigned d) { return d ? 1 : weft_item[1]; }\n"
                            "unsigned long _Z12get_local_idj(unsigned d) { return d ? 0 : weft_item[2]; }\n";

static int reduce(const struct weft_device_reduction *reduction)
{
    struct weft_kernel_piece p = {.count = 0};
    int family = weft_kernel_family_of(reduction);
    if (family < 0 || !kernels[family])
        return 1;
    if (!reduction->count)
        return 0;
    weft_kernel_piece_reduce(&p, reduction, family);
    uint64_t *item = items[family];
    item[1] = 1 + reduction->count % 2;
    for (item[0] = 0; item[0] < item[1]; item[0]++) {
        for (item[2] = 0; item[2] < WEFT_KERNEL_THREADS; item[2]++)
            kernels[family](p.sources[0], p.sources[1], p.sources[2], p.sources[3], p.sources[4],
                            p.sources[5], p.sources[6], p.sources[7], p.destinations[0], p.destinations[1],
                            p.count, p.head_bytes, p.vectors, p.scalar[0], p.scalar[1], p.source_count,
                            p.finish, p.flags);
    }
    return 0;
}

static void load_group(int group)
{
    const char *name = weft_ze_group_name(group);
    char path[512];
    assert_int_equal(run("%s -r %s/%s.spv -o %s/%s.bc && %s -w -O1 -fPIC -ffp-contract=off -shared "
                         "-x ir %s/%s.bc -x c %s/hooks.c -o %s/%s.so",
                         SPIRV_LLVM, SPIRV_FOLDER, name, folder, name, SPIRV_CLANG, folder, name, folder,
                         folder, name),
                     0);
    snprintf(path, sizeof path, "%s/%s.so", folder, name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    for (int family = 0; family < WEFT_KERNEL_copy; family++) {
        if (weft_ze_group_of(family) != group)
            continue;
        *(void **)&kernels[family] = dlsym(library, weft_ze_kernel_name(family));
        items[family] = dlsym(library, "weft_item");
        assert_non_null(items[family]);
    }
}

static void modules_give_the_hosts_bits(void **state)
{
    (void)state;
    skip_without_modules();
    char path[512];
    snprintf(path, sizeof path, "%s/hooks.c", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(hooks, file) >= 0 && fclose(file) == 0);
    EACH_GROUP(group) load_group(group);
    struct reduce_table table = {.memory = aligned_alloc(64, REDUCE_TABLE_BYTES),
                                 .reduce = reduce,
                                 .stride = (int)test_by_effort(8, 2, 1)};
    assert_non_null(table.memory);
    reduce_table_run(&table);
    printf("SPIR-V: %lu types and operations, %lu reductions, #wrong %lu\n", table.pairs, table.tried,
           table.wrong);
    free(table.memory);
    assert_int_equal(table.wrong + table.failed, 0);
    assert_int_equal(table.pairs, 107);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return run("rm -rf %s", folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_are_the_compilers),     cmocka_unit_test(modules_have_every_kernel),
        cmocka_unit_test(modules_have_every_collective), cmocka_unit_test(modules_are_valid),
        cmocka_unit_test(modules_are_the_same_again),    cmocka_unit_test(modules_give_the_hosts_bits),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
