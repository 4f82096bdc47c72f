/* SPDX-License-Identifier: Apache-2.0 */
/* shm: weft's own transport between ranks that have proven to share a host.
 *
 * Offers messages through shared rings, and reads: map() for memory of alloc(), pull() for any memory where
 * the kernel lets the peer read it. Needs params.watch. expose() answers WEFT_UNSUPPORTED for memory that the
 * link's peer cannot read, and WEFT_AGAIN while that is not known yet. Design and formats: shm.c, wire.h.
 */
#ifndef WEFT_TRANSPORT_SHM_H
#define WEFT_TRANSPORT_SHM_H

#include <weft/transport.h>

extern const struct weft_transport_ops weft_shm_ops;

#endif
