/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/loop/loop.h"
#include "tests/support/conform.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/clock.h"
#include "tests/support/bits.h"
#include "tests/support/oob.h"
#include "tests/support/patience.h"
#include "tests/support/watcher.h"
#include "transport/registry.h"

#define LIMIT_NS    test_patient(20000000000)
#define TESTS_MAX   64
#define SETTLE_TURN 300

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static void keep_message(struct conform_node *node, const struct weft_event *event)
{
    node->misaligned += (uintptr_t)event->data % 8 != 0;
    if (node->message_count == node->message_capacity) {
        node->message_capacity = node->message_capacity ? node->message_capacity * 2 : 256;
        node->messages = must(realloc(node->messages, node->message_capacity * sizeof *node->messages));
    }
    if (node->used + event->data_size > node->capacity) {
        node->capacity = (node->used + event->data_size) * 2;
        node->bytes = must(realloc(node->bytes, node->capacity));
    }
    if (event->data_size)
        memcpy(node->bytes + node->used, event->data, event->data_size);
    node->messages[node->message_count++] = (struct conform_message){node->used, event->data_size};
    node->used += event->data_size;
}

static void keep(void *arg, const struct weft_event *event)
{
    struct conform_node *node = arg;
    switch (event->kind) {
    case WEFT_EVENT_MESSAGE:
        keep_message(node, event);
        break;
    case WEFT_EVENT_PUT_DONE:
        if (node->put_done_count == 4096)
            abort();
        node->put_status[node->put_done_count] = event->status;
        node->put_done[node->put_done_count++] = event->cookie;
        break;
    case WEFT_EVENT_FILLED:
        if (node->filled_count == 4096)
            abort();
        node->filled[node->filled_count++] = event->cookie;
        break;
    case WEFT_EVENT_LINK_FAILED:
        if (node->failed_count == 64)
            abort();
        node->failed_status[node->failed_count] = event->status;
        node->failed[node->failed_count++] = event->link_context;
        break;
    }
}

void conform_poll(struct conform_node *node, int budget)
{
    int events = node->ops.poll(node->transport, budget, keep, node);
    if (events < 0)
        fprintf(stderr, "poll: %s (%s)\n", weft_strerror(events), weft_error_detail());
    if (events < 0 || events > budget)
        abort();
    test_oob_deliver(node->oob, &node->ops, node->transport);
}

int conform_node_open(struct conform_node *node, const struct conform_backend *backend,
                      struct test_watcher *watcher)
{
    struct weft_transport_params params;
    memset(node, 0, sizeof *node);
    node->backend = backend;
    test_watcher_params(watcher, &params);
    params.provider = backend->provider;
    params.direct = backend->direct;
    params.local_address = backend->local_address;
    params.devices = backend->devices ? backend->devices() : NULL;
    if (backend->verbs) {
        node->verbs = (struct weft_verbs_settings)WEFT_VERBS_SETTINGS_INIT;
        backend->verbs(&node->verbs);
        params.verbs = &node->verbs;
    }
    const struct weft_transport_ops *found = loop_find(backend->transport);
    if (!found)
        return WEFT_NOT_FOUND;
    node->oob = test_oob_open(backend->lossy_oob);
    test_oob_params(node->oob, &params);
    int status = weft_transport_complete(found, &node->ops);
    if (!status)
        status = node->ops.open(&params, &node->transport);
    if (status)
        return status;
    node->caps.size = sizeof node->caps;
    node->ops.caps(node->transport, &node->caps);
    node->address_size = sizeof node->address;
    status = node->ops.address(node->transport, node->address, &node->address_size);
    if (!status)
        test_oob_bind(node->oob, node->address, node->address_size);
    return status;
}

void conform_node_close(struct conform_node *node)
{
    if (node->transport)
        node->ops.close(node->transport);
    test_oob_close(node->oob);
    free(node->bytes);
    free(node->messages);
    memset(node, 0, sizeof *node);
}

void conform_open(struct conform_world *world, const struct conform_backend *backend, int count)
{
    world->backend = backend;
    world->count = count;
    world->watcher = test_watcher_start();
    world->nodes = must(calloc((size_t)count, sizeof *world->nodes));
    for (int i = 0; i < count; i++) {
        int status = conform_node_open(&world->nodes[i], backend, world->watcher);
        if (status)
            fail_msg("%s: opening: %s (%s)", backend->label, weft_strerror(status), weft_error_detail());
    }
}

void conform_close(struct conform_world *world)
{
    for (int i = 0; i < world->count; i++)
        conform_node_close(&world->nodes[i]);
    free(world->nodes);
    test_watcher_stop(world->watcher);
}

