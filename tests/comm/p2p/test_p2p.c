/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (reads and writes bytes) */
/* Point-to-point messages of one rank whose peers are played by the test: what leaves when links are full, ids run out
 * and turns are taken. Between real ranks: tests/system/test_p2p*.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "comm/p2p/p2p.h"

#define RANK  1
#define RANKS 3
#define LIMIT (WEFT_TRANSFERS_MAX - RANKS * WEFT_P2P_TURNS) /* sends with an id */
#define LONG  1000                                          /* bytes that are announced */

static int full, reads;       /* whether links take no message; whether a rank reads memory of others */
static uint8_t offered[LONG]; /* of a peer */
static size_t left[WEFT_WIRE_ROOM + 1]; /* messages that have left, by kind */
static struct weft_wire_header last;    /* of them */

static int post(struct weft_link *link, const void *header, size_t header_size, const void *payload,
                size_t payload_size)
{
    (void)link, (void)header_size, (void)payload, (void)payload_size;
    if (full)
        return weft_fail(WEFT_AGAIN, "the link is full");
    memcpy(&last, header, sizeof last);
    left[last.kind]++;
    return WEFT_OK;
}

static int link_flags(struct weft_link *link, uint32_t *flags)
{
    (void)link;
    *flags = 0;
    return WEFT_OK;
}

static void recall_wait(struct weft_transport *transport)
{
    (void)transport;
}

static int map(struct weft_link *link, const struct weft_token *token, size_t size, const void **memory)
{
    (void)link, (void)token;
    assert_int_equal(size, LONG);
    *memory = offered;
    return WEFT_OK;
}

static int exposed(struct weft_link *link, const struct weft_token *token)
{
    (void)link, (void)token;
    return WEFT_OK;
}

static const struct weft_transport_ops ops = {
    .send = post, .link_flags = link_flags, .recall_wait = recall_wait, .map = map, .exposed = exposed};

static int connect_peer(void *arg, uint32_t rank, struct weft_exec_peer *peer)
{
    (void)rank;
    *peer = (struct weft_exec_peer){
        .ops = &ops, .link = arg, .caps = reads ? WEFT_CAP_READ : 0, .eager_bytes = 256, .slice_bytes = 4096};
    return WEFT_OK;
}

static void *buffer_get(void *arg, uint32_t transport, size_t size, const struct weft_device_kind *kind)
{
    (void)arg, (void)transport, (void)kind;
    return malloc(size);
}

static void buffer_put(void *arg, uint32_t transport, void *buffer, size_t size)
{
    (void)arg, (void)transport, (void)size;
    free(buffer);
}

struct world {
    struct weft_exec *exec;
    struct weft_p2p *p2p;
    uint8_t memory[LONG];
};

static void open_world(struct world *world)
{
    full = reads = 0;
    memset(left, 0, sizeof left);
    struct weft_exec_options options = {
        .id = 1,
        .rank = RANK,
        .ranks = RANKS,
        .window = 8,
        .hooks = {
            .comm = world, .connect = connect_peer, .buffer_get = buffer_get, .buffer_put = buffer_put}};
    assert_int_equal(weft_exec_create(&options, &world->exec), 0);
    struct weft_p2p_options messages = {
        .rank = RANK, .ranks = RANKS, .local_bytes = 256, .exec = world->exec};
    assert_int_equal(weft_p2p_open(&messages, &world->p2p), 0);
}

static void close_world(struct world *world)
{
    weft_exec_fail(world->exec, WEFT_CANCELLED);
    weft_p2p_close(world->p2p);
    weft_exec_destroy(world->exec);
}

static void begin(struct world *world, struct weft_request *request, int sends, int peer)
{
    *request = (struct weft_request){
        .memory = world->memory, .bytes = LONG, .peer = peer, .tag = 1, .sends = (uint8_t)sends};
    assert_int_equal(sends ? weft_p2p_send(world->p2p, request) : weft_p2p_receive(world->p2p, request), 0);
}

static void hear(struct world *world, enum weft_wire_kind kind, uint32_t source, uint32_t op,
                 uint32_t message, const void *payload, uint32_t size)
{
    struct weft_wire_header header = {.comm = 1,
                                      .op = op,
                                      .source = source,
                                      .message = message,
                                      .count = kind == WEFT_WIRE_ANNOUNCE || kind == WEFT_WIRE_TAGGED,
                                      .size = size,
                                      .kind = (uint8_t)kind,
                                      .version = WEFT_WIRE_VERSION};
    assert_int_equal(weft_p2p_message(world->p2p, &header, payload), 0);
}

static void hear_announce(struct world *world, uint32_t source, uint32_t id)
{
    uint64_t bytes = LONG;
    hear(world, WEFT_WIRE_ANNOUNCE, source, id, 0, &bytes, sizeof bytes);
}

