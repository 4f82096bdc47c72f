/* SPDX-License-Identifier: Apache-2.0 */
/* Out-of-band messages between any two ranks over the overlay: all arrive once and in order while all live, and are lost without harm
 * when somebody on the way dies, does not read, or lies. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "base/error.h"
#include "comm/boot/boot.h"
#include "tests/support/boot_party.h"

#define RANKS    23 /* three levels of the tree */
#define MESSAGES 3  /* to each */

struct mailbox {
    int next[RANKS]; /* atomic: number of the message that comes next from each */
    int wrong;       /* atomic */
    int arrived;     /* atomic */
    sem_t *held;     /* NULL, or what the callback waits for once */
};

struct post {
    pthread_barrier_t all;
    sem_t held;
    struct mailbox boxes[RANKS];
    void *args[RANKS];
};

/* Between 0 and the most, all of both. */
static size_t message_size(int from, int to, int number)
{
    return from == to ? 8 : (size_t)(from * 37 + to * 101 + number * 512) % 1017 + 8;
}

static void fill(unsigned char *message, int from, int to, int number)
{
    size_t size = message_size(from, to, number);
    for (size_t i = 0; i < size; i++)
        message[i] = (unsigned char)(from * 7 + to * 5 + (int)i * 3);
    memcpy(message, &(int[2]){number, to}, 8);
}

static void on_oob(void *arg, int rank, enum weft_oob_channel channel, const void *message, size_t size)
{
    struct mailbox *box = arg;
    unsigned char expected[WEFT_BOOTSTRAP_OOB_MAX];
    int head[2];
    if (box->held)
        sem_wait(box->held);
    box->held = NULL;
    if (channel != WEFT_OOB_TRANSPORT || size < sizeof head) {
        __atomic_add_fetch(&box->wrong, size != 0, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&box->arrived, 1, __ATOMIC_SEQ_CST);
        return;
    }
    memcpy(head, message, sizeof head);
    int number = __atomic_fetch_add(&box->next[rank], 1, __ATOMIC_SEQ_CST);
    fill(expected, rank, head[1], number);
    if (head[0] != number || size != message_size(rank, head[1], number) ||
        memcmp(expected, message, size) != 0)
        __atomic_add_fetch(&box->wrong, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&box->arrived, 1, __ATOMIC_SEQ_CST); /* judged by now */
}

static struct post *post_open(int ranks)
{
    struct post *post = calloc(1, sizeof *post);
    assert_non_null(post);
    pthread_barrier_init(&post->all, NULL, (unsigned)ranks);
    for (int r = 0; r < RANKS; r++)
        post->args[r] = &post->boxes[r];
    struct party_extra extra = {.received = on_oob, .received_args = post->args};
    party_extra(&extra);
    return post;
}

static void post_close(struct post *post)
{
    struct party_extra none = {0};
    party_extra(&none);
    pthread_barrier_destroy(&post->all);
    free(post);
}

static int wait_arrived(struct mailbox *box, int wanted)
{
    int64_t until_ns = weft_deadline_ns(PATIENCE_MS);
    while (__atomic_load_n(&box->arrived, __ATOMIC_SEQ_CST) < wanted && weft_clock_ns() < until_ns)
        usleep(500);
    return __atomic_load_n(&box->arrived, __ATOMIC_SEQ_CST) == wanted;
}

