/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside drivers */
/* Device memory for NICs and other processes: dma-bufs, handles of every method, and handles that peers have spoiled.
 *
 * The exporter is forked before either has called the driver. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "devmem/cuda/handle.h"
#include "tests/support/bits.h"
#include "tests/support/cuda_scene.h"

static const struct weft_device_ops *ops = &weft_cuda_ops;
static struct cuda_fake *fake;
static struct weft_device *device;

/* --- the exporter */

struct report {
    int status;
    uint64_t offset;
    struct weft_device_handle handle;
};

struct program {
    CUcontext context;
    struct scene_memory at;
};

static int program_make(struct program *program, enum scene_way way)
{
    return scene_enter(1, &program->context) || scene_memory_make(&program->at, way, 1);
}

static void program_end(struct program *program)
{
    scene_memory_free(&program->at);
    scene_leave(1, program->context);
}

/* Exports, announces, and waits for a command: 'r' takes the memory away, puts other memory there, exports that and announces. */
__attribute__((noreturn)) static void exporter(enum scene_way way, int in, int out)
{
    struct program program;
    char letter = 'r';
    device = scene_open();
    if (!device || program_make(&program, way))
        _exit(10);
    for (char fill = 'a'; letter == 'r'; fill++) {
        struct report report = {.status = 0};
        memset(fake->look((void *)(uintptr_t)program.at.memory), fill, SCENE_BYTES);
        report.status = ops->export_ipc(device, (char *)(uintptr_t)program.at.memory + 100, &report.handle,
                                        &report.offset);
        struct report again = report;
        if (report.status ||
            ops->export_ipc(device, (char *)(uintptr_t)program.at.memory + 100, &again.handle,
                            &again.offset) ||
            memcmp(&report.handle, &again.handle, sizeof report.handle) != 0)
            fprintf(stderr, "export: %s\n", scene_text());
        if (write(out, &report, sizeof report) != sizeof report || read(in, &letter, 1) != 1)
            _exit(11);
        if (letter != 'r')
            break;
        program_end(&program);
        if (program_make(&program, way))
            _exit(12);
    }
    void *base;
    struct report own = {.status = 0};
    if (ops->export_ipc(device, (void *)(uintptr_t)program.at.memory, &own.handle, &own.offset) ||
        ops->import_ipc(device, 0, &own.handle, &base) != WEFT_UNSUPPORTED)
        _exit(13);
    program_end(&program);
    if (ops->import_ipc(device, 0, &own.handle, &base) != WEFT_PROTOCOL)
        _exit(15);
    ops->close(device);
    _exit(fake->left() == 0 ? 0 : 14);
}

struct peer {
    pid_t pid;
    int in, out;
    struct report report;
};

static struct peer peer_start(enum scene_way way)
{
    struct peer peer;
    int there[2], back[2];
    assert_int_equal(pipe2(there, O_CLOEXEC), 0);
    assert_int_equal(pipe2(back, O_CLOEXEC), 0);
    peer.pid = fork();
    assert_true(peer.pid >= 0);
    if (peer.pid == 0)
        exporter(way, there[0], back[1]);
    close(there[0]);
    close(back[1]);
    peer.in = back[0];
    peer.out = there[1];
    assert_int_equal(read(peer.in, &peer.report, sizeof peer.report), sizeof peer.report);
    assert_int_equal(peer.report.status, WEFT_OK);
    return peer;
}

static void peer_replace(struct peer *peer)
{
    assert_int_equal(write(peer->out, "r", 1), 1);
    assert_int_equal(read(peer->in, &peer->report, sizeof peer->report), sizeof peer->report);
    assert_int_equal(peer->report.status, WEFT_OK);
}

static void peer_end(struct peer *peer)
{
    int status;
    assert_int_equal(write(peer->out, "e", 1), 1);
    assert_int_equal(waitpid(peer->pid, &status, 0), peer->pid);
    assert_int_equal(status, 0);
    close(peer->in);
    close(peer->out);
}

/* --- the importer, in each test a process of its own that has not touched the driver before */

static int setup(void **state)
{
    (void)state;
    fake = scene_load();
    return !fake;
}

static void in_child(void (*test)(void))
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        test();
        _exit(fake->left() == 0 ? 0 : 9);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#define NEED(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, scene_text());                         \
            fflush(stdout);                                                                                  \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

static int holds(const void *memory, char value)
{
    const char *bytes = fake->look(memory);
    return bytes && BITS_AGREE(bytes[0] == value && bytes[SCENE_BYTES - 1] == value);
}