/* Announcements to two peers use up what sends may have: receives go on, and the sends that got no id leave later, one for
 * each that has been matched. */
static void test_ids(void **state)
{
    (void)state;
    struct world world;
    struct weft_request *sends = calloc(LIMIT + 2, sizeof *sends), receives[2 * WEFT_P2P_TURNS + 2];
    size_t receive = 0;
    assert_non_null(sends);
    open_world(&world);
    for (size_t i = 0; i < LIMIT + 2; i++)
        begin(&world, &sends[i], 1, i % 2 ? 2 : 0);
    assert_int_equal(left[WEFT_WIRE_ANNOUNCE], LIMIT);
    weft_p2p_progress(world.p2p);
    assert_int_equal(left[WEFT_WIRE_ANNOUNCE], LIMIT);
    assert_int_equal(weft_p2p_is_blocked(world.p2p), 0); /* nothing to look at until MATCHED comes */

    for (uint32_t i = 0; i < 2 * WEFT_P2P_TURNS + 2; i++) {
        begin(&world, &receives[receive++], 0, i % 2 ? 2 : 0);
        hear_announce(&world, i % 2 ? 2 : 0, 1000 + i);
    }
    weft_p2p_progress(world.p2p);
    assert_int_equal(left[WEFT_WIRE_MATCHED], 2 * WEFT_P2P_TURNS); /* the last two wait for their turn */
    assert_int_equal(weft_p2p_is_blocked(world.p2p), 0);

    for (size_t i = 0; i < 2; i++) { /* has been matched, and is not to be moved */
        uint32_t id = sends[i].id;
        hear(&world, WEFT_WIRE_MATCHED, i % 2 ? 2 : 0, id, 0, NULL, 0);
        assert_int_equal(sends[i].status, 0);
        assert_int_equal(weft_p2p_is_blocked(world.p2p), 1);
        weft_p2p_progress(world.p2p);
        assert_int_equal(left[WEFT_WIRE_ANNOUNCE], LIMIT + i + 1);
        assert_int_equal(sends[LIMIT + i].state, WEFT_REQUEST_ANNOUNCED);
    }
    assert_int_equal(weft_p2p_is_blocked(world.p2p), 0);
    close_world(&world);
    for (size_t i = 2; i < LIMIT + 2; i++)
        assert_int_equal(sends[i].status, WEFT_CANCELLED);
    free(sends);
}

/* Credit that is due is announced as soon as the link takes it, also while all turns of the peer are taken. */
static void test_credit_beside_turns(void **state)
{
    (void)state;
    struct world world;
    struct weft_request receives[WEFT_P2P_TURNS + 1], small;
    open_world(&world);
    for (uint32_t i = 0; i < WEFT_P2P_TURNS + 1; i++) {
        begin(&world, &receives[i], 0, 0);
        hear_announce(&world, 0, 1000 + i);
    }
    weft_p2p_progress(world.p2p);
    assert_int_equal(left[WEFT_WIRE_MATCHED], WEFT_P2P_TURNS);
    full = 1;
    for (size_t owed = 0; owed < WEFT_P2P_CREDIT / 4; owed += 256 + WEFT_P2P_COST) {
        begin(&world, &small, 0, 0);
        hear(&world, WEFT_WIRE_TAGGED, 0, 0, 0, world.memory, 256);
        assert_int_equal(small.status, 0);
    }
    weft_p2p_progress(world.p2p);
    assert_int_equal(left[WEFT_WIRE_ROOM], 0);
    assert_int_equal(weft_p2p_is_blocked(world.p2p), 1);
    full = 0;
    weft_p2p_progress(world.p2p);
    assert_int_equal(left[WEFT_WIRE_ROOM], 1);
    assert_int_equal(weft_p2p_is_blocked(world.p2p), 0);
    close_world(&world);
}

/* A dump keeps weft's own messages and the program's separate, and hides neither. */
static void test_dump(void **state)
{
    (void)state;
    struct world world;
    char text[1000];
    open_world(&world);
    struct weft_request own = {
        .memory = world.memory, .bytes = 8, .peer = 2, .tag = 5, .space = WEFT_SPACE_INTERNAL};
    struct weft_request users = {.memory = world.memory, .bytes = 8, .peer = 2, .tag = 5};
    struct weft_wire_header header = {.comm = 1,
                                      .count = 6,
                                      .size = 8,
                                      .kind = WEFT_WIRE_TAGGED,
                                      .version = WEFT_WIRE_VERSION,
                                      .flags = WEFT_WIRE_INTERNAL};
    assert_int_equal(weft_p2p_receive(world.p2p, &own), 0);
    assert_int_equal(weft_p2p_receive(world.p2p, &users), 0);
    assert_int_equal(weft_p2p_message(world.p2p, &header, world.memory), 0);
    header.flags = 0;
    assert_int_equal(weft_p2p_message(world.p2p, &header, world.memory), 0);
    weft_p2p_dump(world.p2p, text, sizeof text);
    assert_string_equal(text,
                        "  receive of at most 8 bytes from rank 2, tag 5, weft's own: waits for a message\n"
                        "  receive of at most 8 bytes from rank 2, tag 5: waits for a message\n"
                        "  unexpected: 8 bytes from rank 0, tag 6\n"
                        "  unexpected: 8 bytes from rank 0, tag 6, weft's own\n");
    close_world(&world);
}