/* The first messages may find others still opening. */
static int everybody_body(int rank, int ranks, void *arg)
{
    struct post *post = arg;
    struct party party;
    unsigned char message[WEFT_BOOTSTRAP_OOB_MAX + 1] = {0};
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    for (int number = 0; number < MESSAGES; number++) {
        for (int i = 0; i < ranks; i++) {
            int to = (rank + i) % ranks;
            fill(message, rank, to, number);
            CHECK_OK(weft_bootstrap_send_oob(party.b, to, WEFT_OOB_TRANSPORT, message,
                                             message_size(rank, to, number)));
        }
    }
    CHECK(wait_arrived(&post->boxes[rank], MESSAGES * ranks));
    pthread_barrier_wait(&post->all);
    CHECK_OK(weft_bootstrap_send_oob(party.b, ranks - 1 - rank, WEFT_OOB_TRANSPORT, NULL, 0));
    CHECK(wait_arrived(&post->boxes[rank], MESSAGES * ranks + 1));
    CHECK_BITS(__atomic_load_n(&post->boxes[rank].wrong, __ATOMIC_SEQ_CST) == 0);
    CHECK(weft_bootstrap_send_oob(party.b, ranks, WEFT_OOB_TRANSPORT, message, 1) == WEFT_INVALID);
    CHECK(weft_bootstrap_send_oob(party.b, -1, WEFT_OOB_TRANSPORT, message, 1) == WEFT_INVALID);
    CHECK(weft_bootstrap_send_oob(party.b, 0, WEFT_OOB_TRANSPORT, message, sizeof message) == WEFT_INVALID);
    CHECK(party_detail_has("out-of-band message of 1025 bytes to rank 0: expected at most 1024 bytes"));
    CHECK(weft_bootstrap_failure(party.b, NULL, 0) == WEFT_OK);
    pthread_barrier_wait(&post->all);
    party_close(&party);
    return 0;
}

static void test_everybody_sends_to_everybody(void **state)
{
    (void)state;
    static const int sizes[] = {2, 5, RANKS};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct post *post = post_open(sizes[s]);
        assert_int_equal(party_run_threads(sizes[s], everybody_body, post), 0);
        post_close(post);
    }
}

/* Rank 1 dies: 5 to 8, below it, are out of reach of the rest, whose messages go on. Nobody hangs. */
static int death_body(int rank, int ranks, void *arg)
{
    struct post *post = arg;
    struct party party;
    char message[64] = {0};
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(&post->all);
    if (rank == 1)
        party_die(&party);
    else
        CHECK(party_wait_failed(&party, 1));
    pthread_barrier_wait(&post->all);
    if (rank == 0 || rank == 22)
        CHECK(weft_bootstrap_send_oob(party.b, 1, WEFT_OOB_TRANSPORT, message, 4) == WEFT_PEER_FAILED);
    if (rank == 0)
        CHECK(party_detail_has("rank 1 on host '") && party_detail_has("' died"));
    if (rank == 5)
        CHECK(weft_bootstrap_send_oob(party.b, 0, WEFT_OOB_TRANSPORT, message, 4) == WEFT_AGAIN);
    if (rank == 0)
        CHECK(weft_bootstrap_send_oob(party.b, 6, WEFT_OOB_TRANSPORT, message, 4) == WEFT_AGAIN);
    if (rank == 21) /* under 5, which has no way on */
        CHECK_OK(weft_bootstrap_send_oob(party.b, 2, WEFT_OOB_TRANSPORT, message, 4));
    if (rank == 20) { /* by way of 4, 0 and 2; behind the lost one where they meet */
        CHECK_OK(weft_bootstrap_send_oob(party.b, 10, WEFT_OOB_TRANSPORT, message, 0));
        CHECK_OK(weft_bootstrap_send_oob(party.b, 5, WEFT_OOB_TRANSPORT, message, 0));
    }
    if (rank == 10)
        CHECK(wait_arrived(&post->boxes[rank], 1));
    pthread_barrier_wait(&post->all);
    CHECK(__atomic_load_n(&post->boxes[rank].arrived, __ATOMIC_SEQ_CST) == (rank == 10));
    party_close(&party);
    return 0;
}

static void test_death_on_the_way(void **state)
{
    (void)state;
    struct post *post = post_open(RANKS);
    assert_int_equal(party_run_threads(RANKS, death_body, post), 0);
    post_close(post);
}

