/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: point-to-point messages, as peers send them and as the program asks for them. The input chooses what the
 * transport offers and is then cut into deeds of rank 1 of 3: a message that came, a send, a receive, a look, a
 * withdrawal, a round of progress. The transport takes everything, or nothing for a while, and moves nothing. Sends and
 * receives that have ended must not be touched any more, which the sanitizer sees. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "comm/p2p/p2p.h"

#define RANK            1
#define REQUESTS        32
#define BYTES           5000
#define ELSEWHERE_BYTES BYTES
#include "tests/fuzz/elsewhere.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int full;

struct world {
    struct weft_exec *exec;
    struct weft_p2p *p2p;
    struct weft_request *requests[REQUESTS];
};

static int take(struct weft_link *link, const void *header, size_t header_size, const void *payload,
                size_t payload_size)
{
    (void)link, (void)header, (void)header_size;
    if (payload_size)
        memcpy(elsewhere, payload, payload_size); /* it must be there */
    return full && full-- ? WEFT_AGAIN : WEFT_OK;
}

static int map(struct weft_link *link, const struct weft_token *token, size_t size, const void **memory)
{
    (void)link;
    if (size > sizeof elsewhere)
        abort(); /* more than any receive here has room for */
    *memory = elsewhere;
    return token->bytes[0] & 1 ? WEFT_UNSUPPORTED : WEFT_OK;
}

static int tagged(void *arg, const struct weft_wire_header *header, const void *payload)
{
    struct world *world = arg;
    return weft_p2p_message(world->p2p, header, payload);
}

/* --- deeds */

static void free_request(struct weft_request **request)
{
    if (*request)
        free((*request)->memory);
    free(*request);
    *request = NULL;
}

/* Requests that have ended go at once: who touches them later is found out. */
static void reap(struct world *world)
{
    for (int i = 0; i < REQUESTS; i++) {
        if (world->requests[i] && world->requests[i]->status != WEFT_AGAIN)
            free_request(&world->requests[i]);
    }
}

static void begin(struct world *world, const uint8_t *deed)
{
    int i = deed[0] % REQUESTS;
    if (world->requests[i])
        return;
    struct weft_request *request = calloc(1, sizeof *request);
    if (!request)
        abort();
    request->sends = deed[1] & 1;
    request->space = !request->sends && deed[1] >> 1 & 1;
    request->bytes = (size_t)(deed[2] | deed[3] << 8) % BYTES;
    request->memory = calloc(1, request->bytes + 1);
    request->tag = request->sends ? deed[1] >> 4 : (deed[1] >> 4) - 1;
    request->peer = request->sends ? deed[1] >> 2 & 1 ? 2 : deed[1] >> 3 & 1 : (deed[1] >> 2 & 3) - 1;
    int status = request->sends ? weft_p2p_send(world->p2p, request) : weft_p2p_receive(world->p2p, request);
    world->requests[i] = request;
    if (status != WEFT_OK)
        free_request(&world->requests[i]);
}

static void hear(struct world *world, const uint8_t *data, size_t length)
{
    uint64_t message[40] = {0};
    memcpy(message, data, length);
    struct weft_wire_header *header = (struct weft_wire_header *)message;
    header->version = WEFT_WIRE_VERSION;
    if (length > sizeof *header)
        header->size = (uint32_t)(length - sizeof *header);
    weft_exec_message(world->exec, NULL, message, length);
}

/* Looks through weft's own messages as comm/form/subset.c does, and drops those of one tag. */
static void clear_away(struct world *world, int32_t source, int64_t tag)
{
    struct weft_arrived *next;
    size_t size, sum = 0;
    for (struct weft_arrived *at = weft_p2p_oob_next_of_all(world->p2p, NULL); at; at = next) {
        const uint8_t *bytes = weft_p2p_oob_bytes(at, &size);
        for (size_t i = 0; i < size; i++)
            sum += bytes[i]; /* they must be there */
        next = weft_p2p_oob_next_of_all(world->p2p, at);
        if (at->tag == tag)
            weft_p2p_oob_drop(world->p2p, at);
    }
    if (weft_p2p_oob_next(world->p2p, source, tag, NULL) || sum == SIZE_MAX)
        abort(); /* they have gone */
}

static void play(struct world *world, const uint8_t *data, size_t size)
{
    char text[300];
    while (size > 5) {
        size_t used = 5;
        int32_t found;
        int64_t tag;
        uint64_t bytes;
        switch (data[0] % 8) {
        case 0:
        case 1:
            begin(world, data + 1);
            break;
        case 2:
            if (world->requests[data[1] % REQUESTS])
                weft_p2p_withdraw(world->p2p, world->requests[data[1] % REQUESTS], WEFT_CANCELLED);
            break;
        case 3:
            weft_p2p_look(world->p2p, data[1] % 4 - 1, data[2] % 16 - 1, data[3] & 1, &found, &tag, &bytes);
            weft_p2p_dump(world->p2p, text, sizeof text);
            clear_away(world, data[1] % 3, data[2]);
            weft_p2p_send_now(world->p2p, data[1] % 3, data[2], data[3] & 1, elsewhere, data[4]);
            break;
        case 4:
            full = data[1] % 4;
            weft_exec_io_done(world->exec, (uint64_t)data[1] << 8 | data[2] | 1u << 31 | 1u << 25,
                              data[3] % 16 ? WEFT_OK : WEFT_TRANSPORT);
            weft_exec_progress(world->exec);
            weft_p2p_progress(world->p2p);
            break;
        default:
            used = data[1] < size - 2 ? data[1] : size - 2;
            hear(world, data + 2, used);
            used += 2;
        }
        reap(world);
        data += used;
        size -= used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    elsewhere_open(data[0], take, map);
    full = 0;
    struct world world = {0};
    struct weft_exec_options options = {
        .id = 1, .rank = RANK, .ranks = 3, .window = 8, .hooks = elsewhere_hooks};
    options.hooks.comm = &world;
    options.hooks.tagged = tagged;
    if (weft_exec_create(&options, &world.exec) != WEFT_OK)
        abort();
    struct weft_p2p_options messages = {.rank = RANK, .ranks = 3, .local_bytes = 256, .exec = world.exec};
    if (weft_p2p_open(&messages, &world.p2p) != WEFT_OK)
        abort();
    play(&world, data + 1, size - 1);
    weft_exec_fail(world.exec, WEFT_CANCELLED);
    weft_p2p_close(world.p2p);
    for (int i = 0; i < REQUESTS; i++) {
        if (world.requests[i] && world.requests[i]->status == WEFT_AGAIN)
            abort(); /* it has been forgotten */
        free_request(&world.requests[i]);
    }
    weft_exec_destroy(world.exec);
    return 0;
}
