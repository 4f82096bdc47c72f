/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/fakes/verbs/rdma_fake*.c */
/* Fuzz target: what a peer can say to the verbs transport, over its queue pair and out of band, on a device in memory.
 *
 * Two instances have a link; a third party's link is there too. The input is a list of what comes: frames on the peer's queue
 * pair (their first bytes made right by the input's wish, so that they get further), immediates, out-of-band messages. Whatever it is,
 * the third party's link goes on, and a message from there arrives. In every other input rails can fail, so that
 * out-of-band messages may begin new rounds of queue pairs, and frames announce keys.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "tests/fakes/verbs/rdma_fake.h"
#include "transport/registry.h"
#include "transport/verbs/failover.h"

#define NODES 3

struct node {
    struct weft_transport *transport;
    uint8_t address[WEFT_ADDRESS_MAX];
    size_t size;
    int received;
};

struct pending {
    int from, to;
    size_t size;
    uint8_t bytes[WEFT_OOB_MAX];
};

static struct weft_verbs_settings settings = WEFT_VERBS_SETTINGS_INIT;
static struct weft_transport_ops ops;
static struct node nodes[NODES];
static struct pending oobs[64];
static int oob_count;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int oob_send(void *arg, const void *address, size_t address_size, const void *oob, size_t size)
{
    struct node *from = arg;
    for (int i = 0; i < NODES; i++) {
        if (nodes[i].size != address_size || memcmp(nodes[i].address, address, address_size) != 0)
            continue;
        if (oob_count == 64)
            return WEFT_AGAIN;
        struct pending *pending = &oobs[oob_count++];
        pending->from = (int)(from - nodes);
        pending->to = i;
        pending->size = size;
        memcpy(pending->bytes, oob, size);
        return WEFT_OK;
    }
    return WEFT_PEER_FAILED;
}

static void note(void *arg, const struct weft_event *event)
{
    struct node *node = arg;
    if (event->kind == WEFT_EVENT_MESSAGE && event->data_size == 5 && memcmp(event->data, "third", 5) == 0)
        node->received++;
}

static void turn(void)
{
    for (int i = 0; i < oob_count; i++) {
        struct pending pending = oobs[i];
        ops.oob_receive(nodes[pending.to].transport, nodes[pending.from].address, nodes[pending.from].size,
                        pending.bytes, pending.size);
    }
    oob_count = 0;
    for (int i = 0; i < NODES; i++)
        ops.poll(nodes[i].transport, 16, note, &nodes[i]);
}

static struct weft_link *join(int from, int to)
{
    struct weft_link *link;
    uint32_t flags;
    if (ops.connect(nodes[from].transport, nodes[to].address, nodes[to].size, NULL, &link))
        abort();
    for (int i = 0; i < 10 && ops.link_flags(link, &flags); i++)
        turn();
    if (ops.link_flags(link, &flags))
        abort();
    return link;
}

/* The queue pair of node 0 that the peer's packets come to, and the link; NULL when it is no more. */
static struct weft_link *victim(void)
{
    struct weft_link *link =
        verbs_link_of(nodes[0].transport, nodes[1].transport->address, nodes[1].transport->address_size);
    return link && link->qps[link->first] ? link : NULL;
}

static void frame_come(const uint8_t *bytes, size_t size)
{
    const struct weft_link *link = victim();
    uint8_t whole[sizeof(struct verbs_frame) + sizeof(struct verbs_key_entry)] = {0};
    struct verbs_frame *frame = (struct verbs_frame *)(void *)whole;
    if (!link || size < 2)
        return;
    size_t length = bytes[0] & 16 ? sizeof(struct verbs_frame) + 5 : (size - 1) % sizeof whole;
    memcpy(whole, bytes + 1, size - 1 < sizeof whole ? size - 1 : sizeof whole);
    if (bytes[0] & 1)
        frame->mark = VERBS_FRAME_MARK;
    if (bytes[0] & 2)
        frame->link = link->id;
    if (bytes[0] & 4)
        frame->sequence = link->expected;
    if (bytes[0] & 8)
        frame->consumed = link->sent;
    if (bytes[0] & 32) { /* a key, in good order but for what the input says */
        struct verbs_key_entry entry;
        memcpy(&entry, frame + 1, sizeof entry);
        frame->type = bytes[0] & 64 ? VERBS_KEYS : VERBS_KEYS_END;
        entry.token.check = (entry.token.check & ~1u) | link->live;
        entry.token.immediate &= 0xfffffff;
        memcpy(frame + 1, &entry, sizeof entry);
        length = bytes[0] & 64 ? sizeof whole : sizeof *frame;
    }
    rdma_fake_deliver(link->qps[link->first]->ibv->qp_num, whole, length);
}

