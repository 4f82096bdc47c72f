/* Fuzz target: what peers send to the executor. The input chooses what the transport offers and the
 * algorithm, and is then cut into messages for rank 1 of 3; the transport behind it takes everything and
 * moves nothing. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "comm/exec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define COUNT 3000

static uint8_t elsewhere[COUNT * 4];
static struct weft_transport_ops ops;
static uint32_t offers;

static int take(struct weft_link *link, const void *header, size_t header_size, const void *payload,
                size_t payload_size)
{
    (void)link, (void)header, (void)header_size, (void)payload, (void)payload_size;
    return WEFT_OK;
}

static int link_flags(struct weft_link *link, uint32_t *flags)
{
    (void)link;
    *flags = WEFT_LINK_PEER_MAPS | WEFT_LINK_PEER_PULLS;
    return WEFT_OK;
}

static int lend_open(struct weft_link *link, const void *memory, size_t size, size_t slice_bytes,
                     struct weft_token *token, uint32_t *conduit)
{
    (void)link, (void)memory, (void)size, (void)slice_bytes, (void)token, (void)conduit;
    return WEFT_UNSUPPORTED;
}

static int expose(struct weft_link *link, struct weft_region *region, const void *memory, size_t size,
                  struct weft_token *token)
{
    (void)link, (void)region, (void)memory, (void)size;
    memset(token, 0, sizeof *token);
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

static int pull(struct weft_link *link, const struct weft_token *token, uint64_t offset, void *destination,
                size_t size)
{
    (void)link, (void)token;
    if (offset > sizeof elsewhere || size > sizeof elsewhere - offset)
        abort(); /* the executor asked for more than any message here has */
    memcpy(destination, elsewhere + offset, size);
    return WEFT_OK;
}

static int land(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                uint64_t cookie, struct weft_token *token)
{
    (void)link, (void)region, (void)cookie;
    memset(memory, 0, size); /* it must be there */
    memset(token, 0, sizeof *token);
    return WEFT_OK;
}

static void unland(struct weft_link *link, const struct weft_token *token)
{
    (void)link, (void)token;
}

static int put(struct weft_link *link, const struct weft_token *token, struct weft_region *region,
               const void *memory, size_t size, uint64_t cookie)
{
    (void)link, (void)token, (void)region, (void)cookie;
    memcpy(elsewhere, memory, size);
    return WEFT_OK;
}

static void unexpose(struct weft_link *link, const struct weft_token *token, int taken)
{
    (void)link, (void)token, (void)taken;
}

static int exposed(struct weft_link *link, const struct weft_token *token)
{
    (void)link;
    return token->bytes[1] & 1 ? WEFT_PEER_FAILED : WEFT_OK;
}

static int recall(struct weft_link *link, const struct weft_token *token, uint64_t cookie)
{
    (void)link, (void)token, (void)cookie;
    return WEFT_OK;
}

static void recall_wait(struct weft_transport *transport)
{
    (void)transport;
}

static int connect_peer(void *arg, uint32_t rank, struct weft_exec_peer *peer)
{
    (void)arg, (void)rank;
    *peer = (struct weft_exec_peer){.ops = &ops,
                                    .link = (struct weft_link *)elsewhere,
                                    .caps = offers,
                                    .eager_bytes = 256,
                                    .slice_bytes = 1024,
                                    .put_bytes = 4096};
    return WEFT_OK;
}

static int sent_by(void *arg, uint32_t rank, const void *sender)
{
    (void)arg, (void)sender;
    return rank == 2;
}

static void *buffer_get(void *arg, uint32_t transport, size_t size)
{
    (void)arg, (void)transport;
    return malloc(size);
}

static void buffer_put(void *arg, uint32_t transport, void *buffer, size_t size)
{
    (void)arg, (void)transport, (void)size;
    free(buffer);
}

static int region_get(void *arg, uint32_t transport, const void *memory, size_t size,
                      struct weft_region **region)
{
    (void)arg, (void)transport, (void)memory, (void)size;
    *region = NULL;
    return WEFT_OK;
}

static void region_put(void *arg, uint32_t transport, struct weft_region *region)
{
    (void)arg, (void)transport, (void)region;
}

static void feed(struct weft_exec *exec, const uint8_t *data, size_t size)
{
    while (size > 1) {
        size_t length = data[0] < size - 1 ? data[0] : size - 1;
        uint64_t message[40] = {0};
        memcpy(message, data + 1, length);
        struct weft_wire_header *header = (struct weft_wire_header *)message;
        header->version = WEFT_WIRE_VERSION;
        header->count = data[0] % 16 ? 0 : header->count;
        header->digest = data[0] % 16 ? 7 : header->digest;
        if (data[0] % 2)
            header->size = length > sizeof *header ? (uint32_t)(length - sizeof *header) : 0;
        weft_exec_message(exec, data[0] % 8 ? NULL : data, message, length);
        weft_exec_io_done(exec, header->op, data[0] % 32 ? WEFT_OK : WEFT_TRANSPORT);
        weft_exec_progress(exec);
        data += 1 + length;
        size -= 1 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    ops = (struct weft_transport_ops){.send = take,
                                      .link_flags = link_flags,
                                      .lend_open = lend_open,
                                      .expose = expose,
                                      .map = map,
                                      .pull = pull,
                                      .land = land,
                                      .unland = unland,
                                      .put = put,
                                      .recall = recall,
                                      .recall_wait = recall_wait,
                                      .unexpose = unexpose,
                                      .exposed = exposed};
    static const uint32_t choices[] = {WEFT_CAP_READ, WEFT_CAP_PUT, 0};
    offers = choices[data[0] % 3];
    struct weft_exec_options options = {.id = 1,
                                        .rank = 1,
                                        .ranks = 3,
                                        .window = 8,
                                        .hooks = {.connect = connect_peer,
                                                  .sent_by = sent_by,
                                                  .buffer_get = buffer_get,
                                                  .buffer_put = buffer_put,
                                                  .region_get = region_get,
                                                  .region_put = region_put}};
    struct weft_plan_request wanted = {
        WEFT_ALLREDUCE, WEFT_ALGO_RING + data[1] % 4, 3, 1, data[1] / 4 % 2, -1, 0, 0};
    struct weft_exec *exec;
    struct weft_exec_op *op;
    struct weft_plan *plan;
    int32_t *input = calloc(COUNT, 4), *output = calloc(COUNT, 4);
    if (!input || !output || weft_plan_make(&wanted, &plan) || weft_exec_create(&options, &exec))
        abort();
    struct weft_exec_request request = {.plan = plan,
                                        .input = wanted.in_place ? output : input,
                                        .output = output,
                                        .count = COUNT,
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
