/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; wrap dlsym; beside ze */
/* Memory of the kind "ze" for NICs and other processes: dma-bufs, handles, where in a pool memory is, and what peers may send instead (for mappings see test_ze_map.c). The loader
 * is the real one, the driver that of tests/fakes/ze/. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/limits.h"
#include "devmem/ze/handle.h"
#include "tests/support/bits.h"
#include "tests/support/child.h"
#include "tests/support/descriptors.h"
#include "tests/support/ze_peer.h"

#define POOL   (1u << 21)
#define STALE  0xdd /* what the fake driver writes over memory that is freed */
#define ROUNDS 300

static struct weft_device_ops ops; /* complete */
static int has_newer_calls;        /* whether the loader is one that has those of API 1.6 */

void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name)
{
    static const char *const calls[][2] = {
        {"zeMemPutIpcHandle", "ze_fake_ipc_put"},
        {"zeMemGetFileDescriptorFromIpcHandleExp", "ze_fake_ipc_descriptor"}};
    for (size_t i = 0; i < 2; i++) {
        if (strcmp(name, calls[i][0]) == 0)
            return has_newer_calls ? ze_scene_function(calls[i][1]) : NULL;
    }
    return __real_dlsym(handle, name);
}

static int import(struct weft_device *device, int ordinal, const struct ze_peer *peer, void **base)
{
    *ze_said = 0;
    return ops.import_ipc(device, ordinal, &peer->report.handle, base);
}

/* --- parts of pools */

static void have_pools(struct ze_fake *fake)
{
    fake->pool_bytes = POOL;
}

static struct weft_ze_handle inside(const struct ze_peer *peer)
{
    struct weft_ze_handle handle;
    memcpy(&handle, peer->report.handle.bytes, sizeof handle);
    return handle;
}

/* Parts of one pool that are as long as each other have the pool's number, and identities of their own. */
static int number_parts(void)
{
    enum { PARTS = 64 };
    const ze_device_mem_alloc_desc_t plain = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    struct weft_device *device;
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
    struct weft_device_span spans[PARTS];
    void *parts[PARTS];
    ZE_CHECK(fake);
    have_pools(fake);
    ZE_CHECK(ops.count(device) == 2);
    ze_context_handle_t context = device->places[0].context;
    for (int i = 0; i < PARTS; i++) {
        ZE_CHECK(device->driver.zeMemAllocDevice(context, &plain, 3000, 0, device->ordinals[0].device,
                                                 &parts[i]) == ZE_RESULT_SUCCESS);
        spans[i].size = sizeof spans[i];
        ZE_CHECK(ops.identify(device, parts[i], &spans[i]) == WEFT_OK && spans[i].length == 3000);
        for (int before = 0; before < i; before++)
            ZE_CHECK(spans[before].identity != spans[i].identity);
    }
    for (int i = 0; i < PARTS; i++)
        ZE_CHECK(device->driver.zeMemFree(context, parts[i]) == ZE_RESULT_SUCCESS);
    return ze_scene_end(&ops, fake, device);
}

/* What comes next at the same address, and is longer, has another identity. */
static int share_parts(void)
{
    static const int lengths[] = {1000, 4096, 5001, 300000};
    struct weft_device *device;
    struct ze_peer peer;
    void *base, *first;
    uint64_t address = 0, identity = 0;
    ZE_CHECK(ze_peer_start(&peer, have_pools) == 0);
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE_BY, 70000) == WEFT_OK); /* stays, in front of the others */
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_OK);
    ZE_CHECK(import(device, 1, &peer, &first) == WEFT_OK);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE_BY, lengths[i]) == WEFT_OK);
        ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 10) == WEFT_OK && peer.report.offset == 10);
        struct weft_ze_handle handle = inside(&peer);
        ZE_CHECK(handle.offset == 70144 && handle.size == POOL && handle.length == (uint64_t)lengths[i]);
        ZE_CHECK(!i || (peer.report.address == address && handle.identity != identity));
        address = peer.report.address;
        identity = handle.identity;
        ZE_CHECK(import(device, 1, &peer, &base) == WEFT_OK);
        ZE_CHECK((char *)base == (char *)first + 70144); /* the pool is mapped */
        ZE_CHECK(BITS_AGREE(ze_peer_holds(device, base, (size_t)lengths[i], lengths[i] & 0xff)));
        ZE_CHECK(ze_peer_fill(device, base, (size_t)lengths[i], 3) == 0);
        ZE_CHECK(BITS_AGREE(ze_peer_do(&peer, ZE_PEER_FIND, 3) == WEFT_OK));
        ZE_CHECK(ops.unimport(device, base) == WEFT_OK);
        ZE_CHECK(ze_peer_do(&peer, ZE_PEER_FREE, 0) == WEFT_OK);
    }
    ZE_CHECK(fake->imports == 1 && ops.unimport(device, first) == WEFT_OK);
    kill(peer.pid, SIGKILL); /* with the first part, of which it keeps no account */
    ZE_CHECK(waitpid(peer.pid, NULL, 0) == peer.pid);
    return ze_scene_end(&ops, fake, device);
}

