/* SPDX-License-Identifier: Apache-2.0 */
/* Reads: expose, map, pull, alloc and free; and taking back what was exposed. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/conform.h"

/* a exposes to b over its link; b reads through its own link to a. */
struct pair {
    struct conform_world world;
    struct conform_node *a, *b;
    struct weft_link *ab, *ba;
    uint32_t flags; /* what b may do with a's memory */
};

static void pair_open(struct pair *pair, void **state)
{
    conform_open(&pair->world, conform_backend(state), 2);
    pair->a = &pair->world.nodes[0];
    pair->b = &pair->world.nodes[1];
    pair->ab = conform_connect(&pair->world, 0, 1, NULL);
    pair->ba = conform_connect(&pair->world, 1, 0, NULL);
    assert_int_equal(pair->a->ops.link_flags(pair->ab, &pair->flags), 0);
    if (!(pair->a->caps.flags & WEFT_CAP_READ))
        assert_int_equal(pair->flags & (WEFT_LINK_PEER_MAPS | WEFT_LINK_PEER_PULLS), 0);
}

/* Sends the token as the executor would, so that everything it needs has arrived before it. */
static void pass_token(struct pair *pair, struct weft_token *token)
{
    size_t before = pair->b->message_count;
    conform_send(&pair->world, 0, pair->ab, token, sizeof *token, NULL, 0);
    conform_until(&pair->world, &pair->b->message_count, before + 1);
    memcpy(token, pair->b->bytes + pair->b->messages[before].offset, sizeof *token);
}

static void pull_all_ways(struct pair *pair, const struct weft_token *token, const uint8_t *source,
                          size_t size)
{
    uint8_t *copy = malloc(size + 2);
    assert_non_null(copy);
    const size_t parts[][2] = {{0, size}, {0, 1}, {size - 1, 1}, {size / 3, size / 2}, {size, 0}, {7, 4096}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        memset(copy, 0xee, size + 2);
        assert_int_equal(pair->b->ops.pull(pair->ba, token, parts[i][0], copy + 1, parts[i][1], 0), 0);
        assert_memory_equal(copy + 1, source + parts[i][0], parts[i][1]);
        assert_int_equal(copy[0], 0xee);
        assert_int_equal(copy[parts[i][1] + 1], 0xee);
    }
    assert_true(pair->b->ops.pull(pair->ba, token, 0, copy, size + 1, 0) < 0);
    assert_true(pair->b->ops.pull(pair->ba, token, size + 1, copy, 0, 0) < 0);
    assert_true(pair->b->ops.pull(pair->ba, token, UINT64_MAX - 1, copy, 4, 0) < 0);
    free(copy);
}

static void ordinary_memory_is_pulled(void **state)
{
    struct pair pair;
    pair_open(&pair, state);
    size_t size = 3 * 1024 * 1024 + 17;
    uint8_t *source = malloc(size);
    assert_non_null(source);
    conform_fill(source, size, 3);
    struct weft_token token;
    int status = pair.a->ops.expose(pair.ab, NULL, source + 1, size - 1, &token);
    if (pair.flags & WEFT_LINK_PEER_PULLS) {
        assert_int_equal(status, 0);
        pass_token(&pair, &token);
        pull_all_ways(&pair, &token, source + 1, size - 1);
        const void *mapped = NULL;
        status = pair.b->ops.map(pair.ba, &token, size - 1, &mapped);
        if (conform_backend(state)->reads_maps_only_alloc)
            assert_int_equal(status, WEFT_UNSUPPORTED);
        if (status == 0)
            assert_memory_equal(mapped, source + 1, size - 1);
    } else {
        assert_int_equal(status, WEFT_UNSUPPORTED);
    }
    free(source);
    conform_close(&pair.world);
}

