/* SPDX-License-Identifier: Apache-2.0 */
/* Puts into receive buffers: a buffer is given, written, taken back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/bits.h"
#include "tests/support/conform.h"
#include "tests/support/read_only.h"

struct pair {
    struct conform_world world;
    struct conform_node *from, *to;
    struct weft_link *out, *back; /* from's link to `to`, and the other way */
};

static void pair_open(struct pair *pair, void **state)
{
    conform_open(&pair->world, conform_backend(state), 2);
    pair->from = &pair->world.nodes[0];
    pair->to = &pair->world.nodes[1];
    pair->out = conform_connect(&pair->world, 0, 1, NULL);
    pair->back = conform_connect(&pair->world, 1, 0, NULL);
}

static struct weft_region *reg(struct conform_node *node, uint32_t needed, void *memory, size_t size)
{
    struct weft_region *region = NULL;
    if (node->caps.flags & needed)
        assert_int_equal(node->ops.reg(node->transport, memory, size, &region), 0);
    return region;
}

static void dereg(struct conform_node *node, struct weft_region *region)
{
    if (region)
        node->ops.dereg(region);
}

static int put(struct pair *pair, const struct weft_token *token, struct weft_region *region,
               const void *memory, size_t size, uint64_t cookie)
{
    int status;
    while ((status = pair->from->ops.put(pair->out, token, region, memory, size, cookie)) == WEFT_AGAIN)
        conform_turn(&pair->world);
    return status;
}

/* WEFT_AGAIN is no refusal: what is short comes back by polling. */
static void advertise(struct pair *pair, struct weft_region *region, void *memory, size_t size,
                      uint64_t cookie, struct weft_token *token)
{
    int status;
    while ((status = pair->to->ops.advertise(pair->back, region, memory, size, cookie, token)) == WEFT_AGAIN)
        conform_turn(&pair->world);
    assert_int_equal(status, 0);
}

/* The peer learns of receive buffers by messages alone, and a transport may rely on that: one that was sent after the
 * buffer was given has arrived before anything is put. */
static void announce(struct pair *pair)
{
    size_t before = pair->from->message_count;
    uint64_t words[1] = {0};
    conform_send(&pair->world, 1, pair->back, words, sizeof words, NULL, 0);
    conform_until(&pair->world, &pair->from->message_count, before + 1);
}

static void puts_arrive_whole(void **state)
{
    struct pair pair;
    pair_open(&pair, state);
    const size_t sizes[] = {1, 7, 64, 4096, 65537, 1u << 20};
    size_t max = (1u << 20) + 64;
    uint8_t *source = malloc(max), *target = malloc(max);
    assert_non_null(source);
    assert_non_null(target);
    struct weft_region *source_region = reg(pair.from, WEFT_CAP_REG_LOCAL, source, max);
    struct weft_region *target_region = reg(pair.to, WEFT_CAP_REG_REMOTE, target, max);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct weft_token token;
        conform_fill(source, max, (uint32_t)i);
        memset(target, 0xcc, max);
        advertise(&pair, target_region, target + 3, sizes[i], 1000 + i, &token);
        announce(&pair);
        assert_int_equal(put(&pair, &token, source_region, source + 5, sizes[i], 2000 + i), 0);
        conform_until(&pair.world, &pair.to->filled_count, i + 1);
        assert_int_equal(pair.to->filled[i], 1000 + i);
        assert_memory_equal(target + 3, source + 5, sizes[i]);
        assert_bits(target[2] == 0xcc && target[3 + sizes[i]] == 0xcc);
        conform_until(&pair.world, &pair.from->put_done_count, i + 1);
        assert_int_equal(pair.from->put_done[i], 2000 + i);
        assert_int_equal(pair.from->put_status[i], 0);
    }
    dereg(pair.from, source_region);
    dereg(pair.to, target_region);
    conform_close(&pair.world);
    free(source);
    free(target);
}