static void hear_offer(struct world *world, uint64_t bytes)
{
    struct weft_wire_announce announce = {.bytes = bytes};
    memset(offered, 0x5a, sizeof offered);
    hear(world, WEFT_WIRE_ANNOUNCE, 0, 1000, 0, &announce, sizeof announce);
}

static void assert_taken(const struct world *world, const struct weft_request *receive)
{
    assert_int_equal(receive->status, 0);
    assert_int_equal(receive->found_bytes, LONG);
    assert_memory_equal(world->memory, offered, LONG);
    assert_int_equal(left[WEFT_WIRE_MATCHED], 1);
    assert_int_equal(last.op, 1000);
    assert_int_equal(last.message, 0);
}

/* What is offered is read as soon as a receive takes it, and answered when it has been. */
static void test_offered(void **state)
{
    (void)state;
    for (int comes_first = 0; comes_first < 2; comes_first++) {
        struct world world;
        struct weft_request receive;
        open_world(&world);
        reads = 1;
        if (comes_first)
            hear_offer(&world, LONG);
        begin(&world, &receive, 0, 0);
        if (!comes_first)
            hear_offer(&world, LONG);
        weft_p2p_progress(world.p2p);
        assert_taken(&world, &receive);
        close_world(&world);
    }
}

/* The answer waits for the link, and the receive for the answer. */
static void test_offered_on_full_link(void **state)
{
    (void)state;
    struct world world;
    struct weft_request receive;
    open_world(&world);
    reads = full = 1;
    begin(&world, &receive, 0, 0);
    hear_offer(&world, LONG);
    weft_p2p_progress(world.p2p);
    assert_memory_equal(world.memory, offered, LONG);
    assert_int_equal(receive.status, WEFT_AGAIN);
    assert_int_equal(weft_p2p_is_blocked(world.p2p), 1);
    full = 0;
    weft_p2p_progress(world.p2p);
    assert_taken(&world, &receive);
    assert_int_equal(weft_p2p_is_blocked(world.p2p), 0);
    close_world(&world);
}

/* By who reads no memory of others, and of what there is no room for. */
static void test_offer_not_used(void **state)
{
    (void)state;
    struct world world;
    struct weft_request receive;
    open_world(&world);
    begin(&world, &receive, 0, 0);
    hear_offer(&world, LONG);
    weft_p2p_progress(world.p2p);
    assert_int_equal(left[WEFT_WIRE_MATCHED], 1);
    assert_int_not_equal(last.message, 0);
    assert_int_equal(receive.state, WEFT_REQUEST_MOVING);
    close_world(&world);

    open_world(&world);
    reads = 1;
    begin(&world, &receive, 0, 0);
    hear_offer(&world, LONG + 1);
    weft_p2p_progress(world.p2p);
    assert_int_equal(left[WEFT_WIRE_MATCHED], 1);
    assert_int_equal(last.message, 0);
    assert_int_equal(receive.status, WEFT_MISMATCH);
    close_world(&world);
}

static void test_announcement_of_odd_size(void **state)
{
    (void)state;
    const struct weft_wire_announce announce = {.bytes = LONG};
    for (uint32_t size = 0; size <= sizeof announce; size++) {
        struct world world;
        struct weft_wire_header header = {
            .op = 1000, .count = 1, .size = size, .kind = WEFT_WIRE_ANNOUNCE, .version = WEFT_WIRE_VERSION};
        int is_right = size == sizeof announce.bytes || size == sizeof announce;
        open_world(&world);
        assert_int_equal(weft_p2p_message(world.p2p, &header, &announce), is_right ? 0 : WEFT_PROTOCOL);
        close_world(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_credit_beside_turns),
        cmocka_unit_test(test_dump),
        cmocka_unit_test(test_offered),
        cmocka_unit_test(test_offered_on_full_link),
        cmocka_unit_test(test_offer_not_used),
        cmocka_unit_test(test_announcement_of_odd_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