static void allocated_memory_is_mapped(void **state)
{
    struct pair pair;
    pair_open(&pair, state);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t sizes[] = {1, 5000, 2u << 20, (5u << 20) + 12345};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *memory = NULL;
        int status = pair.a->ops.alloc(pair.a->transport, sizes[i], &memory);
        if (status == WEFT_UNSUPPORTED)
            break;
        assert_int_equal(status, 0);
        assert_int_equal((uintptr_t)memory % page, 0);
        uint8_t *bytes = memory;
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(bytes[k], 0);
        conform_fill(bytes, sizes[i], (uint32_t)i);
        size_t skip = sizes[i] > 100 ? 33 : 0;
        struct weft_token token;
        assert_int_equal(pair.a->ops.expose(pair.ab, NULL, bytes + skip, sizes[i] - skip, &token), 0);
        pass_token(&pair, &token);
        const void *mapped = NULL, *again = NULL;
        if (pair.flags & WEFT_LINK_PEER_MAPS) {
            assert_int_equal(pair.b->ops.map(pair.ba, &token, sizes[i] - skip, &mapped), 0);
            assert_memory_equal(mapped, bytes + skip, sizes[i] - skip);
            bytes[skip] ^= 0xff; /* the same memory, not a copy */
            assert_memory_equal(mapped, bytes + skip, 1);
            assert_int_equal(pair.b->ops.map(pair.ba, &token, sizes[i] - skip, &again), 0);
            assert_ptr_equal(mapped, again);
        }
        if (sizes[i] > 8192)
            pull_all_ways(&pair, &token, bytes + skip, sizes[i] - skip);
        pair.a->ops.free(pair.a->transport, memory);
    }
    conform_close(&pair.world);
}

/* Whoever reads says how much: a token that stands for less gives no address, even where more of the same memory
 * could be loaded. A peer may hand over a token of any size. */
static void no_more_is_mapped_than_exposed(void **state)
{
    struct pair pair;
    pair_open(&pair, state);
    static uint8_t ordinary[8192];
    void *memory = NULL;
    int allocated = pair.a->ops.alloc(pair.a->transport, 8192, &memory) == WEFT_OK;
    const size_t ranges[][2] = {{0, 8192}, {0, 64}, {33, 100}, {8128, 64}, {8192, 0}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        uint8_t *bytes = (uint8_t *)(allocated ? memory : ordinary) + ranges[i][0];
        size_t size = ranges[i][1];
        struct weft_token token;
        const void *mapped = NULL;
        int status = pair.a->ops.expose(pair.ab, NULL, bytes, size, &token);
        if (status == WEFT_UNSUPPORTED)
            continue;
        assert_int_equal(status, 0);
        pass_token(&pair, &token);
        status = pair.b->ops.map(pair.ba, &token, size, &mapped);
        if (!(allocated && pair.flags & WEFT_LINK_PEER_MAPS) && status == WEFT_UNSUPPORTED)
            continue;
        assert_int_equal(status, 0);
        assert_memory_equal(mapped, bytes, size);
        const void *nothing = &pair;
        assert_int_equal(pair.b->ops.map(pair.ba, &token, 0, &nothing), 0);
        assert_ptr_equal(nothing, mapped);
        const size_t beyond[] = {size + 1, 16384, SIZE_MAX};
        for (size_t k = 0; k < sizeof beyond / sizeof beyond[0]; k++) {
            assert_int_equal(pair.b->ops.map(pair.ba, &token, beyond[k], &nothing), WEFT_PROTOCOL);
            assert_ptr_equal(nothing, mapped);
        }
    }
    if (allocated)
        pair.a->ops.free(pair.a->transport, memory);
    conform_close(&pair.world);
}

