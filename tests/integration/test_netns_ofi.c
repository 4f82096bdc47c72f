/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts as network namespaces joined by a veth pair: the ofi transport between processes in them, over
 * each TCP provider. An address that only means something inside one of them is not reachable from the other.
 * With WEFT_LONG also a peer that cannot be reached although it should be: the link fails in bounded time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/clock.h"
#include "tests/support/skip.h"
#include "tests/support/ofi_absent.h"
#include "transport/registry.h"

#define LIMIT_NS  20000000000
#define MESSAGES  200u
#define PUT_BYTES ((size_t)3 << 20)

enum { GOOD, BAD, NOT_ALLOWED, NO_IP };

static const char *const local[2] = {"10.97.0.1", "10.97.0.2"};

struct shared {
    _Atomic int step[2]; /* how far each side is */
    pid_t pids[2];
    uint8_t addresses[2][2][WEFT_ADDRESS_MAX]; /* of each side: on the link, on loopback */
    size_t sizes[2][2];
    struct weft_token token;
};

struct side {
    struct weft_transport_ops ops;
    struct weft_transport *transport;
    struct weft_link *link;
    uint32_t messages, failed, landed, put_done;
    int wrong;
};

static void note(void *arg, const struct weft_event *event)
{
    struct side *side = arg;
    uint32_t number;
    switch (event->kind) {
    case WEFT_EVENT_MESSAGE:
        memcpy(&number, event->data, sizeof number);
        side->wrong |= number != side->messages++ || event->data_size != sizeof number + number;
        break;
    case WEFT_EVENT_LANDED:
        side->landed++;
        side->wrong |= event->status;
        break;
    case WEFT_EVENT_PUT_DONE:
        side->put_done++;
        side->wrong |= event->status;
        break;
    case WEFT_EVENT_LINK_FAILED:
        side->failed++;
        break;
    }
}

/* Waits until the other side has got as far, polling meanwhile. */
static int meet(struct shared *shared, struct side *side, int me, int step)
{
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    shared->step[me] = step;
    while (shared->step[!me] < step) {
        if (side && side->ops.poll(side->transport, 16, note, side) < 0)
            return BAD;
        if (weft_clock_ns() > deadline_ns)
            return BAD;
        sched_yield();
    }
    return GOOD;
}

static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int run(const char *format, ...)
{
    char command[256];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return system(command);
}

/* A network namespace for each side, and a cable. */
static int make_hosts(struct shared *shared, int me)
{
    shared->pids[me] = getpid();
    if (run("ip -V >/dev/null 2>&1"))
        return NO_IP;
    if (unshare(CLONE_NEWNET) || run("ip link set lo up 2>/dev/null"))
        return NOT_ALLOWED;
    if (meet(shared, NULL, me, 1))
        return NOT_ALLOWED;
    if (me == 0 && run("ip link add weft0 type veth peer name weft1 2>/dev/null && "
                       "ip link set weft1 netns %d 2>/dev/null",
                       (int)shared->pids[1]))
        return NOT_ALLOWED;
    if (meet(shared, NULL, me, 2))
        return NOT_ALLOWED;
    if (run("ip address add %s/24 dev weft%d && ip link set weft%d up", local[me], me, me))
        return NOT_ALLOWED;
    if (meet(shared, NULL, me, 3))
        return NOT_ALLOWED;
    for (int i = 0; i < 100 && run("ip link show weft%d | grep -q 'state UP'", me); i++)
        usleep(50000);
    return meet(shared, NULL, me, 4);
}

static int open_side(struct side *side, const char *provider, const char *address, uint8_t *own, size_t *size)
{
    struct weft_transport_params params = {
        .size = sizeof params, .provider = provider, .local_address = address};
    memset(side, 0, sizeof *side);
    int status = weft_transport_complete(weft_transport_find("ofi"), &side->ops);
    if (!status)
        status = side->ops.open(&params, &side->transport);
    *size = WEFT_ADDRESS_MAX;
    if (!status)
        status = side->ops.address(side->transport, own, size);
    if (status)
        fprintf(stderr, "%s on %s: %s\n", provider, address, weft_error_detail());
    return status;
}

