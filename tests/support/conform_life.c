/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping and waking, death of a peer, closing, leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/conform.h"
#include "tests/support/leak.h"
#include "tests/support/oob.h"
#include "tests/support/watcher.h"

/* Sleeps until a descriptor is readable; 0 when the time is over first. */
static int sleep_on(struct conform_node *node, int timeout_ms)
{
    struct pollfd ready[9];
    int fds[8];
    int count = node->ops.fds(node->transport, fds, 8);
    for (int i = 0; i < count; i++)
        ready[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    ready[count] = (struct pollfd){.fd = test_oob_fd(node->oob), .events = POLLIN};
    int status = node->ops.arm(node->transport);
    if (status == WEFT_AGAIN)
        return 1;
    int woken = poll(ready, (nfds_t)count + 1, timeout_ms);
    node->ops.disarm(node->transport);
    return woken > 0;
}

static void arming_sees_waiting_work(void **state)
{
    struct conform_world world;
    conform_open(&world, conform_backend(state), 2);
    struct conform_node *b = &world.nodes[1];
    struct weft_link *link = conform_connect(&world, 0, 1, NULL);
    uint8_t byte = 1;
    conform_settle(&world);
    conform_send(&world, 0, link, &byte, 1, NULL, 0);
    /* Sending may need the sender to go on; the receiver must not sleep over what has come. */
    int64_t deadline_ns = weft_clock_ns() + 20000000000;
    while (b->message_count == 0 && weft_clock_ns() < deadline_ns) {
        conform_poll(&world.nodes[0], 16);
        if (sleep_on(b, 50))
            conform_poll(b, 16);
    }
    assert_int_equal(b->message_count, 1);
    conform_close(&world);
}

struct sleeper {
    const struct conform_backend *backend;
    struct test_watcher *watcher;
    uint8_t addresses[2][WEFT_ADDRESS_MAX];
    size_t sizes[2];
    pthread_barrier_t barrier;
    int rounds;
    int overslept;
};

/* Waits for the wanted number of messages, asleep most of the time. One sleep that only its limit ends is the
 * end of the test. */
static void wait_asleep(struct sleeper *sleeper, struct conform_node *node, size_t wanted)
{
    while (node->message_count < wanted && !__atomic_load_n(&sleeper->overslept, __ATOMIC_RELAXED)) {
        conform_poll(node, 16);
        if (node->message_count < wanted && !sleep_on(node, 5000))
            __atomic_store_n(&sleeper->overslept, 1, __ATOMIC_RELAXED);
    }
}

static void side_run(struct sleeper *sleeper, int side)
{
    struct conform_node *node = malloc(sizeof *node);
    struct weft_link *link;
    if (!node || conform_node_open(node, sleeper->backend, sleeper->watcher))
        abort();
    memcpy(sleeper->addresses[side], node->address, node->address_size);
    sleeper->sizes[side] = node->address_size;
    pthread_barrier_wait(&sleeper->barrier);
    if (node->ops.connect(node->transport, sleeper->addresses[!side], sleeper->sizes[!side], NULL, &link))
        abort();
    for (int i = 0; i < sleeper->rounds && !__atomic_load_n(&sleeper->overslept, __ATOMIC_RELAXED); i++) {
        int status;
        if (side)
            wait_asleep(sleeper, node, (size_t)i + 1);
        while ((status = node->ops.send(link, &i, sizeof i, NULL, 0)) == WEFT_AGAIN) {
            conform_poll(node, 16);
            sched_yield();
        }
        if (status)
            abort();
        if (!side)
            wait_asleep(sleeper, node, (size_t)i + 1);
    }
    pthread_barrier_wait(&sleeper->barrier);
    conform_node_close(node);
    free(node);
}

static void *other_side(void *arg)
{
    side_run(arg, 1);
    return NULL;
}

/* A message wakes whoever sleeps, every time: neither side ever polls for longer than it has to. */
static void messages_wake_sleepers(void **state)
{
    struct sleeper *sleeper = calloc(1, sizeof *sleeper);
    pthread_t thread;
    assert_non_null(sleeper);
    sleeper->backend = conform_backend(state);
    sleeper->watcher = test_watcher_start();
    sleeper->rounds = 1000;
    pthread_barrier_init(&sleeper->barrier, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, other_side, sleeper), 0);
    side_run(sleeper, 0);
    pthread_join(thread, NULL);
    assert_int_equal(sleeper->overslept, 0);
    pthread_barrier_destroy(&sleeper->barrier);
    test_watcher_stop(sleeper->watcher);
    free(sleeper);
}

