/* SPDX-License-Identifier: Apache-2.0 */
/* verbs: the transport straight over libibverbs, for InfiniBand and RoCE adapters (docs/rdma.md).
 *
 * params.devices names the ports to use, params.verbs the rest of the settings. Links are made with
 * out-of-band messages (params.tell); the transport has no listener of its own. libibverbs is loaded by the
 * first open() that finds a device in this machine, and stays loaded until the process ends.
 */
#ifndef WEFT_TRANSPORT_VERBS_H
#define WEFT_TRANSPORT_VERBS_H

#include <weft/transport.h>

extern const struct weft_transport_ops weft_verbs_ops;

#endif
