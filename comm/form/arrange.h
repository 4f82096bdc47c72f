/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks of a communicator stand, and what follows from it: the order that rings and trees take, and the hosts of
 * hierarchical plans.
 *
 * Every rank announces four things when a communicator is made (agree.h, round 1): the kernel that runs it, the NUMA node that it
 * is bound to, what Slurm says of its place in the fabric, and a digest of the fabric in WEFT_TOPO_FILE; and with its vote
 * (round 2) the ports of RDMA devices that it uses, by name, GUID and rail (ports.h). With host names and
 * who shares memory with whom, which are known anyhow, all ranks have the same facts, make the same graph of
 * them and so find the same layout (topo/order.h). No rank looks at another's hardware, and none loads hwloc for it.
 *
 * Which ranks are on one host: those whose hosts have the same name, run the same kernel (by its boot id, so that machines which
 * are all called "localhost" are told apart) and, where one launcher says so, have the same number. Ranks that have
 * proven to share memory count as the lowest of them says (containers may have names of their own). Ranks of one host
 * that do not share memory (other users', in a network namespace of their own, or without descriptors) are still on
 * one host: what goes between them stays in the machine, and the fabric sees them at one place. Within it those stand
 * together that do. Only where there is one host in all they are hosts of their own, since there is nothing dearer to save;
 * so they are where a kernel does not show its boot id. Where no rank can share memory (WEFT_TRANSPORT=tcp) that says nothing.
 *
 * comm->members[].host_index is the number of the host, whatever plans make of them.
 *
 * NICs: those that ranks have announced, each rank's first being its own. With them hosts have rails, and the layout a ring for each;
 * and where the fabric's file has GUIDs, cables end at the ports where they do. A rank that has announced none (it does not use verbs)
 * has no NIC, though its host may have some: it counts for no rail. For the order it hangs where a NIC near it does.
 *
 * The fabric, the first there is:
 *   - WEFT_TOPO_FILE, which all ranks must read alike, with hosts by their names, whole or up to the first dot where that
 *     is not ambiguous (weft_fabric_lay());
 *   - SLURM_TOPOLOGY_ADDR and SLURM_TOPOLOGY_ADDR_PATTERN of a rank of each host (slurm.conf's TopologyParam: they are set
 *     with topology/tree and topology/block), where the address ends in the host's name, whole or up to its first dot;
 *   - none: hosts by name alone. So too, with a warning, where a fabric has the name of a host for a switch, or Slurm's
 *     values contradict each other.
 */
#ifndef WEFT_COMM_FORM_ARRANGE_H
#define WEFT_COMM_FORM_ARRANGE_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>

struct weft_comm;
struct weft_context;
struct weft_announced_port;

#define WEFT_PLACE_TEXT_MAX 512 /* Slurm's two values with their ends; longer ones are not announced */

struct weft_announced_place {
    int32_t numa;        /* -1: several, or not known */
    uint32_t machine;    /* digest of its kernel's boot id, 0: not known */
    uint64_t fabric;     /* digest of WEFT_TOPO_FILE's graph, 0 without */
    const char *address; /* "": Slurm has not said */
    const char *pattern;
    const struct weft_announced_port *ports; /* that verbs uses (ports.h), the rank's own first */
    uint32_t port_count;                     /* 0: none, or not announced */
};

/* What the calling thread's rank announces: fields into place (but for the strings), the two strings one behind the
 * other into text. Returns the bytes of text. The context keeps the NUMA node for each set of processors, so sysfs is read once. Takes
 * the context's lock. */
size_t weft_place_announce(struct weft_context *context, const cpu_set_t *processors,
                           struct weft_announced_place *place, char text[WEFT_PLACE_TEXT_MAX]);

/* Takes the two strings apart. 0 when they are not two that end where size does. */
int weft_place_read_text(const char *text, size_t size, struct weft_announced_place *place);

/* Makes comm->hosts of what all ranks have announced ([ranks]); NULL where ranks stand as they are numbered, on one host.
 * WEFT_SETTINGS when their WEFT_TOPO_FILEs differ. */
int weft_comm_arrange(struct weft_comm *comm, const struct weft_announced_place *announced);

/* Reads WEFT_TOPO_FILE, where it is set, into context->form.fabric. */
int weft_context_read_fabric(struct weft_context *context);

/* Whether one launcher has started all ranks and numbers their hosts. */
int weft_comm_has_nodes(const struct weft_comm *comm);

#endif
