/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of registrations on memory that goes and comes back. */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/cache_scene.h"
#include "tests/support/skip.h"

static void with_munmap(char *memory)
{
    munmap(memory, 8 * PAGE);
}

static void with_partial_munmap(char *memory)
{
    munmap(memory + 7 * PAGE, PAGE);
}

static void with_dontneed(char *memory)
{
    madvise(memory + PAGE, PAGE, MADV_DONTNEED);
}

static void with_free(char *memory)
{
    madvise(memory, PAGE, MADV_FREE);
}

static void with_map_over(char *memory)
{
    assert_ptr_equal(
        mmap(memory + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        memory + PAGE);
}

static char *moved;

static void with_mremap(char *memory)
{
    char *room = cache_scene_map(16 * PAGE);
    moved = mremap(memory, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
    assert_ptr_equal(moved, room);
    munmap(room + 8 * PAGE, 8 * PAGE);
}

static void with_shrink(char *memory)
{
    assert_ptr_equal(mremap(memory, 8 * PAGE, 4 * PAGE, 0), memory);
}

static void (*const ways_to_go[])(char *memory) = {
    with_munmap, with_partial_munmap, with_dontneed, with_free, with_map_over, with_mremap, with_shrink,
};

/* In each way, with the region in use meanwhile or not; then memory is at the same address once more. */
static void test_gone(void **state)
{
    (void)state;
    struct cache_scene scene;
    NEED_WATCHING();
    cache_scene_begin(&scene, 1 << 20);
    for (size_t way = 0; way < 2 * sizeof ways_to_go / sizeof *ways_to_go; way++) {
        char *memory = cache_scene_map_apart(8 * PAGE);
        memset(memory, 1, 8 * PAGE);
        struct weft_region *region = cache_scene_get(&scene, memory, 8 * PAGE);
        assert_non_null(region);
        int held = way % 2;
        if (!held)
            cache_scene_put(&scene, region);
        assert_int_equal(cache_scene_use(&scene, memory, 8 * PAGE), 0);
        moved = NULL;
        ways_to_go[way / 2](memory);
        assert_int_equal(cache_scene_entries(&scene), 0);
        assert_int_equal(scene.live, 1); /* nothing happens on the other thread but the note */
        if (moved)
            munmap(moved, 8 * PAGE);
        assert_ptr_equal(
            mmap(memory, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            memory);
        memset(memory, 2, 8 * PAGE);
        assert_int_equal(cache_scene_use(&scene, memory, 8 * PAGE), 1);
        assert_int_equal(scene.live, 1 + held);
        if (held)
            cache_scene_put(&scene, region);
        assert_int_equal(scene.live, 1);
        assert_int_equal(cache_scene_use(&scene, memory + PAGE, 1), 0);
        cache_scene_unmap_apart(memory, 8 * PAGE);
    }
    cache_scene_end(&scene);
}

/* Of several entries those go that are hit, and what they leave is still watched where others have it. */
static void test_gone_between(void **state)
{
    (void)state;
    struct cache_scene scene;
    NEED_WATCHING();
    cache_scene_begin(&scene, 1 << 20);
    char *memory = cache_scene_map_apart(16 * PAGE);
    cache_scene_use(&scene, memory, 6 * PAGE);
    cache_scene_use(&scene, memory + 4 * PAGE, 4 * PAGE);
    cache_scene_use(&scene, memory + 10 * PAGE, PAGE);
    munmap(memory + 2 * PAGE, PAGE); /* the first */
    assert_int_equal(cache_scene_entries(&scene), 2);
    assert_int_equal(cache_scene_use(&scene, memory + 4 * PAGE, 4 * PAGE), 0);
    munmap(memory + 4 * PAGE, PAGE); /* the second, here as well as the first */
    assert_int_equal(cache_scene_entries(&scene), 1);
    munmap(memory + 7 * PAGE, PAGE); /* nobody's any more */
    assert_int_equal(cache_scene_use(&scene, memory + 10 * PAGE, PAGE), 0);
    cache_scene_unmap_apart(memory, 16 * PAGE);
    assert_int_equal(cache_scene_entries(&scene), 0);
    cache_scene_end(&scene);
}

/* Guards take pages away, and no kernel reports it so far: what docs/memory.md says to users. What it advises them helps. */
static void test_guards(void **state)
{
    (void)state;
    struct cache_scene scene;
    enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103 };
    NEED_WATCHING();
    char *memory = cache_scene_map(4 * PAGE);
    if (madvise(memory, PAGE, GUARD_INSTALL)) {
        munmap(memory, 4 * PAGE);
        TEST_SKIP("the kernel has no guards (MADV_GUARD_INSTALL, Linux 6.13)");
    }
    assert_int_equal(madvise(memory, PAGE, GUARD_REMOVE), 0);
    cache_scene_begin(&scene, 1 << 20);
    scene.pins = 1;
    for (int first_discard = 0; first_discard < 2; first_discard++) {
        memset(memory, 1, 4 * PAGE);
        assert_int_equal(cache_scene_use(&scene, memory, 4 * PAGE), 1);
        if (first_discard)
            assert_int_equal(madvise(memory, 4 * PAGE, MADV_DONTNEED), 0);
        assert_int_equal(madvise(memory, 4 * PAGE, GUARD_INSTALL), 0);
        assert_int_equal(madvise(memory, 4 * PAGE, GUARD_REMOVE), 0);
        memset(memory, 2, 4 * PAGE);
        struct weft_region *region = cache_scene_get(&scene, memory, 4 * PAGE);
        assert_non_null(region);
        assert_int_equal(cache_scene_is_current(region), first_discard);
        cache_scene_put(&scene, region);
        weft_region_cache_trim(scene.cache);
    }
    munmap(memory, 4 * PAGE);
    cache_scene_end(&scene);
}

/* Two contexts keep the same memory; what one lets go of is still watched for the other, whoever ends first. */
static void test_two(void **state)
{
    (void)state;
    struct cache_scene first, second;
    NEED_WATCHING();
    char *memory = cache_scene_map_apart(16 * PAGE);
    cache_scene_begin(&first, 1 << 20);
    assert_int_equal(cache_scene_use(&first, memory, 8 * PAGE), 1);
    cache_scene_begin(&second, 1 << 20);
    assert_int_equal(cache_scene_use(&second, memory, 8 * PAGE), 1);
    assert_int_equal(cache_scene_use(&second, memory + 9 * PAGE, PAGE), 1);
    assert_int_equal(cache_scene_use(&first, memory, 8 * PAGE), 0);
    weft_region_cache_trim(first.cache);
    assert_int_equal(first.live, 0);
    assert_int_equal(cache_scene_use(&second, memory, 8 * PAGE), 0);
    munmap(memory + 2 * PAGE, PAGE);
    assert_int_equal(cache_scene_entries(&second), 1);

    /* Of what has gone in part, the rest may be the other's. */
    assert_int_equal(cache_scene_use(&first, memory + 3 * PAGE, 4 * PAGE), 1);
    assert_int_equal(cache_scene_use(&second, memory + 5 * PAGE, 3 * PAGE), 1);
    munmap(memory + 3 * PAGE, PAGE);
    assert_int_equal(cache_scene_entries(&first), 0);
    assert_int_equal(cache_scene_entries(&second), 2);
    munmap(memory + 6 * PAGE, PAGE);
    assert_int_equal(cache_scene_entries(&second), 1);

    assert_int_equal(cache_scene_use(&first, memory + 9 * PAGE, PAGE), 1);
    cache_scene_end(&second);
    assert_int_equal(cache_scene_use(&first, memory + 9 * PAGE, PAGE), 0);
    cache_scene_begin(&second, 1 << 20);
    assert_int_equal(cache_scene_use(&second, memory + 9 * PAGE, PAGE), 1);
    weft_region_cache_close(first.cache);
    assert_int_equal(first.live, 0);
    munmap(memory + 9 * PAGE, PAGE);
    assert_int_equal(cache_scene_entries(&second), 0);
    cache_scene_unmap_apart(memory, 16 * PAGE);
    weft_region_cache_close(second.cache);
    assert_int_equal(second.live, 0);
    assert_int_equal(test_leak_check(&first.before), 0);
}

/* What malloc() does: blocks of their own mappings, and the heap, which shrinks. */
static void test_heap(void **state)
{
    (void)state;
    struct cache_scene scene;
    NEED_WATCHING();
    cache_scene_begin(&scene, 64 << 20);
    scene.pins = 1;
    size_t size = 4 << 20;
    for (uint64_t turn = 1; turn <= 50; turn++) {
        char *memory = malloc(size);
        assert_non_null(memory);
        for (size_t i = 0; i < size; i += PAGE)
            memcpy(memory + i, &turn, sizeof turn);
        int grown = turn % 3 == 0;
        if (grown) {
            cache_scene_use(&scene, memory, size);
            char *larger = realloc(memory, 2 * size);
            assert_non_null(larger);
            memory = larger;
            assert_memory_equal(memory + PAGE, &turn, sizeof turn);
        }
        char *page = (char *)(((uintptr_t)memory + PAGE - 1) & ~(PAGE - 1));
        memcpy(page, &turn, sizeof turn);
        struct weft_region *region = cache_scene_get(&scene, page, size - 2 * PAGE);
        assert_non_null(region);
        uint64_t anew = ~turn;
        memcpy(page, &anew, sizeof anew);
        assert_true(cache_scene_is_current(region));
        cache_scene_put(&scene, region);
        free(memory);
        if (turn % 5 == 0)
            malloc_trim(0);
    }
    cache_scene_end(&scene);
}

/* System calls that touch pages for the first time do so as ever. */
static void test_fresh_pages(void **state)
{
    (void)state;
    struct cache_scene scene;
    int pipe_fds[2], sockets[2];
    NEED_WATCHING();
    cache_scene_begin(&scene, 64 << 20);
    char *memory = cache_scene_map(600 * PAGE);
    assert_int_equal(cache_scene_use(&scene, memory, 600 * PAGE), 1);
    assert_int_equal(madvise(memory, 600 * PAGE, MADV_DONTNEED), 0);
    assert_int_equal(cache_scene_use(&scene, memory, 600 * PAGE), 1);
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(write(pipe_fds[1], "abc", 3), 3);
    assert_int_equal(read(pipe_fds[0], memory + 5 * PAGE, 3), 3);
    assert_int_equal(write(sockets[1], "defg", 4), 4);
    assert_int_equal(recv(sockets[0], memory + 7 * PAGE - 2, 4, 0), 4);
    assert_memory_equal(memory + 5 * PAGE, "abc", 3);
    assert_memory_equal(memory + 7 * PAGE - 2, "defg", 4);
    int zero = open("/dev/zero", O_RDONLY);
    assert_int_equal(read(zero, memory + 8 * PAGE, 500 * PAGE), 500 * (long)PAGE);
    close(zero);
    memory[599 * PAGE] = 1;
    for (int i = 0; i < 2; i++) {
        close(pipe_fds[i]);
        close(sockets[i]);
    }
    munmap(memory, 600 * PAGE);
    cache_scene_end(&scene);
}

/* A child frees what its parent has cached, and its parent does not notice; neither waits for the other. */
static void test_fork(void **state)
{
    (void)state;
    struct cache_scene scene;
    NEED_WATCHING();
    cache_scene_begin(&scene, 1 << 20);
    char *memory = cache_scene_map(8 * PAGE);
    memset(memory, 1, 8 * PAGE);
    cache_scene_use(&scene, memory, 8 * PAGE);
    int hold[2], status;
    assert_int_equal(pipe(hold), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(hold[1]);
        munmap(memory, 4 * PAGE);
        madvise(memory + 4 * PAGE, PAGE, MADV_DONTNEED);
        _exit(read(hold[0], &byte, 1) == 1 && memory[5 * PAGE] == 1 ? 0 : 1);
    }
    assert_true(child > 0);
    close(hold[0]);
    assert_int_equal(cache_scene_use(&scene, memory, 8 * PAGE), 0);
    munmap(memory, 4 * PAGE);
    assert_int_equal(cache_scene_entries(&scene), 0);
    assert_int_equal(cache_scene_use(&scene, memory + 6 * PAGE, PAGE), 1);
    weft_region_cache_close(scene.cache); /* with the child still there */
    munmap(memory + 4 * PAGE, 4 * PAGE);
    assert_int_equal(write(hold[1], "x", 1), 1);
    close(hold[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(scene.live, 0);
    assert_int_equal(test_leak_check(&scene.before), 0);
}

/* --- threads */

#define THREADS 4

struct crowd {
    struct cache_scene scene;
    pthread_mutex_t lock; /* the context's */
    uint64_t next_stamp;
    int wrong, gotten;
    int turns;
};

/* Maps and frees, or allocates and frees, and has its memory registered between. The addresses are mostly what
 * another thread has just given back. */
static void *stir(void *arg)
{
    struct crowd *crowd = arg;
    size_t size = 64 * PAGE;
    for (int turn = 0; turn < crowd->turns; turn++) {
        char *base = turn % 2 ? malloc(size) : cache_scene_map(size);
        char *page = (char *)(((uintptr_t)base + PAGE - 1) & ~(PAGE - 1));
        uint64_t stamp = __atomic_add_fetch(&crowd->next_stamp, 1, __ATOMIC_RELAXED);
        memcpy(page, &stamp, sizeof stamp);
        pthread_mutex_lock(&crowd->lock);
        for (int i = 0; i < 2; i++) {
            struct weft_region *region = cache_scene_get(&crowd->scene, page, 16 * PAGE);
            if (!region)
                continue;
            crowd->gotten++;
            crowd->wrong += !cache_scene_is_current(region);
            cache_scene_put(&crowd->scene, region);
        }
        pthread_mutex_unlock(&crowd->lock);
        if (turn % 2)
            free(base);
        else
            munmap(base, size);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct crowd crowd = {.turns = 1500};
    pthread_t threads[THREADS];
    NEED_WATCHING();
    cache_scene_begin(&crowd.scene, 32 * 16 * PAGE);
    crowd.scene.pins = 1;
    pthread_mutex_init(&crowd.lock, NULL);
    mallopt(M_MMAP_THRESHOLD, 128 << 10); /* and it stays so: malloc() maps each block */
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, stir, &crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(crowd.wrong, 0);
    assert_true(crowd.gotten > 0);
    pthread_mutex_destroy(&crowd.lock);
    cache_scene_end(&crowd.scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gone), cmocka_unit_test(test_gone_between),
        cmocka_unit_test(test_two),  cmocka_unit_test(test_guards),
        cmocka_unit_test(test_heap), cmocka_unit_test(test_fresh_pages),
        cmocka_unit_test(test_fork), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