static void have_numbered_parts(struct ze_fake *fake)
{
    fake->pool_bytes = POOL;
    fake->pool_numbers = 1;
}

static void have_longer_files(struct ze_fake *fake)
{
    fake->dmabuf_more = 8192;
}

/* As where the driver has spread an allocation over tiles. */
static void have_shorter_files(struct ze_fake *fake)
{
    fake->dmabuf_more = -4096;
}

/* Nothing is behind what it exports. */
static void have_empty_files(struct ze_fake *fake)
{
    fake->dmabuf_more = -12288;
}

/* Where nobody can say where in the dma-buf the memory begins, it is not shared. */
static int refuse_the_unknown(void)
{
    static void (*const sets[])(struct ze_fake *) = {have_numbered_parts, have_longer_files,
                                                     have_shorter_files, have_empty_files};
    static const char where[] = "cannot be shown where they begin", length[] = "does not say how long it is";
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct ze_peer peer;
        ZE_CHECK(ze_peer_start(&peer, sets[i]) == 0);
        ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE_BY, 9000) == WEFT_OK);
        ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_UNSUPPORTED);
        ZE_CHECK(strstr(peer.report.text, sets[i] == have_empty_files ? length : where));
        ZE_CHECK(ze_peer_end(&peer) == 0);
    }
    return 0;
}

static void test_parts(void **state)
{
    (void)state;
    assert_int_equal(test_child(number_parts), 0);
    assert_int_equal(test_child(share_parts), 0);
    assert_int_equal(test_child(refuse_the_unknown), 0);
}

/* --- what drivers and loaders lack */

static void export_what_is_asked(struct ze_fake *fake)
{
    fake->exports_asked = 1;
}

static void export_nothing(struct ze_fake *fake)
{
    fake->no_dmabuf = 1;
}

/* Memory that nobody has allocated for export is exported by an IPC handle, where the loader knows the call. */
static int export_by_handles(void)
{
    struct weft_device *device;
    struct ze_peer older, newer, none;
    void *base;
    ZE_CHECK(ze_peer_start(&older, export_what_is_asked) == 0);
    ZE_CHECK(ze_peer_start(&none, export_nothing) == 0);
    has_newer_calls = 1;
    ZE_CHECK(ze_peer_start(&newer, export_what_is_asked) == 0);
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake);
    ZE_CHECK(ze_peer_do(&older, ZE_PEER_ALLOCATE_BY, 5000) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&older, ZE_PEER_EXPORT, 0) == WEFT_UNSUPPORTED);
    ZE_CHECK(strstr(older.report.text, "a newer loader of Level Zero may export it"));
    ZE_CHECK(ze_peer_do(&older, ZE_PEER_FREE, 0) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&older, ZE_PEER_ALLOCATE, 5) == WEFT_OK); /* weft's own asks for it */
    ZE_CHECK(ze_peer_do(&older, ZE_PEER_EXPORT, 0) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&newer, ZE_PEER_ALLOCATE_BY, 5000) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&newer, ZE_PEER_EXPORT, 0) == WEFT_OK);
    ZE_CHECK(import(device, 0, &newer, &base) == WEFT_OK);
    ZE_CHECK(BITS_AGREE(ze_peer_holds(device, base, 5000, 5000 & 0xff)));
    ZE_CHECK(ops.unimport(device, base) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&none, ZE_PEER_ALLOCATE, 5) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&none, ZE_PEER_EXPORT, 0) == WEFT_UNSUPPORTED);
    ZE_CHECK(strstr(none.report.text, "exports no memory of it as a dma-buf"));
    ZE_CHECK(ze_peer_end(&older) == 0 && ze_peer_end(&newer) == 0 && ze_peer_end(&none) == 0);
    return ze_scene_end(&ops, fake, device);
}

