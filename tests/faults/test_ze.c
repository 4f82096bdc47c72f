/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; beside ze; injected */
/* run: elsewhere (tests/devmem/test_ze_share) */
/* Each call that the kind "ze" makes outwards (memory, descriptors, files) fails in turn, under the real loader with the fake driver: the
 * operation says so, or does without, the same operations work afterwards, and nothing is left behind. */
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
#include "devmem/ze/ze.h"
#include "tests/faults/inject.h"
#include "tests/support/ze_peer.h"
#include "tests/support/ze_scene.h"
#include "tests/support/ze_streams.h"

#define PAGE ((size_t)4096)

static const struct weft_device_ops *const ops = &weft_ze_ops;
static struct ze_fake *fake;
static struct device_streams streams;
static char pages[4 * PAGE] __attribute__((aligned(4096)));
static int failed;      /* operations of a run that said so, */
static char first[512]; /* and the text of the first */

/* What ends a run: status of its process. */
enum { NO_REASON = 50, NO_STREAM, WRONG_BITS, NO_WAY_ON, STUCK, NO_REPORT };

static int worded(int status)
{
    if (status < 0) {
        const char *text = *ze_said ? ze_said : weft_error_detail();
        if (!*text)
            _exit(NO_REASON);
        if (!failed++)
            snprintf(first, sizeof first, "%s", text);
    }
    *ze_said = 0;
    weft_error_set_detail("");
    return status;
}

/* --- what is done with weft */

/* How the queue's work ends. */
static void finish(struct weft_device_queue *queue)
{
    struct weft_device_event *event;
    int status = 0;
    if (worded(ops->mark(queue, &event)) != WEFT_OK)
        return;
    for (int looks = 0; (status = ops->test(event)) == 0; looks++) {
        if (looks > 500000)
            _exit(STUCK);
        usleep(20);
    }
    worded(status < 0 ? status : WEFT_OK);
    ops->event_free(event);
}

/* memory becomes twice what from has, by the device, where it reduces; 1, or 0 where something has failed. */
static int compute(struct weft_device_queue *queue, void *memory, const int8_t *from, int8_t *back)
{
    const void *sources[] = {memory, memory};
    const struct weft_device_reduction sum = {.size = sizeof sum,
                                              .dtype = WEFT_INT8,
                                              .op = WEFT_SUM,
                                              .source_count = 2,
                                              .destination_count = 1,
                                              .sources = sources,
                                              .destinations = &memory,
                                              .count = PAGE};
    const int before = failed;
    worded(ops->copy(queue, memory, from, PAGE));
    int status = ops->reduce(queue, &sum);
    int is_reduced = status == WEFT_OK;
    if (status != WEFT_UNSUPPORTED) /* the next way down: the host does it */
        worded(status);
    worded(ops->copy(queue, back, memory, PAGE));
    finish(queue);
    for (size_t i = 0; failed == before && i < PAGE; i++) {
        if (back[i] != (is_reduced ? 2 : 1) * from[i])
            _exit(WRONG_BITS);
    }
    return is_reduced;
}

static int use_queue(struct weft_device *device, void *memory)
{
    struct weft_device_queue *queue;
    int8_t *pinned;
    int reduced = 0;
    if (worded(ops->queue_open(device, 1, &queue)) != WEFT_OK)
        return 0;
    if (worded(ops->allocate(device, -1, WEFT_MEMORY_PINNED, 2 * PAGE, (void **)&pinned)) == WEFT_OK) {
        memset(pinned, 7, PAGE);
        reduced = compute(queue, memory, pinned, pinned + PAGE);
        worded(ops->release(device, pinned));
    }
    ops->queue_close(queue);
    return reduced;
}