/* Many in flight: every receive buffer and every put is reported once, in whatever order. */
static void many_puts_complete_once(void **state)
{
    enum { COUNT = 300, SIZE = 3000 };
    struct pair pair;
    pair_open(&pair, state);
    uint8_t *source = malloc(COUNT * SIZE), *target = calloc(COUNT, SIZE);
    assert_non_null(source);
    assert_non_null(target);
    struct weft_region *source_region = reg(pair.from, WEFT_CAP_REG_LOCAL, source, COUNT * SIZE);
    struct weft_region *target_region = reg(pair.to, WEFT_CAP_REG_REMOTE, target, COUNT * SIZE);
    struct weft_token *tokens = calloc(COUNT, sizeof *tokens);
    assert_non_null(tokens);
    conform_fill(source, COUNT * SIZE, 9);
    for (size_t i = 0; i < COUNT; i++)
        advertise(&pair, target_region, target + i * SIZE, SIZE, i, &tokens[i]);
    announce(&pair);
    for (size_t i = 0; i < COUNT; i++) {
        size_t at = i * 7 % COUNT;
        assert_int_equal(put(&pair, &tokens[at], source_region, source + at * SIZE, SIZE, at), 0);
    }
    conform_until(&pair.world, &pair.to->filled_count, COUNT);
    conform_until(&pair.world, &pair.from->put_done_count, COUNT);
    conform_settle(&pair.world);
    assert_int_equal(pair.to->filled_count, COUNT);
    assert_int_equal(pair.from->put_done_count, COUNT);
    uint8_t filled[COUNT] = {0}, done[COUNT] = {0};
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(pair.to->filled[i] < COUNT && pair.from->put_done[i] < COUNT);
        filled[pair.to->filled[i]]++;
        done[pair.from->put_done[i]]++;
        assert_int_equal(pair.from->put_status[i], 0);
    }
    for (size_t i = 0; i < COUNT; i++)
        assert_true(filled[i] == 1 && done[i] == 1);
    assert_memory_equal(source, target, COUNT * SIZE);
    dereg(pair.from, source_region);
    dereg(pair.to, target_region);
    conform_close(&pair.world);
    free(tokens);
    free(source);
    free(target);
}

/* One after the other, for long: whatever a put takes is given back. */
static void puts_go_on_and_on(void **state)
{
    struct pair pair;
    pair_open(&pair, state);
    static uint8_t source[64], target[64];
    struct weft_region *source_region = reg(pair.from, WEFT_CAP_REG_LOCAL, source, sizeof source);
    struct weft_region *target_region = reg(pair.to, WEFT_CAP_REG_REMOTE, target, sizeof target);
    for (uint32_t i = 0; i < 1000; i++) {
        struct weft_token token;
        conform_fill(source, sizeof source, i);
        advertise(&pair, target_region, target, sizeof target, i, &token);
        announce(&pair);
        assert_int_equal(put(&pair, &token, source_region, source, sizeof source, i), 0);
        conform_until(&pair.world, &pair.to->filled_count, i + 1);
        conform_until(&pair.world, &pair.from->put_done_count, i + 1);
        assert_memory_equal(source, target, sizeof source);
    }
    dereg(pair.from, source_region);
    dereg(pair.to, target_region);
    conform_close(&pair.world);
}

