/* SPDX-License-Identifier: Apache-2.0 */
/* Which ports of RDMA devices a rank uses.
 *
 * Where WEFT_VERBS_DEVICE names none, the ranks of a host share its ports, but for those that the setting leaves out behind ^: each
 * takes the nearest to the NUMA node that it is bound to, and where there are no fewer ports than ranks these take what is left, too
 * (topo/share.h). Every rank finds that for itself when it opens verbs: by then it knows from the introductions (agree.h)
 * who is on its host and bound where, and ranks of a host read the same sysfs. Should two read different files, as containers may,
 * or have different settings, two ranks may have the same port and another idles, or one lacks a network that the other is on; then
 * they use another transport, or the communicator is not made (agree_network.h).
 *
 * A context opens verbs once, for the first communicator that needs a network. So those of its ranks count who are in that one.
 *
 * What a rank has opened it announces to the others with its vote (agree_network.h), so that the layout has the ports on which bytes
 * really go (arrange.h): devices by name and GUID, and which rail of its host each port is on.
 *
 * Read is sysfs below HWLOC_FSROOT or of this machine: NUMA nodes, RDMA devices, their ports, connected routes; a few
 * milliseconds on a host with eight adapters, and one look where there are none. Neither hwloc nor libibverbs is loaded for it.
 */
#ifndef WEFT_COMM_FORM_PORTS_H
#define WEFT_COMM_FORM_PORTS_H

#include <stddef.h>
#include <stdint.h>

struct weft_comm;
struct weft_context;
struct weft_graph;
struct weft_place;
struct weft_announced_place;

#define WEFT_ANNOUNCED_PORTS 4  /* as many as verbs opens */
#define WEFT_DEVICE_NAME     35 /* longer names are cut */

/* A port that a rank uses, as it goes over the wire (in the byte order of the hosts, which is the same for all of a job). */
struct weft_announced_port {
    uint64_t guid, device_guid; /* 0: not known */
    uint64_t subnet;            /* InfiniBand: its prefix */
    uint32_t speed_mbps;
    int32_t numa;  /* of the device, -1: not known */
    uint16_t rail; /* topo/share.h; WEFT_RAIL_NONE: not among the host's */
    uint16_t lid;  /* InfiniBand; 0: not known */
    uint8_t number;
    char device[WEFT_DEVICE_NAME];
};

#define WEFT_RAIL_NONE UINT16_MAX

#define WEFT_PORTS_TEXT 320 /* four ports with names as long as the kernel allows */

#define WEFT_APART_TEXT 160

/* What a context knows of its machine's ports. */
struct weft_ports {
    struct weft_graph
        *machine; /* NUMA nodes, RDMA devices, ports; NULL until read, and where there is nothing */
    char chosen[WEFT_PORTS_TEXT]; /* "mlx5_1:1,mlx5_3:1"; "": verbs chooses, or WEFT_VERBS_DEVICE says */
    uint32_t own;                 /* of those the nearest: node of the machine; WEFT_NODE_NONE: the first */
    int is_part;                  /* chosen are others than the host's first ports, which verbs would take */
};

/* [lock] Before verbs is opened: fills context->form.ports. What fails leaves the choice to verbs, and is logged. */
void weft_ports_choose(struct weft_comm *comm);

/* Ports of the machine that the list names count as down from now on: "mlx5_0,mlx5_1:2", from WEFT_VERBS_DEVICE behind ^. 0: it is
 * no such list, and nothing has changed. comm/form/ports_filter.c */
int weft_ports_leave_out(struct weft_graph *machine, const char *list);

/* [lock] Gives the choice up, since it cannot be opened (weft_error_detail() says why): containers are shown devices of their host
 * that they may not use. */
void weft_ports_give_up(struct weft_context *context);

/* [lock] What verbs has opened: how many, the rank's own port first. Of ports whose names are the same when cut, the first. */
uint32_t weft_ports_announce(const struct weft_context *context,
                             struct weft_announced_port announced[WEFT_ANNOUNCED_PORTS]);

/* Whether another rank's can be used: names that end and can be a node's, numbers in bounds, no port twice. */
int weft_ports_are_valid(const struct weft_announced_port *announced, uint32_t count);

/* What a context has of them; nothing is read yet. weft_ports_close() frees it, also where it was not opened. */
int weft_ports_open(struct weft_context *context);
void weft_ports_close(struct weft_context *context);

/* Whether what ranks announce proves that InfiniBand ports of one prefix are of several subnets: within one a LID is one port's, and
 * here two hosts' ports have the same. Ports of one host are passed over, as its ranks have looked at those (topo/live/networks.c),
 * and so are ports of one rail, as cables go by rails: these are functions of one adapter that several machines have. reason: says
 * which ports. The same on all ranks. Negative: WEFT_NOMEM. comm/form/ports_subnets.c */
int weft_ports_are_apart(const struct weft_comm *comm, const struct weft_announced_place *announced,
                         char reason[WEFT_APART_TEXT]);

/* Adds the NICs and ports that these ranks of a host use below the host, where it has the NUMA nodes of ranks already. What two ranks
 * speak of one port counts as the first of them says. comm/form/ports_graph.c */
int weft_ports_add(struct weft_graph *machines, uint32_t host, const struct weft_announced_place *announced,
                   const int32_t *ranks, uint32_t count);

/* Gives the place its rank's own port, if the graph has that. */
void weft_ports_place(const struct weft_graph *graph, const struct weft_announced_place *announced,
                      struct weft_place *place);

#endif