/* The stream goes on, whatever fails. */
static int use_stream(struct weft_device *device, void *stream)
{
    struct weft_device_queue *queue = NULL;
    struct weft_device_event *event;
    struct weft_device_wait *wait;
    if (worded(ops->queue_open(device, 1, &queue)) != WEFT_OK)
        queue = NULL;
    if (queue && worded(ops->mark_stream(device, 1, stream, 0, &event)) == WEFT_OK) {
        worded(ops->await(queue, event));
        ops->event_free(event);
        finish(queue);
    }
    int waits = worded(ops->wait_stream(device, 1, stream, &wait)) == WEFT_OK;
    if (waits) {
        worded(ops->wait_open(wait, queue));
        ops->wait_free(wait);
    }
    if (queue)
        ops->queue_close(queue);
    if (streams.sync(stream) != 0)
        _exit(STUCK);
    return waits;
}

static void use_pins(struct weft_device *device)
{
    int one = worded(ops->pin(device, pages + PAGE, PAGE)) == WEFT_OK;
    int all = worded(ops->pin(device, pages, sizeof pages)) == WEFT_OK;
    if (one)
        worded(ops->unpin(device, pages + PAGE, PAGE));
    if (all)
        worded(ops->unpin(device, pages, sizeof pages));
}

static int use_handles(struct weft_device *device, const struct weft_device_handle *theirs, void *memory)
{
    struct weft_device_handle handle;
    uint64_t offset;
    void *base;
    int fd, good = worded(ops->export_ipc(device, memory, &handle, &offset)) == WEFT_OK;
    if (worded(ops->export_dmabuf(device, memory, PAGE, &fd, &offset)) == WEFT_OK) {
        good++;
        close(fd); /* the test's call: it is not in the books */
        fault_fd_remove(fd);
    }
    if (worded(ops->import_ipc(device, 1, theirs, &base)) == WEFT_OK) {
        good++;
        worded(ops->unimport(device, base));
    }
    return good;
}

/* How many of its parts were done, and not left to the host; and what the device says that it has. */
static int use(struct weft_device *device, const struct weft_device_handle *theirs, void *stream, int *flags)
{
    struct weft_device_info info = {.size = sizeof info};
    void *memory;
    worded(ops->describe(device, 1, &info));
    *flags = (int)info.flags;
    use_pins(device);
    if (worded(ops->allocate(device, 1, WEFT_MEMORY_DEVICE, PAGE, &memory)) != WEFT_OK)
        return 0;
    int done = use_handles(device, theirs, memory) + use_queue(device, memory) + use_stream(device, stream);
    worded(ops->release(device, memory));
    return done;
}

/* --- a run in a process of its own */

enum { REACHED, FAILED, DONE, FLAGS, LEFT, BLOCKS, FDS, OPEN, RESULTS };

static int left(void)
{
    return fake->contexts + fake->allocations + fake->pools + fake->events + fake->lists + fake->queues +
           fake->modules + fake->kernels + fake->ipc_handles;
}

static void run(const struct fault_aim *aim, const struct weft_device_handle *theirs, int out)
{
    struct fault_report report = {.counted = 0};
    void *stream;
    int flags;
    if (streams.open(1, &stream) != 0)
        _exit(NO_STREAM);
    int before = left(), fds_before = ze_peer_descriptors();
    if (aim)
        fault_arm(aim);
    struct weft_device *device = ze_scene_open();
    if (device)
        use(device, theirs, stream, &flags);
    else
        failed++;
    if (aim)
        fault_disarm(&report);
    int said = failed;
    failed = 0;
    if (!device && !(device = ze_scene_open()))
        _exit(NO_WAY_ON);
    int done = use(device, theirs, stream, &flags);
    if (failed) {
        fprintf(stderr, "afterwards: %s\n", first);
        _exit(NO_WAY_ON);
    }
    ops->close(device);
    int results[] = {(int)report.reached,
                     said,
                     done,
                     flags,
                     left() - before,
                     (int)fault_blocks_live(),
                     fault_fds_open(),
                     ze_peer_descriptors() - fds_before};
    if (streams.close(stream) != 0 || fake->violations) {
        fprintf(stderr, "%s\n", fake->first_violation);
        _exit(NO_STREAM);
    }
    fflush(stdout);
    if (write(out, results, sizeof results) != sizeof results)
        _exit(NO_REPORT);
}

