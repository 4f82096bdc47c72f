/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/boot_party.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "comm/boot/boot.h"
#include "tests/support/heartbeat.h"
#include "tests/support/leak.h"

static struct party_extra extra;

void party_extra(const struct party_extra *chosen)
{
    extra = *chosen;
}

void party_die(struct party *party)
{
    struct weft_bootstrap *b = party->b;
    pthread_mutex_lock(&b->lock);
    b->closing = 1; /* it sees nothing of its own end */
    for (int i = 0; i < b->edge_count; i++) {
        if (b->edges[i].link.fd >= 0)
            shutdown(b->edges[i].link.fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&b->lock);
}

static void on_failed(void *arg)
{
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

int party_open(struct party *party, int rank, int ranks, const char *name, int64_t timeout_ms)
{
    *party = (struct party){0};
    CHECK_OK(weft_service_start("weft-test", &party->service));
    struct weft_bootstrap_options options = {
        .rank = rank,
        .ranks = ranks,
        .name = name,
        .secret = TEST_SECRET,
        .secret_size = TEST_SECRET_BYTES,
        .listen_fd = -1,
        .address = extra.address ? extra.address : test_ranks_address(),
        .deadline_ns = weft_deadline_ns(timeout_ms),
        .service = party->service,
        .failed = on_failed,
        .failed_arg = &party->calls,
        .heartbeat_ms = extra.heartbeat_ms ? extra.heartbeat_ms : TEST_HEARTBEAT_MS,
        .received = extra.received,
        .received_arg = extra.received ? extra.received_args[rank] : NULL,
        .cancelled = extra.cancelled,
        .cancelled_arg = extra.cancelled_arg};
    if (rank == 0 && !extra.address)
        options.listen_fd = dup(test_ranks_listen_fd());
    int status = weft_bootstrap_open(&options, &party->b);
    if (options.listen_fd >= 0)
        close(options.listen_fd);
    return status;
}

void party_close(struct party *party)
{
    weft_bootstrap_close(party->b);
    weft_service_stop(party->service);
}

int party_detail_has(const char *part)
{
    if (strstr(weft_error_detail(), part))
        return 1;
    fprintf(stderr, "detail is '%s', expected '%s' in it\n", weft_error_detail(), part);
    return 0;
}

static int nothing(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks, (void)arg;
    return 0;
}

int party_run_threads(int ranks, test_rank_function *function, void *arg)
{
    struct test_leak before;
    test_ranks_threads(1, nothing, NULL); /* a sanitizer's own thread starts with the first */
    test_leak_take(&before);
    int bad = test_ranks_threads(ranks, function, arg);
    return bad + test_leak_check(&before);
}

int party_wait_failed(struct party *party, int calls)
{
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    while (
        (!weft_bootstrap_has_failed(party->b) || __atomic_load_n(&party->calls, __ATOMIC_SEQ_CST) < calls) &&
        weft_clock_ns() < until_ns)
        usleep(500);
    return weft_bootstrap_has_failed(party->b) && __atomic_load_n(&party->calls, __ATOMIC_SEQ_CST) == calls;
}
