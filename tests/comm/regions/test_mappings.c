/* SPDX-License-Identifier: Apache-2.0 */
/* Private, anonymous memory is distinguished from everything else, by the kernel's answer for each mapping and from its text. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/regions/mappings.h"
#include "tests/support/skip.h"

#define PAGE ((size_t)4096)

/* --- text */

#define PRIVATE(range) range " rw-p 00000000 00:00 0 \n"

static const struct {
    const char *text;
    int is_private; /* [0x2000, 0x5000) */
} texts[] = {
    {PRIVATE("1000-6000"), 1},
    {PRIVATE("2000-5000"), 1},
    {PRIVATE("00002000-0000000000005000"), 1},
    {PRIVATE("1000-3000") PRIVATE("3000-4000") PRIVATE("4000-8000"), 1},
    {"1000-2000 r--s 00000000 08:01 99 /file\n" PRIVATE(
         "2000-5000") "5000-6000 r--s 00000000 08:01 99 /file\n",
     1},
    {PRIVATE("1000-4000") PRIVATE("1000-3000") PRIVATE("3000-6000"),
     1}, /* split and merged while it was read */
    {PRIVATE("1000-4000") PRIVATE("3000-6000"), 1},
    {"2000-5000 rw-p 00000000 00:00 0                          [heap]\n", 1},
    {"2000-5000 ---p 00000000 00:00 0                          [anon:name 1-2 rw-s 0 1:1 1]\n", 1},
    {"2000-5000 rw-p ffffffffffffffff 00:00 0\n", 1},
    {"", 0},
    {"\n", 0},
    {PRIVATE("3000-6000"), 0},
    {PRIVATE("1000-4000"), 0},
    {PRIVATE("1000-3000") PRIVATE("4000-6000"), 0},
    {PRIVATE("5000-6000"), 0},
    {PRIVATE("1000-3000") "3000-4000 rw-s 00000000 00:00 0\n" PRIVATE("4000-6000"), 0},
    {"2000-5000 rw-s 00000000 00:01 1024                       /dev/zero (deleted)\n", 0},
    {"2000-5000 rw-p 00000000 00:01 1024                       /memfd:x (deleted)\n", 0},
    {"2000-5000 rw-p 00000000 00:00 1\n", 0},
    {"2000-5000 rw-p 00000000 01:00 0\n", 0},
    {"2000-5000 rw-p 00000000 00:01 0\n", 0},
    {"2000-5000 rw-p 00000000 00:00 0", 0}, /* cut short */
    {"2000-5000 rw-p 00000000 00:00\n", 0},
    {"2000-5000 rw-p\n", 0},
    {"2000-5000 \n", 0},
    {"2000-5000 rwp 00000000 00:00 0\n", 0},
    {"2000-\n", 0},
    {"2000 5000 rw-p 00000000 00:00 0\n", 0},
    {"2000-50000000000000000 rw-p 00000000 00:00 0\n", 0},
    {"2000-5000 rw-p 0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "0000000000000000000000000000000000000000 00:00 0\n",
     0},
    {"nothing of the kind\n" PRIVATE("1000-6000"), 0},
};

/* In pieces of every size. */
static void test_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t size = strlen(texts[i].text);
        for (size_t piece = 1; piece <= size + 1; piece++) {
            struct weft_mappings_text text = {.at = 0x2000, .end = 0x5000};
            int more = 1;
            for (size_t at = 0; at < size && more; at += piece)
                more = weft_mappings_feed(&text, texts[i].text + at, size - at < piece ? size - at : piece);
            if ((text.at >= text.end) != texts[i].is_private || (texts[i].is_private && more))
                fail_msg("text %zu in pieces of %zu: at %zx, more %d", i, piece, (size_t)text.at, more);
        }
    }
}

/* A name as long as a path can be does no harm. */
static void test_long_name(void **state)
{
    (void)state;
    struct weft_mappings_text text = {.at = 0x2000, .end = 0x5000};
    const char *first = "1000-2000 r--p 00000000 08:01 99 /", *second = "\n" PRIVATE("2000-5000");
    assert_int_equal(weft_mappings_feed(&text, first, strlen(first)), 1);
    for (int i = 0; i < 20000; i++)
        assert_int_equal(weft_mappings_feed(&text, "-p 0", 4), 1);
    assert_int_equal(weft_mappings_feed(&text, second, strlen(second)), 0);
    assert_int_equal(text.at, 0x5000);
}

