/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, links, messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "base/clock.h"
#include "tests/support/bits.h"
#include "tests/support/conform.h"
#include "tests/support/oob.h"
#include "tests/support/effort.h"
#include "tests/support/watcher.h"

#define STILL_NS 20000000000

static void caps_make_sense(void **state)
{
    struct conform_world world;
    conform_open(&world, conform_backend(state), 1);
    struct conform_node *node = &world.nodes[0];
    assert_string_equal(node->ops.name, node->backend->transport);
    assert_int_equal(node->caps.size, sizeof node->caps);
    assert_true(node->caps.eager_bytes >= 2048); /* what weft itself sends to other ranks fits */
    assert_int_equal(node->caps.flags & (WEFT_CAP_PUT | WEFT_CAP_READ), node->backend->offers);
    assert_int_equal((node->caps.flags & WEFT_CAP_NOTIFY) != 0, node->backend->notifies);
    int fd;
    assert_int_equal(node->ops.fds(node->transport, &fd, 1) > 0, !node->backend->sleepless);
    if (node->caps.flags & WEFT_CAP_PUT)
        assert_true(node->caps.put_bytes >= 1 << 20);
    conform_close(&world);
}

static void address_has_a_size_and_is_reachable(void **state)
{
    struct conform_world world;
    conform_open(&world, conform_backend(state), 2);
    struct conform_node *a = &world.nodes[0], *b = &world.nodes[1];
    assert_true(a->address_size > 0 && a->address_size <= WEFT_ADDRESS_MAX);
    assert_true(a->address_size != b->address_size || memcmp(a->address, b->address, a->address_size) != 0);
    assert_int_equal(a->ops.reachable(a->transport, b->address, b->address_size), 1);
    assert_int_equal(b->ops.reachable(b->transport, a->address, a->address_size), 1);
    uint8_t small[WEFT_ADDRESS_MAX];
    size_t size = a->address_size - 1;
    memset(small, 0x5a, sizeof small);
    assert_true(a->ops.address(a->transport, small, &size) < 0);
    assert_int_equal(small[0], 0x5a);
    assert_int_equal(size, a->address_size - 1);
    conform_close(&world);
}

static void garbage_addresses_are_refused(void **state)
{
    struct conform_world world;
    conform_open(&world, conform_backend(state), 1);
    struct conform_node *node = &world.nodes[0];
    struct weft_link *link = (void *)&world;
    uint8_t garbage[WEFT_ADDRESS_MAX];
    memset(garbage, 0xa5, sizeof garbage);
    const size_t sizes[] = {0, 1, node->address_size, WEFT_ADDRESS_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(node->ops.reachable(node->transport, garbage, sizes[i]), 0);
        int status = node->ops.connect(node->transport, garbage, sizes[i], NULL, &link);
        assert_true(status < 0 && status != WEFT_AGAIN);
        assert_ptr_equal(link, &world);
    }
    conform_close(&world);
}

struct sender_check {
    struct conform_world *world;
    size_t messages;
    int wrong;
};

/* The message says which node it comes from. */
static void check_sender(void *arg, const struct weft_event *event)
{
    struct sender_check *check = arg;
    if (event->kind != WEFT_EVENT_MESSAGE)
        return;
    check->messages++;
    const struct conform_node *to = &check->world->nodes[1];
    int from = *(const uint8_t *)event->data;
    for (int i = 0; i < 3; i++) {
        const struct conform_node *node = &check->world->nodes[i];
        check->wrong |=
            to->ops.sent_by(to->transport, event->sender, node->address, node->address_size) != (i == from);
        check->wrong |= to->ops.sent_by(to->transport, event->sender, node->address, node->address_size - 1);
    }
    check->wrong |= event->sender == NULL;
}

static void senders_are_reported(void **state)
{
    struct conform_world world;
    conform_open(&world, conform_backend(state), 3);
    struct conform_node *to = &world.nodes[1];
    struct weft_link *links[2] = {conform_connect(&world, 0, 1, NULL), conform_connect(&world, 2, 1, NULL)};
    struct sender_check check = {.world = &world};
    int64_t deadline_ns = weft_clock_ns() + 20000000000;
    for (size_t sent = 0; sent < 20 || (check.messages < 20 && weft_clock_ns() < deadline_ns);) {
        uint8_t bytes[8] = {sent % 2 ? 2 : 0};
        int from = bytes[0];
        if (sent < 20)
            sent += world.nodes[from].ops.send(links[sent % 2], bytes, sizeof bytes, NULL, 0) == 0;
        conform_poll(&world.nodes[0], 16);
        conform_poll(&world.nodes[2], 16);
        assert_true(to->ops.poll(to->transport, 16, check_sender, &check) >= 0);
        test_oob_deliver(to->oob, &to->ops, to->transport);
    }
    assert_int_equal(check.messages, 20);
    assert_int_equal(check.wrong, 0);
    conform_close(&world);
}