/* Many segments, freed in another order, with pointers that must stay what they are. */
static void allocations_come_and_go(void **state)
{
    struct pair pair;
    void *memory[70];
    pair_open(&pair, state);
    if (pair.a->ops.alloc(pair.a->transport, 1, &memory[0]) == WEFT_UNSUPPORTED)
        goto close;
    pair.a->ops.free(pair.a->transport, memory[0]);
    for (int round = 0; round < 3; round++) {
        struct weft_token tokens[70];
        for (uint32_t i = 0; i < 70; i++) {
            assert_int_equal(pair.a->ops.alloc(pair.a->transport, 4096 + i * 100, &memory[i]), 0);
            memset(memory[i], (int)i + round, 4096 + i * 100);
            assert_int_equal(pair.a->ops.expose(pair.ab, NULL, memory[i], 4096 + i * 100, &tokens[i]), 0);
        }
        pass_token(&pair, &tokens[69]);
        for (uint32_t i = 0; i < 70; i++) {
            uint8_t copy[2];
            assert_int_equal(pair.b->ops.pull(pair.ba, &tokens[i], 4094 + i * 100, copy, 2, 0), 0);
            assert_int_equal(copy[1], (int)i + round);
        }
        for (uint32_t i = 0; i < 70; i++)
            pair.a->ops.free(pair.a->transport, memory[(i * 37 + 11) % 70]);
    }
close:
    conform_close(&pair.world);
}

static void freed_memory_is_not_mapped_again(void **state)
{
    struct pair pair;
    void *memory;
    pair_open(&pair, state);
    struct weft_token token;
    const void *mapped;
    assert_int_equal(pair.a->ops.alloc(pair.a->transport, 4096, &memory), 0);
    assert_int_equal(pair.a->ops.expose(pair.ab, NULL, memory, 4096, &token), 0);
    pass_token(&pair, &token);
    assert_int_equal(pair.b->ops.map(pair.ba, &token, 4096, &mapped), 0);
    pair.a->ops.free(pair.a->transport, memory);
    int status = 0;
    int64_t deadline_ns = weft_clock_ns() + 20000000000;
    while (!status && weft_clock_ns() < deadline_ns) {
        conform_turn(&pair.world);
        status = pair.b->ops.map(pair.ba, &token, 4096, &mapped);
    }
    assert_true(status < 0);
    conform_close(&pair.world);
}

/* The peer reads after the owner has taken its memory back and overwritten it: it must hear of it. */
static void expect_taken_back(struct pair *pair, uint8_t *memory, size_t size)
{
    uint8_t copy[100];
    struct weft_token token, other;
    const void *mapped = NULL;
    conform_fill(memory, size, 4);
    if (pair->a->ops.expose(pair->ab, NULL, memory, size, &token) == WEFT_UNSUPPORTED)
        return;
    assert_int_equal(pair->a->ops.expose(pair->ab, NULL, memory, size, &other), 0);
    pass_token(pair, &token);
    pass_token(pair, &other);
    int maps = pair->b->ops.map(pair->ba, &token, size, &mapped) == 0;
    assert_int_equal(pair->b->ops.pull(pair->ba, &token, 0, copy, sizeof copy, 0), 0);
    assert_int_equal(pair->b->ops.exposed(pair->ba, &token), 0);
    pair->a->ops.unexpose(pair->ab, &token, 0);
    memset(memory, 0x77, size);
    assert_int_equal(pair->b->ops.pull(pair->ba, &token, 0, copy, sizeof copy, 0), WEFT_PEER_FAILED);
    if (maps)
        assert_int_equal(((const volatile uint8_t *)mapped)[size - 1],
                         0x77); /* nothing keeps b from reading */
    assert_int_equal(pair->b->ops.exposed(pair->ba, &token), WEFT_PEER_FAILED);
    /* Others of the same memory stay good, new ones do not revive the old, and what was taken ends quietly. */
    assert_int_equal(pair->b->ops.exposed(pair->ba, &other), 0);
    pair->a->ops.unexpose(pair->ab, &other, 1);
    for (int i = 0; i < 2000; i++) {
        struct weft_token more;
        assert_int_equal(pair->a->ops.expose(pair->ab, NULL, memory, size, &more), 0);
        assert_int_equal(pair->b->ops.exposed(pair->ba, &more), 0);
        assert_int_equal(pair->b->ops.exposed(pair->ba, &token), WEFT_PEER_FAILED);
        if (i % 3)
            pair->a->ops.unexpose(pair->ab, &more, i % 3 == 1);
        if (i % 3 == 2)
            assert_int_equal(pair->b->ops.exposed(pair->ba, &more), WEFT_PEER_FAILED);
    }
}

