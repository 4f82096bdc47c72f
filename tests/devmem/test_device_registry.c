/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in kinds of devices, and tables of plug-ins that lack something, or are none. */
#include "devmem/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static void built_in_kinds_are_found_by_name(void **state)
{
    (void)state;
    size_t count = 0;
    const struct weft_device_ops *ops, *last = NULL;
    for (; (ops = weft_device_built_in(count)) != NULL; count++) {
        struct weft_device_ops complete;
        last = ops;
        assert_ptr_equal(weft_device_find(ops->name), ops);
        assert_int_equal(weft_device_complete(ops, &complete), WEFT_OK);
        assert_string_equal(complete.name, ops->name);
    }
    assert_true(count >= 1);
    assert_string_equal(last->name, "host");
    assert_null(weft_device_find("hos"));
    assert_null(weft_device_find(""));
    assert_null(weft_device_find(NULL));
}

static void names_are_checked(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "cuda", "gaudi-2_x", "abcdefghijabcdefghijabcdefghija"};
    static const char *const bad[] = {
        "", "Cuda", "2x", "-x", "a b", "a,b", "a/b", "^a", "abcdefghijabcdefghijabcdefghijab", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(weft_device_name_is_good(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(weft_device_name_is_good(bad[i]));
}

/* The least that a kind can have: what host has, without what need not be there. */
static struct weft_device_ops least(void)
{
    const struct weft_device_ops *host = weft_device_find("host");
    return (struct weft_device_ops){.size = sizeof(struct weft_device_ops),
                                    .abi = WEFT_DEVICE_ABI,
                                    .name = "least",
                                    .open = host->open,
                                    .close = host->close,
                                    .count = host->count,
                                    .describe = host->describe,
                                    .identify = host->identify,
                                    .queue_open = host->queue_open,
                                    .queue_close = host->queue_close,
                                    .copy = host->copy,
                                    .mark = host->mark,
                                    .test = host->test};
}

static void expect_unsupported(int status, const char *text)
{
    assert_int_equal(status, WEFT_UNSUPPORTED);
    assert_string_equal(weft_error_detail(), text);
}

static void absent_operations_can_be_called(void **state)
{
    (void)state;
    struct weft_device_ops partial = least(), ops;
    struct weft_device_handle handle;
    uint64_t offset;
    void *memory;
    int fd;
    assert_int_equal(weft_device_complete(&partial, &ops), WEFT_OK);
    assert_int_equal(ops.size, sizeof ops);
    expect_unsupported(ops.export_dmabuf(NULL, NULL, 0, &fd, &offset),
                       "devices of this kind export no dma-buf");
    expect_unsupported(ops.export_ipc(NULL, NULL, &handle, &offset),
                       "devices of this kind share no memory with other processes");
    expect_unsupported(ops.import_ipc(NULL, 0, &handle, &memory),
                       "devices of this kind map no memory of other processes");
    expect_unsupported(ops.unimport(NULL, NULL), "devices of this kind map no memory of other processes");
    expect_unsupported(ops.reduce(NULL, NULL), "devices of this kind do not reduce");
    expect_unsupported(ops.run(NULL, NULL), "devices of this kind run no device collectives");
    expect_unsupported(ops.mark_stream(NULL, 0, NULL, 0, NULL), "devices of this kind have no streams");
    expect_unsupported(ops.elapsed(NULL, NULL, NULL), "devices of this kind have no clock");
    expect_unsupported(ops.await(NULL, NULL), "devices of this kind have no queues that wait for each other");
    expect_unsupported(ops.wait_stream(NULL, 0, NULL, NULL), "devices of this kind cannot hold a stream");
    expect_unsupported(ops.wait_open(NULL, NULL), "devices of this kind cannot hold a stream");
    expect_unsupported(ops.pin(NULL, NULL, 0), "devices of this kind cannot read and write host memory");
    expect_unsupported(ops.unpin(NULL, NULL, 0), "devices of this kind cannot read and write host memory");
    expect_unsupported(ops.allocate(NULL, 0, WEFT_MEMORY_DEVICE, 1, &memory),
                       "devices of this kind have no memory that weft could allocate");
    expect_unsupported(ops.release(NULL, NULL),
                       "devices of this kind have no memory that weft could allocate");
    assert_int_equal(ops.in_use(NULL), 1);
    assert_int_equal(ops.flush_writes(NULL, 0), WEFT_OK);
    assert_int_equal(ops.reaches(NULL, 0, NULL, 0), 1);
    ops.event_free(NULL);
    ops.wait_free(NULL);
}

static void refuse(const struct weft_device_ops *partial, const char *text)
{
    struct weft_device_ops ops = {.abi = 99};
    assert_int_equal(weft_device_complete(partial, &ops), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), text);
    assert_int_equal(ops.abi, 99);
}

static void refuse_lacking(const struct weft_device_ops *partial)
{
    char text[256];
    snprintf(text, sizeof text,
             "device least lacks one of open, close, count, describe, identify, queue_open, queue_close, "
             "copy, mark, test in its table of %zu bytes",
             partial->size);
    refuse(partial, text);
}

static void tables_that_are_none_are_refused(void **state)
{
    (void)state;
    struct weft_device_ops ops = least();
    ops.size = 12;
    refuse(&ops, "a kind of device has a table of 12 bytes: expected at least 24");
    ops = least();
    ops.abi = 7;
    refuse(&ops, "a kind of device has ABI 7: expected 2");
    ops = least();
    ops.name = "Least";
    refuse(&ops, "a kind of device is called 'Least': expected 1 to 31 lower-case letters, digits, '-' and "
                 "'_', a letter first");
    ops.name = NULL;
    refuse(&ops, "a kind of device is called '': expected 1 to 31 lower-case letters, digits, '-' and '_', a "
                 "letter first");
    ops = least();
    ops.identify = NULL;
    refuse_lacking(&ops);
    ops = least();
    ops.size = offsetof(struct weft_device_ops, copy); /* what is behind is not the table's */
    refuse_lacking(&ops);
}

/* A table of a newer weft, which has operations behind those that this one knows. */
static void larger_tables_are_cut(void **state)
{
    (void)state;
    struct {
        struct weft_device_ops ops;
        void *newer[4];
    } large = {.ops = least()};
    struct weft_device_ops ops;
    large.ops.size = sizeof large;
    assert_int_equal(weft_device_complete(&large.ops, &ops), WEFT_OK);
    assert_int_equal(ops.size, sizeof ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_kinds_are_found_by_name),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(absent_operations_can_be_called),
        cmocka_unit_test(tables_that_are_none_are_refused),
        cmocka_unit_test(larger_tables_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