/* Whatever an out-of-band message contains, and whoever it is from, others are not disturbed. */
static void oob_of_nonsense_does_no_harm(void **state)
{
    struct conform_world world;
    conform_open(&world, conform_backend(state), 3);
    struct conform_node *a = &world.nodes[0], *b = &world.nodes[1];
    uint8_t garbage[WEFT_OOB_MAX];
    struct weft_link *link = NULL;
    conform_fill(garbage, sizeof garbage, 9);
    assert_int_equal(a->ops.connect(a->transport, b->address, b->address_size, &world, &link), 0);
    for (size_t size = 0; size <= sizeof garbage; size += 1 + size / 7) {
        a->ops.oob_receive(a->transport, b->address, b->address_size, garbage, size);
        b->ops.oob_receive(b->transport, a->address, a->address_size, garbage, size);
        b->ops.oob_receive(b->transport, world.nodes[2].address, world.nodes[2].address_size, garbage, size);
        b->ops.oob_receive(b->transport, garbage, size < WEFT_ADDRESS_MAX ? size : WEFT_ADDRESS_MAX, garbage,
                           size);
    }
    assert_ptr_equal(link, conform_connect(&world, 0, 1, &world));
    conform_fill(garbage, 64, 1);
    conform_send(&world, 0, link, garbage, 8, garbage + 8, 56);
    conform_until(&world, &b->message_count, 1);
    assert_true(conform_matches(b, 0, 64, 1));
    assert_int_equal(a->failed_count + b->failed_count, 0);
    conform_close(&world);
}

static void connecting_twice_is_one_link(void **state)
{
    struct conform_world world;
    uint8_t bytes[64];
    conform_open(&world, conform_backend(state), 2);
    struct conform_node *a = &world.nodes[0];
    struct weft_link *first = conform_connect(&world, 0, 1, NULL);
    struct weft_link *second = conform_connect(&world, 0, 1, NULL);
    assert_ptr_equal(first, second);
    a->ops.disconnect(first);
    conform_fill(bytes, sizeof bytes, 1);
    conform_send(&world, 0, second, bytes, 8, bytes + 8, 56);
    conform_until(&world, &world.nodes[1].message_count, 1);
    assert_true(conform_matches(&world.nodes[1], 0, 64, 1));
    a->ops.disconnect(second);
    /* And once more, from nothing. */
    struct weft_link *third = conform_connect(&world, 0, 1, NULL);
    conform_send(&world, 0, third, bytes, 64, NULL, 0);
    conform_until(&world, &world.nodes[1].message_count, 2);
    assert_int_equal(a->failed_count, 0);
    assert_int_equal(world.nodes[1].failed_count, 0);
    conform_close(&world);
}

/* Every size about the edges, split between header and payload, both directions at once. */
static void messages_keep_bytes_and_order(void **state)
{
    struct conform_world world;
    conform_open(&world, conform_backend(state), 2);
    struct weft_link *links[2] = {conform_connect(&world, 0, 1, NULL), conform_connect(&world, 1, 0, NULL)};
    size_t max = world.nodes[0].caps.eager_bytes;
    size_t sizes[400], count = 0;
    uint8_t *bytes = malloc(max);
    assert_non_null(bytes);
    for (size_t size = 1; size <= 200; size++)
        sizes[count++] = size;
    for (size_t size = 256; size < max; size = size * 5 / 3)
        sizes[count++] = size;
    for (size_t i = 0; i < 64; i++)
        sizes[count++] = max - i % 7;
    sizes[count++] = 0;
    sizes[count++] = 8;
    for (size_t i = 0; i < count; i++) {
        for (int from = 0; from < 2; from++) {
            size_t header = i % 3 == 0 ? sizes[i] : i % 3 == 1 ? 0 : sizes[i] / 3;
            conform_fill(bytes, sizes[i], (uint32_t)i * 2 + (uint32_t)from);
            conform_send(&world, from, links[from], bytes, header, bytes + header, sizes[i] - header);
        }
    }
    for (int to = 0; to < 2; to++) {
        struct conform_node *node = &world.nodes[to];
        conform_until(&world, &node->message_count, count);
        for (size_t i = 0; i < count; i++) {
            if (!conform_matches(node, i, sizes[i], (uint32_t)i * 2 + (uint32_t)!to))
                fail_msg("WRONG: message %zu of %zu bytes differs", i, sizes[i]);
        }
        assert_int_equal(node->misaligned, 0);
    }
    conform_settle(&world);
    assert_int_equal(world.nodes[0].message_count, count);
    free(bytes);
    conform_close(&world);
}