/* --- memory */

static int is_private(int fd, const char *memory, size_t size)
{
    return weft_mappings_are_private(fd, (uintptr_t)memory, (uintptr_t)memory + size);
}

static char *map(size_t size, int flags, int file)
{
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* 0, or the line that is wrong: also in a child, where nothing can be asserted. */
#define EXPECT(what)                                                                                         \
    do {                                                                                                     \
        if (!(what))                                                                                         \
            return __LINE__;                                                                                 \
    } while (0)

static int look_at_files(int fd)
{
    int file = memfd_create("test", MFD_CLOEXEC);
    EXPECT(file >= 0 && ftruncate(file, 4 * (off_t)PAGE) == 0);
    char *copies = map(4 * PAGE, MAP_PRIVATE, file), *shared = map(4 * PAGE, MAP_SHARED, file);
    char *nobodys = map(4 * PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);
    char *mixed = map(4 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    EXPECT(copies && shared && nobodys && mixed);
    EXPECT(mmap(mixed + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == mixed + PAGE);
    memset(copies, 1, 4 * PAGE); /* anonymous pages, each of them */
    EXPECT(!is_private(fd, copies, 4 * PAGE));
    EXPECT(!is_private(fd, shared, 4 * PAGE));
    EXPECT(!is_private(fd, nobodys, 4 * PAGE));
    EXPECT(!is_private(fd, mixed, 4 * PAGE));
    EXPECT(is_private(fd, mixed, PAGE) && is_private(fd, mixed + 2 * PAGE, 2 * PAGE));
    munmap(copies, 4 * PAGE);
    munmap(shared, 4 * PAGE);
    munmap(nobodys, 4 * PAGE);
    munmap(mixed, 4 * PAGE);
    close(file);
    return 0;
}

static int look(int fd)
{
    char *memory = map(8 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1), *block = malloc(100000),
         on_stack[100] = {0};
    EXPECT(memory && block);
    uintptr_t first = (uintptr_t)block & ~(PAGE - 1), last = ((uintptr_t)block + 99999) & ~(PAGE - 1);
    EXPECT(is_private(fd, memory, 8 * PAGE)); /* nothing is there yet */
    memset(memory, 1, 8 * PAGE);
    EXPECT(is_private(fd, memory, 8 * PAGE));
    EXPECT(mprotect(memory + PAGE, PAGE, PROT_NONE) == 0); /* a mapping of its own */
    EXPECT(is_private(fd, memory, 8 * PAGE));
    EXPECT(is_private(fd, (char *)first, last + PAGE - first));
    EXPECT(is_private(fd, (char *)((uintptr_t)on_stack & ~(PAGE - 1)), PAGE));
    munmap(memory + 4 * PAGE, PAGE);
    EXPECT(!is_private(fd, memory, 8 * PAGE));
    EXPECT(!is_private(fd, memory + 4 * PAGE, PAGE));
    EXPECT(is_private(fd, memory, 4 * PAGE) && is_private(fd, memory + 5 * PAGE, 3 * PAGE));
    EXPECT(!is_private(fd, (char *)PAGE, PAGE));
    munmap(memory, 8 * PAGE);
    free(block);
    return look_at_files(fd);
}

static void test_memory(void **state)
{
    (void)state;
    int fd = weft_mappings_open();
    assert_true(fd >= 0);
    assert_int_equal(look(fd), 0);
    close(fd);
}

/* Kernels before 6.11 do not know the call, and a filter of system calls may not. */
static void test_memory_from_text(void **state)
{
    (void)state;
    const unsigned errors[] = {ENOTTY, EPERM};
    for (int i = 0; i < 2; i++) {
        struct sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xC0686611u /* PROCMAP_QUERY */, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | errors[i]),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof code / sizeof *code, code};
        int status, ends[2], line = -1;
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        pid_t child = fork();
        if (child == 0) {
            if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
                !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
                line = look(weft_mappings_open());
            _exit(write(ends[1], &line, sizeof line) != sizeof line);
        }
        assert_true(child > 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_int_equal(read(ends[0], &line, sizeof line), sizeof line);
        close(ends[0]);
        close(ends[1]);
        if (line < 0)
            TEST_SKIP("system calls cannot be forbidden here (seccomp)");
        assert_int_equal(line, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_long_name),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_from_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