void conform_turn(struct conform_world *world)
{
    for (int i = 0; i < world->count; i++) {
        if (world->nodes[i].transport)
            conform_poll(&world->nodes[i], 16);
    }
}

void conform_until(struct conform_world *world, const size_t *value, size_t wanted)
{
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    size_t seen = *value;
    for (unsigned turns = 1; *value < wanted; turns++) {
        conform_turn(world);
        if (turns % 64)
            continue;
        sched_yield();
        if (*value != seen) {
            seen = *value;
            deadline_ns = weft_clock_ns() + LIMIT_NS;
        }
        if (weft_clock_ns() > deadline_ns)
            fail_msg("%s: waited in vain: %zu of %zu", world->backend->label, *value, wanted);
    }
}

void conform_settle(struct conform_world *world)
{
    for (int i = 0; i < SETTLE_TURN; i++) {
        conform_turn(world);
        if (i % 16 == 0)
            usleep(100);
    }
}

struct weft_link *conform_connect(struct conform_world *world, int from, int to, void *context)
{
    struct conform_node *node = &world->nodes[from], *peer = &world->nodes[to];
    struct weft_link *link = NULL;
    int status = node->ops.connect(node->transport, peer->address, peer->address_size, context, &link);
    if (status)
        fail_msg("%s: connecting: %s (%s)", world->backend->label, weft_strerror(status),
                 weft_error_detail());
    uint32_t flags;
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    while ((status = node->ops.link_flags(link, &flags)) == WEFT_AGAIN && weft_clock_ns() < deadline_ns) {
        conform_turn(world);
        sched_yield();
    }
    if (status)
        fail_msg("%s: link comes up: %s (%s)", world->backend->label, weft_strerror(status),
                 weft_error_detail());
    return link;
}

void conform_send(struct conform_world *world, int from, struct weft_link *link, const void *header,
                  size_t header_size, const void *payload, size_t payload_size)
{
    struct conform_node *node = &world->nodes[from];
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    int status;
    while ((status = node->ops.send(link, header, header_size, payload, payload_size)) == WEFT_AGAIN &&
           weft_clock_ns() < deadline_ns)
        conform_turn(world);
    if (status)
        fail_msg("%s: sending %zu + %zu bytes: %s (%s)", world->backend->label, header_size, payload_size,
                 weft_strerror(status), weft_error_detail());
}

void conform_fill(uint8_t *bytes, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(seed * 131 + i * 7 + (i >> 8) * 3 + (seed >> 8));
}

int conform_matches(const struct conform_node *node, size_t index, size_t size, uint32_t seed)
{
    const struct conform_message *message = &node->messages[index];
    if (!BITS_AGREE(message->size == size))
        return 0;
    uint8_t *expected = must(malloc(size + 1));
    conform_fill(expected, size, seed);
    int same = BITS_AGREE(memcmp(node->bytes + message->offset, expected, size) == 0);
    free(expected);
    return same;
}

size_t conform_append(struct CMUnitTest *tests, size_t capacity, const struct CMUnitTest *more, size_t count)
{
    if (count > capacity)
        abort();
    memcpy(tests, more, count * sizeof *more);
    return count;
}

const struct conform_backend *conform_backend(void **state)
{
    return *state;
}

int conform_run(const struct conform_backend *backends, size_t count)
{
    int failed = 0;
    size_t absent = 0;
    for (size_t row = 0; row < count; row++) {
        const struct conform_backend *backend = &backends[row];
        const char *reason = backend->absent ? backend->absent() : NULL;
        if (reason) {
            printf("SKIP: %s: %s\n", backend->label, reason);
            absent++;
            continue;
        }
        struct CMUnitTest tests[TESTS_MAX];
        size_t used = 0;
        /* First, as a child forked later may find the libraries under a transport unusable. */
        if (!backend->only_puts) {
            used += conform_process_tests(backend, tests + used, TESTS_MAX - used);
            used += conform_message_tests(backend, tests + used, TESTS_MAX - used);
            used += conform_memory_tests(backend, tests + used, TESTS_MAX - used);
        }
        used += conform_put_tests(backend, tests + used, TESTS_MAX - used);
        if (!backend->only_puts)
            used += conform_life_tests(backend, tests + used, TESTS_MAX - used);
        for (size_t i = 0; i < used; i++)
            tests[i].initial_state = (void *)(uintptr_t)backend;
        failed += _cmocka_run_group_tests(backend->label, tests, used, NULL, NULL);
    }
    return absent == count ? 77 : failed;
}
