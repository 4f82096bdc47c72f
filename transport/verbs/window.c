/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/window.h"

#include <stdlib.h>
#include <string.h>
#include "base/log.h"

/* Puts one more window among the free ones; 0 when there can be no more. */
static int grow_one(struct verbs_rail *rail)
{
    struct verbs_window *window = calloc(1, sizeof *window);
    struct ibv_mw *mw = window ? ibv_alloc_mw(rail->domain, IBV_MW_TYPE_2) : NULL;
    if (!mw) {
        free(window);
        return 0;
    }
    window->mw = mw;
    window->next = rail->windows;
    rail->windows = window;
    rail->window_count++;
    return 1;
}

static void grow(struct verbs_rail *rail)
{
    int wanted = rail->window_limit - rail->window_count;
    wanted = wanted < VERBS_WINDOW_BATCH ? wanted : VERBS_WINDOW_BATCH;
    while (wanted > 0 && grow_one(rail))
        wanted--;
    if (wanted <= 0)
        return;
    /* Others use the device too: what it promises is not what it has. */
    rail->window_limit = rail->window_count;
    weft_log(WEFT_LOG_INFO, "verbs: %s gives no more than %d memory windows", rail->device,
             rail->window_count);
}

struct verbs_window *verbs_window_take(struct verbs_rail *rail)
{
    if (!rail->windows)
        grow(rail);
    struct verbs_window *window = rail->windows;
    if (!window)
        return NULL;
    rail->windows = window->next;
    window->next = NULL;
    return window;
}

void verbs_window_give(struct verbs_rail *rail, struct verbs_window *window)
{
    window->next = rail->windows;
    rail->windows = window;
}

void verbs_window_drop(struct verbs_rail *rail, struct verbs_window *window)
{
    int error = ibv_dealloc_mw(window->mw);
    if (error)
        weft_log(WEFT_LOG_WARN, "verbs: a memory window of %s cannot be freed: %s", rail->device,
                 strerror(error));
    rail->window_count--;
    free(window);
}

void verbs_windows_end(struct verbs_rail *rail)
{
    struct verbs_window *window;
    while ((window = rail->windows)) {
        rail->windows = window->next;
        verbs_window_drop(rail, window);
    }
}

uint32_t verbs_window_next_key(const struct verbs_window *window)
{
    return ibv_inc_rkey(window->mw->rkey);
}

void verbs_window_bind(struct verbs_window *window, struct ibv_mr *mr, void *memory, size_t size,
                       struct ibv_send_wr *entry)
{
    entry->opcode = IBV_WR_BIND_MW;
    entry->sg_list = NULL;
    entry->num_sge = 0;
    entry->bind_mw.mw = window->mw;
    entry->bind_mw.rkey = verbs_window_next_key(window);
    entry->bind_mw.bind_info = (struct ibv_mw_bind_info){
        .mr = mr, .addr = (uintptr_t)memory, .length = size, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
}

void verbs_window_bound(struct verbs_window *window, const struct ibv_send_wr *entry)
{
    window->mw->rkey = entry->bind_mw.rkey;
}

void verbs_window_invalidate(const struct verbs_window *window, struct ibv_send_wr *entry)
{
    entry->opcode = IBV_WR_LOCAL_INV;
    entry->sg_list = NULL;
    entry->num_sge = 0;
    entry->invalidate_rkey = window->mw->rkey;
}
