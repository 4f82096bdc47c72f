/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ofi; with tests/fakes/ofi/ofi_fake.c */
/* Fuzz target: what comes to an instance of the ofi transport from outside. The input is a list of steps, each
 * a kind, a length and bytes:
 *
 *   0  a message of anybody, as it is
 *   1  a frame of a peer that knows the pass: the bytes are its type, counters and body
 *   2  a HELLO under the right key: the bytes are laid over one that is right
 *   3  completion data
 *   4  completion data of a receive buffer that exists, number and all: the first byte chooses it
 *   5  the caller gives a receive buffer
 *   6  the caller puts to a token: the bytes, laid over one that is right
 *   7  the caller takes a receive buffer back
 *   8  completions, events, answers
 */
#if __has_include(<rdma/fabric.h>)
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/ofi/ofi_fake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RBUFS 8

struct scene {
    struct ofi_fake *fake;
    struct weft_link *link;
    struct weft_token tokens[RBUFS];
    uint32_t filled;
    uint64_t generation;
    uint8_t memory[RBUFS][64];
};

static size_t lay_over(void *target, size_t capacity, const uint8_t *data, size_t size)
{
    size_t used = size < capacity ? size : capacity;
    if (used)
        memcpy(target, data, used);
    return used;
}

/* The bytes change a HELLO that is right: (offset, value) pairs. */
static void give_hello(struct scene *scene, const uint8_t *data, size_t size)
{
    struct weft_transport *transport = scene->fake->transport;
    struct ofi_hello_frame frame;
    memset(&frame, 0, sizeof frame);
    frame.frame.mark = OFI_FRAME_MARK;
    frame.frame.type = OFI_HELLO;
    frame.hello = (struct ofi_hello){.magic = OFI_MAGIC,
                                     .version_min = OFI_WIRE_VERSION,
                                     .version_max = OFI_WIRE_VERSION,
                                     .address_size = (uint16_t)transport->address_size,
                                     .window = OFI_WINDOW,
                                     .frame_bytes = (uint32_t)transport->frame_bytes,
                                     .link = 1,
                                     .generation = ++scene->generation,
                                     .pass = 99,
                                     .address = transport->address};
    frame.hello.address.instance = 1;
    for (size_t i = 0; i + 2 < size; i += 3) {
        size_t at = (data[i] | (size_t)data[i + 1] << 8) % sizeof frame.hello;
        ((uint8_t *)&frame.hello)[at] = data[i + 2];
    }
    struct weft_key key;
    static const char label[] = "weft ofi HELLO 2";
    const struct weft_crypto_part parts[] = {{label, sizeof label}, {frame.nonce, sizeof frame.nonce}};
    weft_crypto_hmac(&transport->address.key, parts, 2, key.bytes);
    weft_crypto_seal(&key, 0, &frame.frame, sizeof frame.frame, &frame.hello, sizeof frame.hello, frame.tag);
    uint64_t strangers = transport->strangers;
    ofi_fake_deliver(scene->fake, &frame, sizeof frame);
    if (transport->strangers != strangers)
        abort(); /* it was sealed as it should be */
}

/* The newest link that has not failed. */
static void find_link(struct scene *scene)
{
    struct weft_transport *transport = scene->fake->transport;
    for (uint32_t i = 0; i < transport->links_count; i++) {
        if (transport->links[i]->state != OFI_LINK_FAILED)
            scene->link = transport->links[i];
    }
}

static void give_frame(struct scene *scene, const uint8_t *data, size_t size)
{
    uint8_t bytes[sizeof(struct ofi_frame) + 256] = {0};
    struct ofi_frame *frame = (struct ofi_frame *)(void *)bytes;
    size_t used = lay_over(bytes, sizeof bytes, data, size);
    frame->mark = OFI_FRAME_MARK;
    frame->type = (uint8_t)(2 + frame->type % 8);
    frame->link = scene->link->id;
    frame->pass = scene->link->pass;
    if (frame->filled & 1) { /* numbers near what is expected get further */
        frame->sequence = scene->link->expected + frame->sequence % 4 - 1;
        frame->consumed = scene->link->sent - frame->consumed % 4;
    }
    ofi_fake_deliver(scene->fake, bytes, used < sizeof *frame ? sizeof *frame : used);
}

static void give_data(struct scene *scene, const uint8_t *data, size_t size, int real)
{
    uint64_t value = 0;
    lay_over(&value, sizeof value, data, size);
    struct weft_transport *transport = scene->fake->transport;
    if (real && transport->rbufs_count) {
        const struct ofi_rbuf *rbuf = transport->rbufs[value % transport->rbufs_count];
        value = (uint64_t)rbuf->nonce << 32 | ofi_rbuf_immediate(rbuf);
    }
    ofi_rbuf_arrived(transport, value);
}

static void advertise(struct scene *scene)
{
    uint32_t slot = scene->filled % RBUFS;
    if (ofi_advertise(scene->link, NULL, scene->memory[slot], sizeof scene->memory[slot], slot,
                      &scene->tokens[slot]) == WEFT_OK)
        scene->filled++;
}

static void put(struct scene *scene, const uint8_t *data, size_t size)
{
    static const uint8_t source[64];
    struct ofi_token token = {
        .magic = OFI_MAGIC, .size = sizeof source, .instance = scene->link->address.instance};
    struct weft_token bytes;
    lay_over(&token.immediate, sizeof token.immediate, data, size);
    memcpy(&bytes, &token, sizeof bytes);
    if (size > 8)
        lay_over(&bytes, sizeof bytes, data, size);
    ofi_put(scene->link, &bytes, NULL, source, sizeof source, 5);
}

static void note(void *arg, const struct weft_event *event)
{
    struct scene *scene = arg;
    if (event->kind == WEFT_EVENT_MESSAGE && event->data_size > scene->fake->transport->frame_bytes)
        abort();
    if (event->kind == WEFT_EVENT_FILLED && event->cookie >= RBUFS)
        abort();
}

static void step(struct scene *scene, unsigned kind, const uint8_t *data, size_t size)
{
    find_link(scene);
    switch (kind) {
    case 0:
        ofi_fake_deliver(scene->fake, data, size);
        break;
    case 1:
        give_frame(scene, data, size);
        break;
    case 2:
        give_hello(scene, data, size);
        break;
    case 3:
    case 4:
        give_data(scene, data, size, kind == 4);
        break;
    case 5:
        advertise(scene);
        break;
    case 6:
        put(scene, data, size);
        break;
    case 7:
        ofi_recall(scene->link, &scene->tokens[size ? data[0] % RBUFS : 0], 0);
        break;
    default:
        ofi_fake_turn(scene->fake, note, scene);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct scene *scene = calloc(1, sizeof *scene);
    if (!scene)
        abort();
    scene->fake = ofi_fake_open(2, data[0] & 1);
    scene->fake->transport->ordered = !(data[0] & 2);
    if (data[0] & 4)
        scene->fake->transport->address.features = OFI_FEATURE_WARY;
    give_hello(scene, NULL, 0);
    data++;
    size--;
    while (size > 1) {
        unsigned kind = data[0] % 9;
        size_t length = data[1] < size - 2 ? data[1] : size - 2;
        step(scene, kind, data + 2, length);
        data += 2 + length;
        size -= 2 + length;
    }
    ofi_fake_turn(scene->fake, note, scene);
    ofi_fake_close(scene->fake);
    free(scene);
    return 0;
}
#else
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)data, (void)size;
    return 0;
}
#endif
