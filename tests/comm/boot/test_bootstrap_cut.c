/* SPDX-License-Identifier: Apache-2.0 */
/* An overlay in pieces: of parts that cannot reach each other at most one goes on, the others say what they are. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "comm/boot/consensus/wave.h"
#include "tests/support/boot_party.h"

enum { RANKS_MAX = 17 };

struct run {
    pthread_barrier_t all;
    unsigned gone, leave; /* bit per rank: does not survive; and says goodbye */
    int status[RANKS_MAX], listed[RANKS_MAX];
    char text[RANKS_MAX][512];
    uint64_t flags[RANKS_MAX];
    unsigned char dead[RANKS_MAX][RANKS_MAX];
};

static int cut_body(int rank, int ranks, void *arg)
{
    struct run *run = arg;
    struct party party;
    int gone = run->gone >> rank & 1, leaves = run->leave >> rank & 1;
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(&run->all);
    if (gone && leaves)
        party_close(&party);
    else if (gone)
        party_die(&party);
    pthread_barrier_wait(&run->all);
    if (!gone) {
        struct weft_boot_agreement out = {.dead = run->dead[rank]};
        int count = -1;
        run->status[rank] = weft_bootstrap_agree(party.b, UINT64_MAX ^ UINT64_C(1) << rank, NULL, 0,
                                                 weft_deadline_ns(PATIENCE_MS), &out);
        run->flags[rank] = out.flags;
        if (run->status[rank] != WEFT_OK)
            snprintf(run->text[rank], sizeof run->text[rank], "%s", weft_error_detail());
        run->listed[rank] = weft_bootstrap_deaths(party.b, NULL, 0, &count, weft_deadline_ns(PATIENCE_MS));
    }
    pthread_barrier_wait(&run->all);
    if (!(gone && leaves))
        party_close(&party);
    return 0;
}

static int run_once(struct run *run, int ranks, unsigned gone, unsigned leave)
{
    *run = (struct run){.gone = gone, .leave = leave};
    pthread_barrier_init(&run->all, NULL, (unsigned)ranks);
    int bad = party_run_threads(ranks, cut_body, run);
    pthread_barrier_destroy(&run->all);
    return bad;
}

/* Everybody that a survivor can reach through survivors. */
static unsigned part_of(int rank, int ranks, unsigned gone)
{
    unsigned part = 1u << rank, before = 0;
    while (part != before) {
        before = part;
        for (int r = 0; r < ranks; r++) {
            int list[WEFT_BOOT_DEGREE_MAX], tree;
            int count = part >> r & 1 ? weft_boot_neighbours(r, ranks, list, &tree) : 0;
            for (int i = 0; i < count; i++)
                part |= 1u << list[i] & ~gone;
        }
    }
    return part;
}

/* The survivors hang together, and each of the others has a neighbour among them that knows it gone. */
static int must_go_on(int ranks, unsigned gone)
{
    unsigned all = (1u << ranks) - 1, known = 0;
    for (int r = 0; r < ranks; r++) {
        int list[WEFT_BOOT_DEGREE_MAX], tree;
        int count = gone >> r & 1 ? 0 : weft_boot_neighbours(r, ranks, list, &tree);
        for (int i = 0; i < count; i++)
            known |= 1u << list[i];
        if (!(gone >> r & 1) && part_of(r, ranks, gone) != (all & ~gone))
            return 0;
    }
    return (known & gone) == gone;
}

/* Those who succeed are one part, whole, and heard the same; the others heard that they are cut off. Returns the
 * part, 0 when there is none, or fails. */
static unsigned check(const struct run *run, int ranks)
{
    unsigned winners = 0;
    uint64_t flags = UINT64_MAX;
    int first = -1;
    for (int r = 0; r < ranks; r++) {
        if (run->gone >> r & 1)
            continue;
        if (run->status[r] == WEFT_OK) {
            winners |= 1u << r;
            flags &= UINT64_MAX ^ UINT64_C(1) << r;
            first = first < 0 ? r : first;
            assert_int_equal(run->listed[r], WEFT_OK);
        } else {
            assert_int_equal(run->status[r], WEFT_PEER_FAILED);
            assert_non_null(strstr(run->text[r], "is cut off from rank"));
            assert_int_equal(run->listed[r], WEFT_PEER_FAILED);
        }
    }
    assert_true(winners || !must_go_on(ranks, run->gone));
    if (!winners)
        return 0;
    assert_int_equal(winners, part_of(first, ranks, run->gone));
    for (int r = 0; r < ranks; r++) {
        if (!(winners >> r & 1))
            continue;
        assert_true(run->flags[r] == flags);
        for (int q = 0; q < ranks; q++)
            assert_int_equal(run->dead[r][q], !(winners >> q & 1));
    }
    return winners;
}

/* 12 ranks on three hosts in turn, of which two fail: four survivors in three parts. */
static void test_hosts_in_turn(void **state)
{
    (void)state;
    static struct run run;
    unsigned gone = 0;
    for (int r = 0; r < 12; r++)
        gone |= (unsigned)(r % 3 != 0) << r;
    assert_int_equal(run_once(&run, 12, gone, 0), 0);
    assert_int_equal(check(&run, 12), 1u << 0 | 1u << 3);
    assert_non_null(strstr(run.text[6], "this rank (6) is cut off from ranks 0, 3, 9"));
    assert_non_null(strstr(run.text[6], "can be reached"));
}

/* The lowest survivor is alone, and the others are more. */
static void test_lowest_alone(void **state)
{
    (void)state;
    static struct run run;
    unsigned gone = 1u << 0 | 1u << 1 | 1u << 3 | 1u << 4 | 1u << 6;
    for (int leave = 0; leave < 2; leave++) {
        assert_int_equal(run_once(&run, 8, gone, leave ? gone : 0), 0);
        assert_int_equal(check(&run, 8), 1u << 5 | 1u << 7);
        assert_non_null(strstr(run.text[2], "this rank (2) is cut off from ranks 5, 7: 1 of 3 survivors"));
    }
}

static void test_any_deaths(void **state)
{
    (void)state;
    const char *given = getenv("WEFT_TEST_SEED"), *rounds = getenv("WEFT_TEST_ROUNDS");
    unsigned seed = given                 ? (unsigned)atoi(given)
                    : getenv("WEFT_LONG") ? (unsigned)time(NULL) ^ (unsigned)getpid() << 8
                                          : 1;
    static struct run run;
    print_message("seed %u (WEFT_TEST_SEED, WEFT_TEST_ROUNDS)\n", seed);
    srand(seed);
    for (int round = 0; round < (rounds ? atoi(rounds) : 10); round++) {
        int ranks = 4 + rand() % (RANKS_MAX - 3), last = rand() % ranks;
        unsigned gone = 0;
        for (int r = 0; r < ranks; r++)
            gone |= (unsigned)(rand() % 4 != 0 && r != last) << r;
        print_message("%d ranks, gone 0x%x\n", ranks, gone);
        assert_int_equal(run_once(&run, ranks, gone, 0), 0);
        check(&run, ranks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts_in_turn),
        cmocka_unit_test(test_lowest_alone),
        cmocka_unit_test(test_any_deaths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
