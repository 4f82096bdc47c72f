/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (waits for ranks that come late) */
/* What a rank cannot do: without descriptors once it has checked in, or with arguments that are out of range. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "comm/boot/boot.h"
#include "tests/support/boot_party.h"
#include "tests/support/descriptors.h"

struct scarcity {
    int has_one;               /* one descriptor is left; what is closed meanwhile is of no use either */
    int kept;                  /* that one, until then */
    int64_t from_ns, until_ns; /* when it has no more, after the beginning */
    int64_t start_ns;
    rlim_t usual;
};

static void leave_descriptors(const struct scarcity *scarcity)
{
    struct rlimit limit;
    if (!scarcity->has_one) {
        test_descriptors_leave(0);
        return;
    }
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)scarcity->kept + 1;
    setrlimit(RLIMIT_NOFILE, &limit);
    close(scarcity->kept);
}

/* Asked now and then while it waits for the table. */
static int set_descriptors(void *arg)
{
    struct scarcity *scarcity = arg;
    int64_t passed_ns = weft_clock_ns() - scarcity->start_ns;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur == scarcity->usual && passed_ns >= scarcity->from_ns && passed_ns < scarcity->until_ns)
        leave_descriptors(scarcity);
    if (limit.rlim_cur < scarcity->usual && passed_ns >= scarcity->until_ns) {
        limit.rlim_cur = scarcity->usual;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    return 0;
}

/* Rank 1 of 3 runs out of them; rank 2 comes when it has. */
static int scarce_open(struct party *party, struct scarcity *scarcity, int rank, int ranks)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    scarcity->start_ns = weft_clock_ns();
    scarcity->usual = limit.rlim_cur;
    if (scarcity->has_one)
        CHECK((scarcity->kept = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    if (rank == 1)
        party_extra(&(struct party_extra){.cancelled = set_descriptors, .cancelled_arg = scarcity});
    if (rank == 2)
        usleep(600000);
    int status = party_open(party, rank, ranks, "", PATIENCE_MS);
    setrlimit(RLIMIT_NOFILE, &limit);
    if (scarcity->has_one && rank != 1)
        close(scarcity->kept);
    return status;
}

static int no_socket_body(int rank, int ranks, void *arg)
{
    struct scarcity scarcity = {.has_one = 1, .from_ns = 300000000, .until_ns = WEFT_NEVER_NS};
    struct party party;
    (void)arg;
    CHECK(scarce_open(&party, &scarcity, rank, ranks) == (rank == 1 ? WEFT_SYSTEM : WEFT_REVOKED));
    CHECK(party_detail_has("cannot make a socket"));
    CHECK(rank == 1 ? party_detail_has("ulimit -n") : party_detail_has("rank 1 on host '"));
    party_close(&party);
    return 0;
}

/* Its parent's connection takes the last descriptor, and it has none to dial rank 2. It is the one who gives up, and nobody else is dead
 * because of that. */
static void test_no_descriptor_to_dial(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, no_socket_body, NULL), 0);
}

static int late_descriptor_body(int rank, int ranks, void *arg)
{
    struct scarcity scarcity = {.from_ns = 300000000, .until_ns = 1200000000};
    struct party party;
    (void)arg;
    CHECK_OK(scarce_open(&party, &scarcity, rank, ranks));
    CHECK_OK(weft_bootstrap_barrier(party.b, "barrier", weft_deadline_ns(PATIENCE_MS)));
    party_close(&party);
    return 0;
}

/* Its neighbour waits until it has some again. */
static void test_no_descriptor_for_a_while(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(3, late_descriptor_body, NULL), 0);
}

static int arguments_body(int rank, int ranks, void *arg)
{
    struct party party;
    (void)arg, (void)ranks;
    static const int bad[][2] = {{0, 0}, {-1, 2}, {2, 2}, {0, WEFT_BOOT_RANKS_MAX + 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(party_open(&party, bad[i][0], bad[i][1], "", PATIENCE_MS) == WEFT_INVALID);
        CHECK(party_detail_has("expected 0 <= rank < ranks <= "));
        party_close(&party);
    }
    static const int64_t beats_ms[] = {-1, WEFT_HEARTBEAT_MIN_MS - 1, WEFT_HEARTBEAT_MAX_MS + 1};
    for (size_t i = 0; i < sizeof beats_ms / sizeof *beats_ms; i++) {
        party_extra(&(struct party_extra){.heartbeat_ms = beats_ms[i]});
        CHECK(party_open(&party, rank, 2, "", PATIENCE_MS) == WEFT_INVALID);
        CHECK(party_detail_has("expected 200 to 600000"));
        party_close(&party);
    }
    party_extra(&(struct party_extra){0});
    return 0;
}

static void test_arguments(void **state)
{
    (void)state;
    assert_int_equal(test_ranks_fork(1, arguments_body, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_descriptor_to_dial),
        cmocka_unit_test(test_no_descriptor_for_a_while),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
