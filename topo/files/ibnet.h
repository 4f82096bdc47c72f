/* SPDX-License-Identifier: Apache-2.0 */
/* What ibnetdiscover printed, as tables: between the parts that read it (ibnetdiscover.c), check that both ends of each
 * cable say the same (ibnet_cables.c), find out which adapters are in one host (ibnet_hosts.c), and make the graph
 * (ibnet_graph.c). Spans point into the text. Threads: one. */
#ifndef WEFT_TOPO_FILES_IBNET_H
#define WEFT_TOPO_FILES_IBNET_H

#include "topo/files/names.h"

#define WEFT_IBNET_NONE UINT32_MAX

enum weft_ibnet_kind { WEFT_IBNET_SWITCH, WEFT_IBNET_ADAPTER, WEFT_IBNET_ROUTER };

struct weft_ibnet_node {
    uint8_t kind;          /* enum weft_ibnet_kind */
    uint8_t aggregates;    /* no adapter of a host, but a switch's own unit for reductions */
    uint8_t given_by_peer; /* no section of its own: what its switch says of it */
    uint8_t ports_max;     /* as its line says */
    uint16_t ports_count;  /* that have lines */
    uint32_t line;
    uint32_t ports_first;  /* in weft_ibnet.ports, by rising number */
    uint32_t host;         /* ADAPTER: in weft_ibnet.hosts */
    uint32_t node;         /* in the graph */
    uint32_t aggregations; /* SWITCH: how many aggregation nodes hang on it */
    uint32_t loops;        /* SWITCH: cables from it to itself */
    uint32_t device;       /* ADAPTER: its number among its host's, from 0; WEFT_IBNET_NONE: not told */
    uint64_t guid, system_guid;
    uint32_t vendor_id, device_id, lid, chassis; /* 0: not told */
    struct weft_span key;                        /* S-0123456789abcdef */
    struct weft_span description;
    struct weft_span device_name; /* ADAPTER: mlx5_0; empty: its key names it */
};

struct weft_ibnet_port {
    uint32_t node, peer; /* peer: set by weft_ibnet_check() */
    uint32_t line;
    uint8_t number, peer_number;
    uint8_t done;   /* its cable is in the graph */
    uint8_t lanes;  /* as its speed says; 0: not given or not understood */
    uint32_t place; /* ADAPTER: its PORT in the graph */
    uint32_t lid;   /* ADAPTER: its own, 0: not told */
    uint32_t peer_lid;
    uint64_t guid, peer_guid; /* of the ports; 0: not told */
    uint64_t bytes_per_s;     /* 0: not given or not understood */
    struct weft_span speed;   /* 4xNDR */
    struct weft_span peer_key, peer_description;
};

struct weft_ibnet_host {
    const char *name;
    uint64_t system_guid; /* of all its adapters; 0: they have several */
    uint32_t adapters;    /* 0: it came to nothing, all were placed elsewhere */
    uint32_t line;
    uint32_t node;    /* in the graph */
    uint8_t doubtful; /* while hosts are found: several hosts bear its name */
};

struct weft_ibnet {
    const struct weft_text *text;
    struct weft_graph *graph;
    struct weft_names keys;     /* of nodes */
    struct weft_names unlisted; /* ports of nodes without a section: to the lines that tell of them */
    struct weft_ibnet_node *nodes;
    struct weft_ibnet_port *ports;
    struct weft_ibnet_host *hosts;
    uint32_t node_count, node_room, port_count, port_room, host_count, host_room;
};

/* Makes room for one more in an array of `count`. */
int weft_ibnet_grow(void **array, uint32_t count, uint32_t *room, size_t item);

/* A node of that key, which must be new. */
int weft_ibnet_add_node(struct weft_ibnet *net, struct weft_span key, uint32_t line, uint32_t *node);

/* Whether that describes a switch's own unit for reductions. */
int weft_ibnet_is_aggregation(struct weft_span description);

/* Every cable's two ends say the same. Adds the adapters of which only their switch tells. */
int weft_ibnet_check(struct weft_ibnet *net);
/* The end at the other side; NULL where only this one is told. */
struct weft_ibnet_port *weft_ibnet_other_end(const struct weft_ibnet *net,
                                             const struct weft_ibnet_port *port);

/* Sets host and device of every adapter. */
int weft_ibnet_find_hosts(struct weft_ibnet *net);

int weft_ibnet_make_graph(struct weft_ibnet *net);

#endif
