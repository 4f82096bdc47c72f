/* SPDX-License-Identifier: Apache-2.0 */
/* Writing NCCL's XML. Below the call is what its two files share, private to topo/report/nccl_write*.c. */
#ifndef WEFT_TOPO_REPORT_NCCL_WRITE_H
#define WEFT_TOPO_REPORT_NCCL_WRITE_H

#include "topo/machines/nccl.h"
#include "base/tool/xml_write.h"

/* NCCL's XML of one host, or of all that the graph has (WEFT_NODE_NONE), told apart by host_hash as NCCL does for NVLink
 * between hosts. Reading what it wrote gives an equal graph as far as the format can say; what was read from NCCL's XML
 * is written with all its attributes. WEFT_INVALID: no host. *xml is malloc'ed, with a 0 behind *size bytes. */
int weft_nccl_write(const struct weft_graph *graph, uint32_t host, char **xml, size_t *size);

struct weft_nccl_out {
    const struct weft_graph *graph;
    struct weft_xml_out xml;
    int several;       /* hosts that no host_hash tells apart: their cpus get one */
    uint8_t *kept;     /* by node: whether it or what lies in it is written */
    uint8_t *begun;    /* by node: which elements it has open */
    uint32_t *made_up; /* by node: number for an address, where it has none */
};

/* The node's address, made up where it has none. */
void weft_nccl_address(const struct weft_nccl_out *out, uint32_t node, char address[64]);

/* Attributes (and for a gpu, links) of nodes that no NCCL told of, as far as the graph knows them. */
void weft_nccl_put_host(struct weft_nccl_out *out, uint32_t node); /* host_hash */
void weft_nccl_make_cpu(struct weft_nccl_out *out,
                        uint32_t place); /* a NUMA node, or a host: of what lies in none */
void weft_nccl_make_pci(struct weft_nccl_out *out, uint32_t node);
void weft_nccl_make_gpu(struct weft_nccl_out *out, uint32_t gpu);
void weft_nccl_make_net(struct weft_nccl_out *out, uint32_t nic,
                        uint32_t port); /* NONE: a nic of which no port is known */

#endif
