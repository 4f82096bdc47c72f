/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/fakes/verbs/ */
/* What links say when their adapter reports an error, on a device in memory: errors that Soft-RoCE cannot be brought to, or
 * not at will. Each end of the link says what failed where and what to look at next; the third instance's link goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

#include "base/error.h"
#include "tests/fakes/verbs/rdma_fake_private.h"
#include "tests/fakes/verbs/verbs_nodes.h"
#include "transport/verbs/verbs_private.h"

#define BYTES 5000

static struct verbs_node *const nodes = verbs_nodes;

static void expect(const char *text, const char *part)
{
    assert_non_null(text);
    if (!strstr(text, part))
        fail_msg("'%s' does not say '%s'", text, part);
}

/* --- errors of one link: 0 to 1, with the third instance beside it */

struct scene {
    struct weft_link *link, *back; /* 0 to 1 and 1 to 0 */
    struct weft_link *others[2];   /* 0 to 2, 1 to 2 */
};

static void scene_open(struct scene *scene)
{
    scene->link = verbs_nodes_join(0, 1);
    scene->back = verbs_nodes_join(1, 0);
    scene->others[0] = verbs_nodes_join(0, 2);
    scene->others[1] = verbs_nodes_join(1, 2);
    verbs_nodes_say(scene->link, "before", 1);
}

/* Where the error was, and that both ends say the same of it, each from its side. */
static void scene_end(const struct scene *scene, int status, const char *error, const char *next)
{
    char where[128];
    const struct weft_link *link = scene->link;
    const char *why = verbs_nodes_ops.why(scene->link);
    expect(why, error);
    expect(why, next);
    snprintf(where, sizeof where, " with a peer at LID %u, from fake0 port 1, queue pair ",
             link->peer.ports[0].lid);
    expect(why, where);
    expect(why, "; port ACTIVE, LinkUp");
    assert_int_equal(nodes[0].failed, 1);
    assert_int_equal(nodes[0].status, status);
    assert_int_equal(nodes[1].failed, 1);
    why = verbs_nodes_ops.why(scene->back);
    expect(why, "verbs: the peer has given up this link: ");
    expect(why, error);
    expect(why, where);
    expect(why, next);
    verbs_nodes_say(scene->others[0], "0 to 2", 2);
    verbs_nodes_say(scene->others[1], "1 to 2", 2);
    assert_int_equal(nodes[2].failed, 0);
}

static void each_status_is_reported_at_both_ends(void **state)
{
    static const struct {
        int native, status;
        const char *error, *next;
    } rows[] = {
        {IBV_WC_RNR_RETRY_EXC_ERR, WEFT_PEER_FAILED, "verbs: RNR retry counter exceeded (13)",
         ": the peer's adapter had no receive buffer for a long time; the peer's process is stopped or "
         "starved: "
         "look whether it runs (SIGSTOP, a debugger, swapping, an oversubscribed host)"},
        {IBV_WC_REM_INV_REQ_ERR, WEFT_TRANSPORT, "verbs: remote invalid request error (9)",
         "; look for an error at the peer, and whether both run the same version of weft"},
        {IBV_WC_RETRY_EXC_ERR, WEFT_PEER_FAILED, "verbs: transport retry counter exceeded (12)",
         ": no acknowledgement in 8 tries of 1073 ms; does the peer live? Then look at its port, cables"},
        {IBV_WC_FATAL_ERR, WEFT_TRANSPORT, "verbs: fatal error (19)",
         ": the adapter has stopped working; look into dmesg; the adapter needs a reset"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene scene;
        if (i)
            verbs_nodes_setup(NULL);
        scene_open(&scene);
        rdma_fake_break(scene.link->qps[0]->ibv->qp_num, rows[i].native);
        verbs_nodes_turns(3);
        scene_end(&scene, rows[i].status, rows[i].error + strlen("verbs: "), rows[i].next);
        assert_int_equal(strncmp(verbs_nodes_ops.why(scene.link), rows[i].error, strlen(rows[i].error)), 0);
        if (i + 1 < sizeof rows / sizeof *rows)
            verbs_nodes_teardown(NULL);
    }
}

/* --- a key that opens nothing */

static int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);

static int post_wrong_key(struct ibv_qp *qp, struct ibv_send_wr *first, struct ibv_send_wr **bad)
{
    for (struct ibv_send_wr *entry = first; entry; entry = entry->next) {
        if (entry->opcode == IBV_WR_RDMA_WRITE)
            entry->wr.rdma.rkey += 1 << 8;
    }
    return post_send(qp, first, bad);
}

