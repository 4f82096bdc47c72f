/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement among the survivors: 2 to 17 ranks, of which up to three die before it or in the middle of it. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
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

enum { RANKS_MAX = 17, CALLS = 3 };

/* What happens to each rank of one run, and what each heard. */
struct run {
    pthread_barrier_t all;
    int victim[RANKS_MAX];   /* dies */
    int delay_us[RANKS_MAX]; /* after everybody has begun; before its call when `early` */
    int early[RANKS_MAX];
    uint64_t flags[RANKS_MAX];
    struct weft_boot_agreement heard[CALLS][RANKS_MAX];
    unsigned char dead[CALLS][RANKS_MAX][RANKS_MAX];
};

struct dying {
    struct party *party;
    int delay_us;
};

static void pause_us(int us)
{
    struct timespec pause = {.tv_nsec = us * 1000L};
    nanosleep(&pause, NULL);
}

static void *die_later(void *arg)
{
    struct dying *dying = arg;
    pause_us(dying->delay_us);
    party_die(dying->party);
    return NULL;
}

/* Calls in the middle of which the rank may go; what they answer matters to nobody. */
static int die(struct run *run, struct party *party, int rank)
{
    struct weft_boot_agreement out = {.dead = NULL};
    struct dying dying = {party, run->delay_us[rank]};
    pthread_t thread;
    if (run->early[rank]) {
        die_later(&dying);
        return 0;
    }
    CHECK(pthread_create(&thread, NULL, die_later, &dying) == 0);
    weft_bootstrap_agree(party->b, run->flags[rank], &rank, sizeof rank, weft_deadline_ns(100), &out);
    pthread_join(thread, NULL);
    return 0;
}

static int survive(struct run *run, struct party *party, int rank, int call)
{
    struct weft_boot_agreement *out = &run->heard[call][rank];
    out->dead = run->dead[call][rank];
    pause_us(run->delay_us[rank]);
    CHECK_OK(weft_bootstrap_agree(party->b, run->flags[rank], &rank, sizeof rank,
                                  weft_deadline_ns(PATIENCE_MS), out));
    return 0;
}

static int agree_body(int rank, int ranks, void *arg)
{
    struct run *run = arg;
    struct party party;
    int bad = 0;
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(&run->all);
    if (run->victim[rank])
        bad = die(run, &party, rank);
    else
        bad = survive(run, &party, rank, 0) || survive(run, &party, rank, 1);
    pthread_barrier_wait(&run->all);
    /* All who die are dead now, and the last agreement says exactly that. */
    if (!run->victim[rank] && !bad) {
        struct weft_boot_death deaths[RANKS_MAX];
        int count = -1, known = 0;
        bad = survive(run, &party, rank, 2);
        CHECK_OK(weft_bootstrap_deaths(party.b, deaths, RANKS_MAX, &count, weft_deadline_ns(PATIENCE_MS)));
        for (int i = 0; i < ranks; i++)
            known += run->victim[i];
        CHECK(count == known);
        for (int i = 0; i < count; i++)
            CHECK(run->victim[deaths[i].rank] && (i == 0 || deaths[i].rank > deaths[i - 1].rank));
    }
    pthread_barrier_wait(&run->all);
    party_close(&party);
    return bad;
}

/* One call's outcome: the same everywhere, and right. */
static int check_call(const struct run *run, int ranks, int call)
{
    const struct weft_boot_agreement *first = NULL;
    const unsigned char *dead = NULL;
    uint64_t flags = UINT64_MAX;
    int leader = -1, leader_payload = -1;
    for (int r = 0; r < ranks; r++) {
        if (run->victim[r])
            continue;
        const struct weft_boot_agreement *out = &run->heard[call][r];
        first = first ? first : out;
        dead = dead ? dead : run->dead[call][r];
        CHECK(out->flags == first->flags && out->leader == first->leader);
        CHECK_BITS(out->payload_size == sizeof(int) &&
                   memcmp(out->payload, first->payload, sizeof(int)) == 0);
        CHECK(memcmp(run->dead[call][r], dead, (size_t)ranks) == 0);
        CHECK(!dead[r]);
    }
    CHECK(first && dead);
    for (int r = 0; r < ranks; r++) {
        CHECK(!dead[r] || run->victim[r]);
        CHECK(call < 2 || dead[r] == run->victim[r]);
        if (dead[r])
            continue;
        flags &= run->flags[r];
        leader = leader < 0 ? r : leader;
    }
    memcpy(&leader_payload, first->payload, sizeof leader_payload);
    CHECK(first->flags == flags && first->leader == leader && leader_payload == leader);
    return 0;
}

static int run_once(struct run *run, int ranks)
{
    for (int r = 0; r < ranks; r++)
        run->flags[r] = UINT64_MAX ^ UINT64_C(1) << r;
    pthread_barrier_init(&run->all, NULL, (unsigned)ranks);
    int bad = party_run_threads(ranks, agree_body, run);
    pthread_barrier_destroy(&run->all);
    for (int call = 0; call < CALLS && !bad; call++)
        bad = check_call(run, ranks, call);
    return bad;
}

/* Draws who dies and when. Half of the runs kill the coordinator. */
static void draw(struct run *run, int ranks, int deaths)
{
    memset(run, 0, sizeof *run);
    for (int r = 0; r < ranks; r++)
        run->delay_us[r] = rand() % 4 ? 0 : rand() % 2000;
    for (int i = 0; i < deaths; i++) {
        int victim = i == 0 && rand() % 2 ? 0 : rand() % ranks;
        run->victim[victim] = 1;
        run->early[victim] = rand() % 3 == 0;
        run->delay_us[victim] = rand() % 3000;
    }
}

