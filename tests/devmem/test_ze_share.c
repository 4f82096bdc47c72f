/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; wrap dlsym fstatfs; beside ze */
/* Memory of the kind "ze" for NICs and other processes: dma-bufs, handles, where in a pool memory is, and what peers may send instead. The loader
 * is the real one, the driver that of tests/fakes/ze/. */
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "devmem/registry.h"
#include "devmem/ze/handle.h"
#include "tests/support/bits.h"
#include "tests/support/child.h"
#include "tests/support/descriptors.h"
#include "tests/support/ze_peer.h"

#define POOL   (1u << 21)
#define STALE  0xdd /* what the fake driver writes over memory that is freed */
#define ROUNDS 300
#define RACERS 3
#define RACES  100

static struct weft_device_ops ops; /* complete */
static int has_newer_calls;        /* whether the loader is one that has those of API 1.6 */
static int has_one_inode;          /* whether the kernel is one where all dma-bufs have the same */

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

int __real_fstatfs(int fd, struct statfs *system);
int __wrap_fstatfs(int fd, struct statfs *system);
int __wrap_fstatfs(int fd, struct statfs *system)
{
    int result = __real_fstatfs(fd, system);
    if (has_one_inode)
        system->f_type = ANON_INODE_FS_MAGIC;
    return result;
}

static struct ze_fake *begin(struct weft_device **device)
{
    struct ze_fake *fake = ze_scene_load();
    if (!fake || weft_device_complete(&weft_ze_ops, &ops) != WEFT_OK)
        return NULL;
    fake->device_count = 2;
    *device = ze_scene_open();
    return *device ? fake : NULL;
}

/* Nothing is left, and nothing that was called is forbidden. */
static int end(struct ze_fake *fake, struct weft_device *device)
{
    ops.close(device);
    if (fake->violations)
        fprintf(stderr, "%s\n", fake->first_violation);
    return fake->violations || fake->contexts || fake->allocations || fake->ipc_handles;
}

static int import(struct weft_device *device, int ordinal, const struct ze_peer *peer, void **base)
{
    *ze_said = 0;
    return ops.import_ipc(device, ordinal, &peer->report.handle, base);
}

/* --- two processes */

/* Whether the driver leaves the descriptor of a mapping open, closes it with the mapping, or at once: it is closed once. Whether it gives what
 * it has mapped already the same address, or another: it is mapped until nobody uses it. Nobody maps one dma-buf twice who can say which it is. */
static int share(uint32_t closes_imported, uint32_t shares_imported)
{
    struct weft_device *device;
    struct ze_peer peer;
    void *base, *again, *elsewhere;
    int mappings = has_one_inode && !shares_imported ? 2 : 1;
    ZE_CHECK(ze_peer_start(&peer, NULL) == 0);
    struct ze_fake *fake = begin(&device);
    ZE_CHECK(fake && ops.count(device) == 2);
    fake->closes_imported = closes_imported;
    fake->shares_imported = shares_imported;
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE, 7) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 100) == WEFT_OK && peer.report.offset == 100);
    ZE_CHECK(import(device, 0, &peer, &base) == WEFT_OK);
    ZE_CHECK(ze_peer_holds(device, base, 1, 7)); /* whatever the driver opens for itself is open */
    ZE_CHECK(ops.unimport(device, base) == WEFT_OK);
    int before = ze_peer_descriptors();
    for (int round = 0; round < 3; round++) {
        struct weft_device_span span = {.size = sizeof span};
        ZE_CHECK(import(device, 0, &peer, &base) == WEFT_OK);
        ZE_CHECK(import(device, 0, &peer, &again) == WEFT_OK && again == base);
        ZE_CHECK(import(device, 1, &peer, &elsewhere) == WEFT_OK);
        ZE_CHECK((elsewhere == base) == (mappings == 1) && fake->allocations == mappings);
        ZE_CHECK(ze_peer_descriptors() == before + (closes_imported == 2 ? 0 : mappings));
        ZE_CHECK(ops.identify(device, elsewhere, &span) == WEFT_OK && span.kind == WEFT_MEMORY_DEVICE);
        ZE_CHECK(span.ordinal == 0 && ops.reaches(device, 1, elsewhere, 0) == 1);
        ZE_CHECK(BITS_AGREE(ze_peer_holds(device, base, ZE_PEER_BYTES, 7 + round)));
        ZE_CHECK(ze_peer_fill(device, elsewhere, ZE_PEER_BYTES, 8 + round) == 0);
        ZE_CHECK(BITS_AGREE(ze_peer_do(&peer, ZE_PEER_FIND, 8 + round) == WEFT_OK));
        ZE_CHECK(ops.unimport(device, elsewhere) == WEFT_OK && ops.unimport(device, base) == WEFT_OK);
        ZE_CHECK(ze_peer_holds(device, base, ZE_PEER_BYTES, 8 + round));
        ZE_CHECK(ops.unimport(device, base) == WEFT_OK);
        ZE_CHECK(ops.unimport(device, base) == WEFT_INVALID && strstr(ze_said, "that was imported"));
        ZE_CHECK(ze_peer_descriptors() == before);
    }
    ZE_CHECK(has_one_inode || fake->imports == 4);
    struct weft_device_handle handle = peer.report.handle;
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_OK);
    ZE_CHECK(memcmp(&handle, &peer.report.handle, sizeof handle) == 0 && peer.report.offset == 0);
    ZE_CHECK(ze_peer_end(&peer) == 0);
    return end(fake, device);
}

