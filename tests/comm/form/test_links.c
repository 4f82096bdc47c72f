/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap weft_transport_find */
/* What links ranks: verbs where two of them reach each other that way, libfabric otherwise and only then; out-of-band messages that make
 * the links; what is said when there is no way, and when a link breaks. The fake of tests/support/verbs_fake.h takes
 * the place of verbs, so this runs on any machine. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/core/comm.h"
#include "tests/support/golden.h"
#include "tests/support/job.h"
#include "tests/support/leak.h"
#include "tests/support/ranks.h"
#include "tests/support/verbs_fake.h"
#include "transport/registry.h"

static int has_ofi; /* looked up first: by processes, which must not be forked from one that uses weft */

#define RANKS_MAX 7
#define BLOCK     200000 /* floats */

const struct weft_transport_ops *__real_weft_transport_find(const char *name);
const struct weft_transport_ops *__wrap_weft_transport_find(const char *name);
const struct weft_transport_ops *__wrap_weft_transport_find(const char *name)
{
    return strcmp(name, "verbs") == 0 ? verbs_fake_ops() : __real_weft_transport_find(name);
}

struct setup {
    const char *transports;
    struct verbs_fake fakes[RANKS_MAX];
    const char *described;
    int lossy, eager;
    pthread_barrier_t all;
    /* of ends in an error: */
    int status;
    const char *detail;
};

static int open_rank(struct job *job, int rank, const struct setup *setup)
{
    verbs_fake_set(&setup->fakes[rank]);
    return job_open(job, setup->transports, "tcp;ofi_rxm");
}

/* Small and large collectives, and a message around the ring. */
static int use(weft_comm *comm, int rank, int ranks)
{
    static const size_t counts[] = {1, 1000, BLOCK};
    float *in = malloc(BLOCK * sizeof *in), *out = malloc(BLOCK * sizeof *out);
    CHECK(in && out);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        job_fill(in, WEFT_FLOAT32, rank, counts[i]);
        CHECK_OK(weft_allreduce(comm, in, out, counts[i], WEFT_FLOAT32, WEFT_SUM, NULL));
        CHECK_BITS(job_wrong(out, WEFT_FLOAT32, WEFT_SUM, ranks, counts[i]) == 0);
        int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
        CHECK_OK(
            weft_sendrecv(comm, in, counts[i], to, 5, out, counts[i], from, 5, WEFT_FLOAT32, NULL, NULL));
        job_fill(in, WEFT_FLOAT32, from, counts[i]);
        CHECK_BITS(memcmp(in, out, counts[i] * sizeof *in) == 0);
    }
    free(in);
    free(out);
    return 0;
}

/* Which transport reaches each rank, as the setup's fabrics have it. */
static int check_choice(const struct job *job, int rank, int ranks, const struct setup *setup)
{
    const struct verbs_fake *mine = &setup->fakes[rank];
    weft_description description = WEFT_DESCRIPTION_INIT;
    int ofi = 0;
    for (int r = 0; r < ranks; r++) {
        const struct verbs_fake *theirs = &setup->fakes[r];
        int verbs = !mine->status && !theirs->status && mine->fabric == theirs->fabric;
        if (r == rank)
            continue;
        CHECK(job->comm->members[r].transport == (verbs ? WEFT_VERBS : WEFT_OFI));
        ofi |= !verbs;
    }
    CHECK((job->context->transports[WEFT_OFI].instance != NULL) == ofi);
    CHECK((job->context->transports[WEFT_VERBS].instance != NULL) == !mine->status);
    CHECK_OK(
        weft_comm_describe(job->comm, "allreduce", NULL, NULL, 1, WEFT_FLOAT32, WEFT_SUM, 0, &description));
    CHECK(strcmp(description.transport, setup->described) == 0);
    return 0;
}

static int serve_body(int rank, int ranks, void *arg)
{
    struct setup *setup = arg;
    struct job job;
    CHECK_OK(open_rank(&job, rank, setup));
    CHECK(check_choice(&job, rank, ranks, setup) == 0);
    CHECK(use(job.comm, rank, ranks) == 0);
    CHECK_OK(job_close(&job));
    return 0;
}

static int run(int ranks, test_rank_function *body, struct setup *setup)
{
    struct test_leak before;
    verbs_fake_reset(setup->lossy);
    pthread_barrier_init(&setup->all, NULL, (unsigned)ranks);
    test_leak_take(&before);
    int bad = test_ranks_threads(ranks, body, setup);
    pthread_barrier_destroy(&setup->all);
    return bad + (setup->described && strstr(setup->described, "ofi") ? 0 : test_leak_check(&before));
}

static void test_verbs_serve_all(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, RANKS_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int lossy = 0; lossy < 2; lossy++) {
            struct setup setup = {
                .transports = lossy ? "verbs" : "ofi,verbs", .described = "verbs", .lossy = lossy};
            assert_int_equal(run(sizes[s], serve_body, &setup), 0);
            assert_int_equal(verbs_fake_opened, sizes[s]);
            assert_true(verbs_fake_oob >= 2 * sizes[s]);
        }
    }
}

