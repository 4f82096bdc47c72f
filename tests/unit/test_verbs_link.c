/* Links of the verbs transport on a device in memory: what becomes of them when queue pairs break, peers go and letters
 * come at the wrong time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include <weft/weft.h>

#include "tests/fake/rdma_fake.h"
#include "transport/registry.h"
#include "transport/verbs/verbs_private.h"

#define NODES 3

struct node {
    struct weft_transport *transport;
    uint8_t address[WEFT_ADDRESS_MAX];
    size_t size;
    int received, failed, status;
    uint8_t last[8];
};

struct post {
    int from, to;
    size_t size;
    uint8_t bytes[WEFT_LETTER_MAX];
};

static struct weft_transport_ops ops;
static struct node nodes[NODES];
static struct post posts[64];
static int posts_count, is_held; /* letters wait while held */

static int tell(void *arg, const void *address, size_t address_size, const void *letter, size_t size)
{
    const struct node *from = arg;
    for (int i = 0; i < NODES; i++) {
        if (nodes[i].size != address_size || memcmp(nodes[i].address, address, address_size) != 0)
            continue;
        assert_true(posts_count < 64);
        posts[posts_count] = (struct post){(int)(from - nodes), i, size, {0}};
        memcpy(posts[posts_count++].bytes, letter, size);
        return WEFT_OK;
    }
    return WEFT_PEER_FAILED;
}

static void note(void *arg, const struct weft_event *event)
{
    struct node *node = arg;
    if (event->kind == WEFT_EVENT_LINK_FAILED) {
        node->failed++;
        node->status = event->status;
    } else if (event->kind == WEFT_EVENT_MESSAGE) {
        node->received++;
        memcpy(node->last, event->data, event->data_size < 8 ? event->data_size : 8);
    }
}

static void hand_over(const struct post *post)
{
    ops.told(nodes[post->to].transport, nodes[post->from].address, nodes[post->from].size, post->bytes,
             post->size);
}

static void turn(void)
{
    for (int i = 0; i < posts_count && !is_held; i++) {
        struct post post = posts[i];
        hand_over(&post);
    }
    posts_count = is_held ? posts_count : 0;
    for (int i = 0; i < NODES; i++) {
        if (nodes[i].transport)
            assert_true(ops.poll(nodes[i].transport, 16, note, &nodes[i]) >= 0);
    }
}

static void turns(int count)
{
    while (count--)
        turn();
}

static struct weft_link *begin(int from, int to)
{
    struct weft_link *link = NULL;
    assert_int_equal(
        ops.connect(nodes[from].transport, nodes[to].address, nodes[to].size, &nodes[from], &link), 0);
    return link;
}

static struct weft_link *join(int from, int to)
{
    struct weft_link *link = begin(from, to);
    uint32_t flags;
    turns(6);
    assert_int_equal(ops.link_flags(link, &flags), WEFT_OK);
    return link;
}

static void say(struct weft_link *link, const char *text, int to)
{
    int before = nodes[to].received;
    assert_int_equal(ops.send(link, text, strlen(text), NULL, 0), WEFT_OK);
    turns(2);
    assert_int_equal(nodes[to].received, before + 1);
    assert_memory_equal(nodes[to].last, text, strlen(text));
}

static int open_nodes(void **state)
{
    (void)state;
    memset(nodes, 0, sizeof nodes);
    posts_count = is_held = 0;
    assert_int_equal(weft_transport_complete(weft_transport_find("verbs"), &ops), 0);
    for (int i = 0; i < NODES; i++) {
        struct weft_transport_params params = {.size = sizeof params, .tell = tell, .tell_arg = &nodes[i]};
        nodes[i].size = WEFT_ADDRESS_MAX;
        assert_int_equal(ops.open(&params, &nodes[i].transport), 0);
        assert_int_equal(ops.address(nodes[i].transport, nodes[i].address, &nodes[i].size), 0);
    }
    return 0;
}

static int close_nodes(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++)
        ops.close(nodes[i].transport);
    assert_int_equal(rdma_fake_count(), 0);
    return 0;
}