static void memory_is_taken_back(void **state)
{
    struct pair pair;
    void *memory;
    static uint8_t ordinary[5000];
    pair_open(&pair, state);
    expect_taken_back(&pair, ordinary, sizeof ordinary);
    conform_close(&pair.world);
    pair_open(&pair, state); /* the first has left more exposed than can be told apart */
    assert_int_equal(pair.a->ops.alloc(pair.a->transport, 5000, &memory), 0);
    expect_taken_back(&pair, memory, 5000);
    pair.a->ops.free(pair.a->transport, memory);
    /* Nonsense changes nothing. */
    struct weft_token token;
    memset(&token, 0xff, sizeof token);
    pair.a->ops.unexpose(pair.ab, &token, 0);
    assert_true(pair.b->ops.exposed(pair.ba, &token) < 0);
    conform_close(&pair.world);
}

/* While the peer reads it: what it gets is whole, or nothing. */
#define SLICES      3
#define SLICE_BYTES (256u << 10)

struct slices {
    struct pair *pair;
    const struct weft_token *token;
    pthread_barrier_t begin;
    uint8_t copy[SLICE_BYTES];
    int wrong;
};

static void *read_slices(void *arg)
{
    struct slices *slices = arg;
    pthread_barrier_wait(&slices->begin);
    for (size_t i = 0; i < SLICES; i++) {
        if (slices->pair->b->ops.pull(slices->pair->ba, slices->token, i * SLICE_BYTES, slices->copy,
                                      SLICE_BYTES, 0))
            break;
        for (size_t k = 0; k < SLICE_BYTES; k++)
            slices->wrong += slices->copy[k] != i + 1;
    }
    return NULL;
}

static void memory_is_taken_back_under_a_reader(void **state)
{
    enum { ROUNDS = 300 };
    static uint8_t memory[SLICES * SLICE_BYTES];
    static struct slices slices;
    struct pair pair;
    struct weft_token token;
    pthread_t reader;
    pair_open(&pair, state);
    slices = (struct slices){.pair = &pair, .token = &token};
    pthread_barrier_init(&slices.begin, NULL, 2);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < SLICES; i++)
            memset(memory + i * SLICE_BYTES, (int)i + 1, SLICE_BYTES);
        int status = pair.a->ops.expose(pair.ab, NULL, memory, sizeof memory, &token);
        if (status == WEFT_UNSUPPORTED)
            break;
        assert_int_equal(status, 0);
        pass_token(&pair, &token);
        assert_int_equal(pthread_create(&reader, NULL, read_slices, &slices), 0);
        pthread_barrier_wait(&slices.begin);
        for (int k = round % 64 * 20; k > 0; k--) /* now sooner, now later in what it reads */
            __asm__ volatile("" ::: "memory");
        pair.a->ops.unexpose(pair.ab, &token, 0);
        memset(memory, 0x77, sizeof memory);
        pthread_join(reader, NULL);
        assert_int_equal(slices.wrong, 0);
    }
    pthread_barrier_destroy(&slices.begin);
    conform_close(&pair.world);
}

