/* SPDX-License-Identifier: Apache-2.0 */
/* Withdrawing a receive buffer while its put is in flight: a peer that answers, one that is stopped in the middle of
 * a put, and one that was killed there. However it goes, no byte changes after withdraw() has returned. */
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
#include "tests/support/ofi_absent.h"
#include "tests/support/patience.h"
#include "transport/registry.h"

#define PUT_BYTES ((size_t)16 << 20) /* more than the kernel holds for a connection */
#define LIMIT_NS  test_patient(20000000000)

enum fate { ANSWERS, STOPS, DIES };

struct shared {
    uint8_t addresses[2][WEFT_ADDRESS_MAX];
    size_t sizes[2];
    struct weft_token token;
    _Atomic int ready[2], token_given, put_started, end;
};

struct side {
    struct weft_transport_ops ops;
    struct weft_transport *transport;
    struct weft_link *link;
    int messages, filled, failed, put_done;
};

static void note(void *arg, const struct weft_event *event)
{
    struct side *side = arg;
    side->messages += event->kind == WEFT_EVENT_MESSAGE;
    side->filled += event->kind == WEFT_EVENT_FILLED;
    side->failed += event->kind == WEFT_EVENT_LINK_FAILED;
    side->put_done += event->kind == WEFT_EVENT_PUT_DONE;
}

static int side_poll(struct side *side)
{
    return side->ops.poll(side->transport, 16, note, side);
}

/* 0, or what went wrong. */
static int side_open(struct side *side, struct shared *shared, int me, const char *provider)
{
    memset(side, 0, sizeof *side);
    struct weft_transport_params params = {.size = sizeof params, .provider = provider};
    int status = weft_transport_complete(weft_transport_find("ofi"), &side->ops);
    if (!status)
        status = side->ops.open(&params, &side->transport);
    shared->sizes[me] = WEFT_ADDRESS_MAX;
    if (!status)
        status = side->ops.address(side->transport, shared->addresses[me], &shared->sizes[me]);
    if (status)
        return status;
    shared->ready[me] = 1;
    while (!shared->ready[!me])
        usleep(100);
    status =
        side->ops.connect(side->transport, shared->addresses[!me], shared->sizes[!me], side, &side->link);
    uint32_t flags;
    while (!status && (status = side->ops.link_flags(side->link, &flags)) == WEFT_AGAIN)
        status = side_poll(side) < 0;
    return status;
}

static void child_run(struct shared *shared, const char *provider, enum fate fate)
{
    struct side side;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (side_open(&side, shared, 1, provider))
        _exit(1);
    uint8_t *source = mmap(NULL, PUT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (source == MAP_FAILED)
        _exit(2);
    memset(source, 0xee, PUT_BYTES);
    while (!shared->token_given || side.messages == 0)
        side_poll(&side);
    int status;
    while ((status = side.ops.put(side.link, &shared->token, NULL, source, PUT_BYTES, 1)) == WEFT_AGAIN)
        side_poll(&side);
    if (status)
        _exit(3);
    shared->put_started = 1;
    if (fate == STOPS)
        raise(SIGSTOP);
    else if (fate == DIES)
        raise(SIGKILL);
    while (!shared->end)
        side_poll(&side);
    _exit(0);
}

static size_t arrived(const uint8_t *memory)
{
    size_t count = 0;
    for (size_t i = 0; i < PUT_BYTES; i += 512)
        count += memory[i] == 0xee;
    return count;
}

static void withdraw(const char *provider, enum fate fate)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        child_run(shared, provider, fate);
    struct side side;
    int status = side_open(&side, shared, 0, provider);
    if (status)
        fail_msg("%s: opening: %s", provider, weft_error_detail());
    uint8_t *memory = mmap(NULL, PUT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *before = malloc(PUT_BYTES);
    assert_true(memory != MAP_FAILED && before);
    assert_int_equal(side.ops.advertise(side.link, NULL, memory, PUT_BYTES, 1, &shared->token), 0);
    assert_int_equal(side.ops.send(side.link, "go", 3, NULL, 0), 0);
    shared->token_given = 1;
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    while (!arrived(memory) && weft_clock_ns() < deadline_ns)
        side_poll(&side);
    assert_true(arrived(memory) > 0);

    int64_t start_ns = weft_clock_ns();
    side.ops.withdraw(side.link, &shared->token);
    int64_t took_ms = (weft_clock_ns() - start_ns) / 1000000;
    memcpy(before, memory, PUT_BYTES);
    printf("%s: unland took %d ms, %zu of %zu blocks were there\n", provider, (int)took_ms, arrived(memory),
           PUT_BYTES / 512);
    if (fate == STOPS)
        kill(child, SIGCONT);
    for (int i = 0; i < 3000; i++) {
        side_poll(&side);
        if (i % 10 == 0)
            usleep(200);
    }
    assert_memory_equal(before, memory, PUT_BYTES);
    assert_int_equal(side.filled, 0);
    assert_int_equal(side.failed, fate != ANSWERS);
    shared->end = 1;
    if (fate != DIES)
        kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    side.ops.close(side.transport);
    munmap(memory, PUT_BYTES);
    munmap(shared, sizeof *shared);
    free(before);
}

static const char *const providers[] = {"net", "tcp;ofi_rxm"};

static void a_peer_that_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++)
        withdraw(providers[i], ANSWERS);
}

static void a_peer_that_stopped(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++)
        withdraw(providers[i], STOPS);
}

static void a_peer_that_died(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++)
        withdraw(providers[i], DIES);
}

int main(void)
{
    const char *reason = test_ofi_absent();
    if (reason) {
        printf("SKIP: %s\n", reason);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_answers),
        cmocka_unit_test(a_peer_that_stopped),
        cmocka_unit_test(a_peer_that_died),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
