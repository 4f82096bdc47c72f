/* SPDX-License-Identifier: Apache-2.0 */
/* base/demote.h: it is used where the kernel says that the processor has it, and nothing but the cache can see it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/demote.h"

/* As /proc/cpuinfo has it, word for word. */
static int kernel_lists(const char *wanted)
{
    char word[64];
    int found = 0;
    FILE *file = fopen("/proc/cpuinfo", "re");
    assert_non_null(file);
    while (!found && fscanf(file, "%63s", word) == 1)
        found = strcmp(word, wanted) == 0;
    fclose(file);
    return found;
}

static void test_works(void **state)
{
    (void)state;
    if (kernel_lists("cldemote")) /* an emulator may hide it */
        assert_int_equal(weft_demote_works(), 1);
}

/* Up to the last byte before memory that may not be touched. */
static void test_bytes_stay(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
    for (size_t bytes = 0; bytes <= 300; bytes++) {
        memset(memory, (int)(bytes & 0xff), page);
        weft_demote(memory + page - bytes, bytes);
        for (size_t i = 0; i < page; i++)
            assert_int_equal(memory[i], bytes & 0xff);
    }
    munmap(memory, 2 * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_works), cmocka_unit_test(test_bytes_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