static void oob_come(const uint8_t *bytes, size_t size)
{
    const struct weft_link *link = victim();
    struct verbs_oob oob;
    uint8_t written[WEFT_OOB_MAX];
    if (size && bytes[0] & 1) { /* one in good order, but for what the input says */
        memset(&oob, 0, sizeof oob);
        oob.type = bytes[0] & 2 ? VERBS_OOB_END : VERBS_OOB_HALF;
        oob.generation = size > 1 ? bytes[1] : 1;
        oob.heard = bytes[0] & 4 && link ? link->generation : size > 2 ? bytes[2] : 0;
        oob.flags = bytes[0] >> 4;
        oob.qp_count = oob.type == VERBS_OOB_HALF;
        oob.window = 8;
        oob.frame_bytes = 1024;
        oob.qps[0].number = size > 3 ? bytes[3] : 1;
        oob.features = VERBS_FEATURE_FAILOVER;
        if (size > 4 && bytes[4] & 1 && link) { /* of this link, in another round */
            oob.generation = link->peer_generation;
            oob.heard = link->generation;
            oob.round = link->round + (bytes[4] >> 1 & 1);
            oob.expected = link->sent;
            oob.consumed = link->sent - (bytes[4] >> 2 & 3);
        }
        size = verbs_oob_write(&oob, written);
        bytes = written;
    }
    ops.oob_receive(nodes[0].transport, nodes[1].address, nodes[1].size, bytes, size);
    struct verbs_oob again;
    uint8_t copy[WEFT_OOB_MAX];
    if (verbs_oob_read(bytes, size, &oob) == WEFT_OK) {
        size_t length = verbs_oob_write(&oob, copy);
        if (length != size || verbs_oob_read(copy, length, &again) || memcmp(&oob, &again, sizeof oob))
            abort();
    }
}

static void come(const uint8_t *bytes, size_t size)
{
    uint32_t immediate = 0;
    const struct weft_link *link = victim();
    if (bytes[0] % 4 == 0)
        oob_come(bytes + 1, size - 1);
    else if (bytes[0] % 4 == 1 && link) {
        memcpy(&immediate, bytes + 1, size - 1 < 4 ? size - 1 : 4);
        rdma_fake_immediate(link->qps[link->first]->ibv->qp_num, immediate);
    } else
        frame_come(bytes + 1, size - 1);
    turn();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!ops.open && weft_transport_complete(weft_transport_find("verbs"), &ops))
        abort();
    memset(nodes, 0, sizeof nodes);
    oob_count = 0;
    settings.failover = size % 2;
    for (int i = 0; i < NODES; i++) {
        struct weft_transport_params params = {
            .size = sizeof params, .oob_send = oob_send, .oob_arg = &nodes[i], .verbs = &settings};
        nodes[i].size = WEFT_ADDRESS_MAX;
        if (ops.open(&params, &nodes[i].transport) ||
            ops.address(nodes[i].transport, nodes[i].address, &nodes[i].size))
            abort();
    }
    join(0, 1);
    struct weft_link *third = join(2, 0);
    for (int count = 0; size > 1 && count < 64; count++) {
        size_t length = 1 + data[0] % 63;
        if (length > size - 1)
            length = size - 1;
        come(data + 1, length);
        data += 1 + length;
        size -= 1 + length;
    }
    nodes[0].received = 0;
    if (ops.send(third, "third", 5, NULL, 0))
        abort();
    for (int i = 0; i < 4; i++)
        turn();
    if (nodes[0].received != 1)
        abort();
    for (int i = 0; i < NODES; i++)
        ops.close(nodes[i].transport);
    if (rdma_fake_count())
        abort();
    return 0;
}
