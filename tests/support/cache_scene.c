/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/cache_scene.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>
#include <weft/weft.h>

static int fake_reg(void *arg, uint32_t transport, void *memory, size_t size, struct weft_region **region)
{
    struct cache_scene *scene = arg;
    if (scene->live >= scene->room)
        return WEFT_NOMEM;
    *region = malloc(sizeof **region);
    assert_non_null(*region);
    **region = (struct weft_region){memory, size, transport, {-1, -1}};
    if (scene->pins) {
        struct iovec page = {memory, PAGE};
        assert_int_equal(pipe2((*region)->pinned, O_CLOEXEC), 0);
        assert_int_equal(vmsplice((*region)->pinned[1], &page, 1, 0), PAGE);
    }
    scene->live++;
    scene->made++;
    return WEFT_OK;
}

static void fake_dereg(void *arg, uint32_t transport, struct weft_region *region)
{
    struct cache_scene *scene = arg;
    assert_int_equal(region->transport, transport);
    scene->live--;
    for (int i = 0; i < 2 && region->pinned[0] >= 0; i++)
        close(region->pinned[i]);
    free(region);
}

/* Whether the page that the region holds is the one that is at its address. */
int cache_scene_is_current(const struct weft_region *region)
{
    char held[64];
    int copy[2];
    assert_int_equal(pipe2(copy, O_CLOEXEC), 0);
    assert_int_equal(tee(region->pinned[0], copy[1], PAGE, 0), PAGE);
    assert_int_equal(read(copy[0], held, sizeof held), sizeof held);
    close(copy[0]);
    close(copy[1]);
    return memcmp(held, region->memory, sizeof held) == 0;
}

void cache_scene_begin(struct cache_scene *scene, uint64_t bytes_max)
{
    memset(scene, 0, sizeof *scene);
    test_leak_take(&scene->before);
    scene->room = 1000000;
    struct weft_region_cache_options options = {
        .bytes_max = bytes_max, .arg = scene, .reg = fake_reg, .dereg = fake_dereg};
    assert_int_equal(weft_region_cache_open(&options, &scene->cache), WEFT_OK);
}

void cache_scene_end(struct cache_scene *scene)
{
    weft_region_cache_close(scene->cache);
    assert_int_equal(scene->live, 0);
    assert_int_equal(test_leak_check(&scene->before), 0);
}

struct weft_region *cache_scene_get(struct cache_scene *scene, const void *memory, size_t size)
{
    struct weft_region *region = NULL;
    if (weft_region_cache_get(scene->cache, OFI, memory, size, &region) != WEFT_OK)
        return NULL;
    assert_true(region->memory <= (const char *)memory);
    assert_true(region->memory + region->size >= (const char *)memory + size);
    return region;
}

void cache_scene_put(struct cache_scene *scene, struct weft_region *region)
{
    assert_int_equal(weft_region_cache_put(scene->cache, OFI, region), 1);
}

/* Gets and puts; returns how many regions had to be made. */
int cache_scene_use(struct cache_scene *scene, const void *memory, size_t size)
{
    int made = scene->made;
    struct weft_region *region = cache_scene_get(scene, memory, size);
    assert_non_null(region);
    cache_scene_put(scene, region);
    return scene->made - made;
}

uint64_t cache_scene_entries(struct cache_scene *scene)
{
    struct weft_region_cache_stats stats;
    weft_region_cache_get_stats(scene->cache, &stats);
    return stats.entries;
}

char *cache_scene_map(size_t size)
{
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

#define GAP (1024 * PAGE)

char *cache_scene_map_apart(size_t size)
{
    char *memory = cache_scene_map(size + GAP + 3 * PAGE) + PAGE;
    munmap(memory + size + PAGE, GAP);
    return memory;
}

void cache_scene_unmap_apart(char *memory, size_t size)
{
    munmap(memory - PAGE, size + 2 * PAGE);
    munmap(memory + size + PAGE + GAP, PAGE);
}

/* The kernel here may not let memory be watched. */
int cache_scene_watching(void)
{
    struct cache_scene scene;
    cache_scene_begin(&scene, 1 << 20);
    char *memory = cache_scene_map(PAGE);
    struct weft_region *region = cache_scene_get(&scene, memory, PAGE);
    if (region)
        cache_scene_put(&scene, region);
    cache_scene_end(&scene);
    munmap(memory, PAGE);
    return region != NULL;
}
