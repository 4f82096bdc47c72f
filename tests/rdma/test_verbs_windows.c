/* SPDX-License-Identifier: Apache-2.0 */
/* transport/verbs on a real device, below links: memory windows, and how errors read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weft/weft.h>

#include "tests/rdma/opened_rails.h"
#include "tests/support/bits.h"
#include "tests/support/skip.h"
#include "transport/verbs/async.h"
#include "transport/verbs/region.h"
#include "transport/verbs/why.h"
#include "transport/verbs/window.h"

#define PSN     77
#define ENTRIES 16

/* --- queue pairs, by hand */

struct end {
    struct verbs_rail *rail;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct verbs_path path;
};

static void end_open(struct end *end, struct verbs_rail *rail)
{
    const struct verbs_library *verbs = rail->verbs;
    end->rail = rail;
    end->cq = verbs->create_cq(rail->context, 2 * ENTRIES, NULL, NULL, 0);
    assert_non_null(end->cq);
    struct ibv_qp_init_attr initial = {.send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_RC};
    initial.cap = (struct ibv_qp_cap){ENTRIES, ENTRIES, 1, 1, 0};
    end->qp = verbs->create_qp(rail->domain, &initial);
    assert_non_null(end->qp);
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_INIT, .port_num = rail->port.number, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    assert_int_equal(verbs->modify_qp(end->qp, &attributes,
                                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
                     0);
}

/* Towards a queue pair of the rail peer. */
static void end_connect(struct end *end, struct verbs_rail *peer, uint32_t number)
{
    struct verbs_address mine, theirs;
    struct verbs_pair pairs[VERBS_PAIRS];
    verbs_rails_address(end->rail, 1, 1, &mine);
    verbs_rails_address(peer, 1, 2, &theirs);
    assert_int_equal(verbs_pairs(&mine, &theirs, pairs), 1);
    verbs_path(&mine, &theirs, &pairs[0], 0, &end->path);
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTR,
                                     .dest_qp_num = number,
                                     .rq_psn = PSN,
                                     .max_dest_rd_atomic = 1,
                                     .min_rnr_timer = 12};
    verbs_path_fill(&end->path, &quick, end->rail->port.number, &attributes);
    assert_int_equal(end->rail->verbs->modify_qp(end->qp, &attributes,
                                                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                                     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     0);
    attributes = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                      .sq_psn = PSN,
                                      .timeout = (uint8_t)quick.timeout,
                                      .retry_cnt = (uint8_t)quick.retry,
                                      .rnr_retry = 1,
                                      .max_rd_atomic = 1};
    assert_int_equal(end->rail->verbs->modify_qp(end->qp, &attributes,
                                                 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                                     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                                     IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

static void pair_open(struct end *a, struct end *b)
{
    struct verbs_rail *second = &rails[rail_count > 1];
    end_open(a, &rails[0]);
    end_open(b, second);
    end_connect(a, second, b->qp->qp_num);
    end_connect(b, &rails[0], a->qp->qp_num);
}

static void end_close(struct end *end)
{
    assert_int_equal(end->rail->verbs->destroy_qp(end->qp), 0);
    assert_int_equal(end->rail->verbs->destroy_cq(end->cq), 0);
}

/* Posts an entry and waits for its completion. */
static struct ibv_wc end_do(struct end *end, struct ibv_send_wr *entry)
{
    struct ibv_send_wr *bad;
    struct ibv_wc completion;
    entry->send_flags = IBV_SEND_SIGNALED;
    entry->wr_id = 42;
    assert_int_equal(ibv_post_send(end->qp, entry, &bad), 0);
    time_t limit = time(NULL) + 20;
    int count;
    while ((count = ibv_poll_cq(end->cq, 1, &completion)) == 0 && time(NULL) < limit)
        usleep(100);
    assert_int_equal(count, 1);
    assert_int_equal(completion.wr_id, 42);
    return completion;
}

static struct ibv_wc end_write(struct end *end, struct ibv_mr *mr, void *local, uint32_t size, void *remote,
                               uint32_t key)
{
    struct ibv_sge segment = {(uintptr_t)local, size, mr->lkey};
    struct ibv_send_wr entry = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &segment, .num_sge = 1};
    entry.wr.rdma.remote_addr = (uintptr_t)remote;
    entry.wr.rdma.rkey = key;
    return end_do(end, &entry);
}

/* --- what is said of errors */

static const char *why_of(struct end *end, struct ibv_wc completion, char text[VERBS_WHY])
{
    struct verbs_failure failure;
    verbs_failure_fill(end->rail, &quick, &end->path, (int)completion.status, completion.vendor_err,
                       &failure);
    failure.queue_pair = end->qp->qp_num;
    failure.peer_queue_pair = 0xabcde;
    return verbs_why(&failure, text);
}

static void expect_text(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' does not say '%s'", text, part);
}

/* All of it: the error, the peer's address, the own device, port and GID, the port's state, and the rest. */
static void expect_whole(struct end *end, struct ibv_wc completion, const char *error, const char *next)
{
    char text[VERBS_WHY], part[VERBS_WHY];
    struct verbs_failure failure;
    why_of(end, completion, text);
    assert_int_equal(strncmp(text, error, strlen(error)), 0);
    verbs_failure_fill(end->rail, &quick, &end->path, 0, 0, &failure);
    snprintf(part, sizeof part, ") with a peer at %s, from %s port %d", failure.peer_gid, end->rail->device,
             end->rail->port.number);
    if (failure.peer_gid[0]) /* InfiniBand without a GRH has a LID */
        expect_text(text, part);
    snprintf(part, sizeof part, " (GID %d %s, ", failure.gid_index, failure.gid);
    if (failure.gid_index >= 0)
        expect_text(text, part);
    expect_text(text, "; port ACTIVE, LinkUp: ");
    expect_text(text, next);
}

/* --- windows */

/* Source, target and a window over the middle of the target. */
struct stage {
    struct end a, b;
    char source[1024], target[1024];
    struct weft_region source_region, target_region;
    struct verbs_window *window;
};

static void stage_open(struct stage *stage)
{
    if (!rails[rail_count > 1].limits.memory_windows)
        TEST_SKIP("the device has no memory windows");
    memset(stage, 0, sizeof *stage);
    pair_open(&stage->a, &stage->b);
    memset(stage->source, 's', sizeof stage->source);
    assert_int_equal(
        verbs_region_make(stage->a.rail, 1, stage->source, sizeof stage->source, &stage->source_region),
        WEFT_OK);
    assert_int_equal(
        verbs_region_make(stage->b.rail, 1, stage->target, sizeof stage->target, &stage->target_region),
        WEFT_OK);
    stage->window = verbs_window_take(stage->b.rail);
    assert_non_null(stage->window);
}

static void stage_bind(struct stage *stage)
{
    struct ibv_send_wr entry = {0};
    verbs_window_bind(stage->window, stage->target_region.mr[0], stage->target + 101, 200, &entry);
    struct ibv_wc completion = end_do(&stage->b, &entry);
    assert_int_equal(completion.status, IBV_WC_SUCCESS);
    verbs_window_bound(stage->window, &entry);
}

static struct ibv_wc stage_write(struct stage *stage, int offset, uint32_t size, uint32_t key)
{
    return end_write(&stage->a, stage->source_region.mr[0], stage->source, size, stage->target + offset, key);
}

/* How many bytes of the target were written, and that they are the ones in [offset, offset + size). */
static void stage_expect(const struct stage *stage, int offset, int size)
{
    for (int i = 0; i < (int)sizeof stage->target; i++)
        assert_bits(stage->target[i] == (i >= offset && i < offset + size ? 's' : 0));
}

static void stage_close(struct stage *stage)
{
    if (stage->window)
        verbs_window_drop(stage->b.rail, stage->window);
    end_close(&stage->a);
    end_close(&stage->b);
    verbs_region_end(&stage->source_region);
    verbs_region_end(&stage->target_region);
}

static void test_window_opens_its_bytes(void **state)
{
    (void)state;
    struct stage stage;
    struct ibv_send_wr entry = {0};
    stage_open(&stage);
    stage_bind(&stage);
    uint32_t first = stage.window->mw->rkey;
    assert_int_equal(stage_write(&stage, 101, 200, first).status, IBV_WC_SUCCESS);
    stage_expect(&stage, 101, 200);
    verbs_window_invalidate(stage.window, &entry);
    assert_int_equal(end_do(&stage.b, &entry).status, IBV_WC_SUCCESS);
    /* The same window again, with another key. */
    memset(stage.target, 0, sizeof stage.target);
    stage_bind(&stage);
    assert_int_not_equal(stage.window->mw->rkey, first);
    assert_int_equal(stage_write(&stage, 105, 7, stage.window->mw->rkey).status, IBV_WC_SUCCESS);
    stage_expect(&stage, 105, 7);
    stage_close(&stage);
}

enum misuse { PAST_THE_END, STALE_KEY, KEY_OF_THE_REGION, ANOTHER_QUEUE_PAIR };

/* Writes where that is not allowed: an error at the writer, and not a byte. */
static void misuse(enum misuse how)
{
    struct stage stage;
    struct end c, d;
    struct ibv_send_wr entry = {0};
    struct ibv_wc completion;
    stage_open(&stage);
    stage_bind(&stage);
    uint32_t key = stage.window->mw->rkey;
    if (how == STALE_KEY) {
        verbs_window_invalidate(stage.window, &entry);
        assert_int_equal(end_do(&stage.b, &entry).status, IBV_WC_SUCCESS);
    }
    pair_open(&c, &d);
    if (how == ANOTHER_QUEUE_PAIR)
        completion = end_write(&c, stage.source_region.mr[0], stage.source, 8, stage.target + 101, key);
    else if (how == KEY_OF_THE_REGION)
        completion = stage_write(&stage, 101, 8, stage.target_region.mr[0]->rkey);
    else
        completion = stage_write(&stage, 101, how == PAST_THE_END ? 201 : 8, key);
    assert_int_equal(completion.status, IBV_WC_REM_ACCESS_ERR);
    expect_whole(
        how == ANOTHER_QUEUE_PAIR ? &c : &stage.a, completion, "remote access error (10",
        ": the key was wrong or stale: the peer has withdrawn this memory or freed it; look for the first "
        "error at the peer: it has cancelled, timed out or failed");
    stage_expect(&stage, 0, 0);
    end_close(&c);
    end_close(&d);
    stage_close(&stage);
}

static void test_window_ends_at_its_end(void **state)
{
    (void)state;
    if (rails_are_rxe())
        TEST_SKIP("soft-RoCE holds writes against the region, not against the window");
    misuse(PAST_THE_END);
}

static void test_window_invalidated_is_shut(void **state)
{
    (void)state;
    misuse(STALE_KEY);
}

static void test_window_is_the_only_way_in(void **state)
{
    (void)state;
    misuse(KEY_OF_THE_REGION);
}

static void test_window_is_for_one_queue_pair(void **state)
{
    (void)state;
    misuse(ANOTHER_QUEUE_PAIR);
}

static void test_windows_are_reused(void **state)
{
    (void)state;
    struct verbs_window *taken[3 * VERBS_WINDOW_BATCH / 2];
    int count = (int)(sizeof taken / sizeof *taken), before = rails[0].window_count;
    if (!rails[0].limits.memory_windows)
        TEST_SKIP("the device has no memory windows");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < count; i++) {
            taken[i] = verbs_window_take(&rails[0]);
            assert_non_null(taken[i]);
        }
        for (int i = 0; i < count; i++)
            verbs_window_give(&rails[0], taken[i]);
    }
    assert_true(rails[0].window_count >= count && rails[0].window_count <= before + 2 * VERBS_WINDOW_BATCH);
    int limit = rails[0].window_limit;
    rails[0].window_limit = rails[0].window_count;
    struct verbs_window *all[16 * VERBS_WINDOW_BATCH];
    int used = 0;
    while (used < (int)(sizeof all / sizeof *all) && (all[used] = verbs_window_take(&rails[0])))
        used++;
    assert_int_equal(used, rails[0].window_count);
    rails[0].window_limit = limit;
    for (int i = 0; i < used; i++)
        verbs_window_drop(&rails[0], all[i]);
    assert_int_equal(rails[0].window_count, 0);
}

