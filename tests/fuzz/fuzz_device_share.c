/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: descriptions of device memory from peers, for a kind that is played here: some spans of this process, and handles
 * of one byte that map spans of another. Whatever is read is written again as it was; what is reached lies in one span; and
 * all mappings are undone in the end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "devmem/share_wire.h"

#define SPAN_BYTES 256
#define SPANS      4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t own[SPANS][SPAN_BYTES], others[SPANS][SPAN_BYTES];
static int mapped[SPANS];

static void check(int good)
{
    if (!good)
        abort();
}

static int identify(struct weft_device *device, const void *pointer, struct weft_device_span *span)
{
    uintptr_t at = (uintptr_t)pointer;
    (void)device;
    for (int i = 0; i < 2 * SPANS; i++) {
        uintptr_t base = (uintptr_t)(i < SPANS ? own[i] : others[i - SPANS]);
        if (at < base || at - base >= SPAN_BYTES)
            continue;
        span->base = base;
        span->length = SPAN_BYTES;
        span->identity = (uint64_t)i + 1;
        span->flags = WEFT_SPAN_IPC;
        return WEFT_OK;
    }
    return WEFT_NOT_FOUND;
}

/* The first span never, the second when it has been asked for. */
static int reaches(struct weft_device *device, int ordinal, const void *pointer, int may_wait)
{
    uintptr_t at = (uintptr_t)pointer - (uintptr_t)own;
    (void)device, (void)ordinal;
    return at >= 2 * SPAN_BYTES || (at >= SPAN_BYTES && may_wait);
}

static int describe_device(struct weft_device *device, int ordinal, struct weft_device_info *info)
{
    (void)device, (void)ordinal, (void)info;
    return WEFT_OK;
}

static int export_ipc(struct weft_device *device, const void *memory, struct weft_device_handle *handle,
                      uint64_t *offset)
{
    struct weft_device_span span;
    check(identify(device, memory, &span) == WEFT_OK);
    *handle = (struct weft_device_handle){1, {(uint8_t)(span.identity - 1)}};
    *offset = (uintptr_t)memory - span.base;
    return WEFT_OK;
}

static int import_ipc(struct weft_device *device, int ordinal, const struct weft_device_handle *handle,
                      void **base)
{
    (void)device, (void)ordinal;
    if (handle->bytes_used != 1 || handle->bytes[0] >= SPANS)
        return weft_fail(WEFT_PROTOCOL, "no handle");
    *base = others[handle->bytes[0]];
    mapped[handle->bytes[0]]++;
    return WEFT_OK;
}

static int unimport(struct weft_device *device, void *base)
{
    (void)device;
    for (int i = 0; i < SPANS; i++) {
        if (base == others[i] && mapped[i]-- > 0)
            return WEFT_OK;
    }
    abort();
}

static const struct weft_device_kind kind = {.name = "fuzz",
                                             .ops = {.identify = identify,
                                                     .describe = describe_device,
                                                     .export_ipc = export_ipc,
                                                     .import_ipc = import_ipc,
                                                     .unimport = unimport,
                                                     .reaches = reaches}};

static void check_reading(const struct weft_share *share)
{
    struct weft_share_content content;
    struct weft_share again;
    if (weft_share_read(share, &content) == WEFT_OK)
        check(weft_share_write(&content, &again) == WEFT_OK && memcmp(share, &again, sizeof again) == 0);
}

static void reach(struct weft_shares *shares, const struct weft_share *share, uint64_t peer, int is_kept)
{
    struct weft_device_span span;
    struct weft_share_import *import;
    void *pointer;
    int status = weft_share_reach(shares, &kind, 0, peer, share, 1, &pointer, &import);
    check(status == WEFT_OK || status == WEFT_PROTOCOL || status == WEFT_UNSUPPORTED);
    if (status != WEFT_OK)
        return;
    check(identify(NULL, pointer, &span) == WEFT_OK);
    check((peer == weft_share_instance(shares)) == (import == NULL) && (span.identity <= SPANS) == !import);
    if (!is_kept)
        weft_share_release(shares, import);
}

/* Pieces of four bytes: which span is described, for whom, and what is changed of it where. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct weft_share_limits limits = {2, 2, 8};
    struct weft_shares *shares;
    struct weft_share share;
    if (weft_shares_open(&limits, &shares) != WEFT_OK)
        abort();
    if (size >= sizeof share) {
        memcpy(&share, data, sizeof share);
        check_reading(&share);
        reach(shares, &share, weft_share_instance(shares), 0);
    }
    for (size_t i = 0; i + 4 <= size; i += 4) {
        uint64_t peer = weft_share_instance(shares) ^ (data[i] & 0x10);
        check(weft_share_describe(shares, &kind, own[data[i] % SPANS] + data[i + 1] % 128, 128, data[i] & 4,
                                  &share) == WEFT_OK);
        share.bytes[20] ^= data[i] & 0x10; /* another process */
        share.bytes[data[i + 2]] ^= data[i + 3];
        check_reading(&share);
        reach(shares, &share, peer, data[i] & 0x20);
        if (data[i] & 0x40)
            weft_shares_trim(shares);
        if (data[i] & 0x80)
            weft_share_forget(shares, peer);
    }
    weft_shares_close(shares);
    for (int i = 0; i < SPANS; i++)
        check(mapped[i] == 0);
    return 0;
}
