/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of registrations: what hits, what is kept, and what is not for it. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <weft/weft.h>

#include "tests/support/cache_scene.h"
#include "tests/support/skip.h"

static void test_cover(void **state)
{
    (void)state;
    struct cache_scene scene;
    NEED_WATCHING();
    cache_scene_begin(&scene, 1 << 20);
    char *memory = cache_scene_map(16 * PAGE);
    assert_int_equal(cache_scene_use(&scene, memory + 100, 200), 1);
    assert_int_equal(cache_scene_use(&scene, memory + 100, 200), 0);
    assert_int_equal(cache_scene_use(&scene, memory + 3000, 1096), 0); /* a neighbour on the same page */
    assert_int_equal(cache_scene_use(&scene, memory, PAGE + 1), 1);    /* beyond it */
    assert_int_equal(cache_scene_use(&scene, memory + PAGE, 10), 0);
    assert_int_equal(cache_scene_use(&scene, memory + PAGE, 4 * PAGE), 1); /* overlaps */
    assert_int_equal(cache_scene_use(&scene, memory + PAGE, PAGE), 0);
    assert_int_equal(cache_scene_use(&scene, memory + 4 * PAGE + 9, 1), 0);
    assert_int_equal(cache_scene_use(&scene, memory + 12 * PAGE, PAGE), 1);
    struct weft_region *region;
    assert_int_equal(weft_region_cache_get(scene.cache, SHM, memory, 1, &region), WEFT_OK); /* one each */
    assert_int_equal(region->transport, SHM);
    assert_int_equal(weft_region_cache_put(scene.cache, OFI, region), 0);
    assert_int_equal(weft_region_cache_put(scene.cache, SHM, region), 1);
    struct weft_region_cache_stats stats;
    weft_region_cache_get_stats(scene.cache, &stats);
    assert_int_equal(stats.entries, 4);
    assert_int_equal(stats.bytes, 8 * PAGE);
    assert_int_equal(stats.misses, 5);
    assert_int_equal(stats.hits, 5);
    assert_int_equal(scene.live, 5);
    weft_region_cache_forget(scene.cache, OFI);
    assert_int_equal(scene.live, 0);
    munmap(memory, 16 * PAGE);
    cache_scene_end(&scene);
}

static void test_bounds(void **state)
{
    (void)state;
    struct cache_scene scene;
    NEED_WATCHING();
    cache_scene_begin(&scene, 4 * PAGE);
    char *memory = cache_scene_map(32 * PAGE);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(cache_scene_use(&scene, memory + 2 * i * PAGE, PAGE), 1);
    assert_int_equal(cache_scene_use(&scene, memory, PAGE), 0);            /* the second is the oldest now */
    assert_int_equal(cache_scene_use(&scene, memory + 8 * PAGE, PAGE), 1); /* in its place */
    assert_int_equal(scene.live, 4);
    assert_int_equal(cache_scene_use(&scene, memory, PAGE), 0);
    assert_int_equal(cache_scene_use(&scene, memory + 4 * PAGE, PAGE), 0);
    assert_int_equal(cache_scene_use(&scene, memory + 2 * PAGE, PAGE), 1);
    assert_null(cache_scene_get(&scene, memory, 5 * PAGE)); /* more than there may be */
    assert_null(cache_scene_get(&scene, memory + PAGE - 1, 3 * PAGE + 2));
    assert_int_equal(scene.live, 4);

    /* What is in use stays, and leaves no room. */
    struct weft_region *held = cache_scene_get(&scene, memory + 16 * PAGE, 3 * PAGE);
    assert_non_null(held);
    assert_null(cache_scene_get(&scene, memory + 20 * PAGE, 2 * PAGE));
    struct weft_region *other = cache_scene_get(&scene, memory + 20 * PAGE, PAGE);
    assert_non_null(other);
    assert_int_equal(scene.live, 2);
    assert_null(cache_scene_get(&scene, memory + 24 * PAGE, PAGE));
    cache_scene_put(&scene, other);
    assert_int_equal(cache_scene_use(&scene, memory + 24 * PAGE, PAGE), 1);
    cache_scene_put(&scene, held);
    assert_int_equal(cache_scene_use(&scene, memory + 16 * PAGE, 3 * PAGE), 0);
    munmap(memory, 32 * PAGE);
    cache_scene_end(&scene);
}

/* More ranges than there may be. */
static void test_number(void **state)
{
    (void)state;
    struct cache_scene scene;
    NEED_WATCHING();
    cache_scene_begin(&scene, UINT64_MAX);
    enum { MANY = 4200 };
    char *memory = cache_scene_map(2 * MANY * PAGE);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(cache_scene_use(&scene, memory + 2 * i * PAGE, 1), 1);
    assert_int_equal(cache_scene_entries(&scene), 4096);
    assert_int_equal(scene.live, 4096);
    munmap(memory, 2 * MANY * PAGE);
    assert_int_equal(cache_scene_entries(&scene), 0);
    cache_scene_end(&scene);
}

