/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside drivers; injected */
/* Each call that the kind "cuda" makes outwards (memory, descriptors, files) fails in turn, on the fake driver: the
 * operation says so, or does without, and nothing is left behind. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"
#include "devmem/share_wire.h"
#include "tests/faults/inject.h"
#include "tests/support/cuda_scene.h"

#define PAGE ((size_t)4096)

static const struct weft_device_ops *ops = &weft_cuda_ops;
static struct cuda_fake *fake;
static char pages[8 * PAGE] __attribute__((aligned(4096)));
static int failed; /* operations of a run that said so */

static int worded(int status)
{
    if (status < 0) {
        failed++;
        if (!*scene_text() && !*weft_error_detail())
            _exit(50); /* without a reason */
    }
    weft_error_set_detail("");
    return status;
}

/* --- the program */

struct program {
    CUcontext context;
    struct scene_memory legacy, mapped[2];
};

static void program_make(struct program *program)
{
    int bad = scene_enter(1, &program->context) || scene_memory_make(&program->legacy, SCENE_LEGACY, 1);
    for (size_t i = 0; i < 2; i++)
        bad |= scene_memory_make(&program->mapped[i], SCENE_MAPPED, 1);
    if (bad)
        _exit(51);
}

static void program_end(struct program *program)
{
    for (size_t i = 0; i < 2; i++)
        scene_memory_free(&program->mapped[i]);
    scene_memory_free(&program->legacy);
    scene_leave(1, program->context);
}

/* --- what is done with weft */

static void use_queue(struct weft_device *device)
{
    struct weft_device_queue *queue;
    struct weft_device_event *event;
    struct weft_device_wait *wait;
    void *memory = NULL, *pinned = NULL;
    if (worded(ops->queue_open(device, 1, &queue)))
        return;
    int has = worded(ops->allocate(device, 1, WEFT_MEMORY_DEVICE, PAGE, &memory)) == WEFT_OK;
    int has_pinned = worded(ops->allocate(device, -1, WEFT_MEMORY_PINNED, PAGE, &pinned)) == WEFT_OK;
    if (has && has_pinned) {
        const void *sources[] = {memory};
        struct weft_device_reduction copy = {.size = sizeof copy,
                                             .dtype = WEFT_INT8,
                                             .source_count = 1,
                                             .destination_count = 1,
                                             .sources = sources,
                                             .destinations = &memory,
                                             .count = PAGE};
        worded(ops->copy(queue, memory, pinned, PAGE));
        int status = ops->reduce(queue, &copy);
        if (status != WEFT_UNSUPPORTED) /* built without kernels */
            worded(status);
    }
    if (worded(ops->mark(queue, &event)) == WEFT_OK) {
        if (scene_wait(event) != 1)
            _exit(52);
        ops->event_free(event);
    }
    if (worded(ops->mark_stream(device, 1, NULL, 0, &event)) == WEFT_OK) {
        worded(ops->await(queue, event));
        ops->event_free(event);
    }
    if (worded(ops->wait_stream(device, 1, NULL, &wait)) == WEFT_OK) {
        worded(ops->wait_open(wait, queue));
        ops->wait_free(wait);
    }
    scene_drain(NULL);
    if (has)
        worded(ops->release(device, memory));
    if (has_pinned)
        worded(ops->release(device, pinned));
    ops->queue_close(queue);
}

static void use_pins(struct weft_device *device)
{
    int first = worded(ops->pin(device, pages + 2 * PAGE, PAGE)) == WEFT_OK;
    int second = worded(ops->pin(device, pages, sizeof pages)) == WEFT_OK;
    if (first)
        worded(ops->unpin(device, pages + 2 * PAGE, PAGE));
    if (second)
        worded(ops->unpin(device, pages, sizeof pages));
}

static void use_handles(struct weft_device *device, const struct program *program,
                        const struct weft_device_handle *peers)
{
    struct weft_device_handle handle;
    struct weft_device_info info = {.size = sizeof info};
    uint64_t offset;
    void *base;
    int fd;
    worded(ops->describe(device, 1, &info));
    worded(ops->export_ipc(device, (void *)(uintptr_t)program->legacy.memory, &handle, &offset));
    for (size_t i = 0; i < 2; i++)
        worded(ops->export_ipc(device, (void *)(uintptr_t)program->mapped[i].memory, &handle, &offset));
    if (worded(ops->export_dmabuf(device, (void *)(uintptr_t)program->legacy.memory, PAGE, &fd, &offset)) ==
        WEFT_OK)
        close(fd);
    if (worded(ops->import_ipc(device, 1, peers, &base)) == WEFT_OK)
        worded(ops->unimport(device, base));
}