static int share_and_close(void)
{
    return share(0, 0);
}

static int share_and_have_closed(void)
{
    return share(1, 0);
}

static int share_and_have_closed_at_once(void)
{
    return share(2, 0);
}

static int share_one_address(void)
{
    return share(0, 1);
}

static int share_without_inodes(void)
{
    has_one_inode = 1;
    return share(0, 0);
}

static int share_one_address_without_inodes(void)
{
    has_one_inode = 1;
    return share(1, 1);
}

static int share_one_address_closed_at_once(void)
{
    has_one_inode = 1;
    return share(2, 1);
}

static void test_share(void **state)
{
    (void)state;
    assert_int_equal(test_child(share_and_close), 0);
    assert_int_equal(test_child(share_and_have_closed), 0);
    assert_int_equal(test_child(share_and_have_closed_at_once), 0);
}

static void test_share_one_address(void **state)
{
    (void)state;
    assert_int_equal(test_child(share_one_address), 0);
    assert_int_equal(test_child(share_without_inodes), 0);
    assert_int_equal(test_child(share_one_address_without_inodes), 0);
    assert_int_equal(test_child(share_one_address_closed_at_once), 0);
}

/* --- threads that map and unmap the same */

struct racer {
    struct weft_device *device;
    const struct ze_peer *peer;
    pthread_barrier_t *start;
    int ordinal, failures;
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    void *base;
    for (int round = 0; round < RACES; round++) {
        pthread_barrier_wait(racer->start);
        if (ops.import_ipc(racer->device, racer->ordinal, &racer->peer->report.handle, &base) != WEFT_OK ||
            !ze_peer_holds(racer->device, base, 100, 7) || ops.unimport(racer->device, base) != WEFT_OK)
            racer->failures++;
    }
    return NULL;
}

static int race_for_one_address(void)
{
    struct weft_device *device;
    struct ze_peer peer;
    struct racer racers[RACERS];
    pthread_t threads[RACERS];
    pthread_barrier_t start;
    ZE_CHECK(ze_peer_start(&peer, NULL) == 0);
    struct ze_fake *fake = begin(&device);
    ZE_CHECK(fake && ops.count(device) == 2);
    fake->shares_imported = 1;
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE, 7) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_OK);
    ZE_CHECK(pthread_barrier_init(&start, NULL, RACERS) == 0);
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){device, &peer, &start, i % 2, 0};
        ZE_CHECK(pthread_create(&threads[i], NULL, race, &racers[i]) == 0);
    }
    for (int i = 0; i < RACERS; i++) {
        ZE_CHECK(pthread_join(threads[i], NULL) == 0);
        ZE_CHECK(racers[i].failures == 0);
    }
    pthread_barrier_destroy(&start);
    ZE_CHECK(ze_peer_end(&peer) == 0);
    return end(fake, device);
}

static int race_without_inodes(void)
{
    has_one_inode = 1;
    return race_for_one_address();
}

static void test_race(void **state)
{
    (void)state;
    assert_int_equal(test_child(race_for_one_address), 0);
    assert_int_equal(test_child(race_without_inodes), 0);
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
    struct ze_fake *fake = begin(&device);
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
    return end(fake, device);
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
    struct ze_fake *fake = begin(&device);
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
    return end(fake, device);
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

/* Where nobody can say where in the dma-buf the memory begins, it is not shared. */
static int refuse_the_unknown(void)
{
    static void (*const sets[])(struct ze_fake *) = {have_numbered_parts, have_longer_files,
                                                     have_shorter_files};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct ze_peer peer;
        ZE_CHECK(ze_peer_start(&peer, sets[i]) == 0);
        ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE_BY, 9000) == WEFT_OK);
        ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_UNSUPPORTED);
        ZE_CHECK(strstr(peer.report.text, "cannot be shown where they begin"));
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
    struct ze_fake *fake = begin(&device);
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
    return end(fake, device);
}