/* A receive buffer is written when the event says so, even when a message overtakes or follows it. */
static void puts_and_messages_mix(void **state)
{
    struct pair pair;
    pair_open(&pair, state);
    static uint8_t source[50][2000], target[50][2000];
    struct weft_region *source_region = reg(pair.from, WEFT_CAP_REG_LOCAL, source, sizeof source);
    struct weft_region *target_region = reg(pair.to, WEFT_CAP_REG_REMOTE, target, sizeof target);
    memset(target, 0, sizeof target);
    for (uint32_t i = 0; i < 50; i++) {
        struct weft_token token;
        conform_fill(source[i], sizeof source[i], i);
        advertise(&pair, target_region, target[i], sizeof target[i], i, &token);
        announce(&pair);
        conform_send(&pair.world, 0, pair.out, &i, sizeof i, NULL, 0);
        assert_int_equal(put(&pair, &token, source_region, source[i], sizeof source[i], i), 0);
    }
    conform_until(&pair.world, &pair.to->filled_count, 50);
    conform_until(&pair.world, &pair.to->message_count, 50);
    conform_until(&pair.world, &pair.from->put_done_count, 50);
    assert_memory_equal(source, target, sizeof source);
    for (uint32_t i = 0; i < 50; i++)
        assert_memory_equal(pair.to->bytes + pair.to->messages[i].offset, &i, sizeof i);
    dereg(pair.from, source_region);
    dereg(pair.to, target_region);
    conform_close(&pair.world);
}

static void withdrawn_rbufs_stay_untouched(void **state)
{
    struct pair pair;
    pair_open(&pair, state);
    uint8_t source[512], target[512], other[512];
    conform_fill(source, sizeof source, 4);
    memset(target, 0x11, sizeof target);
    struct weft_region *source_region = reg(pair.from, WEFT_CAP_REG_LOCAL, source, sizeof source);
    struct weft_region *target_region = reg(pair.to, WEFT_CAP_REG_REMOTE, target, sizeof target);
    struct weft_region *other_region = reg(pair.to, WEFT_CAP_REG_REMOTE, other, sizeof other);
    struct weft_token stale, token;
    advertise(&pair, target_region, target, 512, 1, &stale);
    pair.to->ops.withdraw(pair.back, &stale);
    dereg(pair.to, target_region);
    /* The place may be used again at once; the old token must not reach the new receive buffer. */
    advertise(&pair, other_region, other, 512, 2, &token);
    announce(&pair);
    assert_int_equal(put(&pair, &token, source_region, source, 512, 20), 0);
    conform_until(&pair.world, &pair.to->filled_count, 1);
    conform_until(&pair.world, &pair.from->put_done_count, 1);
    assert_int_equal(pair.to->filled[0], 2);
    assert_memory_equal(other, source, 512);
    int status = put(&pair, &stale, source_region, source, 512, 10);
    if (status == 0) {
        /* Found out late: the put fails, or the link does, or the bytes end where nobody looks. */
        size_t before = pair.from->failed_count + pair.from->put_done_count;
        for (int i = 0; i < 100 && pair.from->failed_count + pair.from->put_done_count == before; i++)
            conform_settle(&pair.world);
        assert_true(pair.from->failed_count > 0 || pair.from->put_done_count == 2);
    }
    conform_settle(&pair.world);
    assert_int_equal(pair.to->filled_count, 1);
    for (size_t i = 0; i < sizeof target; i++)
        assert_bits(target[i] == 0x11);
    dereg(pair.from, source_region);
    dereg(pair.to, other_region);
    conform_close(&pair.world);
}

static void garbage_rbufs_are_refused(void **state)
{
    struct pair pair;
    pair_open(&pair, state);
    static uint8_t source[512];
    struct weft_region *region = reg(pair.from, WEFT_CAP_REG_LOCAL, source, sizeof source);
    struct weft_token token;
    uint32_t random = 99;
    for (int i = 0; i < 200; i++) {
        for (size_t k = 0; k < sizeof token.bytes; k++) {
            random = random * 1664525 + 1013904223;
            token.bytes[k] = (uint8_t)(random >> 24);
        }
        assert_true(put(&pair, &token, region, source, sizeof source, 1) < 0);
        pair.to->ops.withdraw(pair.back, &token);
    }
    conform_settle(&pair.world);
    assert_int_equal(pair.to->filled_count, 0);
    dereg(pair.from, region);
    conform_close(&pair.world);
}

struct poller {
    struct conform_node *node;
    int end;
};

