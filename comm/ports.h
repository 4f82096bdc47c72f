/* Which ports of RDMA devices a rank uses.
 *
 * Where WEFT_VERBS_DEVICE names none, the ranks of a host share its ports (topo/share.h): each takes the nearest to the NUMA node
 * that it is bound to, and together they take all. Every rank finds that for itself when it opens verbs: by then it knows from
 * the introductions (agree.h) who is on its host and bound where, and all read the same sysfs. Should two differ, two ranks
 * have the same port and another idles; nothing else rests on it.
 *
 * A context opens verbs once, for the first communicator that needs a network. So those of its ranks count who are in that one.
 *
 * Read is sysfs below HWLOC_FSROOT or of this machine: NUMA nodes, RDMA devices, their ports, connected routes; a few
 * milliseconds on a host with eight adapters, and one look where there are none. Neither hwloc nor libibverbs is loaded for it.
 */
#ifndef WEFT_COMM_PORTS_H
#define WEFT_COMM_PORTS_H

struct weft_comm;
struct weft_context;
struct weft_graph;

#define WEFT_PORTS_TEXT 320 /* four ports with names as long as the kernel allows */

/* What a context knows of its machine's ports. */
struct weft_ports {
    struct weft_graph
        *machine; /* NUMA nodes, RDMA devices, ports; NULL until read, and where there is nothing */
    char chosen[WEFT_PORTS_TEXT]; /* "mlx5_1:1,mlx5_3:1"; "": verbs chooses, or WEFT_VERBS_DEVICE says */
};

/* [lock] Before verbs is opened: fills context->ports. What fails leaves the choice to verbs, and is logged. */
void weft_ports_choose(struct weft_comm *comm);

/* [lock] Gives the choice up, since it cannot be opened (weft_error_detail() says why): containers are shown devices of their host
 * that they may not use. */
void weft_ports_give_up(struct weft_context *context);

void weft_ports_close(struct weft_ports *ports);

#endif