static void garbage_tokens_are_refused(void **state)
{
    struct pair pair;
    pair_open(&pair, state);
    struct weft_token token, good;
    const void *mapped = &pair;
    uint8_t copy[64];
    void *memory = copy;
    uint32_t random = 12345;
    for (int i = 0; i < 2000; i++) {
        for (size_t k = 0; k < sizeof token.bytes; k++) {
            random = random * 1664525 + 1013904223;
            token.bytes[k] = (uint8_t)(random >> 24);
        }
        assert_true(pair.b->ops.map(pair.ba, &token, 1, &mapped) < 0);
        assert_true(pair.b->ops.pull(pair.ba, &token, 0, copy, sizeof copy, 0) < 0);
        assert_ptr_equal(mapped, &pair);
    }
    /* A token of somebody else: b's own, read over the link to a. */
    pair.b->ops.alloc(pair.b->transport, 64, &memory);
    if (pair.b->ops.expose(pair.ba, NULL, memory, 64, &good) == 0) {
        assert_true(pair.b->ops.map(pair.ba, &good, 64, &mapped) < 0);
        assert_true(pair.b->ops.pull(pair.ba, &good, 0, copy, sizeof copy, 0) < 0);
    }
    if (memory != copy)
        pair.b->ops.free(pair.b->transport, memory);
    conform_close(&pair.world);
}

static void absent_operations_are_callable(void **state)
{
    struct pair pair;
    pair_open(&pair, state);
    struct weft_token token = {{0}};
    const void *mapped = &pair;
    uint8_t bytes[8] = {0};
    if (!(pair.a->caps.flags & WEFT_CAP_READ)) {
        assert_int_equal(pair.a->ops.expose(pair.ab, NULL, bytes, 8, &token), WEFT_UNSUPPORTED);
        assert_int_equal(pair.a->ops.map(pair.ab, &token, 8, &mapped), WEFT_UNSUPPORTED);
        assert_int_equal(pair.a->ops.pull(pair.ab, &token, 0, bytes, 8, 0), WEFT_UNSUPPORTED);
    }
    if (!(pair.a->caps.flags & WEFT_CAP_PUT)) {
        assert_int_equal(pair.a->ops.advertise(pair.ab, NULL, bytes, 8, 1, &token), WEFT_UNSUPPORTED);
        assert_int_equal(pair.a->ops.put(pair.ab, &token, NULL, bytes, 8, 1), WEFT_UNSUPPORTED);
        pair.a->ops.withdraw(pair.ab, &token);
    }
    if (!(pair.a->caps.flags & WEFT_CAP_NOTIFY))
        assert_int_equal(pair.a->ops.notify(pair.ab), WEFT_UNSUPPORTED);
    struct weft_region *region = NULL;
    int status = pair.a->ops.reg(pair.a->transport, bytes, sizeof bytes, &region);
    assert_true(status == WEFT_OK || status == WEFT_UNSUPPORTED);
    if (status == WEFT_OK)
        pair.a->ops.dereg(region);
    else
        assert_null(region);
    assert_ptr_equal(mapped, &pair);
    conform_close(&pair.world);
}

size_t conform_memory_tests(const struct conform_backend *backend, struct CMUnitTest *tests, size_t capacity)
{
    const struct CMUnitTest any[] = {cmocka_unit_test(absent_operations_are_callable)};
    const struct CMUnitTest reads[] = {
        cmocka_unit_test(ordinary_memory_is_pulled),  cmocka_unit_test(allocated_memory_is_mapped),
        cmocka_unit_test(allocations_come_and_go),    cmocka_unit_test(no_more_is_mapped_than_exposed),
        cmocka_unit_test(garbage_tokens_are_refused),
    };
    const struct CMUnitTest segments[] = {cmocka_unit_test(freed_memory_is_not_mapped_again)};
    const struct CMUnitTest back[] = {cmocka_unit_test(memory_is_taken_back),
                                      cmocka_unit_test(memory_is_taken_back_under_a_reader)};
    size_t used = conform_append(tests, capacity, any, 1);
    if (backend->offers & WEFT_CAP_READ)
        used += conform_append(tests + used, capacity - used, reads, sizeof reads / sizeof reads[0]);
    if (backend->reads_maps_only_alloc)
        used += conform_append(tests + used, capacity - used, segments, 1);
    if (backend->takes_back)
        used += conform_append(tests + used, capacity - used, back, sizeof back / sizeof back[0]);
    return used;
}
