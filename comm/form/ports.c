/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/form/ports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/secure.h"
#include "comm/core/comm.h"
#include "topo/live/live.h"
#include "topo/live/sysfs.h"
#include "topo/path.h"
#include "topo/share.h"

#define DEVICES "/sys/class/infiniband"

static void forget(struct weft_ports *ports)
{
    weft_graph_free(ports->machine);
    *ports = (struct weft_ports){.own = WEFT_NODE_NONE};
}

static const char *root_of_files(void)
{
    const char *root = weft_secure_getenv("HWLOC_FSROOT");
    return root ? root : "";
}

/* --- the machine */

/* Devices that do not speak InfiniBand's protocol (iWARP, EFA, usNIC) have other node types than "1: CA"; verbs leaves them out. */
static void leave_out_others(const char *root, struct weft_graph *machine)
{
    char type[WEFT_SYSFS_LINE_MAX];
    for (uint32_t n = 0; n < machine->node_count; n++) {
        struct weft_node *node = &machine->nodes[n];
        if (node->kind == WEFT_NODE_PORT &&
            weft_sysfs_line(root, type, DEVICES "/%s/node_type", machine->nodes[node->parent].name) > 0 &&
            strncmp(type, "1:", 2) != 0)
            node->state = WEFT_PORT_DOWN;
    }
}

static int read_machine(const char *root, struct weft_graph **machine)
{
    struct weft_graph *made;
    int status = weft_graph_new("this machine", "sysfs", &made);
    if (status != WEFT_OK)
        return status;
    status = weft_live_host_numas(root, made);
    if (status == WEFT_OK)
        status = weft_live_rdma(root, made);
    if (status == WEFT_OK)
        status = weft_graph_finish(made);
    if (status != WEFT_OK) {
        weft_graph_free(made);
        return status;
    }
    leave_out_others(root, made);
    *machine = made;
    return WEFT_OK;
}

/* --- the ranks of this host */

/* Who shares memory with this rank; who is of the same name and machine, as hosts are found for the layout (arrange.h); and where
 * machines are not set apart, as launcher or names say of ranks without shared memory. */
static int is_here(const struct weft_comm *comm, int rank)
{
    const struct weft_member *mine = &comm->members[comm->rank], *theirs = &comm->members[rank];
    const struct weft_open_transport *shm = &comm->context->transports[WEFT_SHM];
    int shares = 0; /* -1: no, though both could */
    if (rank == comm->rank)
        return 1;
    if (shm->instance && mine->sizes[WEFT_SHM] && theirs->sizes[WEFT_SHM])
        shares = shm->ops.reachable(shm->instance, theirs->addresses, theirs->sizes[WEFT_SHM]) ? 1 : -1;
    if (shares > 0)
        return 1;
    if (mine->machine && theirs->machine)
        return mine->machine == theirs->machine && strcmp(mine->host, theirs->host) == 0;
    if (shares < 0)
        return 0;
    const struct weft_placement *a = &mine->placement, *b = &theirs->placement;
    if (a->job && a->job == b->job && a->node >= 0 && b->node >= 0)
        return a->node == b->node;
    return strcmp(mine->host, theirs->host) == 0;
}

static uint32_t numa_node(const struct weft_graph *machine, int32_t number)
{
    for (uint32_t n = 0; n < machine->node_count && number >= 0; n++) {
        if (machine->nodes[n].kind == WEFT_NODE_NUMA && machine->nodes[n].index == number)
            return n;
    }
    return WEFT_NODE_NONE;
}

/* places: room for all ranks; filled by this host's, in the order of their numbers. Which of them is this rank. */
static uint32_t place_residents(const struct weft_comm *comm, const struct weft_graph *machine,
                                struct weft_place *places, uint32_t *count)
{
    uint32_t own = 0, found = 0;
    for (int r = 0; r < comm->ranks; r++) {
        if (!is_here(comm, r))
            continue;
        own = r == comm->rank ? found : own;
        places[found++] = (struct weft_place){.host = weft_graph_first(machine, WEFT_NODE_NONE),
                                              .near = numa_node(machine, comm->members[r].numa)};
    }
    *count = found;
    return own;
}

/* --- the choice */

/* "mlx5_1:1,mlx5_3:1"; 0 when it does not fit. */
static int list_ports(const struct weft_graph *machine, const struct weft_port_share *share,
                      char text[WEFT_PORTS_TEXT])
{
    size_t used = 0;
    for (uint32_t i = 0; i < share->count; i++) {
        const struct weft_node *port = &machine->nodes[share->ports[i]];
        used += (size_t)snprintf(text + used, WEFT_PORTS_TEXT - used, "%s%s:%d", i ? "," : "",
                                 machine->nodes[port->parent].name, (int)port->index);
        if (used >= WEFT_PORTS_TEXT)
            return 0;
    }
    return 1;
}