static void ignore_who_asks(struct ze_fake *fake)
{
    fake->ignores_export = 1;
}

/* A driver that knows nothing of who asks gives no descriptor, and says that all is well. */
static int export_by_handles_alone(void)
{
    struct ze_peer older, newer;
    ZE_CHECK(ze_peer_start(&older, ignore_who_asks) == 0);
    has_newer_calls = 1;
    ZE_CHECK(ze_peer_start(&newer, ignore_who_asks) == 0);
    ZE_CHECK(ze_peer_do(&older, ZE_PEER_ALLOCATE, 5) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&older, ZE_PEER_EXPORT, 0) == WEFT_UNSUPPORTED);
    ZE_CHECK(strstr(older.report.text, "has given no descriptor") &&
             strstr(older.report.text, "a newer loader"));
    ZE_CHECK(ze_peer_do(&newer, ZE_PEER_ALLOCATE, 5) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&newer, ZE_PEER_EXPORT, 0) == WEFT_OK);
    ZE_CHECK(ze_peer_end(&older) == 0 && ze_peer_end(&newer) == 0);
    return 0;
}

static int import_a_part(void)
{
    struct weft_device *device;
    struct ze_peer peer;
    void *base;
    ZE_CHECK(ze_peer_start(&peer, NULL) == 0);
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake);
    fake->imported_less = 8192;
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE, 1) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_OK && ops.count(device) == 2);
    ZE_CHECK(import(device, 0, &peer, &base) == WEFT_UNSUPPORTED);
    ZE_CHECK(strstr(ze_said, "has not mapped all of 16384 bytes") && strstr(ze_said, "there are 8192"));
    ZE_CHECK(fake->imports == 1 && fake->allocations == 0 && ze_peer_end(&peer) == 0);
    return ze_scene_end(&ops, fake, device);
}

static int import_nothing(void)
{
    struct weft_device *device;
    struct ze_peer peer;
    void *base;
    ZE_CHECK(ze_peer_start(&peer, NULL) == 0);
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake);
    fake->no_import = fake->no_peers = 1;
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE, 1) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_OK);
    ZE_CHECK(import(device, 0, &peer, &base) == WEFT_UNSUPPORTED);
    ZE_CHECK(strstr(ze_said, "takes no memory of other processes as a dma-buf"));
    ZE_CHECK(import(device, 1, &peer, &base) == WEFT_UNSUPPORTED);
    ZE_CHECK(strstr(ze_said, "Level Zero device 1 cannot reach memory on device 0"));
    ZE_CHECK(ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 100, &base) == WEFT_OK);
    ZE_CHECK(ops.reaches(device, 0, base, 0) == 1 && ops.reaches(device, 1, base, 1) == 0);
    ZE_CHECK(ops.release(device, base) == WEFT_OK && ze_peer_end(&peer) == 0);
    return ze_scene_end(&ops, fake, device);
}

static void test_lacks(void **state)
{
    (void)state;
    assert_int_equal(test_child(export_by_handles), 0);
    assert_int_equal(test_child(export_by_handles_alone), 0);
    assert_int_equal(test_child(import_nothing), 0);
    assert_int_equal(test_child(import_a_part), 0);
}

/* --- freed, and allocated again at the same address */

/* What was mapped before shows what was freed: whoever goes by the address alone is found. */
static int free_and_allocate(void)
{
    struct weft_device *device;
    struct ze_peer peer;
    void *base, *stale, *none;
    ZE_CHECK(ze_peer_start(&peer, NULL) == 0);
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE, 0) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_OK);
    ZE_CHECK(import(device, 0, &peer, &stale) == WEFT_OK);
    for (int round = 1; round < ROUNDS; round++) {
        const struct weft_device_handle old = peer.report.handle;
        const uint64_t address = peer.report.address, identity = inside(&peer).identity;
        int value = round % 200;
        ZE_CHECK(ze_peer_do(&peer, ZE_PEER_FREE, 0) == WEFT_OK);
        ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE, value) == WEFT_OK);
        ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_OK && peer.report.address == address);
        ZE_CHECK(inside(&peer).identity != identity);
        ZE_CHECK(import(device, round % 2, &peer, &base) == WEFT_OK && base != stale);
        ZE_CHECK(BITS_AGREE(ze_peer_holds(device, base, ZE_PEER_BYTES, value)));
        ZE_CHECK(ze_peer_holds(device, stale, ZE_PEER_BYTES, STALE)); /* not value */
        ZE_CHECK(ops.unimport(device, stale) == WEFT_OK);
        ZE_CHECK(ops.import_ipc(device, 0, &old, &none) == WEFT_PROTOCOL && strstr(ze_said, "no longer"));
        stale = base;
    }
    ZE_CHECK(ops.unimport(device, stale) == WEFT_OK && ze_peer_end(&peer) == 0);
    return ze_scene_end(&ops, fake, device);
}

