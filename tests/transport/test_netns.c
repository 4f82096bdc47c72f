/* SPDX-License-Identifier: Apache-2.0 */
/* TCP between two hosts (tests/support/machines.h), over sockets of our own and each of libfabric's providers: an address that only means something inside one of
 * them is not reachable from the other, and messages pass between those that are. With WEFT_LONG also a peer that cannot be reached
 * although it should be: the link fails in bounded time. What else passes between hosts: tests/system/test_hosts.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/clock.h"
#include "tests/support/machines.h"
#include "tests/support/ofi_absent.h"
#include "tests/support/patience.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"
#include "transport/registry.h"

#define LIMIT_NS test_patient(20000000000)

static const char *const local[2] = {"10.96.0.1", "10.96.0.2"};

struct shared {
    const char *provider;                      /* of libfabric, NULL: the transport tcp */
    int is_cut;                                /* the cable, before the first contact */
    _Atomic int step[2];                       /* how far each side is */
    uint8_t addresses[2][2][WEFT_ADDRESS_MAX]; /* of each side: on the cable, on loopback */
    size_t sizes[2][2];
};

struct side {
    struct weft_transport_ops ops;
    struct weft_transport *transport;
    struct weft_link *link;
    int messages, failed;
};

static void note(void *arg, const struct weft_event *event)
{
    struct side *side = arg;
    side->messages += event->kind == WEFT_EVENT_MESSAGE && event->data_size == 3;
    side->failed += event->kind == WEFT_EVENT_LINK_FAILED;
}

static int side_poll(struct side *side)
{
    return side->ops.poll(side->transport, 16, note, side);
}

/* Waits until the other side has got as far, polling meanwhile. */
static int meet(struct shared *shared, struct side *side, int me, int step)
{
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    shared->step[me] = step;
    while (shared->step[!me] < step) {
        CHECK(side_poll(side) >= 0);
        CHECK(weft_clock_ns() < deadline_ns);
        sched_yield();
    }
    return 0;
}

static int side_open(struct side *side, const char *provider, const char *address, uint8_t *own, size_t *size)
{
    struct weft_transport_params params = {
        .size = sizeof params, .provider = provider, .local_address = address};
    memset(side, 0, sizeof *side);
    *size = WEFT_ADDRESS_MAX;
    CHECK_OK(weft_transport_complete(weft_transport_find(provider ? "ofi" : "tcp"), &side->ops));
    CHECK_OK(side->ops.open(&params, &side->transport));
    CHECK_OK(side->ops.address(side->transport, own, size));
    return 0;
}

/* A message each way. */
static int talk(struct shared *shared, struct side *side, int me)
{
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    int status;
    while ((status = side->ops.send(side->link, "abc", 3, NULL, 0)) == WEFT_AGAIN &&
           weft_clock_ns() < deadline_ns)
        CHECK(side_poll(side) >= 0);
    CHECK_OK(status);
    while (!side->messages && weft_clock_ns() < deadline_ns)
        CHECK(side_poll(side) >= 0);
    CHECK(side->messages == 1 && !side->failed);
    return meet(shared, side, me, 3);
}

static int lose(struct shared *shared, struct side *side, int me)
{
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    while (me == 0 && !side->failed && weft_clock_ns() < deadline_ns)
        CHECK(side_poll(side) >= 0);
    CHECK(me || side->failed);
    return meet(shared, side, me, 3);
}

static int host(int me, int sides, void *arg)
{
    struct shared *shared = arg;
    struct side side, inner;
    uint8_t(*own)[WEFT_ADDRESS_MAX] = shared->addresses[me],
    (*theirs)[WEFT_ADDRESS_MAX] = shared->addresses[!me];
    const size_t *sizes = shared->sizes[!me];
    (void)sides;
    CHECK(test_machines_enter(me) == 0);
    for (int i = 0; i < 100 && system("ip link show eth0 | grep -q 'state UP'") != 0; i++)
        usleep(50000);
    CHECK(side_open(&side, shared->provider, local[me], own[0], &shared->sizes[me][0]) == 0);
    CHECK(side_open(&inner, shared->provider, NULL, own[1], &shared->sizes[me][1]) == 0);
    CHECK(meet(shared, &side, me, 1) == 0);
    CHECK(side.ops.reachable(side.transport, theirs[0], sizes[0]) == 1);
    CHECK(side.ops.reachable(side.transport, theirs[1], sizes[1]) == 0);
    CHECK(inner.ops.reachable(inner.transport, theirs[1], sizes[1]) == 0);
    CHECK(inner.ops.reachable(inner.transport, own[0], shared->sizes[me][0]) == 1);
    inner.ops.close(inner.transport);
    if (shared->is_cut && me == 0)
        CHECK(system("ip link set eth0 down") == 0);
    CHECK(meet(shared, &side, me, 2) == 0);
    if (!shared->is_cut || me == 0)
        CHECK_OK(side.ops.connect(side.transport, theirs[0], sizes[0], NULL, &side.link));
    CHECK((shared->is_cut ? lose : talk)(shared, &side, me) == 0);
    side.ops.close(side.transport);
    return 0;
}

static void two_hosts(void **state)
{
    (void)state;
    static const char *const providers[] = {NULL, "net", "tcp;ofi_rxm"};
    for (int is_cut = 0; is_cut <= (getenv("WEFT_LONG") != NULL); is_cut++) {
        for (size_t p = 0; p < sizeof providers / sizeof *providers; p++) {
            if (providers[p] && test_ofi_absent())
                continue;
            const char *impossible = test_machines_open((const char *const[]){"a", "b"}, 2);
            if (impossible)
                TEST_SKIP("%s", impossible);
            struct shared *shared =
                mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            assert_true(shared != MAP_FAILED);
            *shared = (struct shared){.provider = providers[p], .is_cut = is_cut};
            assert_int_equal(test_ranks_fork(2, host, shared), 0);
            munmap(shared, sizeof *shared);
            test_machines_close();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_hosts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