static void test_random_deaths(void **state)
{
    (void)state;
    const char *given = getenv("WEFT_TEST_SEED"), *rounds = getenv("WEFT_TEST_ROUNDS");
    unsigned seed = given ? (unsigned)atoi(given) : 1;
    static struct run run;
    print_message("seed %u (WEFT_TEST_SEED, WEFT_TEST_ROUNDS)\n", seed);
    srand(seed);
    for (int round = 0; round < (rounds ? atoi(rounds) : 2); round++) {
        for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
            int deaths = rand() % 4;
            draw(&run, ranks, deaths < ranks ? deaths : ranks - 1);
            int bad = run_once(&run, ranks);
            if (bad) {
                for (int r = 0; r < ranks; r++)
                    print_message("rank %d: victim %d early %d after %d us\n", r, run.victim[r], run.early[r],
                                  run.delay_us[r]);
                fail_msg("%d ranks, round %d of seed %u", ranks, round, seed);
            }
        }
    }
}

/* Nobody dies; one rank never comes. */
static int late_body(int rank, int ranks, void *arg)
{
    pthread_barrier_t *done = arg;
    struct party party;
    struct weft_boot_agreement out = {.dead = NULL};
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(done); /* the others are here by then */
    if (rank != 4) {
        CHECK(weft_bootstrap_agree(party.b, 1, NULL, 0, weft_deadline_ns(2000), &out) == WEFT_TIMEOUT);
        CHECK(party_detail_has("agreement: deadline passed, rank 4 of 9 did not come"));
    }
    pthread_barrier_wait(done);
    /* It comes now: the first call is met by its first, and the next by the next. */
    if (rank == 4)
        CHECK_OK(weft_bootstrap_agree(party.b, 1, NULL, 0, weft_deadline_ns(PATIENCE_MS), &out));
    CHECK_OK(weft_bootstrap_agree(party.b, (uint64_t)rank + 8, &rank, sizeof rank,
                                  weft_deadline_ns(PATIENCE_MS), &out));
    CHECK(out.flags == 0 || out.flags == 8);
    CHECK(out.leader == 0 && out.payload_size == sizeof rank);
    pthread_barrier_wait(done);
    party_close(&party);
    return 0;
}

static void test_late_rank(void **state)
{
    (void)state;
    pthread_barrier_t done;
    pthread_barrier_init(&done, NULL, 9);
    assert_int_equal(party_run_threads(9, late_body, &done), 0);
    pthread_barrier_destroy(&done);
}

/* A rank that has left takes no part and is waited for by nobody, also when it was to coordinate; and agreement works
 * where a gather cannot any more. */
static int left_body(int rank, int ranks, void *arg)
{
    pthread_barrier_t *done = arg;
    struct party party;
    unsigned char dead[12];
    struct weft_boot_agreement out = {.dead = dead};
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(done);
    if (rank == 11)
        weft_bootstrap_revoke(party.b, "tired");
    if (rank == 0 || rank == 6) {
        party_close(&party);
        return 0;
    }
    CHECK(party_wait_failed(&party, rank != 11));
    CHECK_OK(weft_bootstrap_agree(party.b, (uint64_t)rank | 64, &rank, sizeof rank,
                                  weft_deadline_ns(PATIENCE_MS), &out));
    CHECK(out.flags == 64 && out.leader == 1 && out.payload[0] == 1);
    for (int r = 0; r < ranks; r++)
        CHECK(dead[r] == (r == 0 || r == 6));
    party_close(&party);
    return 0;
}

static void test_ranks_that_left(void **state)
{
    (void)state;
    pthread_barrier_t done;
    pthread_barrier_init(&done, NULL, 12);
    assert_int_equal(party_run_threads(12, left_body, &done), 0);
    pthread_barrier_destroy(&done);
}

/* A rank that has no memory for its part is dead to the others, and says itself why it is out. */
static int dropped_body(int rank, int ranks, void *arg)
{
    pthread_barrier_t *done = arg;
    struct party party;
    unsigned char dead[9];
    struct weft_boot_agreement out = {.dead = dead};
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(done);
    if (rank == 0) {
        pthread_mutex_lock(&party.b->lock);
        weft_boot_drop_out(party.b, "to answer");
        pthread_mutex_unlock(&party.b->lock);
    }
    int status = weft_bootstrap_agree(party.b, 1, &rank, sizeof rank, weft_deadline_ns(PATIENCE_MS), &out);
    if (rank == 0) {
        CHECK(status == WEFT_NOMEM && party_detail_has("this rank (0) on host"));
        CHECK(party_detail_has("has no memory to answer"));
    } else {
        CHECK_OK(status);
        CHECK(out.leader == 1);
        for (int r = 0; r < ranks; r++)
            CHECK(dead[r] == (r == 0));
    }
    pthread_barrier_wait(done);
    party_close(&party);
    return 0;
}

static void test_dropped_out(void **state)
{
    (void)state;
    pthread_barrier_t done;
    pthread_barrier_init(&done, NULL, 9);
    assert_int_equal(party_run_threads(9, dropped_body, &done), 0);
    pthread_barrier_destroy(&done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_rank),
        cmocka_unit_test(test_ranks_that_left),
        cmocka_unit_test(test_dropped_out),
        cmocka_unit_test(test_random_deaths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