static void test_same_address(void **state)
{
    (void)state;
    assert_int_equal(test_child(free_and_allocate), 0);
}

/* --- what peers may send instead */

static int refuse(struct weft_device *device, const struct ze_peer *peer, const struct weft_ze_handle *lie,
                  int wanted, const char *part)
{
    struct weft_ze_handle right = *lie;
    struct weft_device_handle sent = peer->report.handle;
    void *base;
    right.check = weft_ze_handle_check(&right); /* whoever means it does that */
    memcpy(sent.bytes, &right, sizeof right);
    *ze_said = 0;
    ZE_CHECK(ops.import_ipc(device, 0, &sent, &base) == wanted && strstr(ze_said, part));
    return 0;
}

/* Each byte is another one, and the hash right: refused, or memory of the peer's, within what it hands out. */
static int spoil_each_byte(struct weft_device *device, const struct ze_peer *peer)
{
    int refused = 0;
    for (size_t i = 0; i < sizeof(struct weft_ze_handle); i++) {
        struct weft_device_handle sent = peer->report.handle;
        struct weft_ze_handle lie;
        void *base;
        sent.bytes[i] ^= 0x41;
        memcpy(&lie, sent.bytes, sizeof lie);
        ZE_CHECK(lie.check == weft_ze_handle_check(&lie) ||
                 ops.import_ipc(device, 0, &sent, &base) == WEFT_PROTOCOL);
        lie.check = weft_ze_handle_check(&lie);
        memcpy(sent.bytes, &lie, sizeof lie);
        int status = ops.import_ipc(device, 0, &sent, &base);
        ZE_CHECK(status == WEFT_OK || status == WEFT_PROTOCOL || status == WEFT_UNSUPPORTED);
        refused += status != WEFT_OK;
        ZE_CHECK(status != WEFT_OK || ops.unimport(device, base) == WEFT_OK);
    }
    ZE_CHECK(refused > 60);
    return 0;
}

#define LIE(part, value, wanted, words)                                                                      \
    do {                                                                                                     \
        struct weft_ze_handle lie = inside(&peer);                                                           \
        lie.part = (value);                                                                                  \
        ZE_CHECK(refuse(device, &peer, &lie, wanted, words) == 0);                                           \
    } while (0)