static void *poll_on(void *arg)
{
    struct poller *poller = arg;
    while (!__atomic_load_n(&poller->end, __ATOMIC_RELAXED))
        conform_poll(poller->node, 16);
    return NULL;
}

/* recall_wait() of one instance while the other one polls, as it does in a process of its own. */
static void recall_wait(struct conform_node *node, struct conform_node *other)
{
    struct poller poller = {other, 0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, poll_on, &poller), 0);
    node->ops.recall_wait(node->transport);
    __atomic_store_n(&poller.end, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
}

/* Every byte is as it was or as it was sent; nothing of what the source held later. */
static int is_old_or_sent(const uint8_t *target, const uint8_t *sent, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (target[i] != 0x11 && target[i] != sent[i])
            return 0;
    }
    return 1;
}

/* Many receive buffers and puts are asked back at once, some used, some in flight, some unknown to the peer: no byte
 * moves afterwards, nothing is reported of them, and the link goes on. */
static void recalled_memory_stays_untouched(void **state)
{
    enum { COUNT = 12, SIZE = 20000 };
    struct pair pair;
    pair_open(&pair, state);
    uint8_t *source = malloc(COUNT * SIZE), *target = malloc(COUNT * SIZE), *before = malloc(COUNT * SIZE);
    uint8_t *sent = malloc(COUNT * SIZE);
    struct weft_token *tokens = calloc(COUNT, sizeof *tokens);
    assert_true(source && target && before && sent && tokens);
    struct weft_region *source_region = reg(pair.from, WEFT_CAP_REG_LOCAL, source, COUNT * SIZE);
    struct weft_region *target_region = reg(pair.to, WEFT_CAP_REG_REMOTE, target, COUNT * SIZE);
    conform_fill(source, COUNT * SIZE, 7);
    memcpy(sent, source, COUNT * SIZE);
    memset(target, 0x11, COUNT * SIZE);
    for (size_t i = 0; i < COUNT; i++)
        advertise(&pair, target_region, target + i * SIZE, SIZE, 100 + i, &tokens[i]);
    announce(&pair);
    size_t started = 0;
    while (started < COUNT / 2 && pair.from->ops.put(pair.out, &tokens[started], source_region,
                                                     source + started * SIZE, SIZE, started) == 0)
        started++;
    for (size_t i = 0; i < started; i++)
        assert_int_equal(pair.from->ops.recall(pair.out, NULL, i), 0);
    assert_int_equal(pair.from->ops.recall(pair.out, NULL, 12345), 0);
    recall_wait(pair.from, pair.to);
    memset(source, 0xee, COUNT * SIZE); /* whatever is read from now on is wrong */
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(pair.to->ops.recall(pair.back, &tokens[i], 0), 0);
    recall_wait(pair.to, pair.from);
    memcpy(before, target, COUNT * SIZE);
    size_t filled = pair.to->filled_count, done = pair.from->put_done_count;
    for (int i = 0; i < 20; i++)
        conform_settle(&pair.world);
    assert_memory_equal(before, target, COUNT * SIZE);
    assert_bits(is_old_or_sent(target, sent, COUNT * SIZE));
    assert_int_equal(pair.to->filled_count, filled);
    assert_int_equal(pair.from->put_done_count, done);
    dereg(pair.from, source_region);
    dereg(pair.to, target_region);
    conform_close(&pair.world);
    free(tokens);
    free(before);
    free(sent);
    free(source);
    free(target);
}

