/* SPDX-License-Identifier: Apache-2.0 */
/* rounds ROUNDS [VICTIM MARK]: one rank of a job whose place comes from the environment (weft(7)), over the verbs
 * transport. Each round is some allreduces and some messages around the ring, of sizes below and above all limits, of data
 * that differ between rounds, every element checked. Prints what was done.
 *
 * With VICTIM: goes round until a call fails, which has to name this rank and its host, and before the device would say
 * anything; then ROUNDS rounds in a communicator of the others. The file MARK is made when rounds are running. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/support/ranks.h"

#define EACH      4 /* allreduces, and messages, of a round */
#define LARGEST   20011
#define GUARD     16
#define UNDER_WAY 5 /* rounds until MARK is made */

static const size_t counts[] = {1, 700, 2, 33, 3000, 1, 257, 128, 6001, 5, 2048, 250, LARGEST, 17};

struct room {
    uint32_t *send[EACH], *recv[EACH];
};

static uint32_t value_of(int round, int rank, size_t i)
{
    return ((uint32_t)round * 2654435761u) ^ ((uint32_t)rank * 40503u + 77u) ^ ((uint32_t)i * 2246822519u);
}

static size_t count_of(int round, int k)
{
    return counts[(size_t)(round * EACH + k) % (sizeof counts / sizeof counts[0])];
}

static void prepare(struct room *room, int k, int round, int rank, size_t count)
{
    for (size_t i = 0; i < count; i++)
        room->send[k][i] = value_of(round, rank, i);
    memset(room->recv[k], 0xcc, (count + GUARD) * sizeof(uint32_t));
}

/* Elements that are not the sum of the ranks from first to last, and what was written behind them. */
static size_t wrong(const uint32_t *memory, int round, int first, int last, size_t count)
{
    size_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t sum = 0;
        for (int rank = first; rank <= last; rank++)
            sum += value_of(round, rank, i);
        bad += memory[i] != sum;
    }
    for (size_t i = count; i < count + GUARD; i++)
        bad += memory[i] != 0xccccccccu;
    return bad;
}

static int room_make(struct room *room)
{
    for (int k = 0; k < EACH; k++) {
        room->send[k] = malloc((LARGEST + GUARD) * sizeof(uint32_t));
        room->recv[k] = malloc((LARGEST + GUARD) * sizeof(uint32_t));
        CHECK(room->send[k] && room->recv[k]);
    }
    return 0;
}

static void room_free(struct room *room)
{
    for (int k = 0; k < EACH; k++) {
        free(room->send[k]);
        free(room->recv[k]);
    }
}

/* 0, a status, or 1 where what came is wrong. */
static int reduce(weft_comm *comm, struct room *room, int round)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    for (int k = 0; k < EACH; k++) {
        size_t count = count_of(round, k);
        prepare(room, k, round, rank, count);
        int status = weft_allreduce(comm, room->send[k], room->recv[k], count, WEFT_UINT32, WEFT_SUM, NULL);
        if (status)
            return status;
        CHECK_BITS(wrong(room->recv[k], round, 0, ranks - 1, count) == 0);
    }
    return 0;
}

/* Every rank's messages to the next one, all in flight at once. The first failure's text stays the thread's. */
static int pass_on(weft_comm *comm, struct room *room, int round)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm), left = (rank + ranks - 1) % ranks;
    weft_work *works[2 * EACH];
    char why[512] = "";
    int started = 0, status = 0;
    for (int k = 0; k < 2 * EACH && !status; k++) {
        size_t count = count_of(round, k / 2);
        if (k % 2 == 0)
            prepare(room, k / 2, round, rank, count);
        status = k % 2 == 0 ? weft_recv(comm, room->recv[k / 2], count, WEFT_UINT32, left, k, NULL,
                                        WEFT_START(&works[k]))
                            : weft_send(comm, room->send[k / 2], count, WEFT_UINT32, (rank + 1) % ranks,
                                        k - 1, WEFT_START(&works[k]));
        started += !status;
    }
    for (int k = 0; k < started; k++) {
        if (!status)
            status = weft_work_wait(works[k], -1);
        if (status && !why[0])
            snprintf(why, sizeof why, "%s", weft_error_detail());
        weft_work_free(works[k]);
    }
    if (why[0])
        weft_error_set_detail(why);
    for (int k = 0; k < EACH && !status; k++)
        CHECK_BITS(wrong(room->recv[k], round, left, left, count_of(round, k)) == 0);
    return status;
}

static int go_round(weft_comm *comm, struct room *room, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        CHECK_OK(reduce(comm, room, round));
        CHECK_OK(pass_on(comm, room, round));
    }
    printf("%d allreduces and %d messages were right\n", rounds * EACH, rounds * EACH);
    return 0;
}

/* Until a call fails, which is the victim's fault and says so. */
static int survive(weft_comm *comm, struct room *room, const char *victim, const char *mark)
{
    int64_t begun_ns = 0;
    char name[32];
    int status = 0;
    for (int round = 0; !status; round++) {
        if (round == UNDER_WAY) {
            FILE *file = fopen(mark, "w");
            CHECK(file && fclose(file) == 0);
        }
        begun_ns = weft_clock_ns();
        status = reduce(comm, room, round);
        if (!status)
            status = pass_on(comm, room, round);
    }
    int64_t took_ns = weft_clock_ns() - begun_ns;
    printf("after %lld ms: %s\n", (long long)(took_ns / 1000000), weft_error_detail());
    /* By its silence, and not because the device gave up: that takes Soft-RoCE longer. */
    snprintf(name, sizeof name, "rank %s on host 'vm%s'", victim, victim);
    CHECK(status == WEFT_PEER_FAILED && strstr(weft_error_detail(), name));
    CHECK(strstr(weft_error_detail(), "silent for"));
    return 0;
}

static int run(weft_comm *comm, struct room *room, char **words)
{
    weft_comm *others;
    int rounds = atoi(words[1]);
    if (!words[2])
        return go_round(comm, room, rounds);
    if (survive(comm, room, words[2], words[3]))
        return 1;
    CHECK_OK(weft_comm_shrink(comm, &others, NULL));
    CHECK(weft_comm_size(others) == weft_comm_size(comm) - 1);
    if (weft_comm_size(others) > 1 && go_round(others, room, rounds))
        return 1;
    CHECK_OK(weft_comm_destroy(others));
    return 0;
}

int main(int count, char **words)
{
    struct room room;
    weft_context *context;
    weft_comm *comm;
    weft_context_options context_options = WEFT_CONTEXT_OPTIONS_INIT;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    if (count != 2 && count != 4) {
        fprintf(stderr, "rounds ROUNDS [VICTIM MARK]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    context_options.settings = "transport=verbs";
    options.timeout_ms = 60000;
    CHECK_OK(weft_context_open(&context_options, &context));
    CHECK_OK(weft_comm_create(context, &options, &comm));
    if (room_make(&room) || run(comm, &room, words))
        return 1;
    CHECK_OK(weft_comm_destroy(comm));
    CHECK_OK(weft_context_close(context));
    room_free(&room);
    return 0;
}