/* Rank 1's caller does not come along: what comes for it waits, then its neighbour has to try again. */
static int stuck_body(int rank, int ranks, void *arg)
{
    struct post *post = arg;
    struct party party;
    char message[WEFT_BOOTSTRAP_OOB_MAX] = {0};
    int status = WEFT_OK, sent = 0;
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(&post->all);
    while (rank == 0 && status == WEFT_OK && sent < 200000) {
        status = weft_bootstrap_send_oob(party.b, 1, WEFT_OOB_TRANSPORT, message, 0);
        sent += status == WEFT_OK;
        message[0]++;
    }
    if (rank == 0) {
        CHECK(status == WEFT_AGAIN);
        sem_post(&post->held);
        CHECK(wait_arrived(&post->boxes[1], sent));
        CHECK_OK(weft_bootstrap_send_oob(party.b, 1, WEFT_OOB_TRANSPORT, message, 0));
        CHECK(wait_arrived(&post->boxes[1], sent + 1));
    }
    pthread_barrier_wait(&post->all);
    CHECK(weft_bootstrap_failure(party.b, NULL, 0) == WEFT_OK);
    party_close(&party);
    return 0;
}

static void test_too_many_messages_must_wait(void **state)
{
    (void)state;
    struct post *post = post_open(2);
    struct party_extra extra = {.received = on_oob, .received_args = post->args};
    party_extra(&extra);
    sem_init(&post->held, 0, 0);
    post->boxes[1].held = &post->held;
    assert_int_equal(party_run_threads(2, stuck_body, post), 0);
    sem_destroy(&post->held);
    post_close(post);
}

/* A rank that writes in another's name, or sends a message where it cannot have come from, is out. */
struct lie {
    struct post *post;
    int to, from;
    const char *reason;
};

static int lie_body(int rank, int ranks, void *arg)
{
    const struct lie *lie = arg;
    struct party party;
    char text[512];
    CHECK_OK(party_open(&party, rank, ranks, "", PATIENCE_MS));
    pthread_barrier_wait(&lie->post->all);
    if (rank == 5) {
        struct weft_boot_writer writer = {0};
        const struct weft_boot_oob_body body = {
            .to = lie->to, .from = lie->from, .channel = WEFT_OOB_TRANSPORT};
        weft_boot_oob_put(&writer, &body);
        pthread_mutex_lock(&party.b->lock);
        party.b->closing = 1; /* it does not blame rank 1 for closing the edge */
        weft_boot_edge_queue_writer(&party.b->edges[0], WEFT_BOOT_OOB, &writer);
        pthread_mutex_unlock(&party.b->lock);
    }
    if (rank != 5) {
        CHECK(party_wait_failed(&party, 1));
        CHECK(weft_bootstrap_failure(party.b, text, sizeof text) == WEFT_PEER_FAILED);
    }
    if (rank != 5 && !(strstr(text, "rank 5 on host '") && strstr(text, lie->reason))) {
        fprintf(stderr, "'%s': expected '%s'\n", text, lie->reason);
        return 1;
    }
    pthread_barrier_wait(&lie->post->all);
    CHECK(__atomic_load_n(&lie->post->boxes[rank].arrived, __ATOMIC_SEQ_CST) == 0);
    party_close(&party);
    return 0;
}

static void test_lies_end_the_edge(void **state)
{
    (void)state;
    struct lie lies[] = {
        {.to = 2, .from = 0, .reason = "out-of-band message of rank 0 to rank 2 by way of rank 5"},
        {.to = 0, .from = 6, .reason = "out-of-band message of rank 6 to rank 0 by way of rank 5"},
        {.to = 21, .from = 5, .reason = "out-of-band message of rank 5 to rank 21 by way of rank 5"},
        {.to = 23, .from = 5, .reason = "malformed out-of-band message"},
        {.to = 5, .from = 5, .reason = "malformed out-of-band message"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        lies[i].post = post_open(RANKS);
        assert_int_equal(party_run_threads(RANKS, lie_body, &lies[i]), 0);
        post_close(lies[i].post);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_sends_to_everybody),
        cmocka_unit_test(test_death_on_the_way),
        cmocka_unit_test(test_too_many_messages_must_wait),
        cmocka_unit_test(test_lies_end_the_edge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