static void test_connecting_all_at_once(void **state)
{
    (void)state;
    struct setup setup = {.transports = "verbs", .described = "verbs"};
    setenv("WEFT_CONNECT", "eager", 1);
    int bad = run(RANKS_MAX, serve_body, &setup);
    unsetenv("WEFT_CONNECT");
    assert_int_equal(bad, 0);
    assert_true(verbs_fake_oob >= 2 * RANKS_MAX * (RANKS_MAX - 1));
}

/* Two fabrics, and ranks without a device: each pair takes the best that both have. */
static void test_ofi_serves_the_rest(void **state)
{
    (void)state;
    if (!has_ofi)
        skip();
    struct setup fabrics = {.transports = "ofi,verbs",
                            .described = "verbs+ofi",
                            .fakes = {{.fabric = 1}, {.fabric = 1}, {.fabric = 2}, {.fabric = 2}}};
    assert_int_equal(run(4, serve_body, &fabrics), 0);
    struct setup lacking = {.transports = "verbs,ofi",
                            .described = "verbs+ofi",
                            .fakes = {{.fabric = 1}, {.status = WEFT_NOT_FOUND}, {.fabric = 1}}};
    assert_int_equal(run(3, serve_body, &lacking), 0);
    struct setup nobody = {.transports = "verbs,ofi",
                           .described = "ofi",
                           .fakes = {{.status = WEFT_NOT_FOUND}, {.status = WEFT_NOT_FOUND}}};
    assert_int_equal(run(2, serve_body, &nobody), 0);
    assert_int_equal(verbs_fake_oob, 0);
}

/* Tools learn which ports are in use. */
static int rails_body(int rank, int ranks, void *arg)
{
    const struct setup *setup = arg;
    struct job job;
    weft_rail rails[3] = {WEFT_RAIL_INIT, WEFT_RAIL_INIT, WEFT_RAIL_INIT};
    int count = -1;
    (void)ranks;
    CHECK_OK(open_rank(&job, rank, setup));
    CHECK_OK(weft_context_get_rails(job.context, NULL, 0, &count));
    CHECK(count == 2);
    CHECK_OK(weft_context_get_rails(job.context, rails, 1, &count));
    CHECK(count == 2 && rails[0].port == 1 && rails[1].port == 0);
    CHECK_OK(weft_context_get_rails(job.context, rails, 3, &count));
    CHECK(count == 2 && rails[2].port == 0);
    CHECK(strcmp(rails[0].device, "mlx5_0") == 0 && strcmp(rails[0].link_layer, "InfiniBand") == 0);
    CHECK(rails[0].active == 1 && rails[0].bytes_per_s == 12500000000 && rails[0].mtu_bytes == 4096);
    CHECK(strcmp(rails[1].device, "mlx5_1") == 0 && strcmp(rails[1].gid, "::ffff:10.0.0.1") == 0);
    CHECK(rails[1].gid_index == 3 && rails[1].active == 0 && rails[1].size == sizeof rails[1]);
    /* A program of a weft.h whose struct ends behind the port. */
    struct {
        size_t size;
        char device[64];
        int port, pad;
    } old[2] = {{.size = sizeof old[0]}};
    CHECK_OK(weft_context_get_rails(job.context, (weft_rail *)(void *)old, 2, &count));
    CHECK(strcmp(old[1].device, "mlx5_1") == 0 && old[1].port == 2 && old[0].size == sizeof old[0]);
    rails[0].size = 0;
    CHECK(weft_context_get_rails(job.context, rails, 1, &count) == WEFT_INVALID);
    CHECK(golden_matches("rail-size", "0"));
    CHECK(weft_context_get_rails(job.context, NULL, 1, &count) == WEFT_INVALID);
    CHECK(weft_context_get_rails(NULL, rails, 1, &count) == WEFT_INVALID);
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_rails_are_listed(void **state)
{
    (void)state;
    struct setup setup = {.transports = "verbs"};
    assert_int_equal(run(2, rails_body, &setup), 0);
    weft_context *context;
    int count = -1;
    assert_int_equal(weft_context_open(NULL, &context), WEFT_OK);
    assert_int_equal(weft_context_get_rails(context, NULL, 0, &count), WEFT_OK);
    assert_int_equal(count, 0);
    assert_int_equal(weft_context_close(context), WEFT_OK);
}

static int refused_body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const struct setup *setup = arg;
    struct job job;
    int status = open_rank(&job, rank, setup);
    if (status == setup->status && strstr(weft_error_detail(), setup->detail))
        return 0;
    fprintf(stderr, "rank %d: %d, '%s': expected %d, '%s'\n", rank, status, weft_error_detail(),
            setup->status, setup->detail);
    return 1;
}

