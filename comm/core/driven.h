/* SPDX-License-Identifier: Apache-2.0 */
/* What progress makes of communicators: comm/drive/context.h. */
#ifndef WEFT_COMM_CORE_DRIVEN_H
#define WEFT_COMM_CORE_DRIVEN_H

#include "comm/core/comm.h"

extern const struct weft_driven_ops weft_comm_driven_ops;

/* A context's hook: calls and messages that progress starts, of all its communicators. [lock] */
int weft_driven_carry(struct weft_context *context);

/* Of a communicator that is no longer among the context's: what is mapped of processes that no other one has is of no use. [lock] */
void weft_driven_forget(const struct weft_comm *comm);

#endif