struct notifier {
    struct conform_node *node;
    struct weft_link *link;
};

static void *notify_soon(void *arg)
{
    struct notifier *notifier = arg;
    usleep(20000);
    notifier->node->ops.notify(notifier->link);
    return NULL;
}

static void notify_wakes_a_sleeper(void **state)
{
    struct conform_world world;
    pthread_t thread;
    conform_open(&world, conform_backend(state), 2);
    struct notifier notifier = {&world.nodes[0], conform_connect(&world, 0, 1, NULL)};
    conform_settle(&world);
    for (int i = 0; i < 3; i++) {
        while (sleep_on(&world.nodes[1], 0)) /* whatever is left from before */
            conform_turn(&world);
        assert_int_equal(pthread_create(&thread, NULL, notify_soon, &notifier), 0);
        int woken = sleep_on(&world.nodes[1], 20000);
        pthread_join(thread, NULL);
        assert_true(woken);
    }
    conform_close(&world);
}

static void closing_delivers_what_was_sent(void **state)
{
    struct conform_world world;
    uint8_t bytes[100];
    conform_open(&world, conform_backend(state), 2);
    struct conform_node *a = &world.nodes[0], *b = &world.nodes[1];
    struct weft_link *ab = conform_connect(&world, 0, 1, NULL);
    struct weft_link *ba = conform_connect(&world, 1, 0, &world);
    for (uint32_t i = 0; i < 30; i++) {
        conform_fill(bytes, sizeof bytes, i);
        conform_send(&world, 0, ab, bytes, 20, bytes + 20, 80);
    }
    a->ops.close(a->transport);
    a->transport = NULL;
    conform_until(&world, &b->message_count, 30);
    for (uint32_t i = 0; i < 30; i++)
        assert_true(conform_matches(b, i, sizeof bytes, i));
    conform_until(&world, &b->failed_count, 1);
    assert_ptr_equal(b->failed[0], &world);
    assert_true(b->failed_status[0] < 0 && b->failed_status[0] != WEFT_AGAIN);
    int status = b->ops.send(ba, bytes, 8, NULL, 0);
    assert_true(status < 0 && status != WEFT_AGAIN);
    conform_settle(&world);
    assert_int_equal(b->failed_count, 1);
    b->ops.disconnect(ba);
    conform_close(&world);
}

/* Closing with links half made, messages unread, and puts or reads never used. */
static void closing_at_any_time_is_clean(void **state)
{
    uint8_t bytes[64] = {0};
    for (int variant = 0; variant < 6; variant++) {
        struct conform_world world;
        struct weft_link *link;
        conform_open(&world, conform_backend(state), 2);
        struct conform_node *a = &world.nodes[0], *b = &world.nodes[1];
        assert_int_equal(a->ops.connect(a->transport, b->address, b->address_size, NULL, &link), 0);
        if (variant >= 1)
            conform_connect(&world, 0, 1, NULL);
        if (variant >= 2)
            conform_send(&world, 0, link, bytes, sizeof bytes, NULL, 0);
        if (variant == 3)
            conform_connect(&world, 1, 0, NULL);
        if (variant == 4)
            a->ops.disconnect(link);
        if (variant == 5) { /* the receiver goes first */
            b->ops.close(b->transport);
            b->transport = NULL;
        }
        conform_close(&world);
    }
}

static void child_run(const struct conform_backend *backend, const int *to_child, const int *to_parent)
{
    struct conform_node node;
    struct weft_link *link = NULL;
    uint8_t peer[WEFT_ADDRESS_MAX];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct test_watcher *watcher = test_watcher_start();
    size_t size = 0;
    if (read(to_child[0], &size, sizeof size) != sizeof size || size > sizeof peer ||
        read(to_child[0], peer, size) != (ssize_t)size)
        _exit(1);
    if (conform_node_open(&node, backend, watcher) ||
        node.ops.connect(node.transport, peer, size, NULL, &link))
        _exit(2);
    if (write(to_parent[1], &node.address_size, sizeof node.address_size) < 0 ||
        write(to_parent[1], node.address, node.address_size) < 0)
        _exit(3);
    for (uint32_t i = 0; i < 10;) {
        int status = node.ops.send(link, &i, sizeof i, NULL, 0);
        conform_poll(&node, 16);
        if (status && status != WEFT_AGAIN)
            _exit(4);
        i += status == 0;
    }
    for (;;) {
        conform_poll(&node, 16);
        usleep(100);
    }
}