static int import_nothing(void)
{
    struct weft_device *device;
    struct ze_peer peer;
    void *base;
    ZE_CHECK(ze_peer_start(&peer, NULL) == 0);
    struct ze_fake *fake = begin(&device);
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
    return end(fake, device);
}

static void test_lacks(void **state)
{
    (void)state;
    assert_int_equal(test_child(export_by_handles), 0);
    assert_int_equal(test_child(import_nothing), 0);
}

/* --- devices that one of both does not see */

static void see_the_second(struct ze_fake *fake)
{
    fake->device_count = 1;
    fake->devices[0].number = 2;
}

static void see_a_tile(struct ze_fake *fake)
{
    fake->device_count = 1;
    fake->devices[0].tile = 2;
}

static int see_other_devices(void)
{
    struct weft_device *device;
    struct ze_peer second, tile, card;
    void *base;
    ZE_CHECK(ze_peer_start(&second, see_the_second) == 0);
    ZE_CHECK(ze_peer_start(&tile, see_a_tile) == 0 && ze_peer_start(&card, NULL) == 0);
    struct ze_fake *fake = begin(&device);
    ZE_CHECK(fake);
    fake->device_count = 1;
    fake->devices[0].tiles = 2;
    struct ze_peer *const peers[] = {&second, &tile, &card};
    for (int i = 0; i < 3; i++)
        ZE_CHECK(ze_peer_do(peers[i], ZE_PEER_ALLOCATE, 20 + i) == WEFT_OK &&
                 ze_peer_do(peers[i], ZE_PEER_EXPORT, 0) == WEFT_OK);
    ZE_CHECK(import(device, 0, &second, &base) == WEFT_UNSUPPORTED);
    ZE_CHECK(strstr(ze_said, "is on a device that this process does not see") &&
             strstr(ze_said, "ZE_AFFINITY_MASK"));
    ZE_CHECK(import(device, 0, &tile, &base) == WEFT_OK);
    ZE_CHECK(BITS_AGREE(ze_peer_holds(device, base, ZE_PEER_BYTES, 21)) &&
             ops.unimport(device, base) == WEFT_OK);
    ops.close(device);
    fake->devices[0] = (struct ze_fake_device){.tile = 1}; /* of the card, of which no more is seen */
    ZE_CHECK((device = ze_scene_open()));
    ZE_CHECK(import(device, 0, &card, &base) == WEFT_UNSUPPORTED && strstr(ze_said, "does not see"));
    ZE_CHECK(ze_peer_end(&second) == 0 && ze_peer_end(&tile) == 0 && ze_peer_end(&card) == 0);
    return end(fake, device);
}

/* Two drivers show one GPU, and the memory is another one's: who works has to reach it by its own driver. */
static int see_one_device_twice(void)
{
    struct weft_device *device;
    struct ze_peer peer;
    void *base;
    ZE_CHECK(ze_peer_start(&peer, NULL) == 0);
    struct ze_fake *fake = begin(&device);
    ZE_CHECK(fake);
    fake->driver_count = 2;
    fake->device_count = 4;
    fake->devices[0].number = fake->devices[2].number = fake->devices[3].number = 1;
    fake->devices[1].number = 2;
    fake->devices[1].driver = fake->devices[3].driver = 1;
    fake->devices[2].driver = 1;
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE, 30) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_OK && ops.count(device) == 4);
    for (int ordinal = 0; ordinal < 4; ordinal++) {
        struct weft_device_span span = {.size = sizeof span};
        static const int owners[] = {0, 2, 2, 3};
        ZE_CHECK(import(device, ordinal, &peer, &base) == WEFT_OK);
        ZE_CHECK(ops.identify(device, base, &span) == WEFT_OK && span.ordinal == owners[ordinal]);
        ZE_CHECK(ops.unimport(device, base) == WEFT_OK);
    }
    ZE_CHECK(ze_peer_end(&peer) == 0);
    return end(fake, device);
}

static void test_masks(void **state)
{
    (void)state;
    assert_int_equal(test_child(see_one_device_twice), 0);
    assert_int_equal(test_child(see_other_devices), 0);
}

/* --- freed, and allocated again at the same address */

