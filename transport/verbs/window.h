/* SPDX-License-Identifier: Apache-2.0 */
/* Type 2 memory windows: keys for exactly the bytes that a put may fill, valid for one queue pair.
 *
 * A window is bound and invalidated by entries of a send queue (IB specification 1.4, 10.6.7.2.3). Binding makes a new
 * key: the device chose the upper 24 bits, the low 8 count up, so that the key of a past receive buffer stays wrong for
 * 255 more. A window bound on a queue pair can only be invalidated on that one; one whose queue pair has failed must be
 * dropped, before the queue pair is destroyed.
 *
 *     window = verbs_window_take(rail);                        NULL: none left, do without or wait
 *     verbs_window_bind(window, mr, memory, size, &entry);     fills the send entry; entry.bind_mw.rkey is the new key
 *     ... post the entry ...
 *     verbs_window_bound(window, &entry);                      the key is valid from now on
 *     verbs_window_invalidate(window, &entry);                 post, await the completion
 *     verbs_window_give(rail, window);                         or verbs_window_drop()
 */
#ifndef WEFT_TRANSPORT_VERBS_WINDOW_H
#define WEFT_TRANSPORT_VERBS_WINDOW_H

#include "transport/verbs/device.h"

#define VERBS_WINDOW_BATCH 16 /* windows allocated at once */

struct verbs_window {
    struct ibv_mw *mw;
    struct verbs_window *next; /* among the free ones; the owner's while it is taken */
};

/* NULL when the device has no more, or none at all. Allocates a batch when the free ones are used up, so it may take
 * some system calls. */
struct verbs_window *verbs_window_take(struct verbs_rail *rail);
/* An unbound window goes back. */
void verbs_window_give(struct verbs_rail *rail, struct verbs_window *window);
/* The window is freed, bound or not: its key is worthless from now on. */
void verbs_window_drop(struct verbs_rail *rail, struct verbs_window *window);
/* Frees all free ones, at the end. */
void verbs_windows_end(struct verbs_rail *rail);

/* Fill opcode and operands of a send entry; wr_id, flags and next are the caller's. While a binding is posted the window
 * must still have its old key, which drivers (rxe) give the device beside the new one, and after that the new one. */
void verbs_window_bind(struct verbs_window *window, struct ibv_mr *mr, void *memory, size_t size,
                       struct ibv_send_wr *entry);
void verbs_window_bound(struct verbs_window *window, const struct ibv_send_wr *entry);
/* The key that the next binding gives it. */
uint32_t verbs_window_next_key(const struct verbs_window *window);
void verbs_window_invalidate(const struct verbs_window *window, struct ibv_send_wr *entry);

#endif
