/* SPDX-License-Identifier: Apache-2.0 */
/* The tcp transport: sockets of our own between hosts. See tcp_private.h for the picture. */
#ifndef WEFT_TRANSPORT_TCP_H
#define WEFT_TRANSPORT_TCP_H

#include <weft/transport.h>

extern const struct weft_transport_ops weft_tcp_ops;

#endif