static void too_large_messages_are_an_error(void **state)
{
    struct conform_world world;
    conform_open(&world, conform_backend(state), 2);
    struct conform_node *a = &world.nodes[0];
    struct weft_link *link = conform_connect(&world, 0, 1, NULL);
    size_t size = (size_t)a->caps.eager_bytes + 1;
    uint8_t *bytes = calloc(1, size);
    assert_non_null(bytes);
    int status = a->ops.send(link, bytes, 16, bytes, size - 16);
    for (int i = 0; i < 1000 && status == WEFT_AGAIN; i++)
        status = a->ops.send(link, bytes, 16, bytes, size - 16);
    assert_int_equal(status, WEFT_INVALID);
    conform_settle(&world);
    assert_int_equal(world.nodes[1].message_count, 0);
    free(bytes);
    conform_close(&world);
}

/* A receiver that does not poll: the sender has to wait, and nothing is lost. */
static void full_links_answer_again(void **state)
{
    struct conform_world world;
    conform_open(&world, conform_backend(state), 2);
    struct conform_node *a = &world.nodes[0], *b = &world.nodes[1];
    struct weft_link *link = conform_connect(&world, 0, 1, NULL);
    uint8_t bytes[777];
    size_t sent = 0;
    int refused = 0;
    for (int round = 0; round < 3; round++) {
        refused = 0;
        while (refused < 50 && sent < 200000) {
            size_t size = 8 + sent * 37 % (sizeof bytes - 8);
            conform_fill(bytes, size, (uint32_t)sent);
            int status = a->ops.send(link, bytes, 8, bytes + 8, size - 8);
            assert_true(status == WEFT_OK || status == WEFT_AGAIN);
            if (status == WEFT_OK) {
                sent++;
                refused = 0;
            } else {
                refused++;
                conform_poll(a, 16);
            }
        }
        assert_int_equal(refused, 50);
        conform_until(&world, &b->message_count, round < 2 ? sent / 2 : sent);
    }
    for (size_t i = 0; i < sent; i++) {
        if (!conform_matches(b, i, 8 + i * 37 % (sizeof bytes - 8), (uint32_t)i))
            fail_msg("WRONG: message %zu of %zu differs", i, sent);
    }
    conform_close(&world);
}

static void budgets_are_kept(void **state)
{
    struct conform_world world;
    conform_open(&world, conform_backend(state), 2);
    struct weft_link *link = conform_connect(&world, 0, 1, NULL);
    struct conform_node *b = &world.nodes[1];
    for (uint32_t i = 0; i < 20; i++)
        conform_send(&world, 0, link, &i, sizeof i, NULL, 0);
    int64_t deadline_ns = weft_clock_ns() + 20000000000;
    while (b->message_count < 20 && weft_clock_ns() < deadline_ns) {
        size_t before = b->message_count;
        conform_poll(&world.nodes[0], 1);
        conform_poll(b, 1);
        assert_true(b->message_count - before <= 1);
    }
    assert_int_equal(b->message_count, 20);
    conform_close(&world);
}

/* Everybody to everybody. */
static void many_links_deliver(void **state)
{
    struct conform_world world;
    int count = conform_backend(state)->peers;
    conform_open(&world, conform_backend(state), count);
    struct weft_link **links = calloc((size_t)count * (size_t)count, sizeof *links);
    assert_non_null(links);
    for (int from = 0; from < count; from++) {
        for (int to = 0; to < count; to++)
            links[from * count + to] = from == to ? NULL : conform_connect(&world, from, to, NULL);
    }
    const uint32_t rounds = 20;
    for (uint32_t round = 0; round < rounds; round++) {
        for (int i = 0; i < count * count; i++) {
            uint32_t message[3] = {(uint32_t)(i / count), (uint32_t)(i % count), round};
            if (links[i])
                conform_send(&world, i / count, links[i], message, sizeof message, NULL, 0);
        }
    }
    for (int to = 0; to < count; to++) {
        struct conform_node *node = &world.nodes[to];
        uint32_t next[64] = {0};
        conform_until(&world, &node->message_count, rounds * (uint32_t)(count - 1));
        for (size_t i = 0; i < node->message_count; i++) {
            uint32_t message[3];
            assert_bits(node->messages[i].size == sizeof message);
            memcpy(message, node->bytes + node->messages[i].offset, sizeof message);
            assert_bits(message[0] < (uint32_t)count && message[1] == (uint32_t)to);
            assert_bits(message[2] == next[message[0]]++);
        }
    }
    free(links);
    conform_close(&world);
}

struct flood {
    const struct conform_backend *backend;
    struct test_watcher *watcher;
    uint8_t addresses[2][WEFT_ADDRESS_MAX];
    size_t sizes[2];
    pthread_barrier_t barrier;
    uint32_t count;
    int through; /* sides that have sent and received all, or failed; until both are, they poll for each other */
};