static void a_wrong_key_is_reported_at_both_ends(void **state)
{
    static uint8_t source[BYTES], target[BYTES];
    static const uint8_t zeros[BYTES];
    struct scene scene;
    struct weft_region *from, *into;
    struct weft_token token;
    (void)state;
    scene_open(&scene);
    memset(source, 0x5a, sizeof source);
    assert_int_equal(verbs_nodes_ops.reg(nodes[0].transport, source, BYTES, &from), 0);
    assert_int_equal(verbs_nodes_ops.reg(nodes[1].transport, target, BYTES, &into), 0);
    assert_int_equal(verbs_nodes_ops.advertise(scene.back, into, target, BYTES, 1, &token), 0);
    verbs_nodes_say(scene.back, "token", 0);
    struct ibv_context *context = nodes[0].transport->rails[0].context;
    post_send = context->ops.post_send;
    context->ops.post_send = post_wrong_key;
    assert_int_equal(verbs_nodes_ops.put(scene.link, &token, from, source, BYTES, 2), 0);
    verbs_nodes_turns(3);
    context->ops.post_send = post_send;
    scene_end(
        &scene, WEFT_TRANSPORT, "remote access error (10)",
        ": the key was wrong or stale: the peer has withdrawn this memory or freed it; look for the first "
        "error at the peer: it has cancelled, timed out or failed");
    assert_int_equal(nodes[0].put, 1);
    assert_int_not_equal(nodes[0].put_status, WEFT_OK);
    assert_int_equal(nodes[1].filled, 0);
    verbs_nodes_ops.withdraw(scene.back, &token);
    assert_memory_equal(target, zeros, BYTES);
    verbs_nodes_ops.dereg(from);
    verbs_nodes_ops.dereg(into);
}

/* --- what the device reports by itself */

static struct verbs_library library; /* the fake's, with something else in places */
static struct ibv_async_event event;
static int is_waiting;

static int one_event(struct ibv_context *context, struct ibv_async_event *next)
{
    (void)context;
    if (!is_waiting) {
        errno = EAGAIN;
        return -1;
    }
    *next = event;
    is_waiting = 0;
    return 0;
}

static struct verbs_rail *change_library(int node)
{
    struct verbs_rail *rail = &nodes[node].transport->rails[0];
    library = *rail->verbs;
    rail->verbs = &library;
    return rail;
}

static void report(int node, struct ibv_qp *qp, enum ibv_event_type type)
{
    change_library(node);
    library.get_async_event = one_event;
    event = (struct ibv_async_event){.element.qp = qp, .event_type = type};
    is_waiting = 1;
    verbs_events_take(nodes[node].transport);
    assert_int_equal(is_waiting, 0);
}

/* At whom the key was used. */
static void a_peer_with_a_wrong_key_is_named(void **state)
{
    struct scene scene;
    (void)state;
    scene_open(&scene);
    report(0, scene.link->qps[0]->ibv, IBV_EVENT_QP_ACCESS_ERR);
    verbs_nodes_turns(3);
    scene_end(&scene, WEFT_TRANSPORT,
              "fake0 port 1: queue pair in error: the peer used a wrong or stale key, or memory that it may "
              "not write",
              "; look for an error at the peer; this was the link with a peer at LID ");
}

static void ignore(void *arg, const struct weft_event *event_reported)
{
    (void)arg, (void)event_reported;
}

/* The instance is over, with all its links; others' are not. */
static void an_overrun_queue_ends_the_instance(void **state)
{
    static const char text[] =
        "fake0 port 1: completion queue in error: it has overrun; completions are lost and nothing works "
        "here "
        "any more: open another context; an error in weft or the driver, look into dmesg";
    struct scene scene;
    (void)state;
    scene_open(&scene);
    report(0, NULL, IBV_EVENT_CQ_ERR);
    expect(verbs_nodes_ops.why(scene.link), text);
    expect(verbs_nodes_ops.why(scene.others[0]), text);
    struct weft_link *link = NULL;
    assert_true(verbs_nodes_ops.connect(nodes[0].transport, nodes[1].address, nodes[1].size, NULL, &link) <
                0);
    expect(weft_error_detail(), "completion queue in error");
    assert_int_equal(verbs_nodes_ops.poll(nodes[0].transport, 16, ignore, NULL), 2); /* both links */
    assert_true(verbs_nodes_ops.poll(nodes[0].transport, 16, ignore, NULL) < 0);
    expect(weft_error_detail(), text);
    for (int i = 0; i < verbs_nodes_oob_count; i++)
        verbs_nodes_hand_over(&verbs_nodes_oob[i]);
    verbs_nodes_oob_count = 0;
    verbs_nodes_poll(1, 3);
    verbs_nodes_poll(2, 3);
    expect(verbs_nodes_ops.why(scene.back), "verbs: the peer has given up this link: fake0 port 1: ");
    assert_int_equal(verbs_nodes_ops.send(scene.others[1], "1 to 2", 6, NULL, 0), 0);
    verbs_nodes_poll(1, 2);
    verbs_nodes_poll(2, 2);
    assert_memory_equal(nodes[2].last, "1 to 2", 6);
}

/* --- limits */

static struct ibv_cq *no_cq(struct ibv_context *context, int entries, void *arg,
                            struct ibv_comp_channel *channel, int vector)
{
    (void)context, (void)entries, (void)arg, (void)channel, (void)vector;
    errno = ENOMEM;
    return NULL;
}

static struct ibv_srq *no_srq(struct ibv_pd *domain, struct ibv_srq_init_attr *attributes)
{
    (void)domain, (void)attributes;
    errno = ENOMEM;
    return NULL;
}

