/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of registrations with a transport that counts. Where it is asked to it also holds on to the first page of
 * what it registers, as a device would: by a reference in a pipe. What is read from there shows whether the region is of
 * the memory that is there now.
 */
#ifndef WEFT_TESTS_CACHE_SCENE_H
#define WEFT_TESTS_CACHE_SCENE_H

#include <stddef.h>
#include <stdint.h>

#include "comm/regions/cache.h"
#include "tests/support/leak.h"

#define PAGE ((size_t)4096)
#define SHM  0u
#define OFI  1u

struct weft_region {
    char *memory;
    size_t size;
    uint32_t transport;
    int pinned[2]; /* a pipe */
};

struct cache_scene {
    struct test_leak before;
    int live, made, room; /* regions that are, that ever were, and that there may be */
    int pins;
    struct weft_region_cache *cache;
};

void cache_scene_begin(struct cache_scene *scene, uint64_t bytes_max);
/* Nothing is left of it. */
void cache_scene_end(struct cache_scene *scene);

/* A region of OFI that covers the memory, NULL when it is not for the cache. */
struct weft_region *cache_scene_get(struct cache_scene *scene, const void *memory, size_t size);
void cache_scene_put(struct cache_scene *scene, struct weft_region *region);
/* Gets and puts; returns how many regions had to be made. */
int cache_scene_use(struct cache_scene *scene, const void *memory, size_t size);
uint64_t cache_scene_entries(struct cache_scene *scene);

/* Whether the page that the region holds is the one that is at its address. */
int cache_scene_is_current(const struct weft_region *region);

/* Private memory of whole pages. */
char *cache_scene_map(size_t size);
/* The same with mapped pages beside it and a wide gap above: when it is unmapped, the kernel does not give its address
 * to whoever maps something next, the sanitizers for instance. */
char *cache_scene_map_apart(size_t size);
/* Unmaps the pages beside it, and what is left of it. */
void cache_scene_unmap_apart(char *memory, size_t size);

/* Whether the kernel here lets memory be watched. */
int cache_scene_watching(void);

#define NEED_WATCHING()                                                                                      \
    do {                                                                                                     \
        if (!cache_scene_watching())                                                                         \
            TEST_SKIP("the kernel does not let memory be watched here (userfaultfd)");                       \
    } while (0)

#endif