static void run_apart(const struct fault_aim *aim, const struct weft_device_handle *theirs,
                      int results[RESULTS])
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run(aim, theirs, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        fail_msg("%s, call %u: the process ended with status %x",
                 aim ? fault_call_name(aim->call) : "no fault", aim ? aim->k : 0, (unsigned)status);
    assert_int_equal(read(ends[0], results, RESULTS * sizeof *results), RESULTS * sizeof *results);
    close(ends[0]);
}

static void judge(const struct fault_aim *aim, const int *clean, const int *results)
{
    for (int i = DONE; i < RESULTS; i++) {
        if (i == DONE || i == FLAGS ? results[i] != clean[i] : results[i] > clean[i])
            fail_msg("%s, call %u: %d said so; done afterwards %d (%d), of flags %x (%x), left are %d of the "
                     "driver's (%d), %d "
                     "blocks "
                     "(%d), %d descriptors (%d), %d open (%d)",
                     fault_call_name(aim->call), aim->k, results[FAILED], results[DONE], clean[DONE],
                     (unsigned)results[FLAGS], (unsigned)clean[FLAGS], results[LEFT], clean[LEFT],
                     results[BLOCKS], clean[BLOCKS], results[FDS], clean[FDS], results[OPEN], clean[OPEN]);
    }
}

static void test_each_call(void **state)
{
    (void)state;
    static const int calls[] = {FAULT_MALLOC,  FAULT_CALLOC, FAULT_DLOPEN,         FAULT_DLSYM,
                                FAULT_FCNTL,   FAULT_FSTAT,  FAULT_PTHREAD_CREATE, FAULT_SOCKET,
                                FAULT_BIND,    FAULT_LISTEN, FAULT_CONNECT,        FAULT_SENDMSG,
                                FAULT_RECVMSG, FAULT_CLOSE,  FAULT_EPOLL_CREATE1};
    struct ze_peer peer;
    int clean[RESULTS], results[RESULTS];
    uint32_t reached = 0, said = 0, k;
    assert_int_equal(ze_peer_start(&peer, NULL), 0);
    assert_int_equal(ze_peer_do(&peer, ZE_PEER_ALLOCATE, 1), WEFT_OK);
    assert_int_equal(ze_peer_do(&peer, ZE_PEER_EXPORT, 0), WEFT_OK);
    run_apart(NULL, &peer.report.handle, clean);
    assert_int_equal(clean[FAILED], 0);
    assert_int_equal(clean[DONE], 4 + weft_ze_has_kernels());
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        results[REACHED] = 1;
        for (k = 0; results[REACHED]; reached += results[REACHED] != 0) {
            struct fault_aim aim = {.call = calls[c], .way = 0, .k = ++k};
            run_apart(&aim, &peer.report.handle, results);
            judge(&aim, clean, results);
            said += results[FAILED] != 0;
        }
        printf("%s: %u calls\n", fault_call_name(calls[c]), k - 1);
        assert_true(k > 1);
    }
    printf("%u faults, %u of them said\n", reached, said);
    assert_true(reached > 100 && said > 80); /* 61 of them symbols */
    assert_int_equal(ze_peer_do(&peer, ZE_PEER_FREE, 0), WEFT_OK);
    assert_int_equal(ze_peer_end(&peer), 0);
}

static int setup(void **state)
{
    (void)state;
    fake = ze_scene_load();
    if (!fake)
        return 1;
    fake->device_count = 2;
    ze_streams(NULL, &streams);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_call)};
    setenv("WEFT_LOG", "none", 0);
    fault_start();
    return cmocka_run_group_tests(tests, setup, NULL);
}
