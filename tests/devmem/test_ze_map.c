/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; wrap fstatfs; beside ze */
/* Memory of other processes on the kind "ze": mapped once, and until nobody uses it, whatever the driver does with descriptors and addresses; on
 * devices that both processes see. The loader is the real one, the driver that of tests/fakes/ze/. */
#include <linux/magic.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/vfs.h>
#include <cmocka.h>

#include "tests/support/bits.h"
#include "tests/support/child.h"
#include "tests/support/ze_peer.h"

#define RACERS 3
#define RACES  100

static struct weft_device_ops ops; /* complete */
static int has_one_inode;          /* whether the kernel is one where all dma-bufs have the same */

int __real_fstatfs(int fd, struct statfs *system);
int __wrap_fstatfs(int fd, struct statfs *system);
int __wrap_fstatfs(int fd, struct statfs *system)
{
    int result = __real_fstatfs(fd, system);
    if (has_one_inode)
        system->f_type = ANON_INODE_FS_MAGIC;
    return result;
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
    const int mappings = 2; /* one for each device that works with it */
    ZE_CHECK(ze_peer_start(&peer, NULL) == 0);
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
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
        ZE_CHECK(elsewhere != base && fake->allocations == mappings);
        ZE_CHECK(ze_peer_descriptors() == before + (closes_imported == 2 ? 0 : mappings));
        ZE_CHECK(ops.identify(device, elsewhere, &span) == WEFT_OK && span.kind == WEFT_MEMORY_DEVICE);
        ZE_CHECK(span.ordinal == 1 && ops.reaches(device, 1, elsewhere, 0) == 1);
        ZE_CHECK(BITS_AGREE(ze_peer_holds(device, base, ZE_PEER_BYTES, 7 + round)));
        ZE_CHECK(ze_peer_fill(device, elsewhere, ZE_PEER_BYTES, 8 + round) == 0);
        ZE_CHECK(BITS_AGREE(ze_peer_do(&peer, ZE_PEER_FIND, 8 + round) == WEFT_OK));
        ZE_CHECK(ops.unimport(device, elsewhere) == WEFT_OK && ops.unimport(device, base) == WEFT_OK);
        ZE_CHECK(ze_peer_holds(device, base, ZE_PEER_BYTES, 8 + round));
        ZE_CHECK(ops.unimport(device, base) == WEFT_OK);
        ZE_CHECK(ops.unimport(device, base) == WEFT_INVALID && strstr(ze_said, "that was imported"));
        ZE_CHECK(ze_peer_descriptors() == before);
    }
    ZE_CHECK(has_one_inode || fake->imports == 1 + 3 * mappings);
    struct weft_device_handle handle = peer.report.handle;
    ZE_CHECK(ze_peer_do(&peer, ZE_PEER_EXPORT, 0) == WEFT_OK);
    ZE_CHECK(memcmp(&handle, &peer.report.handle, sizeof handle) == 0 && peer.report.offset == 0);
    ZE_CHECK(ze_peer_end(&peer) == 0);
    return ze_scene_end(&ops, fake, device);
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
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
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
    return ze_scene_end(&ops, fake, device);
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
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
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
    return ze_scene_end(&ops, fake, device);
}

/* Two drivers show one GPU, and the memory is another one's: who works has to reach it by its own driver. */
static int see_one_device_twice(void)
{
    struct weft_device *device;
    struct ze_peer peer;
    void *base;
    ZE_CHECK(ze_peer_start(&peer, NULL) == 0);
    struct ze_fake *fake = ze_scene_begin(&ops, &device);
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
        ZE_CHECK(import(device, ordinal, &peer, &base) == WEFT_OK);
        ZE_CHECK(ops.identify(device, base, &span) == WEFT_OK && span.ordinal == ordinal);
        ZE_CHECK(ops.unimport(device, base) == WEFT_OK);
    }
    ZE_CHECK(ze_peer_end(&peer) == 0);
    return ze_scene_end(&ops, fake, device);
}

static void test_masks(void **state)
{
    (void)state;
    assert_int_equal(test_child(see_one_device_twice), 0);
    assert_int_equal(test_child(see_other_devices), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_share_one_address),
        cmocka_unit_test(test_race),
        cmocka_unit_test(test_masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
