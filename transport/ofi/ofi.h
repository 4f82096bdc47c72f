/* SPDX-License-Identifier: Apache-2.0 */
/* ofi: the transport over libfabric (TCP, InfiniBand and RoCE, EFA, Slingshot: whatever its providers reach).
 *
 * params.provider filters as libfabric itself does ("tcp", "tcp;ofi_rxm", "net", "verbs;ofi_rxm", "shm",
 * ...); NULL or "" takes the first suitable provider in fi_getinfo's order. "tcp" means the tcp provider's
 * own reliable-datagram endpoints where libfabric has them (called "net" in 1.17), tcp;ofi_rxm otherwise.
 * params.local_address chooses the interface; NULL, loopback.
 *
 * libfabric is loaded by the first open(), and stays loaded until the process ends.
 */
#ifndef WEFT_TRANSPORT_OFI_H
#define WEFT_TRANSPORT_OFI_H

#include <weft/transport.h>

extern const struct weft_transport_ops weft_ofi_ops;

#endif
