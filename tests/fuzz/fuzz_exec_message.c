/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what peers send to the executor. The input chooses what the transport offers and the
 * algorithm, and is then cut into messages for rank 1 of 3; the transport behind it takes everything and
 * moves nothing. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "comm/exec/device/ops.h"
#include "comm/exec/exec.h"

#define COUNT           3000
#define SMALL           16 /* elements of an operation that needs no window */
#define ELSEWHERE_BYTES (COUNT * 4)
#include "tests/fuzz/elsewhere.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(struct weft_link *link, const void *header, size_t header_size, const void *payload,
                size_t payload_size)
{
    (void)link, (void)header, (void)header_size, (void)payload, (void)payload_size;
    return WEFT_OK;
}

/* The token says how far from the end of `elsewhere` its memory begins, so that whoever reads more than it asked for
 * leaves the array, which the sanitizer sees. */
static int map(struct weft_link *link, const struct weft_token *token, size_t size, const void **memory)
{
    (void)link;
    size_t missing = ((size_t)token->bytes[2] | (size_t)token->bytes[3] << 8) % (sizeof elsewhere + 1);
    if (size > sizeof elsewhere)
        abort(); /* more than any message here has */
    if (!(token->bytes[0] & 1))
        return token->bytes[0] & 2 ? WEFT_UNSUPPORTED : WEFT_PROTOCOL;
    if (size > sizeof elsewhere - missing)
        return WEFT_PROTOCOL;
    *memory = elsewhere + missing;
    return WEFT_OK;
}

static int sent_by(void *arg, uint32_t rank, const void *sender)
{
    (void)arg, (void)sender;
    return rank == 2;
}

/* What a message of its kind has. */
static size_t length_of(const struct weft_wire_header *header, size_t length)
{
    switch (header->kind) {
    case WEFT_WIRE_OFFER:
        return sizeof *header + (header->flags & WEFT_WIRE_DEVICE ? sizeof(struct weft_wire_device_offer)
                                                                  : sizeof(struct weft_wire_offer));
    case WEFT_WIRE_VOTE:
        return length > sizeof *header ? sizeof *header + sizeof(struct weft_wire_vote) : length;
    case WEFT_WIRE_MAILBOX:
        return sizeof *header + sizeof(struct weft_wire_mailbox);
    default:
        return length;
    }
}

/* There are device collectives, but none for an operation on the host. */
static struct weft_shares *no_shares(void *arg)
{
    (void)arg;
    return NULL;
}

static void feed(struct weft_exec *exec, const uint8_t *data, size_t size)
{
    while (size > 1) {
        size_t length = data[0] < size - 1 ? data[0] : size - 1;
        size_t used = 1 + length;
        uint64_t message[64] = {0};
        memcpy(message, data + 1, length);
        struct weft_wire_header *header = (struct weft_wire_header *)message;
        if (data[0] % 4) /* as long as it must be, which a byte cannot say */
            length = length_of(header, length);
        header->version = WEFT_WIRE_VERSION;
        header->count = data[0] % 16 ? 0 : header->count;
        header->digest = data[0] % 16 ? 7 : header->digest;
        if (data[0] % 2)
            header->size = length > sizeof *header ? (uint32_t)(length - sizeof *header) : 0;
        weft_exec_message(exec, data[0] % 8 ? NULL : data, message, length);
        weft_exec_io_done(exec, header->op, data[0] % 32 ? WEFT_OK : WEFT_TRANSPORT);
        weft_exec_progress(exec);
        data += used;
        size -= used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    elsewhere_open(data[0], take, map);
    struct weft_exec_options options = {.id = 1,
                                        .rank = 1,
                                        .ranks = 3,
                                        .devices = &weft_exec_devices,
                                        .window = 8,
                                        .collectives.bytes = 65536,
                                        .hooks = elsewhere_hooks};
    options.hooks.sent_by = sent_by;
    options.hooks.shares = no_shares;
    struct weft_plan_request wanted = {.collective = WEFT_ALLREDUCE,
                                       .algorithm = WEFT_ALGO_RING + data[1] % 4,
                                       .ranks = 3,
                                       .rank = 1,
                                       .in_place = data[1] / 4 % 2,
                                       .root = -1};
    struct weft_exec *exec;
    struct weft_exec_op *op;
    struct weft_plan *plan;
    int32_t *input = calloc(COUNT, 4), *output = calloc(COUNT, 4);
    if (!input || !output || weft_plan_make(&wanted, &plan) || weft_exec_create(&options, &exec))
        abort();
    struct weft_exec_request request = {.plan = plan,
                                        .input = wanted.in_place ? output : input,
                                        .output = output,
                                        .count = data[1] / 8 % 2 ? SMALL : COUNT,
                                        .element_bytes = 4,
                                        .reduce = weft_reduce_find(WEFT_INT32, WEFT_SUM),
                                        .digest = 7,
                                        .call.root = -1};
    if (weft_exec_start(exec, &request, &op) == WEFT_OK) {
        feed(exec, data + 2, size - 2);
        weft_exec_op_free(op);
    }
    weft_exec_destroy(exec);
    weft_plan_free(plan);
    free(input);
    free(output);
    return 0;
}
