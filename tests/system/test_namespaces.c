/* SPDX-License-Identifier: Apache-2.0 */
/* shm between processes in different PID, IPC, mount and network namespaces: what a job of containers looks
 * like. Messages and mapped memory must work wherever reachable() says so; reading ordinary memory degrades
 * where the kernel hides one process from the other; another network namespace is another host.
 *
 * The test forks a child into new namespaces; parent and child each open an instance and talk over pipes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/bits.h"
#include "tests/support/conform.h"
#include "tests/support/patience.h"
#include "tests/support/skip.h"
#include "tests/support/watcher.h"

#define LIMIT_NS test_patient(60000000000)
#define MESSAGES 100u

static const struct conform_backend shm = {.label = "shm", .transport = "shm", .direct = 1};

/* What one side found out. */
struct finding {
    int reachable;
    uint32_t flags;     /* what the peer may do with this side's memory */
    int messages;       /* answers that came back right */
    int mapped;         /* bytes of the peer's segment were right */
    int pulled;         /* bytes of the peer's ordinary memory were right */
    int pull_forbidden; /* exposing ordinary memory answered WEFT_UNSUPPORTED */
};

struct offer {
    struct weft_token segment, ordinary;
    int has_ordinary;
};

static int exchange(const int *out, const int *in, const void *mine, void *theirs, size_t size)
{
    return write(out[1], mine, size) == (ssize_t)size && read(in[0], theirs, size) == (ssize_t)size ? 0 : 1;
}

static int wait_for(struct conform_node *node, size_t wanted)
{
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    while (node->message_count < wanted && weft_clock_ns() < deadline_ns) {
        conform_poll(node, 16);
        sched_yield();
    }
    return node->message_count < wanted;
}

static int deliver(struct conform_node *node, struct weft_link *link, const void *bytes, size_t size)
{
    int status;
    while ((status = node->ops.send(link, bytes, size, NULL, 0)) == WEFT_AGAIN)
        conform_poll(node, 16);
    return status;
}

/* Exposes a segment and ordinary memory, and reads those of the peer. */
static int reads_run(struct conform_node *node, struct weft_link *link, struct finding *finding)
{
    static uint8_t ordinary[100000], copy[100000], expected[100000];
    struct offer mine = {.has_ordinary = 0}, theirs;
    void *segment;
    const void *mapped;
    conform_fill(ordinary, sizeof ordinary, 77);
    conform_fill(expected, sizeof expected, 77);
    if (node->ops.alloc(node->transport, sizeof ordinary, &segment))
        return 20;
    memcpy(segment, ordinary, sizeof ordinary);
    if (node->ops.expose(link, NULL, segment, sizeof ordinary, &mine.segment))
        return 21;
    int status = node->ops.expose(link, NULL, ordinary, sizeof ordinary, &mine.ordinary);
    mine.has_ordinary = status == WEFT_OK;
    finding->pull_forbidden = status == WEFT_UNSUPPORTED;
    if (deliver(node, link, &mine, sizeof mine) || wait_for(node, MESSAGES + 1))
        return 22;
    memcpy(&theirs, node->bytes + node->messages[MESSAGES].offset, sizeof theirs);
    if (node->ops.map(link, &theirs.segment, sizeof expected, &mapped) == WEFT_OK)
        finding->mapped = BITS_AGREE(memcmp(mapped, expected, sizeof expected) == 0);
    if (theirs.has_ordinary && node->ops.pull(link, &theirs.ordinary, 0, copy, sizeof copy, 0) == WEFT_OK)
        finding->pulled = BITS_AGREE(memcmp(copy, expected, sizeof expected) == 0);
    uint32_t done = 1; /* nobody leaves before both have read */
    return deliver(node, link, &done, sizeof done) || wait_for(node, MESSAGES + 2) ? 23 : 0;
}

/* One side. Returns 0, or where it failed. */
static int side_run(const int *out, const int *in, struct finding *finding)
{
    struct test_watcher *watcher = test_watcher_start();
    struct conform_node node;
    struct weft_link *link = NULL;
    uint8_t peer[WEFT_ADDRESS_MAX];
    uint32_t flags;
    memset(finding, 0, sizeof *finding);
    if (conform_node_open(&node, &shm, watcher))
        return 10;
    if (exchange(out, in, node.address, peer, node.address_size))
        return 11;
    finding->reachable = node.ops.reachable(node.transport, peer, node.address_size);
    int both[2] = {finding->reachable, 0};
    if (exchange(out, in, &both[0], &both[1], sizeof both[0]))
        return 12;
    int failed = 0;
    if (both[0] && both[1]) {
        if (node.ops.connect(node.transport, peer, node.address_size, NULL, &link))
            return 13;
        int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
        int status;
        while ((status = node.ops.link_flags(link, &flags)) == WEFT_AGAIN && weft_clock_ns() < deadline_ns)
            conform_poll(&node, 16);
        if (status)
            return 14;
        finding->flags = flags;
        for (uint32_t i = 0; i < MESSAGES; i++) {
            if (deliver(&node, link, &i, sizeof i) || wait_for(&node, i + 1))
                return 15;
            finding->messages += BITS_AGREE(memcmp(node.bytes + node.messages[i].offset, &i, sizeof i) == 0);
        }
        failed = reads_run(&node, link, finding);
    }
    conform_node_close(&node);
    test_watcher_stop(watcher);
    return failed;
}