struct flood_side {
    struct flood *flood;
    int side;
    pthread_t thread;
    const char *failed;
    char detail[200];
};

/* One rank as a thread: sends and receives at once, messages of changing size. */
static void *flood_run(void *arg)
{
    struct flood_side *own = arg;
    struct flood *flood = own->flood;
    struct conform_node *node = malloc(sizeof *node);
    struct weft_link *link = NULL;
    uint8_t bytes[300];
    if (!node || conform_node_open(node, flood->backend, flood->watcher))
        abort();
    memcpy(flood->addresses[own->side], node->address, node->address_size);
    flood->sizes[own->side] = node->address_size;
    pthread_barrier_wait(&flood->barrier);
    if (node->ops.connect(node->transport, flood->addresses[!own->side], flood->sizes[!own->side], NULL,
                          &link))
        own->failed = "connect";
    uint32_t sent = 0;
    size_t moved = 0; /* at the last look */
    int64_t deadline_ns = weft_clock_ns() + STILL_NS;
    for (int through = 0; !own->failed && __atomic_load_n(&flood->through, __ATOMIC_ACQUIRE) < 2;) {
        if (!through && sent == flood->count && node->message_count >= flood->count) {
            through = 1;
            __atomic_add_fetch(&flood->through, 1, __ATOMIC_RELEASE);
        }
        size_t size = 8 + sent * 29 % (sizeof bytes - 8);
        conform_fill(bytes, size, sent);
        int status = sent < flood->count ? node->ops.send(link, bytes, 8, bytes + 8, size - 8) : WEFT_AGAIN;
        sent += status == WEFT_OK;
        conform_poll(node, 32);
        if (status == WEFT_AGAIN)
            sched_yield();
        /* Only a flood that stands still has failed: how fast it flows is the scheduler's affair. */
        if (sent + node->message_count > moved) {
            moved = sent + node->message_count;
            deadline_ns = weft_clock_ns() + STILL_NS;
        }
        if (status && status != WEFT_AGAIN) {
            own->failed = "send";
            snprintf(own->detail, sizeof own->detail, "%s", weft_error_detail());
        } else if (weft_clock_ns() > deadline_ns) {
            own->failed = "nothing moved";
        }
    }
    if (own->failed)
        __atomic_store_n(&flood->through, 2, __ATOMIC_RELEASE);
    for (size_t i = 0; i < node->message_count && !own->failed; i++) {
        if (!conform_matches(node, i, 8 + i * 29 % (sizeof bytes - 8), (uint32_t)i))
            own->failed = "bytes";
    }
    pthread_barrier_wait(&flood->barrier);
    conform_node_close(node);
    free(node);
    return NULL;
}

static void two_threads_flood_each_other(void **state)
{
    struct flood *flood = calloc(1, sizeof *flood);
    assert_non_null(flood);
    flood->backend = conform_backend(state);
    flood->watcher = test_watcher_start();
    flood->count = test_by_effort(4000, flood->backend->sleepless ? 4000 : 8000, 20000);
    pthread_barrier_init(&flood->barrier, NULL, 2);
    struct flood_side sides[2] = {{flood, 0, 0, NULL, ""}, {flood, 1, 0, NULL, ""}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&sides[i].thread, NULL, flood_run, &sides[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(sides[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        if (sides[i].failed)
            fail_msg("side %d: %s (%s)", i, sides[i].failed, sides[i].detail);
    }
    pthread_barrier_destroy(&flood->barrier);
    test_watcher_stop(flood->watcher);
    free(flood);
}

size_t conform_message_tests(const struct conform_backend *backend, struct CMUnitTest *tests, size_t capacity)
{
    const struct CMUnitTest full[] = {cmocka_unit_test(full_links_answer_again)};
    const struct CMUnitTest all[] = {
        cmocka_unit_test(caps_make_sense),
        cmocka_unit_test(address_has_a_size_and_is_reachable),
        cmocka_unit_test(garbage_addresses_are_refused),
        cmocka_unit_test(senders_are_reported),
        cmocka_unit_test(oob_of_nonsense_does_no_harm),
        cmocka_unit_test(connecting_twice_is_one_link),
        cmocka_unit_test(messages_keep_bytes_and_order),
        cmocka_unit_test(too_large_messages_are_an_error),
        cmocka_unit_test(budgets_are_kept),
        cmocka_unit_test(many_links_deliver),
        cmocka_unit_test(two_threads_flood_each_other),
    };
    size_t used = conform_append(tests, capacity, all, sizeof all / sizeof all[0]);
    if (!backend->endless)
        used += conform_append(tests + used, capacity - used, full, 1);
    return used;
}
