/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are read whole: what is cut off, what fails and how, and that nothing waits. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[] = "/tmp/weft-file-XXXXXX";
static char path[64];

static int setup(void **state)
{
    (void)state;
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void put(const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void test_text_and_line(void **state)
{
    (void)state;
    char text[16];
    put("first\nsecond\n");
    assert_int_equal(weft_file_read(path, text, sizeof text), 13);
    assert_string_equal(text, "first\nsecond\n");
    assert_int_equal(weft_file_read_line(path, text, sizeof text), 5);
    assert_string_equal(text, "first");
    assert_int_equal(weft_file_read(path, text, 8), 7);
    assert_string_equal(text, "first\ns");
    put("");
    assert_int_equal(weft_file_read_line(path, text, sizeof text), 0);
    assert_string_equal(text, "");
}

/* From the beginning, and whoever shares the descriptor keeps his position. */
static void test_position(void **state)
{
    (void)state;
    char bytes[4];
    put("abcdef");
    int fd = open(path, O_RDONLY);
    assert_int_equal(lseek(fd, 3, SEEK_SET), 3);
    assert_int_equal(weft_file_read_fd(fd, bytes, sizeof bytes, 0), 4);
    assert_memory_equal(bytes, "abcd", 4);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 3);
    close(fd);
}

static void test_what_fails(void **state)
{
    (void)state;
    char text[16] = "before";
    errno = 0;
    assert_int_equal(weft_file_read(path, text, sizeof text), -1);
    assert_int_equal(errno, ENOENT);
    assert_string_equal(text, "");
    assert_int_equal(weft_file_read(folder, text, sizeof text), -1);
    assert_int_equal(errno, EISDIR);
    assert_int_equal(weft_file_read_line(folder, text, sizeof text), -1);
    assert_int_equal(errno, EISDIR);
}

/* A FIFO: would it be waited for, this would never end. */
static void test_fifo(void **state)
{
    (void)state;
    char text[16] = "before";
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(weft_file_read(path, text, sizeof text), -1);
    assert_int_equal(errno, ESPIPE);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_text_and_line, setup, teardown),
        cmocka_unit_test_setup_teardown(test_position, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fifo, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