/* Numbered messages of growing size both ways, then a put from side 0 to side 1. */
static int traffic(struct shared *shared, struct side *side, int me, int step)
{
    static uint8_t zeros[1024], memory[PUT_BYTES];
    for (uint32_t i = 0; i < MESSAGES;) {
        int status = side->ops.send(side->link, &i, sizeof i, zeros, i);
        if (status && status != WEFT_AGAIN)
            return BAD;
        i += status == WEFT_OK;
        if (side->ops.poll(side->transport, 16, note, side) < 0)
            return BAD;
    }
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    while (side->messages < MESSAGES && weft_clock_ns() < deadline_ns)
        side->ops.poll(side->transport, 16, note, side);
    memset(memory, me ? 0 : 0x77, sizeof memory);
    if (me && side->ops.land(side->link, NULL, memory, sizeof memory, 1, &shared->token))
        return BAD;
    if (side->messages != MESSAGES || side->wrong || meet(shared, side, me, step))
        return BAD;
    int status = WEFT_AGAIN;
    while (!me && status == WEFT_AGAIN) {
        status = side->ops.put(side->link, &shared->token, NULL, memory, sizeof memory, 1);
        side->ops.poll(side->transport, 16, note, side);
    }
    while (side->landed + side->put_done == 0 && weft_clock_ns() < deadline_ns)
        side->ops.poll(side->transport, 16, note, side);
    return side->landed + side->put_done == 1 && !side->wrong && memory[0] == 0x77 &&
                   memory[PUT_BYTES - 1] == 0x77
               ? meet(shared, side, me, step + 1)
               : BAD;
}

static int talk(struct shared *shared, const char *provider, int me, int step)
{
    struct side side, inner;
    uint8_t(*own)[WEFT_ADDRESS_MAX] = shared->addresses[me],
    (*theirs)[WEFT_ADDRESS_MAX] = shared->addresses[!me];
    if (open_side(&side, provider, local[me], own[0], &shared->sizes[me][0]) ||
        open_side(&inner, provider, NULL, own[1], &shared->sizes[me][1]) || meet(shared, &side, me, step))
        return BAD;
    const size_t *sizes = shared->sizes[!me];
    if (side.ops.reachable(side.transport, theirs[0], sizes[0]) != 1 ||
        side.ops.reachable(side.transport, theirs[1], sizes[1]) != 0 ||
        inner.ops.reachable(inner.transport, theirs[1], sizes[1]) != 0 ||
        inner.ops.reachable(inner.transport, own[0], shared->sizes[me][0]) != 1) {
        fprintf(stderr, "%s: reachable() is wrong\n", provider);
        return BAD;
    }
    inner.ops.close(inner.transport);
    if (side.ops.connect(side.transport, theirs[0], sizes[0], NULL, &side.link) ||
        traffic(shared, &side, me, step + 1)) {
        fprintf(stderr, "%s: traffic failed: %s\n", provider, weft_error_detail());
        return BAD;
    }
    side.ops.close(side.transport);
    return meet(shared, NULL, me, step + 3);
}

/* The cable is cut before the first contact. */
static int cut(struct shared *shared, const char *provider, int me, int step)
{
    struct side side;
    if (open_side(&side, provider, local[me], shared->addresses[me][0], &shared->sizes[me][0]) ||
        meet(shared, &side, me, step))
        return BAD;
    int64_t start_ns = weft_clock_ns();
    if (me == 0) {
        if (run("ip link set weft0 down") ||
            side.ops.connect(side.transport, shared->addresses[1][0], shared->sizes[1][0], NULL, &side.link))
            return BAD;
        while (!side.failed && weft_clock_ns() - start_ns < LIMIT_NS)
            side.ops.poll(side.transport, 16, note, &side);
        if (!side.failed)
            fprintf(stderr, "%s: the link never failed\n", provider);
        run("ip link set weft0 up");
    } else {
        side.failed = 1;
    }
    side.ops.close(side.transport);
    return side.failed ? meet(shared, NULL, me, step + 1) : BAD;
}

static int host(struct shared *shared, int me)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = make_hosts(shared, me);
    if (!status)
        status = talk(shared, "net", me, 10);
    if (!status)
        status = talk(shared, "tcp;ofi_rxm", me, 20);
    if (!status && getenv("WEFT_LONG"))
        status = cut(shared, "net", me, 30);
    return status;
}

static void two_hosts(void **state)
{
    (void)state;
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    pid_t pids[2];
    int statuses[2];
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(host(shared, i));
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(pids[i], &statuses[i], 0), pids[i]);
        shared->step[i] = 1000; /* whoever has ended keeps nobody waiting */
    }
    munmap(shared, sizeof *shared);
    for (int i = 0; i < 2; i++) {
        assert_true(WIFEXITED(statuses[i]));
        if (WEXITSTATUS(statuses[i]) == NO_IP)
            TEST_SKIP("no ip command (iproute2)");
        if (WEXITSTATUS(statuses[i]) == NOT_ALLOWED)
            TEST_SKIP("network namespaces are not allowed here");
    }
    assert_int_equal(WEXITSTATUS(statuses[0]), GOOD);
    assert_int_equal(WEXITSTATUS(statuses[1]), GOOD);
}

int main(void)
{
    const char *reason = test_ofi_absent();
    if (reason) {
        printf("SKIP: %s\n", reason);
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_hosts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
