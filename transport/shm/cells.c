/* SPDX-License-Identifier: Apache-2.0 */
/* Taking exposed memory back.
 *
 * A call that ends early gives the user's memory back to the user, who may overwrite it at once, while a peer may
 * still be reading it. The peer cannot be stopped; but it can be made to notice. Every token of expose() names a
 * cell of the owner's control pages, which all peers have mapped, and the generation that the cell then had:
 *
 *   owner   unexpose(): generation + 1, barrier, return; then the user may write
 *   peer    read the memory, barrier, compare the generation, and only then use what was read
 *
 * If a peer has read anything that was written afterwards, then its look at the cell, which comes later still,
 * finds another generation: a sequence lock without a retry. The same look follows pulls. Since it is taken for
 * every slice before that slice is reduced, copied on or acknowledged, nothing wrong travels to third ranks
 * either.
 *
 * A cell whose message was taken is used again as it is, nobody asks for its token any more. When all are in
 * use, cell 0 serves as many as need be: taking back one of these breaks the others, which is wasteful and safe.
 */
#include "base/fence.h"
#include "transport/shm/shm_private.h"

void shm_cells_init(struct weft_transport *transport)
{
    for (uint32_t i = 1; i < SHM_CELLS; i++)
        transport->free_cells[transport->free_cell_count++] = (uint16_t)(SHM_CELLS - i);
}

/* poll() looks whether it can help with those or feed them (help.c, feed.c). What shares a cell is left out. */
static void count_exposure(struct weft_link *link, const struct shm_token *token, int more)
{
    if (token->kind != SHM_TOKEN_ADDRESS || token->cell == SHM_CELL_SHARED ||
        token->size < SHM_FED_BYTES_MIN || (more < 0 && !link->exposures))
        return;
    void *memory = (void *)(uintptr_t)token->offset;
    link->transport->exposed[token->cell] = (struct iovec){memory, more > 0 ? token->size : 0};
    link->exposures += (uint32_t)more;
    link->transport->exposures += (uint32_t)more;
}

int shm_cell_covers(const struct weft_transport *transport, uint32_t cell, const void *memory, size_t size)
{
    if (cell >= SHM_CELLS)
        return 0;
    const struct iovec *exposed = &transport->exposed[cell];
    uintptr_t begin = (uintptr_t)exposed->iov_base, at = (uintptr_t)memory;
    return size <= exposed->iov_len && at - begin <= exposed->iov_len - size; /* and at is not below begin */
}

void shm_cell_take(struct weft_link *link, struct shm_token *token)
{
    struct weft_transport *transport = link->transport;
    uint32_t cell = SHM_CELL_SHARED;
    if (transport->free_cell_count)
        cell = transport->free_cells[--transport->free_cell_count];
    token->cell = cell;
    token->generation = atomic_load_explicit(&transport->control->cells[cell], memory_order_relaxed);
    count_exposure(link, token, 1);
}

void shm_unexpose(struct weft_link *link, const struct weft_token *bytes, int taken)
{
    struct weft_transport *transport = link->transport;
    struct shm_token token;
    memcpy(&token, bytes, sizeof token);
    if ((token.kind != SHM_TOKEN_SEGMENT && token.kind != SHM_TOKEN_ADDRESS) || token.cell >= SHM_CELLS ||
        token.owner != transport->address.identity.words[1])
        return;
    count_exposure(link, &token, -1);
    if (!taken) {
        atomic_fetch_add_explicit(&transport->control->cells[token.cell], 1, memory_order_relaxed);
        weft_fence_full(); /* before anything that the caller writes */
    }
    if (token.cell != SHM_CELL_SHARED && transport->free_cell_count < SHM_CELLS)
        transport->free_cells[transport->free_cell_count++] = (uint16_t)token.cell;
}

int shm_cell_check(const struct weft_link *link, const struct shm_token *token)
{
    /* It came with the HELLO, ahead of any token, and stays as long as the peer is known. */
    const struct shm_control *control = atomic_load_explicit(&link->peer->control, memory_order_acquire);
    if (__builtin_expect(control && token->cell < SHM_CELLS, 1)) {
        weft_fence_loads(); /* after everything that the caller has read */
        if (__builtin_expect(atomic_load_explicit(&control->cells[token->cell], memory_order_relaxed) ==
                                 token->generation,
                             1))
            return WEFT_OK;
    }
    return link->transport->params.fail(WEFT_PEER_FAILED,
                                        "shm: a peer has taken its memory back while it was being read");
}

int shm_exposed(struct weft_link *link, const struct weft_token *bytes)
{
    struct shm_token token;
    memcpy(&token, bytes, sizeof token);
    return shm_cell_check(link, &token);
}