/* Whether it leaves out any of the host's first `most` rails. */
static int is_part(const struct weft_port_share *share, const uint32_t *rails, uint32_t count, uint32_t most)
{
    uint32_t whole = count < most ? count : most, same = 0;
    while (same < share->count && same < whole && share->ports[same] == rails[same])
        same++;
    return same < whole;
}

static void say(const struct weft_comm *comm, const struct weft_place *place,
                const struct weft_port_share *shares, uint32_t own, uint32_t residents)
{
    const struct weft_ports *ports = comm->context->form.ports;
    const struct weft_graph *machine = ports->machine;
    uint32_t port = shares[own].own, sharing = 0;
    char why[WEFT_NAME_SIZE_MAX + 64] = "the first of them, as nothing says which is near";
    if (port == WEFT_NODE_NONE || !weft_log_enabled(WEFT_LOG_INFO))
        return;
    if (place->near != WEFT_NODE_NONE)
        snprintf(why, sizeof why, "the nearest to %s (%s)", machine->nodes[place->near].name,
                 weft_path_class_name(weft_path_classify(machine, place->near, machine->nodes[port].parent)));
    for (uint32_t r = 0; r < residents; r++)
        sharing += shares[r].own == port;
    weft_log(WEFT_LOG_INFO,
             "verbs: rank %d uses %s, its share among %u ranks of this host; %s is %s, and so for %u of them",
             comm->rank, ports->chosen, residents, machine->nodes[port].name, why, sharing);
}

static int share_out(struct weft_comm *comm, const char *root)
{
    struct weft_ports *ports = comm->context->form.ports;
    uint32_t residents, *rails = NULL, rail_count = 0, most = (uint32_t)comm->context->settings.verbs.rails;
    struct weft_place *places = malloc((size_t)comm->ranks * sizeof *places);
    struct weft_port_share *shares = malloc((size_t)comm->ranks * sizeof *shares);
    uint32_t *networks = malloc(ports->machine->node_count * sizeof *networks);
    int status = WEFT_OK;
    if (!places || !shares || !networks)
        status = weft_fail(WEFT_NOMEM, "no memory to share ports among %d ranks", comm->ranks);
    if (status == WEFT_OK)
        status = weft_live_networks(root, ports->machine, networks);
    if (status == WEFT_OK)
        status = weft_share_rails(ports->machine, weft_graph_first(ports->machine, WEFT_NODE_NONE), &rails,
                                  &rail_count);
    if (status == WEFT_OK) {
        uint32_t own = place_residents(comm, ports->machine, places, &residents);
        status = weft_share_ports(ports->machine, places, residents, most, networks, shares);
        if (status == WEFT_OK && list_ports(ports->machine, &shares[own], ports->chosen)) {
            ports->own = shares[own].own;
            ports->is_part = is_part(&shares[own], rails, rail_count, most);
            say(comm, &places[own], shares, own, residents);
        } else {
            *ports->chosen = '\0';
        }
        if (status == WEFT_OK && rail_count && !shares[own].count)
            weft_log(
                WEFT_LOG_INFO,
                "verbs: ports of this host are on more than %u networks (WEFT_VERBS_RAILS), so they are not "
                "shared out: each rank takes the same ports, the first by name",
                most);
    }
    free(rails);
    free(networks);
    free(shares);
    free(places);
    return status;
}

void weft_ports_choose(struct weft_comm *comm)
{
    struct weft_context *context = comm->context;
    const char *root = root_of_files(), *devices = context->settings.devices;
    forget(context->form.ports);
    if (!weft_sysfs_exists(root, DEVICES))
        return;
    int status = read_machine(root, &context->form.ports->machine);
    if (status == WEFT_OK &&
        (!*devices || (*devices == '^' && weft_ports_leave_out(context->form.ports->machine, devices + 1))))
        status = share_out(comm, root);
    if (status != WEFT_OK) {
        weft_log(WEFT_LOG_WARN, "verbs: ports are not shared with this host's other ranks: %s",
                 weft_error_detail());
        weft_error_clear();
    }
}

void weft_ports_give_up(struct weft_context *context)
{
    weft_log(WEFT_LOG_INFO, "verbs: this rank takes what it can open, not %s: %s",
             context->form.ports->chosen, weft_error_detail());
    *context->form.ports->chosen = '\0';
    context->form.ports->own = WEFT_NODE_NONE;
    context->form.ports->is_part = 0;
}

/* --- what is announced */

static uint32_t find_port(const struct weft_graph *machine, const char *device, int number)
{
    for (uint32_t n = 0; machine && n < machine->node_count; n++) {
        const struct weft_node *node = &machine->nodes[n];
        if (node->kind == WEFT_NODE_PORT && node->index == number &&
            strcmp(machine->nodes[node->parent].name, device) == 0)
            return n;
    }
    return WEFT_NODE_NONE;
}