static struct ibv_qp *no_qp(struct ibv_pd *domain, struct ibv_qp_init_attr *attributes)
{
    (void)domain, (void)attributes;
    errno = ENOMEM;
    return NULL;
}

static int no_resize(struct ibv_cq *cq, int entries)
{
    (void)cq, (void)entries;
    return ENOMEM;
}

/* A rail that lacks something is an error that says what there is; nothing of it stays. */
static void expect_no_queues(const char *text)
{
    struct verbs_queues queues = {0};
    struct verbs_rail rail = nodes[0].transport->rails[0];
    int before = rdma_fake_count();
    rail.verbs = &library;
    rail.channel = NULL;
    rail.cq = NULL;
    rail.srq = NULL;
    assert_int_equal(verbs_queues_open(nodes[0].transport, &queues, &rail), WEFT_TRANSPORT);
    expect(weft_error_detail(), text);
    verbs_queues_close(&queues);
    assert_int_equal(rdma_fake_count(), before);
}

static void queues_that_there_are_not_are_named(void **state)
{
    (void)state;
    library = *nodes[0].transport->rails[0].verbs;
    library.create_cq = no_cq;
    expect_no_queues(
        "entries on fake0 port 1: Cannot allocate memory; a queue there has at most 32767, and other "
        "processes may have taken what the device has in all");
    library = *nodes[0].transport->rails[0].verbs;
    library.create_srq = no_srq;
    expect_no_queues("entries on fake0 port 1: Cannot allocate memory; the device has 16 of at most 16384 "
                     "entries, for all processes together");
}

static void queue_pairs_that_there_are_not_are_named(void **state)
{
    struct weft_link *link = NULL, *other;
    (void)state;
    other = verbs_nodes_join(0, 2);
    struct verbs_rail *rail = change_library(0);
    library.create_qp = no_qp;
    assert_int_equal(
        verbs_nodes_ops.connect(nodes[0].transport, nodes[1].address, nodes[1].size, NULL, &link),
        WEFT_NOMEM);
    expect(weft_error_detail(),
           "creating a queue pair on fake0 port 1: Cannot allocate memory; the device allows "
           "4096, for all processes together: use fewer peers, or fewer for each "
           "(WEFT_VERBS_QPS)");
    verbs_nodes_say(other, "goes on", 2);
    rail->verbs = &rdma_fake_library;
    verbs_nodes_say(verbs_nodes_join(0, 1), "now", 1);
}

static void full_queues_are_named(void **state)
{
    (void)state;
    struct weft_link *other = verbs_nodes_join(0, 2);
    struct verbs_queues *queues = &nodes[0].transport->queues[0];
    change_library(0);
    library.resize_cq = no_resize;
    assert_int_equal(verbs_completions_reserve(queues, 20000), WEFT_NOMEM);
    expect(weft_error_detail(), "fake0 has a completion queue of ");
    expect(weft_error_detail(),
           " (Cannot allocate memory); it takes at most 32767: use fewer peers, or fewer "
           "queue pairs (WEFT_VERBS_QPS)");
    assert_int_equal(verbs_completions_reserve(queues, 40000), WEFT_NOMEM);
    assert_int_equal(verbs_receives_reserve(queues, 20000), WEFT_NOMEM);
    expect(weft_error_detail(), "the receive queue of fake0 holds ");
    expect(weft_error_detail(), " are taken, and needs 20000 more: use fewer peers");
    verbs_nodes_say(other, "goes on", 2);
}

/* --- a peer that does not come to meet */

static void a_peer_that_does_not_answer_is_named(void **state)
{
    (void)state;
    struct weft_link *other = verbs_nodes_join(0, 2);
    verbs_nodes_hold = 1;
    struct weft_link *link = verbs_nodes_begin(0, 1);
    assert_true(link->deadline_ns > 0);
    link->deadline_ns = 1; /* 10 s later */
    verbs_links_tick(nodes[0].transport, 2);
    assert_int_equal(link->state, VERBS_LINK_FAILED);
    assert_string_equal(
        verbs_nodes_ops.why(link),
        "verbs: no link to the peer within 10 s: it has not answered; look whether it runs and "
        "makes progress");
    verbs_nodes_oob_count = 0;
    verbs_nodes_hold = 0;
    verbs_nodes_turns(3);
    assert_int_equal(nodes[0].failed, 1);
    assert_int_equal(nodes[0].status, WEFT_TRANSPORT);
    verbs_nodes_say(other, "goes on", 2);
    verbs_nodes_say(verbs_nodes_join(0, 1), "later", 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, verbs_nodes_setup, verbs_nodes_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_status_is_reported_at_both_ends),
        TEST(a_wrong_key_is_reported_at_both_ends),
        TEST(a_peer_with_a_wrong_key_is_named),
        TEST(an_overrun_queue_ends_the_instance),
        TEST(queues_that_there_are_not_are_named),
        TEST(queue_pairs_that_there_are_not_are_named),
        TEST(full_queues_are_named),
        TEST(a_peer_that_does_not_answer_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
