/* SPDX-License-Identifier: Apache-2.0 */
/* Xe Links from Level Zero's Sysman (libze_loader.so.1), Intel's interface to its GPUs. oneAPI Level Zero Specification,
 * "Sysman Programming Guide", Fabric Ports.
 *
 * Each fabric port of a GPU has an identity (fabric, attach point, port number), and tells that of the port at the other
 * end of its cable. Ports that name each other are a link; links between the same two GPUs are counted into one edge. A
 * speed is bits per second of a lane, and how many lanes.
 *
 * zesInit() opens Sysman alone. Loaders that lack it (1.8 of Debian 12 does) have an older way: zeInit() starts the whole compute
 * runtime, and the handles of its drivers and devices are Sysman's too, where ZES_ENABLE_SYSMAN=1 was set before. A library must
 * not set that, nor start a runtime that nobody asked for; so that way is taken where the user has set it, and otherwise such
 * loaders are not asked. The declarations are our own, of what is used.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/runtime.h"
#include "base/secure.h"
#include "topo/discover/discover.h"
#include "topo/live/live.h"

#define COUNT_MAX 1024u /* of drivers, of a driver's devices, of a device's ports */

enum { SUCCESS = 0, PORT_HEALTHY = 1, PORT_DEGRADED = 2 };
enum { STRUCTURE_PCI_PROPERTIES = 0x2, STRUCTURE_PORT_PROPERTIES = 0x6, STRUCTURE_PORT_STATE = 0x19 };

struct pci_properties {
    uint32_t structure;
    void *next;
    struct {
        uint32_t domain, bus, device, function;
    } address;
    struct {
        int32_t generation, width;
        int64_t bandwidth_max;
    } speed_max;
    uint8_t has_bandwidth, has_packets, has_replays;
};

struct port_id {
    uint32_t fabric, attach;
    uint8_t port;
};

struct port_speed {
    int64_t bits_per_s; /* of a lane; -1 not known */
    int32_t lanes;
};

struct port_properties {
    uint32_t structure;
    void *next;
    char model[256];
    uint8_t on_subdevice;
    uint32_t subdevice;
    struct port_id id;
    struct port_speed receive_max, send_max;
};

struct port_state {
    uint32_t structure;
    const void *next;
    uint32_t status, quality_issues, failure_reasons;
    struct port_id remote;
    struct port_speed receive, send;
};

struct library {
    int (*init)(uint32_t flags);
    int (*get_drivers)(uint32_t *count, void **drivers);
    int (*get_devices)(void *driver, uint32_t *count, void **devices);
    int (*init_all)(uint32_t flags); /* the same of the compute runtime: the older way */
    int (*get_drivers_of_all)(uint32_t *count, void **drivers);
    int (*get_devices_of_all)(void *driver, uint32_t *count, void **devices);
    int (*get_pci)(void *device, struct pci_properties *properties);
    int (*get_ports)(void *device, uint32_t *count, void **ports);
    int (*get_port)(void *port, struct port_properties *properties);
    int (*get_port_state)(void *port, struct port_state *state);
};

#define FUNCTION(name, field, optional)                                                                      \
    {                                                                                                        \
        name, offsetof(struct library, field), optional                                                      \
    }
static const struct weft_live_function functions[] = {
    FUNCTION("zesInit", init, 1),
    FUNCTION("zesDriverGet", get_drivers, 1),
    FUNCTION("zesDeviceGet", get_devices, 1),
    FUNCTION("zeInit", init_all, 1),
    FUNCTION("zeDriverGet", get_drivers_of_all, 1),
    FUNCTION("zeDeviceGet", get_devices_of_all, 1),
    FUNCTION("zesDevicePciGetProperties", get_pci, 0),
    FUNCTION("zesDeviceEnumFabricPorts", get_ports, 0),
    FUNCTION("zesFabricPortGetProperties", get_port, 0),
    FUNCTION("zesFabricPortGetState", get_port_state, 0),
};

struct port {
    uint32_t node; /* the GPU */
    struct port_id id, remote;
    uint64_t bytes_per_s;
};

struct asking {
    struct library sysman;
    struct weft_graph *graph;
    struct port *ports;
    uint32_t count, room;
};

static int no_memory(void)
{
    return weft_fail(WEFT_NOMEM, "no memory to ask Level Zero");
}

static uint64_t bytes_of(struct port_speed speed)
{
    if (speed.bits_per_s <= 0 || speed.lanes <= 0 || speed.lanes > 1024 ||
        speed.bits_per_s > INT64_MAX / 1024)
        return 0;
    return (uint64_t)speed.bits_per_s * (uint64_t)speed.lanes / 8;
}

static int add_port(struct asking *asking, void *handle, uint32_t node)
{
    struct port_properties properties;
    struct port_state state;
    memset(&properties, 0, sizeof properties);
    memset(&state, 0, sizeof state);
    properties.structure = STRUCTURE_PORT_PROPERTIES;
    state.structure = STRUCTURE_PORT_STATE;
    if (asking->sysman.get_port(handle, &properties) != SUCCESS ||
        asking->sysman.get_port_state(handle, &state) != SUCCESS ||
        (state.status != PORT_HEALTHY && state.status != PORT_DEGRADED))
        return WEFT_OK;
    if (asking->count == asking->room) {
        uint32_t room = asking->room ? asking->room * 2 : 32;
        struct port *grown = realloc(asking->ports, room * sizeof *grown);
        if (!grown)
            return no_memory();
        asking->ports = grown;
        asking->room = room;
    }
    uint64_t now = bytes_of(state.receive), most = bytes_of(properties.receive_max);
    asking->ports[asking->count++] = (struct port){
        .node = node, .id = properties.id, .remote = state.remote, .bytes_per_s = now ? now : most};
    return WEFT_OK;
}

