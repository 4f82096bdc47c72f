/* SPDX-License-Identifier: Apache-2.0 */
/* Making and ending communicators. */
#ifndef WEFT_COMM_FORM_CREATE_H
#define WEFT_COMM_FORM_CREATE_H

#include "comm/core/comm.h"

/* create.c */
/* Makes a communicator where resolved says; name, rank, ranks, source and generation of it are set. */
int weft_comm_open(struct weft_context *context, struct weft_bootstrap_options *resolved, int64_t timeout_ms,
                   int64_t deadline_ns, struct weft_comm **comm);

/* What a program gives: read; with its texts and its secret copied, *kept is to free; at the end, with kept or NULL. The last closes
 * the listener, and is due whatever the first returns, which is an error in a forked child. */
int weft_comm_options_read(const weft_comm_options *given, weft_comm_options *options);
int weft_comm_options_keep(weft_comm_options *options, void **kept);
void weft_comm_options_release(weft_comm_options *options, void *kept);

/* destroy.c: frees it without waiting for the others to come here. Keeps the calling thread's error. */
void weft_comm_discard(struct weft_comm *comm);

#endif
