/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze; with tests/support/ze_peer.c tests/support/ze_scene.c tests/support/built.c; beside ze */
/* Fuzz target: handles of Level Zero memory from peers, under the real loader, on the fake driver.
 *
 * Another process exports memory of its own and a part of a pool, so that there are right handles; the input says which one, and which of its
 * bytes are others. Whatever comes of it, either the import works and is undone, or it is refused with a reason, and no call
 * is one that the specification forbids.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "devmem/ze/handle.h"
#include "tests/support/ze_peer.h"

#define HANDLES 2

static struct weft_device_handle handles[HANDLES];
static struct weft_device *device;
static struct ze_fake *fake;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static void have_pools(struct ze_fake *of_peer)
{
    of_peer->pool_bytes = 1u << 21;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static struct ze_peer peer;
    (void)argc, (void)argv;
    if (ze_peer_start(&peer, have_pools) != 0)
        abort();
    for (int i = 0; i < HANDLES; i++) {
        if (ze_peer_do(&peer, i ? ZE_PEER_ALLOCATE : ZE_PEER_ALLOCATE_BY, 5000) != WEFT_OK ||
            ze_peer_do(&peer, ZE_PEER_EXPORT, 0) != WEFT_OK)
            abort();
        handles[i] = peer.report.handle;
    }
    fake = ze_scene_load();
    if (!fake)
        abort();
    fake->device_count = 2;
    device = ze_scene_open();
    if (!device)
        abort();
    return 0;
}

/* The first byte: ordinal and handle; the second: whether to change the number of bytes, and to make the hash over them right; then pairs of where
 * and what. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *base = NULL;
    if (size < 2)
        return 0;
    struct weft_device_handle handle = handles[data[0] / 4 % HANDLES];
    if (data[1] & 1)
        handle.bytes_used = data[1];
    for (size_t i = 2; i + 1 < size; i += 2)
        handle.bytes[data[i] % sizeof handle.bytes] ^= data[i + 1];
    if (data[1] & 2) {
        struct weft_ze_handle inside;
        memcpy(&inside, handle.bytes, sizeof inside);
        inside.check = weft_ze_handle_check(&inside);
        memcpy(handle.bytes, &inside, sizeof inside);
    }
    *ze_said = 0;
    int status = weft_ze_ops.import_ipc(device, data[0] % 4 - 1, &handle, &base);
    if (status == WEFT_OK ? weft_ze_ops.unimport(device, base) != WEFT_OK : !*ze_said)
        abort();
    if (fake->violations || fake->allocations)
        abort();
    return 0;
}