/* What the peer has announced, in this process. */
static void *import_first(const struct peer *peer)
{
    void *base;
    NEED(ops->import_ipc(device, 1, &peer->report.handle, &base) == WEFT_OK);
    return base;
}

static void import_kind(enum scene_way way)
{
    void *base, *again, *elsewhere, *next;
    struct weft_device *second = NULL;
    struct peer peer = peer_start(way);
    device = scene_open();
    second = scene_open();
    base = import_first(&peer);
    NEED(peer.report.offset == 100 && holds(base, 'a'));
    /* Once per context, counted over all users in the process. */
    NEED(ops->import_ipc(second, 1, &peer.report.handle, &again) == WEFT_OK && again == base);
    NEED(ops->import_ipc(device, 0, &peer.report.handle, &elsewhere) == WEFT_OK && elsewhere != base);
    NEED(holds(elsewhere, 'a'));
    struct weft_device_handle old = peer.report.handle;
    NEED(ops->unimport(device, elsewhere) == WEFT_OK);
    NEED(ops->unimport(device, base) == WEFT_OK);
    NEED(holds(base, 'a'));
    NEED(ops->unimport(device, base) == WEFT_OK);
    NEED(ops->unimport(device, base) == WEFT_INVALID);
    /* Other memory at the same address is another handle. */
    peer_replace(&peer);
    NEED(memcmp(&old, &peer.report.handle, sizeof old) != 0);
    NEED(ops->import_ipc(device, 1, &peer.report.handle, &next) == WEFT_OK && holds(next, 'b'));
    if (way == SCENE_MAPPED || way == SCENE_POOL) /* its descriptor was taken down */
        NEED(ops->import_ipc(device, 1, &old, &base) == WEFT_PROTOCOL && strstr(scene_text(), "no longer"));
    NEED(ops->unimport(second, next) == WEFT_OK);
    ops->close(device);
    ops->close(second);
    peer_end(&peer);
}