/* The same memory for ranks of this machine. */
static void use_shares(struct weft_device *device, const struct program *program,
                       const struct weft_device_handle *peers)
{
    const struct weft_device_kind kind = {.name = "cuda", .ops = *ops, .device = device};
    const struct weft_share_content theirs = {.kind = "cuda",
                                              .instance = 1,
                                              .identity = 1,
                                              .address = SCENE_BYTES,
                                              .length = PAGE,
                                              .handle = *peers};
    struct weft_shares *shares;
    struct weft_share share;
    struct weft_share_import *import;
    void *pointer;
    if (worded(weft_shares_open(NULL, &shares)))
        return;
    for (size_t i = 0; i < 2; i++)
        worded(weft_share_describe(shares, &kind, (void *)(uintptr_t)program->mapped[i].memory, PAGE, 1,
                                   &share));
    worded(weft_share_write(&theirs, &share));
    if (worded(weft_share_reach(shares, &kind, 1, 1, &share, PAGE, &pointer, &import)) == WEFT_OK)
        weft_share_release(shares, import);
    weft_shares_close(shares);
}

/* In a process of its own. What stays: what base/fork.h remembers of descriptors. */
static void run(const struct fault_aim *aim, const struct weft_device_handle *peers, int out)
{
    struct program program;
    struct fault_report report = {.counted = 0};
    program_make(&program);
    if (aim)
        fault_arm(aim);
    struct weft_device *device = scene_open();
    if (device) {
        use_handles(device, &program, peers);
        use_shares(device, &program, peers);
        use_queue(device);
        use_pins(device);
        ops->close(device);
    } else
        failed++;
    if (aim)
        fault_disarm(&report);
    program_end(&program);
    int results[] = {(int)report.reached, failed, fake->left(), (int)fault_blocks_live(), fault_fds_open()};
    if (write(out, results, sizeof results) != sizeof results)
        _exit(53);
}

enum { REACHED, FAILED, LEFT, BLOCKS, FDS, RESULTS };

static void run_apart(const struct fault_aim *aim, const struct weft_device_handle *peers,
                      int results[RESULTS])
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        run(aim, peers, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0 && aim)
        print_message("%s %d, call %u\n", fault_call_name(aim->call), fault_value(aim->call, aim->way),
                      aim->k);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], results, RESULTS * sizeof *results), RESULTS * sizeof *results);
    close(ends[0]);
}

/* A process with memory to import; it lives until its pipe is closed. */
static pid_t exporter_start(struct weft_device_handle *handle, int *until)
{
    int back[2], there[2];
    char none;
    assert_int_equal(pipe(back), 0);
    assert_int_equal(pipe(there), 0);
    pid_t child = fork();
    if (child == 0) {
        struct program program;
        uint64_t offset;
        close(there[1]);
        program_make(&program);
        struct weft_device *device = scene_open();
        if (!device || ops->export_ipc(device, (void *)(uintptr_t)program.legacy.memory, handle, &offset) ||
            write(back[1], handle, sizeof *handle) != sizeof *handle || read(there[0], &none, 1) != 0)
            _exit(1);
        _exit(0);
    }
    close(back[1]);
    close(there[0]);
    assert_int_equal(read(back[0], handle, sizeof *handle), sizeof *handle);
    close(back[0]);
    *until = there[1];
    return child;
}

static void test_each_call(void **state)
{
    (void)state;
    static const int calls[] = {FAULT_MALLOC,   FAULT_CALLOC,       FAULT_REALLOC,   FAULT_DLOPEN,
                                FAULT_DLSYM,    FAULT_MEMFD_CREATE, FAULT_FTRUNCATE, FAULT_FCNTL,
                                FAULT_MMAP,     FAULT_STAT,         FAULT_OPEN,      FAULT_READ,
                                FAULT_GETRANDOM};
    struct weft_device_handle peers;
    int clean[RESULTS], results[RESULTS], until, status;
    uint32_t reached = 0;
    pid_t exporter = exporter_start(&peers, &until);
    run_apart(NULL, &peers, clean);
    assert_int_equal(clean[FAILED], 0);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        for (uint32_t k = 1; k < 200; k++) {
            struct fault_aim aim = {.call = calls[c], .way = 0, .k = k};
            run_apart(&aim, &peers, results);
            int is_memory = calls[c] == FAULT_MALLOC || calls[c] == FAULT_CALLOC;
            if (results[LEFT] > clean[LEFT] || results[BLOCKS] > clean[BLOCKS] || results[FDS] > clean[FDS] ||
                (results[REACHED] && is_memory && !results[FAILED]))
                fail_msg("%s, call %u: %d said so; left are %d of the driver's (%d), %d blocks (%d), %d "
                         "descriptors (%d)",
                         fault_call_name(calls[c]), k, results[FAILED], results[LEFT], clean[LEFT],
                         results[BLOCKS], clean[BLOCKS], results[FDS], clean[FDS]);
            if (!results[REACHED])
                break;
            reached++;
        }
    }
    assert_true(reached > 80); /* 66 of them symbols */
    close(until);
    assert_int_equal(waitpid(exporter, &status, 0), exporter);
    assert_int_equal(status, 0);
}

static int setup(void **state)
{
    (void)state;
    fake = scene_load();
    return !fake;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_call)};
    fault_start();
    return cmocka_run_group_tests(tests, setup, NULL);
}