static int refuse_lies(void)
{
    struct weft_device *device;
    struct ze_peer peer;
    void *base;
    ZE_CHECK(ze_peer_start(&peer, NULL) == 0);
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE, 9) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_OK);
    ZE_CHECK(import(device, 0, &peer, &base) == WEFT_OK && ops.unimport(device, base) == WEFT_OK);
    int before = ze_peer_descriptors();
    ZE_CHECK(spoil_each_byte(device, &peer) == 0);
    LIE(magic, lie.magic + 1, WEFT_PROTOCOL, "not of this kind");
    LIE(version, 2, WEFT_PROTOCOL, "another version");
    LIE(length, 0, WEFT_PROTOCOL, "length is impossible");
    LIE(length, lie.size + 1, WEFT_PROTOCOL, "length is impossible");
    LIE(offset, lie.size - lie.length + 1, WEFT_PROTOCOL, "offset is impossible");
    LIE(offset, UINT64_MAX, WEFT_PROTOCOL, "offset is impossible");
    LIE(size, lie.size * 2, WEFT_PROTOCOL, "has 16384 bytes, expected are 32768");
    LIE(offer.slot, WEFT_OFFER_SLOTS, WEFT_PROTOCOL, "names no descriptor");
    LIE(offer.slot, lie.offer.slot + 1, WEFT_PROTOCOL, "no longer, one of process");
    LIE(offer.serial, 0, WEFT_PROTOCOL, "names no descriptor");
    LIE(offer.serial, lie.offer.serial + 1, WEFT_PROTOCOL, "no longer, one of process");
    LIE(offer.pid, -1, WEFT_PROTOCOL, "names no descriptor");
    LIE(offer.key[3], (uint8_t)(lie.offer.key[3] + 1), WEFT_UNSUPPORTED, "nobody hands out its descriptor");
    LIE(uuid[15], 9, WEFT_UNSUPPORTED, "does not see");
    /* A pipe, a file that is too short, and one that is no dma-buf. */
    static const char *const words[] = {"has 0 bytes, expected are 16384", "has 4096 bytes",
                                        "INVALID_ARGUMENT"};
    static const int lengths[] = {0, 4096, 16384};
    for (int i = 0; i < 3; i++) {
        ZE_CHECK(ze_peer_do(&peer, ZE_PEER_LIE, lengths[i]) == WEFT_OK);
        ZE_CHECK(import(device, 0, &peer, &base) == WEFT_PROTOCOL && strstr(ze_said, words[i]));
    }
    /* Of memory of another device the driver may say the same, as it cannot attach that one. */
    ZE_CHECK(import(device, 1, &peer, &base) == WEFT_UNSUPPORTED && strstr(ze_said, "INVALID_ARGUMENT"));
    ZE_CHECK(ze_peer_descriptors() == before);
    ZE_CHECK(ze_peer_end(&peer) == 0);
    return ze_scene_end(&ops, fake, device);
}

static void test_lies(void **state)
{
    (void)state;
    assert_int_equal(test_child(refuse_lies), 0);
}

/* --- a peer that does not answer */

static int wait_for_nobody(void)
{
    struct weft_device *device;
    struct ze_peer peer;
    int status;
    void *base;
    ZE_CHECK(ze_peer_start(&peer, NULL) == 0);
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
    ZE_CHECK(fake);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE, 9) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_OK);
    kill(peer.pid, SIGSTOP);
    ZE_CHECK(waitpid(peer.pid, &status, WUNTRACED) == peer.pid && WIFSTOPPED(status));
    ZE_CHECK(import(device, 0, &peer, &base) == WEFT_UNSUPPORTED && strstr(ze_said, "has not handed out"));
    kill(peer.pid, SIGKILL);
    ZE_CHECK(waitpid(peer.pid, &status, 0) == peer.pid);
    ZE_CHECK(import(device, 0, &peer, &base) == WEFT_UNSUPPORTED && strstr(ze_said, "the process has ended"));
    return ze_scene_end(&ops, fake, device);
}

static void test_gone(void **state)
{
    (void)state;
    assert_int_equal(test_child(wait_for_nobody), 0);
}

/* --- dma-bufs */

/* No more descriptors until *own is set again. */
static int descriptors_refuse(struct rlimit *own)
{
    struct rlimit none = {.rlim_cur = test_descriptors_limit(0)};
    if (getrlimit(RLIMIT_NOFILE, own) != 0)
        return 1;
    none.rlim_max = own->rlim_max;
    return setrlimit(RLIMIT_NOFILE, &none);
}