#define APART(name, what)                                                                                    \
    static void apart_##name(void)                                                                           \
    {                                                                                                        \
        what;                                                                                                \
    }                                                                                                        \
    static void test_##name(void **state)                                                                    \
    {                                                                                                        \
        (void)state;                                                                                         \
        in_child(apart_##name);                                                                              \
    }
APART(legacy, import_kind(SCENE_LEGACY))
APART(mapped, import_kind(SCENE_MAPPED))
APART(mapped_fabric, import_kind(SCENE_MAPPED_FABRIC))
APART(pool, import_kind(SCENE_POOL))
APART(pool_fabric, import_kind(SCENE_POOL_FABRIC))

/* --- hostile handles */

/* Every byte of a good handle spoiled in turn, and random ones: an error each time, never anything else. Bytes that nobody reads
 * (the length that a legacy handle repeats, the uuid) may be spoiled. */
static void spoil(enum scene_way way)
{
    void *base;
    struct peer peer = peer_start(way);
    device = scene_open();
    NEED(ops->unimport(device, import_first(&peer)) == WEFT_OK);
    int refused = 0;
    srand(7);
    for (int i = 0; i < (int)sizeof(struct weft_cuda_handle) + 200; i++) {
        struct weft_device_handle bad = peer.report.handle;
        if (i < (int)sizeof(struct weft_cuda_handle))
            bad.bytes[i] ^= 0x41;
        else
            bad.bytes[rand() % (int)sizeof bad.bytes] = (uint8_t)rand();
        struct weft_cuda_handle inside;
        memcpy(&inside, bad.bytes, sizeof inside);
        inside.check = weft_cuda_handle_check(&inside);
        memcpy(bad.bytes, &inside, sizeof inside);
        int status = ops->import_ipc(device, 1, &bad, &base);
        if (status == WEFT_OK)
            NEED(ops->unimport(device, base) == WEFT_OK);
        else
            refused++;
        NEED(status == WEFT_OK || status == WEFT_PROTOCOL || status == WEFT_UNSUPPORTED ||
             status == WEFT_NOMEM);
    }
    NEED(refused > 40);
    peer_end(&peer);
    ops->close(device);
}

APART(spoiled_legacy, spoil(SCENE_LEGACY))
APART(spoiled_mapped, spoil(SCENE_MAPPED))
APART(spoiled_pool, spoil(SCENE_POOL))

static void refuse(struct weft_device_handle handle, void (*spoil_it)(struct weft_cuda_handle *), int wanted,
                   const char *part)
{
    void *base;
    struct weft_cuda_handle inside;
    memcpy(&inside, handle.bytes, sizeof inside);
    spoil_it(&inside);
    inside.check = weft_cuda_handle_check(&inside); /* whoever means it does that */
    memcpy(handle.bytes, &inside, sizeof inside);
    NEED(ops->import_ipc(device, 1, &handle, &base) == wanted);
    const char *text = scene_text();
    if (!strstr(text, part)) {
        printf("'%s' is not in '%s'\n", part, text);
        fflush(stdout);
        _exit(1);
    }
}

#define SPOIL(name, what)                                                                                    \
    static void name(struct weft_cuda_handle *handle)                                                        \
    {                                                                                                        \
        what;                                                                                                \
    }
SPOIL(wrong_magic, handle->magic++)
SPOIL(wrong_version, handle->version++)
SPOIL(wrong_method, handle->method = 9)
SPOIL(wrong_type, handle->type = 2)
SPOIL(wrong_length, handle->length = 0)
SPOIL(long_length, handle->length = UINT64_C(1) << 46)
SPOIL(wrong_slot, handle->slot = WEFT_OFFER_SLOTS)
SPOIL(other_slot, handle->slot++)
SPOIL(wrong_serial, handle->serial++)
SPOIL(no_serial, handle->serial = 0)
SPOIL(no_pid, handle->pid = -1)
SPOIL(wrong_key, handle->key[3]++)

static void refuse_all(void)
{
    void *base;
    struct peer peer = peer_start(SCENE_MAPPED);
    struct weft_device_handle handle = peer.report.handle;
    device = scene_open();
    NEED(ops->unimport(device, import_first(&peer)) == WEFT_OK);
    handle.bytes_used--;
    NEED(ops->import_ipc(device, 1, &handle, &base) == WEFT_PROTOCOL && strstr(scene_text(), "127 bytes"));
    handle.bytes_used++;
    handle.bytes[100] ^= 1;
    NEED(ops->import_ipc(device, 1, &handle, &base) == WEFT_PROTOCOL &&
         strstr(scene_text(), "bytes have changed"));
    handle.bytes[100] ^= 1;
    refuse(handle, wrong_magic, WEFT_PROTOCOL, "not of this kind");
    refuse(handle, wrong_version, WEFT_PROTOCOL, "another version");
    refuse(handle, wrong_method, WEFT_PROTOCOL, "method is unknown");
    refuse(handle, wrong_type, WEFT_PROTOCOL, "type is unknown");
    refuse(handle, wrong_length, WEFT_PROTOCOL, "length is impossible");
    refuse(handle, long_length, WEFT_NOMEM, "CUDA_ERROR_OUT_OF_MEMORY");
    refuse(handle, wrong_slot, WEFT_PROTOCOL, "names no descriptor");
    refuse(handle, no_pid, WEFT_PROTOCOL, "names no descriptor");
    refuse(handle, other_slot, WEFT_PROTOCOL, "no longer, one of process");
    refuse(handle, wrong_serial, WEFT_PROTOCOL, "no longer, one of process");
    refuse(handle, no_serial, WEFT_PROTOCOL, "names no descriptor");
    refuse(handle, wrong_key, WEFT_UNSUPPORTED, "nobody hands out its descriptor");
    NEED(ops->import_ipc(device, 7, &handle, &base) == WEFT_INVALID);
    fake->has_peers = 0;
    NEED(ops->import_ipc(device, 0, &handle, &base) == WEFT_UNSUPPORTED &&
         strstr(scene_text(), "cannot reach"));
    fake->has_peers = 1;
    static const char *const calls[] = {"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap",
                                        "cuMemSetAccess", "cuCtxPushCurrent_v2"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fake->let_fail(calls[i], 999, 0);
        NEED(ops->import_ipc(device, 1, &handle, &base) == WEFT_SYSTEM);
    }
    NEED(ops->import_ipc(device, 1, &handle, &base) == WEFT_OK);
    fake->let_fail("cuMemUnmap", 999, 0);
    fake->let_fail("cuMemAddressFree", 1, 0);
    NEED(ops->unimport(device, base) == WEFT_SYSTEM);
    peer_end(&peer);
    ops->close(device);
    _exit(0); /* what cuMemUnmap did not take back is there */
}

APART(refused, refuse_all())

static void refuse_pool(void)
{
    void *base;
    struct peer peer = peer_start(SCENE_POOL);
    device = scene_open();
    NEED(ops->unimport(device, import_first(&peer)) == WEFT_OK);
    fake->let_fail("cuMemPoolImportFromShareableHandle", 304, 0);
    NEED(ops->import_ipc(device, 1, &peer.report.handle, &base) == WEFT_PROTOCOL);
    fake->let_fail("cuMemPoolSetAccess", 217, 0);
    NEED(ops->import_ipc(device, 1, &peer.report.handle, &base) == WEFT_UNSUPPORTED);
    fake->let_fail("cuMemPoolImportPointer", 2, 0);
    NEED(ops->import_ipc(device, 1, &peer.report.handle, &base) == WEFT_NOMEM);
    peer_end(&peer);
    ops->close(device);
}

APART(pool_errors, refuse_pool())

/* --- exporting, what fails of it, and dma-bufs: all in one process */

static void export_errors(void)
{
    struct weft_device_handle handle;
    struct program program;
    uint64_t offset;
    int local = 0;
    void *pinned;
    CUdeviceptr managed;
    static const struct {
        enum scene_way way;
        const char *call;
    } rows[] = {
        {SCENE_LEGACY, "cuIpcGetMemHandle"},
        {SCENE_MAPPED, "cuMemRetainAllocationHandle"},
        {SCENE_MAPPED, "cuMemExportToShareableHandle"},
        {SCENE_POOL, "cuMemPoolExportToShareableHandle"},
        {SCENE_POOL, "cuMemPoolExportPointer"},
        {SCENE_LEGACY, "cuCtxPushCurrent_v2"},
    };
    device = scene_open();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        NEED(program_make(&program, rows[i].way) == 0);
        NEED(ops->count(device) == 2);
        fake->let_fail(rows[i].call, 999, 0);
        NEED(ops->export_ipc(device, (void *)(uintptr_t)program.at.memory, &handle, &offset) == WEFT_SYSTEM);
        program_end(&program);
    }
    NEED(program_make(&program, SCENE_LEGACY) == 0);
    NEED(ops->export_ipc(device, &local, &handle, &offset) == WEFT_UNSUPPORTED);
    NEED(CU(cuMemHostAlloc)(&pinned, 100, 0) == 0 && CU(cuMemAllocManaged)(&managed, 100, 1) == 0);
    NEED(ops->export_ipc(device, pinned, &handle, &offset) == WEFT_UNSUPPORTED &&
         strstr(scene_text(), "pinned"));
    NEED(ops->export_ipc(device, (void *)(uintptr_t)managed, &handle, &offset) == WEFT_UNSUPPORTED &&
         strstr(scene_text(), "managed"));
    CU(cuMemFreeHost)(pinned);
    CU(cuMemFree_v2)(managed);
    NEED(fake->is_synchronous((void *)(uintptr_t)program.at.memory) == 0);
    NEED(ops->export_ipc(device, (void *)(uintptr_t)program.at.memory, &handle, &offset) == WEFT_OK);
    NEED(fake->is_synchronous((void *)(uintptr_t)program.at.memory) == 1);
    program_end(&program);
    CUdeviceptr range;
    CUhandle block;
    NEED(program_make(&program, SCENE_LEGACY) == 0);
    NEED(CU(cuMemAddressReserve)(&range, SCENE_BYTES, 0, 0, 0) == 0 &&
         scene_block_make(&block, SCENE_MAPPED_ALONE, 1) == 0 &&
         CU(cuMemMap)(range, SCENE_BYTES, 0, block, 0) == 0);
    NEED(ops->export_ipc(device, (void *)(uintptr_t)range, &handle, &offset) == WEFT_UNSUPPORTED &&
         strstr(scene_text(), "without a handle type"));
    CU(cuMemUnmap)(range, SCENE_BYTES);
    CU(cuMemRelease)(block);
    CU(cuMemAddressFree)(range, SCENE_BYTES);
    program_end(&program);
    NEED(program_make(&program, SCENE_MAPPED) == 0);
    fake->knows_mappings = 0;
    struct weft_device *old = scene_open();
    NEED(ops->export_ipc(old, (void *)(uintptr_t)program.at.memory, &handle, &offset) == WEFT_UNSUPPORTED &&
         strstr(scene_text(), "does not tell apart"));
    ops->close(old);
    program_end(&program);
    ops->close(device);
}

