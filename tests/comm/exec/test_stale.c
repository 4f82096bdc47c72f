/* SPDX-License-Identifier: Apache-2.0 */
/* Messages for a communicator that has been freed reach nobody: neither the one that was made afterwards nor any other.
 * Rank 0 forges messages of every kind for the freed one, over a link that lives on, as a late peer would. Afterwards
 * it forges one for a communicator that lives: that it is noticed shows that the others would have been.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "comm/core/comm.h"
#include "comm/drive/progress.h"
#include "comm/exec/wire.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

#define COUNT 600 /* float64: a small message, eager */

struct way {
    const char *transports;
};

static int reduces(weft_comm *comm, int rank, int ranks)
{
    double send[COUNT], recv[COUNT];
    job_fill(send, WEFT_FLOAT64, rank, COUNT);
    memset(recv, 0xff, sizeof recv);
    CHECK_OK(weft_allreduce(comm, send, recv, COUNT, WEFT_FLOAT64, WEFT_SUM, NULL));
    CHECK_BITS(job_wrong(recv, WEFT_FLOAT64, WEFT_SUM, ranks, COUNT) == 0);
    return 0;
}

/* Sends what a peer in comm would, but names another communicator. */
static int forge(weft_comm *comm, uint32_t id, uint32_t kind, uint32_t flags, uint32_t op)
{
    uint8_t payload[256];
    memset(payload, 0xee, sizeof payload);
    struct weft_wire_header header = {.comm = id,
                                      .op = op,
                                      .source = 0,
                                      .digest = 0x12345678,
                                      .size = sizeof payload,
                                      .kind = (uint8_t)kind,
                                      .version = WEFT_WIRE_VERSION,
                                      .flags = (uint16_t)flags,
                                      .count = COUNT};
    struct weft_exec_peer *peer;
    weft_context_lock(comm->context);
    int status = weft_exec_connect(comm->exec, 1, &peer);
    while (status == WEFT_OK) {
        status = peer->ops->send(peer->link, &header, sizeof header, payload, sizeof payload);
        if (status != WEFT_AGAIN)
            break;
        weft_progress_once(comm->context);
        status = WEFT_OK;
    }
    weft_context_unlock(comm->context);
    return status;
}

static int forge_all(weft_comm *comm, uint32_t id)
{
    for (uint32_t kind = 0; kind <= 16; kind++) {
        for (uint32_t op = 0; op < 4; op++) {
            CHECK_OK(forge(comm, id, kind, 0, op));
            CHECK_OK(forge(comm, id, kind, WEFT_WIRE_TRANSFER, op));
        }
    }
    return 0;
}

static int stale_body(int rank, int ranks, void *arg)
{
    const struct way *way = arg;
    struct job job;
    weft_comm *freed, *fresh;
    setenv("WEFT_FAST_PATH", "0", 1); /* messages are what matters here */
    setenv("WEFT_CONNECT", "eager", 1);
    CHECK_OK(job_open(&job, way->transports, NULL));
    for (int round = 0; round < 5; round++) {
        CHECK_OK(weft_comm_split(job.comm, 0, 0, &freed, NULL));
        CHECK(reduces(freed, rank, ranks) == 0);
        uint32_t id = freed->driven.id;
        CHECK_OK(weft_comm_destroy(freed));
        if (round % 2) /* before there is another, and after */
            CHECK(rank != 0 || forge_all(job.comm, id) == 0);
        CHECK_OK(weft_comm_split(job.comm, 0, 0, &fresh, NULL));
        CHECK(fresh->driven.id != id && fresh->driven.id != job.comm->driven.id);
        CHECK(rank != 0 || forge_all(job.comm, id) == 0);
        CHECK(rank != 0 || forge_all(job.comm, ~id) == 0); /* one that has never been */
        for (int i = 0; i < 6; i++)
            CHECK(reduces(fresh, rank, ranks) == 0 && reduces(job.comm, rank, ranks) == 0);
        CHECK_OK(weft_comm_destroy(fresh));
    }
    /* The same for one that lives is seen. */
    CHECK_OK(weft_comm_split(job.comm, 0, 0, &fresh, NULL));
    CHECK(rank != 0 || forge(job.comm, fresh->driven.id, WEFT_WIRE_EAGER, 0, 0) == WEFT_OK);
    CHECK(reduces(job.comm, rank, ranks) == 0); /* it has arrived: links keep the order */
    /* Rank 1 ends no collective well any more. The others may have all that they wait for. */
    int32_t one = 1, sum;
    int status = weft_allreduce(fresh, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL);
    CHECK(status == WEFT_MISMATCH || (rank != 1 && (status == WEFT_OK || status == WEFT_REVOKED)));
    weft_context_lock(job.context);
    int suspects = fresh->stall.suspect_ns != 0;
    weft_context_unlock(job.context);
    CHECK(suspects == (rank == 1));
    CHECK(reduces(job.comm, rank, ranks) == 0);
    int ended = weft_comm_destroy(fresh); /* where the suspicion has not ended it first */
    CHECK(ended == WEFT_OK || ended == WEFT_MISMATCH || ended == WEFT_REVOKED);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_shm(void **state)
{
    (void)state;
    struct way way = {"shm"};
    assert_int_equal(test_ranks_fork(2, stale_body, &way), 0);
    assert_int_equal(test_ranks_fork(3, stale_body, &way), 0);
}

static void test_tcp(void **state)
{
    (void)state;
    struct way way = {"tcp"};
    assert_int_equal(test_ranks_fork(2, stale_body, &way), 0);
}

/* One rank leaves a failed communicator, and its slots of the cache-line path go into another one, while the others still
 * look at them for the failed one's sake. */
static int slots_body(int rank, int ranks, void *arg)
{
    (void)arg;
    struct job job;
    weft_comm *failing, *after[4];
    int32_t one = 1, sum;
    CHECK_OK(job_open(&job, "shm", NULL));
    for (int round = 0; round < 40; round++) {
        CHECK_OK(weft_comm_split(job.comm, 0, 0, &failing, NULL));
        CHECK_OK(weft_allreduce(failing, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
        CHECK_OK(weft_allreduce(job.comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL)); /* all have had that */
        if (rank == round % ranks) {
            CHECK_OK(weft_comm_abort(failing, "on purpose"));
        } else { /* waits for a contribution that never comes */
            int status = weft_allreduce(failing, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL);
            CHECK(status == WEFT_REVOKED || status == WEFT_PEER_FAILED);
        }
        CHECK_OK(weft_comm_destroy(failing));
        for (int i = 0; i < 4; i++) {
            CHECK_OK(weft_comm_split(job.comm, 0, 0, &after[i], NULL));
            sum = 0;
            CHECK_OK(weft_allreduce(after[i], &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
            CHECK_BITS(sum == ranks);
        }
        for (int i = 0; i < 4; i++)
            CHECK_OK(weft_comm_destroy(after[i]));
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_slots(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, slots_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shm), cmocka_unit_test(test_tcp),
                                       cmocka_unit_test(test_slots)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