static int export_dmabufs(void)
{
    struct weft_device *device;
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
    uint64_t offset;
    int fd, again;
    char *memory, *host, bytes[16], expected[16];
    ZE_CHECK(fake);
    ZE_CHECK(ops.allocate(device, 1, WEFT_MEMORY_DEVICE, 9000, (void **)&memory) == WEFT_OK);
    ZE_CHECK(ops.allocate(device, -1, WEFT_MEMORY_PINNED, 100, (void **)&host) == WEFT_OK);
    ZE_CHECK(ze_peer_fill(device, memory, 9000, 'm') == 0);
    int before = ze_peer_descriptors();
    ZE_CHECK(ops.export_dmabuf(device, memory + 5000, 4000, &fd, &offset) == WEFT_OK && offset == 5000);
    ZE_CHECK(ops.export_dmabuf(device, memory, 1, &again, &offset) == WEFT_OK && again != fd && offset == 0);
    ZE_CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC &&
             ze_peer_descriptors() == before + 2); /* the driver has had its own from the beginning */
    memset(expected, 'm', sizeof expected);
    ZE_CHECK(pread(fd, bytes, sizeof bytes, 8984) == 16 && BITS_AGREE(memcmp(bytes, expected, 16) == 0));
    ZE_CHECK(ze_peer_fill(device, memory, 9000, 'n') == 0);
    ZE_CHECK(pread(again, bytes, 1, 0) == 1 && BITS_AGREE(*bytes == 'n'));
    close(again);
    struct rlimit own;
    ZE_CHECK(descriptors_refuse(&own) == 0);
    ZE_CHECK(!weft_limits_noted());
    ZE_CHECK(ops.export_dmabuf(device, memory, 1, &again, &offset) ==
             WEFT_NOMEM); /* nothing to be remembered */
    ZE_CHECK(strstr(ze_said, "cannot be copied: ") && weft_limits_noted() == EMFILE);
    ZE_CHECK(setrlimit(RLIMIT_NOFILE, &own) == 0);
    ZE_CHECK(!weft_fd_is_known(fd)); /* it is the caller's */
    ZE_CHECK(ops.export_dmabuf(device, memory, 1, &again, &offset) == WEFT_OK && close(again) == 0);
    ZE_CHECK(ops.export_dmabuf(device, memory, 9001, &again, &offset) == WEFT_INVALID);
    ZE_CHECK(ops.export_dmabuf(device, memory, 0, &again, &offset) == WEFT_INVALID);
    ZE_CHECK(ops.export_dmabuf(device, host, 1, &again, &offset) == WEFT_UNSUPPORTED);
    ZE_CHECK(strstr(ze_said, "pinned host memory"));
    ZE_CHECK(ops.export_dmabuf(device, bytes, 1, &again, &offset) == WEFT_UNSUPPORTED);
    ZE_CHECK(ops.release(device, memory) == WEFT_OK && ops.release(device, host) == WEFT_OK);
    ZE_CHECK(pread(fd, bytes, 1, 0) == 1); /* it keeps the memory */
    close(fd);
    ZE_CHECK(ze_peer_descriptors() == before - 1); /* the driver's has gone with the memory */
    return ze_scene_end(&ops, fake, device);
}

/* What may be otherwise in a moment is not said to be unsupported, which others remember. What is offered already is not asked for again. */
static int export_in_need(void)
{
    struct weft_device *device;
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
    struct weft_device_handle handle, again;
    uint64_t offset;
    void *memory;
    int fd;
    memset(&handle, 0, sizeof handle);
    memset(&again, 0, sizeof again);
    ZE_CHECK(fake && ops.allocate(device, 0, WEFT_MEMORY_DEVICE, 9000, &memory) == WEFT_OK);
    ZE_CHECK(ops.export_ipc(device, memory, &handle, &offset) == WEFT_OK);
    fake->export_result = ZE_RESULT_ERROR_DEVICE_LOST;
    ZE_CHECK(ops.export_ipc(device, memory, &again, &offset) == WEFT_OK);
    ZE_CHECK(memcmp(&handle, &again, sizeof handle) == 0);
    ZE_CHECK(ops.export_dmabuf(device, memory, 1, &fd, &offset) == WEFT_SYSTEM);
    ZE_CHECK(strstr(ze_said, "DEVICE_LOST"));
    fake->export_result = ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    ZE_CHECK(ops.export_dmabuf(device, memory, 1, &fd, &offset) == WEFT_NOMEM);
    fake->export_result = ZE_RESULT_ERROR_UNKNOWN;
    ZE_CHECK(ops.export_dmabuf(device, memory, 1, &fd, &offset) == WEFT_SYSTEM);
    struct rlimit own;
    ZE_CHECK(descriptors_refuse(&own) == 0);
    ZE_CHECK(ops.export_dmabuf(device, memory, 1, &fd, &offset) == WEFT_NOMEM);
    ZE_CHECK(strstr(ze_said, "as many descriptors as it may") && setrlimit(RLIMIT_NOFILE, &own) == 0);
    ZE_CHECK(ops.release(device, memory) == WEFT_OK);
    return ze_scene_end(&ops, fake, device);
}

static void test_dmabufs(void **state)
{
    (void)state;
    assert_int_equal(test_child(export_in_need), 0);
    assert_int_equal(test_child(export_dmabufs), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts), cmocka_unit_test(test_lacks),        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_gone),  cmocka_unit_test(test_same_address), cmocka_unit_test(test_dmabufs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