/* Handles as Level Zero gives them: first how many, then these. `of` is what they belong to, NULL for drivers. */
static int list(const struct library *sysman, void *of, int (*get)(void *of, uint32_t *count, void **handles),
                void ***handles, uint32_t *count)
{
    uint32_t found = 0;
    *handles = NULL;
    *count = 0;
    int result = of ? get(of, &found, NULL) : sysman->get_drivers(&found, NULL);
    if (result != SUCCESS || !found)
        return WEFT_OK;
    found = found < COUNT_MAX ? found : COUNT_MAX;
    void **made = calloc(found, sizeof *made);
    if (!made)
        return no_memory();
    result = of ? get(of, &found, made) : sysman->get_drivers(&found, made);
    if (result != SUCCESS) {
        free(made);
        return WEFT_OK;
    }
    *handles = made;
    *count = found;
    return WEFT_OK;
}

static int ask_device(struct asking *asking, void *device)
{
    struct pci_properties pci;
    memset(&pci, 0, sizeof pci);
    pci.structure = STRUCTURE_PCI_PROPERTIES;
    if (asking->sysman.get_pci(device, &pci) != SUCCESS)
        return WEFT_OK;
    char text[64], address[32];
    snprintf(text, sizeof text, "%x:%x:%x.%x", pci.address.domain, pci.address.bus, pci.address.device,
             pci.address.function);
    if (weft_pci_parse(text, address) != WEFT_OK)
        return WEFT_OK;
    uint32_t node = weft_live_find(asking->graph, WEFT_NODE_GPU, address), count;
    void **ports;
    if (node == WEFT_NODE_NONE)
        return WEFT_OK;
    int status = list(&asking->sysman, device, asking->sysman.get_ports, &ports, &count);
    for (uint32_t i = 0; i < count && !status; i++)
        status = add_port(asking, ports[i], node);
    free(ports);
    return status;
}

static int ask_driver(struct asking *asking, void *driver)
{
    void **devices;
    uint32_t count;
    int status = list(&asking->sysman, driver, asking->sysman.get_devices, &devices, &count);
    for (uint32_t i = 0; i < count && !status; i++)
        status = ask_device(asking, devices[i]);
    free(devices);
    return status;
}

/* --- links */

static int same(const struct port_id *a, const struct port_id *b)
{
    return a->fabric == b->fabric && a->attach == b->attach && a->port == b->port;
}

static struct weft_edge *edge_between(struct weft_graph *graph, uint32_t first, uint32_t a, uint32_t b)
{
    for (uint32_t i = first; i < graph->edge_count; i++) {
        struct weft_edge *edge = &graph->edges[i];
        if ((edge->a == a && edge->b == b) || (edge->a == b && edge->b == a))
            return edge;
    }
    return NULL;
}

/* One link more between two GPUs; the edge has the speed of the slowest. first: the first edge that came from here. */
static int count_link(struct weft_graph *graph, uint32_t first, const struct port *a, const struct port *b)
{
    uint64_t speed = a->bytes_per_s < b->bytes_per_s ? a->bytes_per_s : b->bytes_per_s;
    struct weft_edge *known = edge_between(graph, first, a->node, b->node);
    if (known) {
        known->links++;
        if (speed < known->bytes_per_s)
            known->bytes_per_s = speed;
        return WEFT_OK;
    }
    struct weft_edge given = {.a = a->node,
                              .b = b->node,
                              .kind = WEFT_EDGE_GPU_LINK,
                              .flags = WEFT_EDGE_XE,
                              .links = 1,
                              .bytes_per_s = speed,
                              .port_a = -1,
                              .port_b = -1};
    uint32_t edge;
    return weft_graph_add_edge(graph, &given, &edge);
}

static int add_links(struct asking *asking)
{
    uint32_t first = asking->graph->edge_count;
    int status = WEFT_OK;
    for (uint32_t i = 0; i < asking->count && !status; i++) {
        for (uint32_t j = i + 1; j < asking->count && !status; j++) {
            const struct port *a = &asking->ports[i], *b = &asking->ports[j];
            if (a->node != b->node && same(&a->remote, &b->id) && same(&b->remote, &a->id))
                status = count_link(asking->graph, first, a, b);
        }
    }
    return status;
}

/* The way that the loader has and the user allows; 0: none. */
static int choose_way(struct library *sysman)
{
    if (sysman->init && sysman->get_drivers && sysman->get_devices)
        return 1;
    const char *enabled = weft_secure_getenv("ZES_ENABLE_SYSMAN");
    if (!enabled || strcmp(enabled, "1") != 0)
        return 0;
    sysman->init = sysman->init_all;
    sysman->get_drivers = sysman->get_drivers_of_all;
    sysman->get_devices = sysman->get_devices_of_all;
    return sysman->init && sysman->get_drivers && sysman->get_devices;
}

static int ask(void *context)
{
    struct asking *asking = context;
    void **drivers;
    uint32_t count;
    if (!choose_way(&asking->sysman) || asking->sysman.init(0) != SUCCESS)
        return WEFT_OK;
    int status = list(&asking->sysman, NULL, NULL, &drivers, &count);
    for (uint32_t i = 0; i < count && !status; i++)
        status = ask_driver(asking, drivers[i]);
    if (!status)
        status = add_links(asking);
    free(drivers);
    free(asking->ports);
    return status;
}

int weft_live_sysman(struct weft_graph *graph)
{
    struct asking asking = {.graph = graph};
    return weft_live_ask(WEFT_RUNTIME_ZE, functions, sizeof functions / sizeof *functions, &asking.sysman,
                         ask, &asking);
}
