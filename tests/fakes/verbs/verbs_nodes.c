/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/verbs/verbs_nodes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include <weft/weft.h>
#include "tests/fakes/verbs/rdma_fake.h"
#include "transport/registry.h"

struct weft_transport_ops verbs_nodes_ops;
struct verbs_node verbs_nodes[VERBS_NODES];
struct verbs_nodes_message verbs_nodes_oob[64];
int verbs_nodes_oob_count, verbs_nodes_hold;

static int oob_send(void *arg, const void *address, size_t address_size, const void *oob, size_t size)
{
    const struct verbs_node *from = arg;
    for (int i = 0; i < VERBS_NODES; i++) {
        if (verbs_nodes[i].size != address_size || memcmp(verbs_nodes[i].address, address, address_size) != 0)
            continue;
        assert_true(verbs_nodes_oob_count < 64);
        struct verbs_nodes_message *next = &verbs_nodes_oob[verbs_nodes_oob_count++];
        *next = (struct verbs_nodes_message){(int)(from - verbs_nodes), i, size, {0}};
        memcpy(next->bytes, oob, size);
        return WEFT_OK;
    }
    return WEFT_PEER_FAILED;
}

static void note(void *arg, const struct weft_event *event)
{
    struct verbs_node *node = arg;
    switch (event->kind) {
    case WEFT_EVENT_LINK_FAILED:
        node->failed++;
        node->status = event->status;
        break;
    case WEFT_EVENT_MESSAGE:
        node->received++;
        memcpy(node->last, event->data, event->data_size < 8 ? event->data_size : 8);
        break;
    case WEFT_EVENT_FILLED:
        assert_int_equal(event->status, WEFT_OK);
        node->filled++;
        break;
    case WEFT_EVENT_PUT_DONE:
        node->put++;
        node->put_status = event->status;
        break;
    }
}

void verbs_nodes_hand_over(const struct verbs_nodes_message *oob)
{
    const struct verbs_node *from = &verbs_nodes[oob->from];
    if (verbs_nodes[oob->to].transport)
        verbs_nodes_ops.oob_receive(verbs_nodes[oob->to].transport, from->address, from->size, oob->bytes,
                                    oob->size);
}

void verbs_nodes_poll(int node, int times)
{
    for (; times > 0 && verbs_nodes[node].transport; times--)
        assert_true(verbs_nodes_ops.poll(verbs_nodes[node].transport, 16, note, &verbs_nodes[node]) >= 0);
}

static void turn(void)
{
    for (int i = 0; i < verbs_nodes_oob_count && !verbs_nodes_hold; i++) {
        struct verbs_nodes_message oob = verbs_nodes_oob[i];
        verbs_nodes_hand_over(&oob);
    }
    verbs_nodes_oob_count = verbs_nodes_hold ? verbs_nodes_oob_count : 0;
    for (int i = 0; i < VERBS_NODES; i++)
        verbs_nodes_poll(i, 1);
}

void verbs_nodes_turns(int count)
{
    while (count--)
        turn();
}

struct weft_link *verbs_nodes_begin(int from, int to)
{
    struct weft_link *link = NULL;
    struct verbs_node *node = &verbs_nodes[from], *peer = &verbs_nodes[to];
    assert_int_equal(verbs_nodes_ops.connect(node->transport, peer->address, peer->size, node, &link), 0);
    return link;
}

struct weft_link *verbs_nodes_join(int from, int to)
{
    struct weft_link *link = verbs_nodes_begin(from, to);
    uint32_t flags;
    verbs_nodes_turns(6);
    assert_int_equal(verbs_nodes_ops.link_flags(link, &flags), WEFT_OK);
    return link;
}

void verbs_nodes_say(struct weft_link *link, const char *text, int to)
{
    int before = verbs_nodes[to].received;
    assert_int_equal(verbs_nodes_ops.send(link, text, strlen(text), NULL, 0), WEFT_OK);
    verbs_nodes_turns(2);
    assert_int_equal(verbs_nodes[to].received, before + 1);
    assert_memory_equal(verbs_nodes[to].last, text, strlen(text));
}

void verbs_nodes_open(const char *devices, const struct weft_verbs_settings *settings)
{
    memset(verbs_nodes, 0, sizeof verbs_nodes);
    verbs_nodes_oob_count = verbs_nodes_hold = 0;
    assert_int_equal(weft_transport_complete(weft_transport_find("verbs"), &verbs_nodes_ops), 0);
    for (int i = 0; i < VERBS_NODES; i++) {
        struct verbs_node *node = &verbs_nodes[i];
        struct weft_transport_params params = {.size = sizeof params,
                                               .oob_send = oob_send,
                                               .oob_arg = node,
                                               .devices = devices,
                                               .verbs = settings};
        node->size = WEFT_ADDRESS_MAX;
        assert_int_equal(verbs_nodes_ops.open(&params, &node->transport), 0);
        assert_int_equal(verbs_nodes_ops.address(node->transport, node->address, &node->size), 0);
    }
}

void verbs_nodes_close(void)
{
    for (int i = 0; i < VERBS_NODES; i++) {
        verbs_nodes_ops.close(verbs_nodes[i].transport);
        verbs_nodes[i].transport = NULL;
    }
}

int verbs_nodes_setup(void **state)
{
    (void)state;
    verbs_nodes_open(NULL, NULL);
    return 0;
}

int verbs_nodes_teardown(void **state)
{
    (void)state;
    verbs_nodes_close();
    assert_int_equal(rdma_fake_count(), 0);
    return 0;
}
