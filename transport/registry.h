/* SPDX-License-Identifier: Apache-2.0 */
/* Which transports are built in, and how an incomplete table becomes a complete one.
 *
 * Threads: any; both functions only read constant tables.
 */
#ifndef WEFT_TRANSPORT_REGISTRY_H
#define WEFT_TRANSPORT_REGISTRY_H

#include <weft/transport.h>

/* The table of a built-in transport ("shm", "verbs", "tcp", "ofi"), possibly with absent operations; NULL when there
 * is none of this name. Static. */
const struct weft_transport_ops *weft_transport_find(const char *name);

/* Copies a table and fills absent operations with callable defaults: they answer WEFT_UNSUPPORTED, except
 * that closing calls do nothing, fds() has none, arm() allows to sleep and link_flags() answers 0 flags.
 * WEFT_INVALID for another ABI or a table without an operation that every transport needs. */
int weft_transport_complete(const struct weft_transport_ops *partial, struct weft_transport_ops *complete);

/* Makes a complete table one whose operations touch nothing: sending and connecting fail with WEFT_TRANSPORT, and what there is
 * stays as it is for ever, also when it is closed. For a transport whose library keeps descriptors that may be the
 * program's now. */
void weft_transport_abandon(struct weft_transport_ops *ops);

#endif