/* --- errors */

static void test_why_a_peer_is_silent(void **state)
{
    (void)state;
    struct end end;
    struct ibv_send_wr entry = {.opcode = IBV_WR_SEND};
    char text[VERBS_WHY], port[128];
    end_open(&end, &rails[0]);
    end_connect(&end, &rails[rail_count > 1], 0xabcde);
    struct ibv_wc completion = end_do(&end, &entry);
    assert_int_equal(completion.status, IBV_WC_RETRY_EXC_ERR);
    why_of(&end, completion, text);
    expect_text(text, "transport retry counter exceeded (12");
    expect_text(text, "a peer at ");
    snprintf(port, sizeof port, "from %s port %d", rails[0].device, rails[0].port.number);
    expect_text(text, port);
    expect_text(text, "port ACTIVE, LinkUp: no acknowledgement in 3 tries of 4 ms; does the peer live?");
    assert_int_equal(verbs_why_status((int)completion.status), WEFT_PEER_FAILED);
    end_close(&end);
}

static void test_why_a_peer_has_no_buffer(void **state)
{
    (void)state;
    struct end a, b;
    struct ibv_send_wr entry = {.opcode = IBV_WR_SEND};
    pair_open(&a, &b);
    struct ibv_wc completion = end_do(&a, &entry);
    assert_int_equal(completion.status, IBV_WC_RNR_RETRY_EXC_ERR);
    expect_whole(
        &a, completion, "RNR retry counter exceeded (13",
        ": the peer's adapter had no receive buffer for a long time; the peer's process is stopped or "
        "starved: look whether it runs (SIGSTOP, a debugger, swapping, an oversubscribed host)");
    end_close(&a);
    end_close(&b);
}