/* Both ends learn of it, others do not; a new link works, and what was sent over the old one stays away. */
static void a_broken_queue_pair_ends_its_link_only(void **state)
{
    (void)state;
    struct weft_link *link = join(0, 1), *back = join(1, 0), *other = join(0, 2);
    say(link, "before", 1);
    rdma_fake_break(link->lanes[0]->qp->qp_num, IBV_WC_LOC_PROT_ERR);
    turns(3);
    assert_int_equal(nodes[0].failed, 1);
    assert_int_equal(nodes[1].failed, 1);
    assert_int_equal(nodes[2].failed, 0);
    assert_int_equal(nodes[0].status, WEFT_TRANSPORT);
    assert_non_null(ops.why(link));
    assert_non_null(strstr(ops.why(link), "fake0"));
    assert_true(ops.send(link, "x", 1, NULL, 0) < 0);
    assert_true(ops.send(back, "x", 1, NULL, 0) < 0);
    say(other, "third", 2);
    struct weft_link *again = join(0, 1);
    assert_ptr_not_equal(again, link);
    assert_null(ops.why(again));
    say(again, "after", 1);
    assert_int_equal(nodes[0].failed + nodes[1].failed, 2);
}

/* Letters told twice, and those of a link that is no more, change nothing. */
static void late_letters_do_no_harm(void **state)
{
    struct post kept[64];
    (void)state;
    is_held = 1;
    struct weft_link *link = begin(0, 1);
    int count = 0;
    for (int round = 0; round < 6; round++) {
        int now = posts_count;
        for (int i = count; i < now; i++) {
            kept[i] = posts[i];
            hand_over(&kept[i]);
        }
        count = now;
        turn();
    }
    assert_true(count >= 3);
    say(link, "up", 1);
    for (int i = 0; i < count; i++)
        hand_over(&kept[i]);
    posts_count = is_held = 0;
    turns(3);
    say(link, "still", 1);
    rdma_fake_break(link->lanes[0]->qp->qp_num, IBV_WC_LOC_PROT_ERR);
    turns(3);
    struct weft_link *again = join(0, 1);
    for (int i = 0; i < count; i++)
        hand_over(&kept[i]);
    turns(3);
    say(again, "again", 1);
    assert_int_equal(nodes[1].failed, 0); /* it never held the link */
}

static void both_may_begin_at_once(void **state)
{
    (void)state;
    is_held = 1;
    struct weft_link *there = begin(0, 1), *back = begin(1, 0);
    is_held = 0;
    turns(6);
    say(there, "there", 1);
    say(back, "back", 0);
    assert_int_equal(nodes[0].transport->links_count, 1);
    assert_int_equal(nodes[1].transport->links_count, 1);
    assert_int_equal(nodes[0].failed + nodes[1].failed, 0);
}

static void an_instance_may_talk_to_itself(void **state)
{
    (void)state;
    struct weft_link *link = join(0, 0);
    say(link, "myself", 0);
}

/* Many more messages than the numbers up to the wrap, a window at a time. */
static void numbers_wrap(void **state)
{
    (void)state;
    struct weft_link *link = join(0, 1);
    for (int i = 0; i < 200; i++)
        say(link, i % 2 ? "odd" : "even", 1);
    assert_true(link->sent < VERBS_FIRST_SEQUENCE);
}

static void a_peer_that_is_gone_is_an_error(void **state)
{
    (void)state;
    uint8_t address[WEFT_ADDRESS_MAX];
    size_t size = nodes[1].size;
    memcpy(address, nodes[1].address, size);
    nodes[1].size = 0; /* nobody has it any more */
    struct weft_link *link = NULL;
    assert_int_equal(ops.connect(nodes[0].transport, address, size, &nodes[0], &link), 0);
    turn();
    assert_int_equal(nodes[0].failed, 1);
    assert_int_equal(nodes[0].status, WEFT_PEER_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_broken_queue_pair_ends_its_link_only, open_nodes, close_nodes),
        cmocka_unit_test_setup_teardown(late_letters_do_no_harm, open_nodes, close_nodes),
        cmocka_unit_test_setup_teardown(both_may_begin_at_once, open_nodes, close_nodes),
        cmocka_unit_test_setup_teardown(an_instance_may_talk_to_itself, open_nodes, close_nodes),
        cmocka_unit_test_setup_teardown(numbers_wrap, open_nodes, close_nodes),
        cmocka_unit_test_setup_teardown(a_peer_that_is_gone_is_an_error, open_nodes, close_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