/* "0x3", and the first four groups of the GID: "fe80:0000:0000:0000". */
static void describe_subnet(const struct weft_graph *machine, uint32_t port,
                            struct weft_announced_port *announced)
{
    unsigned part[4];
    const char *layer = weft_graph_attribute(machine, port, "link_layer");
    const char *lid = weft_graph_attribute(machine, port, "LID");
    const char *gid = weft_graph_attribute(machine, port, "GID0");
    if (!layer || strcmp(layer, "InfiniBand") != 0 || !lid || !gid ||
        sscanf(gid, "%4x:%4x:%4x:%4x", &part[0], &part[1], &part[2], &part[3]) != 4)
        return;
    announced->subnet = (uint64_t)part[0] << 48 | (uint64_t)part[1] << 32 | (uint64_t)part[2] << 16 | part[3];
    announced->lid = (uint16_t)strtoul(lid, NULL, 0);
}

static struct weft_announced_port describe_port(const struct weft_graph *machine, uint32_t node,
                                                const weft_rail *info, const uint32_t *rails,
                                                uint32_t rail_count)
{
    struct weft_announced_port announced = {.speed_mbps = (uint32_t)(info->bytes_per_s / 125000),
                                            .numa = -1,
                                            .rail = WEFT_RAIL_NONE,
                                            .number = (uint8_t)info->port};
    snprintf(announced.device, sizeof announced.device, "%.*s", WEFT_DEVICE_NAME - 1, info->device);
    if (node == WEFT_NODE_NONE)
        return announced;
    const struct weft_node *port = &machine->nodes[node];
    uint32_t numa = weft_graph_above(machine, node, WEFT_NODE_NUMA);
    announced.guid = port->guid;
    announced.device_guid = machine->nodes[port->parent].guid;
    announced.numa = numa == WEFT_NODE_NONE ? -1 : machine->nodes[numa].index;
    describe_subnet(machine, node, &announced);
    for (uint32_t r = 0; r < rail_count && r < WEFT_RAIL_NONE; r++)
        announced.rail = rails[r] == node ? (uint16_t)r : announced.rail;
    return announced;
}

/* Whether a port is among these by its name, which may have been cut. */
static int is_among(const struct weft_announced_port *announced, uint32_t count,
                    const struct weft_announced_port *port)
{
    for (uint32_t i = 0; i < count; i++) {
        if (announced[i].number == port->number && strcmp(announced[i].device, port->device) == 0)
            return 1;
    }
    return 0;
}

uint32_t weft_ports_announce(const struct weft_context *context,
                             struct weft_announced_port announced[WEFT_ANNOUNCED_PORTS])
{
    const struct weft_open_transport *verbs = &context->transports[WEFT_VERBS];
    const struct weft_ports *ports = context->form.ports;
    weft_rail infos[WEFT_ANNOUNCED_PORTS];
    uint32_t *rails = NULL, rail_count = 0;
    for (int i = 0; i < WEFT_ANNOUNCED_PORTS; i++)
        infos[i] = (weft_rail){.size = sizeof infos[i]};
    int count = verbs->ops.rails(verbs->instance, infos, WEFT_ANNOUNCED_PORTS);
    count = count < 0 ? 0 : count < WEFT_ANNOUNCED_PORTS ? count : WEFT_ANNOUNCED_PORTS;
    if (ports->machine && weft_share_rails(ports->machine, weft_graph_first(ports->machine, WEFT_NODE_NONE),
                                           &rails, &rail_count) != WEFT_OK)
        weft_error_clear(); /* then nobody learns of rails */
    uint32_t used = 0;
    for (int i = 0; i < count; i++) {
        uint32_t node = find_port(ports->machine, infos[i].device, infos[i].port);
        announced[used] = describe_port(ports->machine, node, &infos[i], rails, rail_count);
        if (is_among(announced, used, &announced[used]))
            continue;
        if (used && node != WEFT_NODE_NONE && node == ports->own) {
            struct weft_announced_port first = announced[0];
            announced[0] = announced[used];
            announced[used] = first;
        }
        used++;
    }
    free(rails);
    return used;
}

int weft_ports_are_valid(const struct weft_announced_port *announced, uint32_t count)
{
    for (uint32_t i = 0; i < count && i < WEFT_ANNOUNCED_PORTS; i++) {
        if (!announced[i].number || !*announced[i].device ||
            !memchr(announced[i].device, 0, sizeof announced[i].device))
            return 0;
        for (const char *c = announced[i].device; *c; c++) {
            if ((unsigned char)*c <= ' ' || *c == 0x7f)
                return 0;
        }
        if (is_among(announced, i, &announced[i]))
            return 0;
    }
    return count <= WEFT_ANNOUNCED_PORTS;
}

int weft_ports_open(struct weft_context *context)
{
    context->form.ports = calloc(1, sizeof *context->form.ports);
    if (!context->form.ports)
        return weft_fail(WEFT_NOMEM, "no memory for a context");
    forget(context->form.ports);
    context->form.chosen_ports = context->form.ports->chosen;
    return WEFT_OK;
}

void weft_ports_close(struct weft_context *context)
{
    if (context->form.ports)
        forget(context->form.ports);
    free(context->form.ports);
}