static void test_why_memory_is_not_registered(void **state)
{
    (void)state;
    struct end a, b;
    char byte, text[VERBS_WHY];
    struct ibv_sge segment = {(uintptr_t)&byte, 1, 0xdead00};
    struct ibv_send_wr entry = {.opcode = IBV_WR_SEND, .sg_list = &segment, .num_sge = 1};
    pair_open(&a, &b);
    struct ibv_wc completion = end_do(&a, &entry);
    if (!rails_are_rxe()) { /* it flushes what fails on this side */
        assert_int_equal(completion.status, IBV_WC_LOC_PROT_ERR);
        expect_text(why_of(&a, completion, text), "local protection error (4");
    }
    /* What comes after it is flushed. */
    entry.num_sge = 0;
    completion = end_do(&a, &entry);
    assert_int_equal(completion.status, IBV_WC_WR_FLUSH_ERR);
    expect_text(why_of(&a, completion, text), "look for the first error of this link");
    end_close(&a);
    end_close(&b);
}

/* Waits for an event of this kind, passing over others. */
static void await_event(struct verbs_rail *rail, enum verbs_event_kind kind, struct verbs_event *event)
{
    time_t limit = time(NULL) + 20;
    do {
        if (!verbs_async_next(rail, event))
            usleep(1000);
        else if (event->kind == kind)
            return;
    } while (time(NULL) < limit);
    fail_msg("%s reports no event of kind %d", rail->device, kind);
}