struct talk {
    struct finding parent, child;
    const char *forbidden; /* the kernel does not let us make these namespaces */
};

static void child_run(int flags, const int *out, const int *in)
{
    struct finding finding;
    int error = unshare(flags) ? errno : 0;
    if (error == 0 && (flags & CLONE_NEWPID)) {
        pid_t inner = fork(); /* only children of who unshares are in the new PID namespace */
        int status = 0;
        if (inner > 0) {
            waitpid(inner, &status, 0);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
        }
        error = inner < 0 ? errno : 0;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (write(out[1], &error, sizeof error) != sizeof error || error)
        _exit(98);
    int failed = side_run(out, in, &finding);
    if (write(out[1], &finding, sizeof finding) != sizeof finding)
        _exit(97);
    _exit(failed);
}

/* Lets a child in new namespaces and this process talk. */
static void talk_run(int flags, struct talk *talk)
{
    int up[2], down[2], error = 0, status;
    memset(talk, 0, sizeof *talk);
    assert_int_equal(pipe(up) | pipe(down), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(up[0]);
        close(down[1]);
        child_run(flags, up, down);
    }
    close(up[1]);
    close(down[0]);
    assert_int_equal(read(up[0], &error, sizeof error), sizeof error);
    if (error) {
        talk->forbidden = strerror(error);
    } else {
        assert_int_equal(side_run(down, up, &talk->parent), 0);
        assert_int_equal(read(up[0], &talk->child, sizeof talk->child), sizeof talk->child);
    }
    close(up[0]);
    close(down[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!error)
        assert_int_equal(status, 0);
}

static void expect_talk(const struct talk *talk)
{
    const struct finding *sides[] = {&talk->parent, &talk->child};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sides[i]->reachable, 1);
        assert_int_equal(sides[i]->messages, MESSAGES);
        assert_true(sides[i]->flags & WEFT_LINK_PEER_MAPS);
        assert_int_equal(sides[i]->mapped, 1);
    }
}

/* Everything, both ways. */
static void expect_full(int flags)
{
    struct talk talk;
    talk_run(flags, &talk);
    if (talk.forbidden)
        TEST_SKIP("namespaces 0x%x: %s", (unsigned)flags, talk.forbidden);
    expect_talk(&talk);
    const struct finding *sides[] = {&talk.parent, &talk.child};
    for (int i = 0; i < 2; i++) {
        /* A system that forbids process_vm_readv() between siblings shows it on both sides alike. */
        assert_int_equal(sides[i]->pulled, (sides[!i]->flags & WEFT_LINK_PEER_PULLS) != 0);
        assert_int_equal(sides[i]->pull_forbidden, (sides[i]->flags & WEFT_LINK_PEER_PULLS) == 0);
    }
}

/* The parent sees the child, the child does not see the parent. */
static void expect_half_hidden(int flags)
{
    struct talk talk;
    talk_run(flags, &talk);
    if (talk.forbidden)
        TEST_SKIP("namespaces 0x%x: %s", (unsigned)flags, talk.forbidden);
    expect_talk(&talk);
    assert_int_equal(talk.parent.flags & WEFT_LINK_PEER_PULLS, 0);
    assert_int_equal(talk.parent.pull_forbidden, 1);
    assert_int_equal(talk.child.pulled, 0);
    assert_int_equal(talk.parent.pulled, (talk.child.flags & WEFT_LINK_PEER_PULLS) != 0);
}

static void expect_apart(int flags)
{
    struct talk talk;
    talk_run(flags, &talk);
    if (talk.forbidden)
        TEST_SKIP("namespaces 0x%x: %s", (unsigned)flags, talk.forbidden);
    assert_int_equal(talk.parent.reachable, 0);
    assert_int_equal(talk.child.reachable, 0);
}

static void same_namespaces(void **state)
{
    (void)state;
    expect_full(0);
}

static void another_ipc_namespace(void **state)
{
    (void)state;
    expect_full(CLONE_NEWIPC);
}

static void another_mount_namespace(void **state)
{
    (void)state;
    expect_full(CLONE_NEWNS);
}

static void other_ipc_and_mount_namespaces(void **state)
{
    (void)state;
    expect_full(CLONE_NEWIPC | CLONE_NEWNS);
}

static void another_pid_namespace(void **state)
{
    (void)state;
    expect_half_hidden(CLONE_NEWPID);
}

static void other_pid_ipc_and_mount_namespaces(void **state)
{
    (void)state;
    expect_half_hidden(CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNS);
}

static void another_network_namespace(void **state)
{
    (void)state;
    expect_apart(CLONE_NEWNET);
}

static void all_other_namespaces(void **state)
{
    (void)state;
    expect_apart(CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNS | CLONE_NEWNET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_namespaces),           cmocka_unit_test(another_ipc_namespace),
        cmocka_unit_test(another_mount_namespace),   cmocka_unit_test(other_ipc_and_mount_namespaces),
        cmocka_unit_test(another_pid_namespace),     cmocka_unit_test(other_pid_ipc_and_mount_namespaces),
        cmocka_unit_test(another_network_namespace), cmocka_unit_test(all_other_namespaces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