/* After a recall the link serves as before, if it has not failed. */
static void recalling_breaks_nothing(void **state)
{
    struct pair pair;
    pair_open(&pair, state);
    static uint8_t source[30000], target[30000];
    struct weft_region *source_region = reg(pair.from, WEFT_CAP_REG_LOCAL, source, sizeof source);
    struct weft_region *target_region = reg(pair.to, WEFT_CAP_REG_REMOTE, target, sizeof target);
    pair.from->ops.recall_wait(pair.from->transport); /* of nothing */
    for (uint32_t i = 0; i < 30; i++) {
        struct weft_token token;
        conform_fill(source, sizeof source, i);
        advertise(&pair, target_region, target, sizeof target, i, &token);
        if (i % 3 == 0) {
            assert_int_equal(pair.to->ops.recall(pair.back, &token, 0), 0); /* nobody else knows of it */
            recall_wait(pair.to, pair.from);
            continue;
        }
        size_t filled = pair.to->filled_count, done = pair.from->put_done_count;
        announce(&pair);
        assert_int_equal(put(&pair, &token, source_region, source, sizeof source, i), 0);
        conform_until(&pair.world, &pair.to->filled_count, filled + 1);
        conform_until(&pair.world, &pair.from->put_done_count, done + 1);
        assert_memory_equal(source, target, sizeof source);
        assert_int_equal(pair.to->ops.recall(pair.back, &token, 0), 0); /* it is over: ignored */
        assert_int_equal(pair.from->ops.recall(pair.out, NULL, i), 0);
        recall_wait(pair.to, pair.from);
    }
    assert_int_equal(pair.to->failed_count + pair.from->failed_count, 0);
    dereg(pair.from, source_region);
    dereg(pair.to, target_region);
    conform_close(&pair.world);
}

/* What the program may only read: reg() may refuse it, and then reg_source() does not; nothing is written there. */
static void read_only_memory_is_put_from(void **state)
{
    enum { BYTES = 100000 };
    struct pair pair;
    struct weft_token token;
    struct weft_region *region = NULL, *both = NULL;
    uint8_t *bytes = malloc(BYTES), *target = malloc(BYTES);
    pair_open(&pair, state);
    assert_true(bytes && target);
    conform_fill(bytes, BYTES, 5);
    uint8_t *source = read_only_make(READ_ONLY_OWN, bytes, BYTES);
    assert_non_null(source);
    int status = pair.from->ops.reg(pair.from->transport, source, BYTES, &both);
    assert_true(status == 0 || status == WEFT_INVALID || status == WEFT_UNSUPPORTED);
    if (status == 0)
        dereg(pair.from, both);
    status = pair.from->ops.reg_source(pair.from->transport, source, BYTES, &region);
    assert_true(status == 0 || status == WEFT_UNSUPPORTED);
    if (status == 0) {
        struct weft_region *rbuf = reg(pair.to, WEFT_CAP_REG_REMOTE, target, BYTES);
        advertise(&pair, rbuf, target, BYTES, 7, &token);
        announce(&pair);
        assert_int_equal(put(&pair, &token, region, source, BYTES, 8), 0);
        conform_until(&pair.world, &pair.to->filled_count, 1);
        conform_until(&pair.world, &pair.from->put_done_count, 1);
        assert_memory_equal(target, bytes, BYTES);
        assert_int_equal(pair.from->ops.advertise(pair.out, region, source, BYTES, 9, &token), WEFT_INVALID);
        dereg(pair.to, rbuf);
        dereg(pair.from, region);
    }
    conform_close(&pair.world);
    munmap(source, BYTES);
    free(bytes);
    free(target);
}

size_t conform_put_tests(const struct conform_backend *backend, struct CMUnitTest *tests, size_t capacity)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(puts_arrive_whole),
        cmocka_unit_test(many_puts_complete_once),
        cmocka_unit_test(puts_go_on_and_on),
        cmocka_unit_test(puts_and_messages_mix),
        cmocka_unit_test(withdrawn_rbufs_stay_untouched),
        cmocka_unit_test(garbage_rbufs_are_refused),
        cmocka_unit_test(recalled_memory_stays_untouched),
        cmocka_unit_test(recalling_breaks_nothing),
        cmocka_unit_test(read_only_memory_is_put_from),
    };
    return backend->offers & WEFT_CAP_PUT ? conform_append(tests, capacity, all, sizeof all / sizeof all[0])
                                          : 0;
}
