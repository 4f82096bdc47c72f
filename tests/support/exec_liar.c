/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/exec_liar.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tests/fakes/loop/loop.h"

static int expose_short(struct weft_link *link, struct weft_region *region, const void *memory, size_t size,
                        struct weft_token *token)
{
    return weft_loop_ops.expose(link, region, memory, size - 1, token);
}

static exec_world_mangle *mangle;
static int checks;

static int send_mangled(struct weft_link *link, const void *header, size_t header_size, const void *payload,
                        size_t size)
{
    struct weft_wire_header changed;
    uint8_t *copy = calloc(1, size + 64);
    memcpy(&changed, header, sizeof changed);
    if (size)
        memcpy(copy, payload, size);
    mangle(&changed, copy, &size);
    changed.size = (uint32_t)size;
    int status = weft_loop_ops.send(link, &changed, header_size, copy, size);
    free(copy);
    return status;
}

static int exposed_for_long(struct weft_link *link, const struct weft_token *token)
{
    (void)link, (void)token;
    return checks-- > 0 ? WEFT_OK : weft_fail(WEFT_PEER_FAILED, "the memory has been taken back");
}

void exec_liar_spoil(const struct exec_world_options *options, struct weft_transport_ops *ops)
{
    mangle = options->mangle;
    checks = options->checks;
    if (options->short_tokens)
        ops->expose = expose_short;
    if (mangle)
        ops->send = send_mangled;
    if (checks)
        ops->exposed = exposed_for_long;
}
