/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (deadlines) */
/* A meeting that is cancelled ends, wherever each rank waits in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>
#include "tests/support/boot_party.h"

static struct {
    _Atomic int halted, ended;
    int halts_at; /* the call of the last rank at which it stands still */
} scene;

static _Thread_local int this_rank, calls;

/* By rank 1, at its fifth question. */
static int after_a_while(void *arg)
{
    (void)arg;
    return this_rank == 1 && ++calls >= 5;
}

static int cancel_body(int rank, int ranks, void *arg)
{
    struct party party;
    int root_answers = arg != NULL;
    this_rank = rank;
    calls = 0;
    if (rank == 2)
        return 0; /* whom the others wait for */
    if (rank == 0 && !root_answers) {
        while (!scene.ended) /* its socket takes connections, and nobody answers */
            usleep(1000);
        return 0;
    }
    int status = party_open(&party, rank, ranks, "", PATIENCE_MS);
    scene.ended++;
    party_close(&party);
    CHECK(rank == 0 ? status == WEFT_PEER_FAILED : status == WEFT_CANCELLED);
    return 0;
}

static void test_joiner_is_cancelled(void **state)
{
    (void)state;
    for (int root_answers = 0; root_answers < 2; root_answers++) {
        scene.ended = 0;
        party_extra(&(struct party_extra){.cancelled = after_a_while});
        assert_int_equal(party_run_threads(3, cancel_body, root_answers ? &scene : NULL), 0);
        party_extra(&(struct party_extra){.address = NULL});
    }
}

/* The last rank stands still at some question; the others learn that then. */
static int when_last_halts(void *arg)
{
    int ranks = *(const int *)arg;
    if (this_rank != ranks - 1)
        return scene.halted;
    if (++calls == scene.halts_at) {
        scene.halted = 1;
        while (scene.ended < ranks - 1)
            usleep(1000);
    }
    return scene.halted;
}

static int halting_body(int rank, int ranks, void *arg)
{
    struct party party;
    (void)arg;
    this_rank = rank;
    calls = 0;
    int status = party_open(&party, rank, ranks, "", PATIENCE_MS);
    party_close(&party);
    int halted = scene.halted;
    scene.ended++;
    if (!halted) /* it was asked less often */
        return status != WEFT_OK;
    CHECK(rank == ranks - 1 || status == WEFT_OK || status == WEFT_CANCELLED || status == WEFT_PEER_FAILED ||
          status == WEFT_REVOKED);
    return 0;
}

static void test_one_stands_still(void **state)
{
    (void)state;
    int ranks = 4;
    for (int halts_at = 2; halts_at <= 6; halts_at += 2) {
        scene.halted = scene.ended = 0;
        scene.halts_at = halts_at;
        party_extra(&(struct party_extra){.cancelled = when_last_halts, .cancelled_arg = &ranks});
        assert_int_equal(party_run_threads(ranks, halting_body, NULL), 0);
        party_extra(&(struct party_extra){.address = NULL});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joiner_is_cancelled),
        cmocka_unit_test(test_one_stands_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
