/* SPDX-License-Identifier: Apache-2.0 */
/* A transport behind the executor that moves nothing and refuses nothing, and what else an executor needs: for fuzz targets
 * that play its peers. The target says how much memory there is elsewhere (ELSEWHERE_BYTES), and adds its own send() and
 * map(). Included once. */
#ifndef WEFT_TESTS_FUZZ_ELSEWHERE_H
#define WEFT_TESTS_FUZZ_ELSEWHERE_H

#include <stdlib.h>
#include <string.h>

#include "comm/exec/exec.h"

static uint8_t elsewhere[ELSEWHERE_BYTES]; /* all that is read and written over there */
static uint32_t offers;                    /* the transport's capabilities */
static struct weft_transport_ops ops;

static int link_flags(struct weft_link *link, uint32_t *flags)
{
    (void)link;
    *flags = WEFT_LINK_PEER_MAPS | WEFT_LINK_PEER_PULLS;
    return WEFT_OK;
}

static int expose(struct weft_link *link, struct weft_region *region, const void *memory, size_t size,
                  struct weft_token *token)
{
    (void)link, (void)region, (void)memory, (void)size;
    memset(token, 0, sizeof *token);
    return WEFT_OK;
}

static void expose_whole(struct weft_link *link, struct weft_token *token)
{
    (void)link, (void)token;
}

static void look(struct weft_link *link, uint64_t bytes)
{
    (void)link, (void)bytes;
}

static int pull(struct weft_link *link, const struct weft_token *token, uint64_t offset, void *destination,
                size_t size, uint32_t flags)
{
    (void)link, (void)token, (void)flags;
    if (offset > sizeof elsewhere || size > sizeof elsewhere - offset)
        abort(); /* the executor asked for more than any message here has */
    memcpy(destination, elsewhere + offset, size);
    return WEFT_OK;
}

static int advertise(struct weft_link *link, struct weft_region *region, void *memory, size_t size,
                     uint64_t cookie, struct weft_token *token)
{
    (void)link, (void)region, (void)cookie;
    memset(memory, 0, size); /* it must be there */
    memset(token, 0, sizeof *token);
    return WEFT_OK;
}

static void withdraw(struct weft_link *link, const struct weft_token *token)
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

static const struct weft_transport_ops elsewhere_ops = {.link_flags = link_flags,
                                                        .expose = expose,
                                                        .expose_whole = expose_whole,
                                                        .look = look,
                                                        .pull = pull,
                                                        .advertise = advertise,
                                                        .withdraw = withdraw,
                                                        .put = put,
                                                        .recall = recall,
                                                        .recall_wait = recall_wait,
                                                        .unexpose = unexpose,
                                                        .exposed = exposed};
static const struct weft_exec_hooks elsewhere_hooks = {.connect = connect_peer,
                                                       .buffer_get = buffer_get,
                                                       .buffer_put = buffer_put,
                                                       .region_get = region_get,
                                                       .region_put = region_put};

/* Takes what the transport offers from the input's first byte. */
static void elsewhere_open(uint8_t choice,
                           int (*send)(struct weft_link *, const void *, size_t, const void *, size_t),
                           int (*map)(struct weft_link *, const struct weft_token *, size_t, const void **))
{
    static const uint32_t choices[] = {WEFT_CAP_READ, WEFT_CAP_PUT, 0};
    offers = choices[choice % 3];
    ops = elsewhere_ops;
    ops.send = send;
    ops.map = map;
}

#endif