APART(export_errors, export_errors())

static void dmabuf(void)
{
    struct program program, second;
    uint64_t offset;
    int fd = -1;
    device = scene_open();
    NEED(program_make(&program, SCENE_LEGACY) == 0);
    memset(fake->look((void *)(uintptr_t)program.at.memory), 'm', SCENE_BYTES);
    NEED(ops->export_dmabuf(device, (char *)(uintptr_t)program.at.memory + 5000, 300000, &fd, &offset) ==
         WEFT_OK);
    NEED(offset == 5000 - 4096 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    NEED(lseek(fd, 0, SEEK_END) == 303104);
    NEED(fake->is_synchronous((void *)(uintptr_t)program.at.memory) == 1);
    close(fd);
    NEED(ops->export_dmabuf(device, (void *)(uintptr_t)program.at.memory, 0, &fd, &offset) == WEFT_INVALID);
    NEED(ops->export_dmabuf(device, (char *)(uintptr_t)program.at.memory + 1, SCENE_BYTES, &fd, &offset) ==
         WEFT_INVALID);
    NEED(ops->export_dmabuf(device, &fd, 4, &fd, &offset) == WEFT_UNSUPPORTED);
    fake->let_fail("cuMemGetHandleForAddressRange", 801, 0);
    NEED(ops->export_dmabuf(device, (void *)(uintptr_t)program.at.memory, 4, &fd, &offset) ==
         WEFT_UNSUPPORTED);
    fake->let_fail("cuCtxPushCurrent_v2", 999, 0);
    NEED(ops->export_dmabuf(device, (void *)(uintptr_t)program.at.memory, 4, &fd, &offset) == WEFT_SYSTEM);
    /* Over two mappings side by side, as PyTorch's expandable segments have them. */
    NEED(program_make(&second, SCENE_MAPPED) == 0);
    CUhandle block;
    NEED(scene_block_make(&block, SCENE_MAPPED, 1) == 0 &&
         CU(cuMemMap)(second.at.range, SCENE_BYTES, 0, block, 0) == 0);
    NEED(ops->export_dmabuf(device, (char *)(uintptr_t)second.at.range + 10, 2 * SCENE_BYTES - 20, &fd,
                            &offset) == WEFT_OK);
    NEED(offset == 10 && lseek(fd, 0, SEEK_END) == (off_t)(2 * SCENE_BYTES));
    close(fd);
    CU(cuMemUnmap)(second.at.range, SCENE_BYTES);
    CU(cuMemRelease)(block);
    program_end(&second);
    fake->has_dmabuf = 0;
    struct weft_device *old = scene_open();
    NEED(ops->export_dmabuf(old, (void *)(uintptr_t)program.at.memory, 4, &fd, &offset) == WEFT_UNSUPPORTED &&
         strstr(scene_text(), "exports no dma-buf"));
    ops->close(old);
    program_end(&program);
    ops->close(device);
}

APART(dmabuf, dmabuf())

/* What NICs have written is flushed where the device does not order it. */
static void flush_writes(void)
{
    device = scene_open();
    NEED(ops->flush_writes(device, 0) == WEFT_OK && ops->flush_writes(device, 2) == WEFT_INVALID);
    NEED(fake->calls("cuFlushGPUDirectRDMAWrites") == 0);
    ops->close(device);
    fake->writes_ordering = 0;
    device = scene_open();
    NEED(ops->flush_writes(device, 1) == WEFT_OK && fake->calls("cuFlushGPUDirectRDMAWrites") == 1);
    fake->let_fail("cuFlushGPUDirectRDMAWrites", 719, 0);
    NEED(ops->flush_writes(device, 1) < 0 && strstr(scene_text(), "flushing what NICs wrote into device 1"));
    fake->let_fail("cuCtxPushCurrent_v2", 999, 0);
    NEED(ops->flush_writes(device, 1) == WEFT_SYSTEM);
    ops->close(device);
    fake->flush_options = 2;
    device = scene_open();
    NEED(ops->flush_writes(device, 0) == WEFT_UNSUPPORTED && strstr(scene_text(), "neither orders"));
    ops->close(device);
}

APART(flush_writes, flush_writes())

int main(void)
{
#define SCENE(test) cmocka_unit_test_setup(test, setup)
    const struct CMUnitTest tests[] = {
        SCENE(test_legacy),         SCENE(test_mapped),        SCENE(test_mapped_fabric),
        SCENE(test_pool),           SCENE(test_pool_fabric),   SCENE(test_spoiled_legacy),
        SCENE(test_spoiled_mapped), SCENE(test_spoiled_pool),  SCENE(test_refused),
        SCENE(test_pool_errors),    SCENE(test_export_errors), SCENE(test_dmabuf),
        SCENE(test_flush_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