static void test_port_goes_down_and_comes_back(void **state)
{
    (void)state;
    if (!getenv("WEFT_VM"))
        TEST_SKIP("takes a network interface down: only in a virtual machine");
    struct verbs_event event;
    char text[VERBS_WHY];
    struct end end;
    struct ibv_send_wr entry = {.opcode = IBV_WR_SEND};
    end_open(&end, &rails[0]);
    end_connect(&end, &rails[rail_count > 1], 0xabcde);
    while (verbs_async_next(&rails[0], &event))
        ;
    assert_int_equal(system("ip link set r0 down"), 0);
    await_event(&rails[0], VERBS_EVENT_PORT_DOWN, &event);
    expect_text(event.text, "rxe0 port 1 went down: look at cable");
    assert_int_not_equal(rails[0].state, IBV_PORT_ACTIVE);
    expect_text(why_of(&end, end_do(&end, &entry), text), "port DOWN, Disabled");
    expect_text(text, "this port is down: look at cable, switch port and 'ip link'");
    assert_int_equal(system("ip link set r0 up"), 0);
    await_event(&rails[0], VERBS_EVENT_PORT_UP, &event);
    assert_int_equal(rails[0].state, IBV_PORT_ACTIVE);
    end_close(&end);
    if (rail_count > 1) /* the other end of the same cable */
        await_event(&rails[1], VERBS_EVENT_PORT_UP, &event);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window_opens_its_bytes),
        cmocka_unit_test(test_window_ends_at_its_end),
        cmocka_unit_test(test_window_invalidated_is_shut),
        cmocka_unit_test(test_window_is_the_only_way_in),
        cmocka_unit_test(test_window_is_for_one_queue_pair),
        cmocka_unit_test(test_windows_are_reused),
        cmocka_unit_test(test_why_a_peer_is_silent),
        cmocka_unit_test(test_why_a_peer_has_no_buffer),
        cmocka_unit_test(test_why_memory_is_not_registered),
        cmocka_unit_test(test_port_goes_down_and_comes_back),
    };
    return cmocka_run_group_tests_name("verbs windows", tests, rails_setup, rails_teardown);
}