/* What was mapped before shows what was freed: whoever goes by the address alone is found. */
static int free_and_allocate(void)
{
    struct weft_device *device;
    struct ze_peer peer;
    void *base, *stale, *none;
    ZE_CHECK(ze_peer_start(&peer, NULL) == 0);
    struct ze_fake *fake = begin(&device);
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
    return end(fake, device);
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
    struct ze_fake *fake = begin(&device);
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
    LIE(slot, WEFT_OFFER_SLOTS, WEFT_PROTOCOL, "names no descriptor");
    LIE(slot, lie.slot + 1, WEFT_PROTOCOL, "no longer, one of process");
    LIE(serial, 0, WEFT_PROTOCOL, "names no descriptor");
    LIE(serial, lie.serial + 1, WEFT_PROTOCOL, "no longer, one of process");
    LIE(pid, -1, WEFT_PROTOCOL, "names no descriptor");
    LIE(key[3], (uint8_t)(lie.key[3] + 1), WEFT_UNSUPPORTED, "nobody hands out its descriptor");
    LIE(uuid[15], 9, WEFT_UNSUPPORTED, "does not see");
    /* A pipe, a file that is too short, and one that is no dma-buf. */
    static const char *const words[] = {"has 0 bytes, expected are 16384", "has 4096 bytes",
                                        "INVALID_ARGUMENT"};
    static const int lengths[] = {0, 4096, 16384};
    for (int i = 0; i < 3; i++) {
        ZE_CHECK(ze_peer_do(&peer, ZE_PEER_LIE, lengths[i]) == WEFT_OK);
        ZE_CHECK(import(device, 0, &peer, &base) == WEFT_PROTOCOL && strstr(ze_said, words[i]));
    }
    ZE_CHECK(ze_peer_descriptors() == before);
    ZE_CHECK(ze_peer_end(&peer) == 0);
    return end(fake, device);
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
    struct ze_fake *fake = begin(&device);
    ZE_CHECK(fake);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_ALLOCATE, 9) == WEFT_OK);
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_OK);
    kill(peer.pid, SIGSTOP);
    ZE_CHECK(waitpid(peer.pid, &status, WUNTRACED) == peer.pid && WIFSTOPPED(status));
    ZE_CHECK(import(device, 0, &peer, &base) == WEFT_UNSUPPORTED && strstr(ze_said, "has not handed out"));
    kill(peer.pid, SIGKILL);
    ZE_CHECK(waitpid(peer.pid, &status, 0) == peer.pid);
    ZE_CHECK(import(device, 0, &peer, &base) == WEFT_UNSUPPORTED && strstr(ze_said, "the process has ended"));
    return end(fake, device);
}

static void test_gone(void **state)
{
    (void)state;
    assert_int_equal(test_child(wait_for_nobody), 0);
}

/* --- dma-bufs */

static int export_dmabufs(void)
{
    struct weft_device *device;
    struct ze_fake *fake = begin(&device);
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
             ze_peer_descriptors() == before + 3); /* one is the driver's */
    memset(expected, 'm', sizeof expected);
    ZE_CHECK(pread(fd, bytes, sizeof bytes, 8984) == 16 && BITS_AGREE(memcmp(bytes, expected, 16) == 0));
    ZE_CHECK(ze_peer_fill(device, memory, 9000, 'n') == 0);
    ZE_CHECK(pread(again, bytes, 1, 0) == 1 && BITS_AGREE(*bytes == 'n'));
    close(again);
    rlim_t limit = test_descriptors_limit(0);
    struct rlimit own, none = {limit, limit};
    ZE_CHECK(getrlimit(RLIMIT_NOFILE, &own) == 0);
    none.rlim_max = own.rlim_max;
    ZE_CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    ZE_CHECK(ops.export_dmabuf(device, memory, 1, &again, &offset) == WEFT_UNSUPPORTED);
    ZE_CHECK(strstr(ze_said, "cannot be copied") && setrlimit(RLIMIT_NOFILE, &own) == 0);
    ZE_CHECK(ops.export_dmabuf(device, memory, 9001, &again, &offset) == WEFT_INVALID);
    ZE_CHECK(ops.export_dmabuf(device, memory, 0, &again, &offset) == WEFT_INVALID);
    ZE_CHECK(ops.export_dmabuf(device, host, 1, &again, &offset) == WEFT_UNSUPPORTED);
    ZE_CHECK(strstr(ze_said, "pinned host memory"));
    ZE_CHECK(ops.export_dmabuf(device, bytes, 1, &again, &offset) == WEFT_UNSUPPORTED);
    ZE_CHECK(ops.release(device, memory) == WEFT_OK && ops.release(device, host) == WEFT_OK);
    ZE_CHECK(pread(fd, bytes, 1, 0) == 1); /* it keeps the memory */
    close(fd);
    ZE_CHECK(ze_peer_descriptors() == before);
    return end(fake, device);
}

static void test_dmabufs(void **state)
{
    (void)state;
    assert_int_equal(test_child(export_dmabufs), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),        cmocka_unit_test(test_share_one_address),
        cmocka_unit_test(test_race),         cmocka_unit_test(test_parts),
        cmocka_unit_test(test_lacks),        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_lies),         cmocka_unit_test(test_gone),
        cmocka_unit_test(test_same_address), cmocka_unit_test(test_dmabufs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