static void test_no_way_is_an_error_everywhere(void **state)
{
    (void)state;
    struct setup lacking = {.transports = "verbs",
                            .fakes = {{0}, {.status = WEFT_NOT_FOUND}, {0}},
                            .status = WEFT_NOT_FOUND,
                            .detail = "': " VERBS_FAKE_MISSING};
    assert_int_equal(run(3, refused_body, &lacking), 0);
    struct setup fabrics = {.transports = "verbs",
                            .fakes = {{.fabric = 1}, {.fabric = 2}},
                            .status = WEFT_TRANSPORT,
                            .detail =
                                "cannot be reached over verbs: its ports and this rank's are of different "
                                "networks. The setting WEFT_TRANSPORT=verbs allows no other transport"};
    assert_int_equal(run(2, refused_body, &fabrics), 0);
}

/* Out-of-band messages go over whatever communicator is left. */
static int dup_body(int rank, int ranks, void *arg)
{
    const struct setup *setup = arg;
    struct job job;
    weft_comm *other;
    CHECK_OK(open_rank(&job, rank, setup));
    CHECK_OK(weft_comm_split(job.comm, 0, 0, &other, NULL));
    CHECK_OK(weft_comm_destroy(job.comm));
    CHECK(use(other, rank, ranks) == 0);
    CHECK_OK(weft_comm_destroy(other));
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_oob_by_another_communicator(void **state)
{
    (void)state;
    struct setup setup = {.transports = "verbs"};
    assert_int_equal(run(3, dup_body, &setup), 0);
}

/* A rank waits for an answer to its out-of-band message while the other one computes, and none of its calls drives the transports. */
static int asleep_body(int rank, int ranks, void *arg)
{
    struct setup *setup = arg;
    struct job job;
    float value = 1, sum;
    weft_work *work;
    (void)ranks;
    CHECK_OK(open_rank(&job, rank, setup));
    if (rank == 0) {
        CHECK_OK(weft_send(job.comm, &value, 1, WEFT_FLOAT32, 1, 7, WEFT_START(&work)));
        CHECK_OK(weft_work_wait(work, 30000));
        CHECK_OK(weft_work_free(work));
        pthread_barrier_wait(&setup->all);
    } else {
        pthread_barrier_wait(
            &setup->all); /* with the message sent, as only the service thread can have seen to */
        CHECK_OK(weft_recv(job.comm, &sum, 1, WEFT_FLOAT32, 0, 7, NULL, NULL));
        CHECK_BITS(sum == 1);
    }
    CHECK_OK(job_close(&job));
    return 0;
}

static void test_oob_reaches_who_is_not_calling(void **state)
{
    (void)state;
    struct setup setup = {.transports = "verbs"};
    assert_int_equal(run(2, asleep_body, &setup), 0);
}

static int broken_body(int rank, int ranks, void *arg)
{
    struct setup *setup = arg;
    struct job job;
    float in = 1, out;
    int status = WEFT_OK;
    CHECK_OK(open_rank(&job, rank, setup));
    CHECK(use(job.comm, rank, ranks) == 0);
    pthread_barrier_wait(&setup->all);
    if (rank == 0)
        atomic_store(&verbs_fake_cut, 1); /* the fabric of all: whoever polls hears of it */
    int64_t until_ns = weft_deadline_ns(20000);
    while (status == WEFT_OK && weft_clock_ns() < until_ns)
        status = weft_allreduce(job.comm, &in, &out, 1, WEFT_FLOAT32, WEFT_SUM, NULL);
    if (!(status == WEFT_PEER_FAILED || status == WEFT_REVOKED) ||
        !strstr(weft_error_detail(), VERBS_FAKE_WHY) || !strstr(weft_error_detail(), "' (pid ") ||
        !strstr(weft_error_detail(), "the link to it broke: ")) {
        fprintf(stderr, "rank %d: %d, '%s'\n", rank, status, weft_error_detail());
        return 1;
    }
    pthread_barrier_wait(&setup->all);
    weft_comm_destroy(job.comm);
    CHECK_OK(weft_context_close(job.context));
    return 0;
}

static void test_a_broken_link_says_why(void **state)
{
    (void)state;
    struct setup setup = {.transports = "verbs", .fakes = {{.fabric = 1}, {.fabric = 1}, {.fabric = 1}}};
    assert_int_equal(run(3, broken_body, &setup), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verbs_serve_all),
        cmocka_unit_test(test_connecting_all_at_once),
        cmocka_unit_test(test_ofi_serves_the_rest),
        cmocka_unit_test(test_no_way_is_an_error_everywhere),
        cmocka_unit_test(test_oob_by_another_communicator),
        cmocka_unit_test(test_oob_reaches_who_is_not_calling),
        cmocka_unit_test(test_a_broken_link_says_why),
        cmocka_unit_test(test_rails_are_listed),
    };
    has_ofi = job_has_ofi("tcp;ofi_rxm");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