static void death_of_a_peer_is_reported(void **state)
{
    const struct conform_backend *backend = conform_backend(state);
    struct conform_world world;
    int to_child[2], to_parent[2], status;
    assert_int_equal(pipe(to_child) | pipe(to_parent), 0);
    pid_t child = fork(); /* before this process has threads */
    assert_true(child >= 0);
    if (child == 0)
        child_run(backend, to_child, to_parent);
    conform_open(&world, backend, 1);
    struct conform_node *node = &world.nodes[0];
    uint8_t peer[WEFT_ADDRESS_MAX];
    size_t size = 0;
    assert_true(write(to_child[1], &node->address_size, sizeof size) > 0);
    assert_true(write(to_child[1], node->address, node->address_size) > 0);
    assert_int_equal(read(to_parent[0], &size, sizeof size), sizeof size);
    assert_true(size <= sizeof peer);
    assert_int_equal(read(to_parent[0], peer, size), size);
    struct weft_link *link = NULL;
    uint32_t flags;
    assert_int_equal(node->ops.connect(node->transport, peer, size, &world, &link), 0);
    while ((status = node->ops.link_flags(link, &flags)) == WEFT_AGAIN)
        conform_turn(&world);
    assert_int_equal(status, 0);
    conform_until(&world, &node->message_count, 1);
    usleep(50000); /* the child has sent the rest by now, or is in the middle */
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    conform_until(&world, &node->failed_count, 1);
    assert_ptr_equal(node->failed[0], &world);
    assert_int_equal(node->failed_status[0], WEFT_PEER_FAILED);
    node->ops.look(link, 1 << 20); /* of a peer that is gone: nothing */
    for (uint32_t i = 0; i < node->message_count; i++)
        assert_memory_equal(node->bytes + node->messages[i].offset, &i, sizeof i);
    status = node->ops.send(link, &flags, sizeof flags, NULL, 0);
    assert_true(status < 0 && status != WEFT_AGAIN);
    conform_close(&world);
    for (int i = 0; i < 2; i++) {
        close(to_child[i]);
        close(to_parent[i]);
    }
}

static void use_everything(const struct conform_backend *backend)
{
    struct conform_world world;
    conform_open(&world, backend, 3);
    struct conform_node *a = &world.nodes[0];
    struct weft_link *link = conform_connect(&world, 0, 1, NULL);
    conform_connect(&world, 1, 0, NULL);
    conform_connect(&world, 2, 0, NULL);
    uint8_t bytes[256] = {0};
    struct weft_token token;
    void *memory = NULL;
    if (a->ops.alloc(a->transport, 100000, &memory) == 0) {
        a->ops.expose(link, NULL, memory, 100, &token);
        conform_send(&world, 0, link, &token, sizeof token, NULL, 0);
    } else {
        conform_send(&world, 0, link, bytes, sizeof bytes, NULL, 0);
    }
    conform_until(&world, &world.nodes[1].message_count, 1);
    if (memory)
        a->ops.free(a->transport, memory);
    conform_close(&world);
}

static void nothing_is_left_behind(void **state)
{
    struct test_leak before;
    use_everything(conform_backend(state)); /* what a library keeps for good is there after this */
    test_leak_take(&before);
    for (int i = 0; i < 5; i++)
        use_everything(conform_backend(state));
    assert_int_equal(test_leak_check(&before), 0);
}

size_t conform_process_tests(const struct conform_backend *backend, struct CMUnitTest *tests, size_t capacity)
{
    const struct CMUnitTest processes[] = {cmocka_unit_test(death_of_a_peer_is_reported)};
    return backend->processes ? conform_append(tests, capacity, processes, 1) : 0;
}

size_t conform_life_tests(const struct conform_backend *backend, struct CMUnitTest *tests, size_t capacity)
{
    const struct CMUnitTest sleeping[] = {
        cmocka_unit_test(arming_sees_waiting_work),
        cmocka_unit_test(messages_wake_sleepers),
    };
    const struct CMUnitTest notify[] = {cmocka_unit_test(notify_wakes_a_sleeper)};
    const struct CMUnitTest all[] = {
        cmocka_unit_test(closing_delivers_what_was_sent),
        cmocka_unit_test(closing_at_any_time_is_clean),
        cmocka_unit_test(nothing_is_left_behind),
    };
    size_t used = 0;
    if (!backend->sleepless)
        used += conform_append(tests + used, capacity - used, sleeping, 2);
    if (backend->notifies)
        used += conform_append(tests + used, capacity - used, notify, 1);
    return used + conform_append(tests + used, capacity - used, all, sizeof all / sizeof all[0]);
}