/* A transport that has run out gets what nobody uses back. */
static void test_room(void **state)
{
    (void)state;
    struct cache_scene scene;
    NEED_WATCHING();
    cache_scene_begin(&scene, 1 << 20);
    char *memory = cache_scene_map(16 * PAGE);
    scene.room = 2;
    struct weft_region *held = cache_scene_get(&scene, memory, PAGE);
    assert_int_equal(cache_scene_use(&scene, memory + 2 * PAGE, PAGE), 1);
    assert_int_equal(cache_scene_use(&scene, memory + 4 * PAGE, PAGE), 1);
    struct weft_region *second = cache_scene_get(&scene, memory + 6 * PAGE, PAGE);
    assert_non_null(second);
    assert_null(cache_scene_get(&scene, memory + 8 * PAGE, PAGE));
    assert_string_equal(weft_error_detail(), "");
    cache_scene_put(&scene, held);
    cache_scene_put(&scene, second);
    assert_int_equal(cache_scene_use(&scene, memory, PAGE), 0);
    munmap(memory, 16 * PAGE);
    cache_scene_end(&scene);
}

/* Memory that others can change or that cannot be watched is not kept, and no harm is done to it. */
static void test_not_ours(void **state)
{
    (void)state;
    struct cache_scene scene;
    NEED_WATCHING();
    cache_scene_begin(&scene, 1 << 20);
    int file = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, 8 * (off_t)PAGE), 0);
    char *shared = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    memset(shared, 1, 8 * PAGE);
    for (int i = 0; i < 2; i++) {
        struct weft_region *region = cache_scene_get(&scene, shared, 8 * PAGE);
        assert_int_equal(cache_scene_entries(&scene), 0);
        if (region)
            cache_scene_put(&scene, region);
        assert_int_equal(scene.live, 0);
    }
    int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char *text = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, program, 0);
    assert_ptr_not_equal(text, MAP_FAILED);
    assert_null(cache_scene_get(&scene, text, PAGE));
    char *hole = cache_scene_map(3 * PAGE);
    munmap(hole + PAGE, PAGE);
    assert_null(cache_scene_get(&scene, (void *)16, 16));
    assert_null(cache_scene_get(&scene, hole, 0));
    assert_null(cache_scene_get(&scene, hole, SIZE_MAX));
    assert_int_equal(scene.live, 0);
    munmap(shared, 8 * PAGE);
    munmap(text, 2 * PAGE);
    munmap(hole, PAGE);
    munmap(hole + 2 * PAGE, PAGE);
    close(file);
    close(program);
    cache_scene_end(&scene);
}

/* A private mapping of a file has pages of its own where it was written to, and loses them with the file's, without an event. */
static void test_private_of_file(void **state)
{
    (void)state;
    struct cache_scene scene;
    NEED_WATCHING();
    cache_scene_begin(&scene, 1 << 20);
    scene.pins = 1;
    int file = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, 4 * (off_t)PAGE), 0);
    char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    for (int turn = 1; turn <= 3; turn++) {
        memset(memory, turn, 4 * PAGE);
        struct weft_region *region = cache_scene_get(&scene, memory, 4 * PAGE);
        if (region) {
            assert_true(cache_scene_is_current(region));
            cache_scene_put(&scene, region);
        }
        assert_int_equal(scene.live, 0);
        assert_int_equal(ftruncate(file, 0), 0);
        assert_int_equal(ftruncate(file, 4 * (off_t)PAGE), 0);
    }
    munmap(memory, 4 * PAGE);
    close(file);
    cache_scene_end(&scene);
}

/* What is kept does not make room for what never is. */
static void test_room_for_nothing(void **state)
{
    (void)state;
    struct cache_scene scene;
    NEED_WATCHING();
    cache_scene_begin(&scene, 16 * PAGE);
    char *kept = cache_scene_map(16 * PAGE);
    char *shared = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    memset(shared, 1, 16 * PAGE);
    for (size_t i = 0; i < 16; i += 2)
        assert_int_equal(cache_scene_use(&scene, kept + i * PAGE, PAGE), 1);
    assert_null(cache_scene_get(&scene, shared, 16 * PAGE));
    assert_string_equal(weft_error_detail(), "");
    assert_int_equal(cache_scene_entries(&scene), 8);
    for (size_t i = 0; i < 16; i += 2)
        assert_int_equal(cache_scene_use(&scene, kept + i * PAGE, PAGE), 0);
    munmap(kept, 16 * PAGE);
    munmap(shared, 16 * PAGE);
    cache_scene_end(&scene);
}

static void test_off(void **state)
{
    (void)state;
    struct cache_scene scene;
    cache_scene_begin(&scene, 0);
    char *memory = cache_scene_map(PAGE);
    assert_null(cache_scene_get(&scene, memory, PAGE));
    munmap(memory, PAGE);
    cache_scene_end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cover),           cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_number),          cmocka_unit_test(test_room),
        cmocka_unit_test(test_not_ours),        cmocka_unit_test(test_off),
        cmocka_unit_test(test_private_of_file), cmocka_unit_test(test_room_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
