/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs, and Xe Links between them, from Level Zero's Sysman (libze_loader.so.1), Intel's interface to its GPUs. oneAPI Level Zero Specification,
 * "Sysman Programming Guide", Device Properties, Querying Memory Modules, Fabric Ports.
 *
 * What a GPU is stands among its attributes, under the names that hwloc's Level Zero part has for it; where that has said it already, it stays.
 * A GPU that the system does not show, as in a container, hangs on the host.
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
#include "base/log.h"
#include "base/runtime.h"
#include "base/secure.h"
#include "topo/discover/discover.h"
#include "topo/live/live.h"

#define COUNT_MAX 1024u /* of drivers, of a driver's devices, of a device's ports */

enum { SUCCESS = 0, PORT_HEALTHY = 1, PORT_DEGRADED = 2 };
enum { TYPE_GPU = 1 };
enum {
    STRUCTURE_DEVICE_PROPERTIES = 0x1,
    STRUCTURE_PCI_PROPERTIES = 0x2,
    STRUCTURE_CORE_PROPERTIES = 0x3, /* within the first */
    STRUCTURE_PORT_PROPERTIES = 0x6,
    STRUCTURE_MEMORY_PROPERTIES = 0xb,
    STRUCTURE_PORT_STATE = 0x19
};

struct device_properties {
    uint32_t structure;
    void *next;
    struct {
        uint32_t structure;
        void *next;
        uint32_t type, vendor, device, flags, subdevice, clock;
        uint64_t allocation_max;
        uint32_t contexts, priorities, threads, simd, units, subslices, slices;
        uint64_t timer;
        uint32_t timestamp_bits, kernel_timestamp_bits;
        uint8_t uuid[16];
        char name[256];
    } core;
    uint32_t subdevices;
    char serial[64], board[64], brand[64], model[64], vendor[64], driver[64];
};

struct memory_properties {
    uint32_t structure;
    void *next;
    uint32_t type;
    uint8_t on_subdevice;
    uint32_t subdevice, location; /* 1: the device's */
    uint64_t bytes;               /* 0 not known */
    int32_t bus_width, channels;
};

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
    int (*get_device)(void *device, struct device_properties *properties);
    int (*get_memories)(void *device, uint32_t *count, void **memories);
    int (*get_memory)(void *memory, struct memory_properties *properties);
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
    FUNCTION("zesDeviceGetProperties", get_device, 1),
    FUNCTION("zesDeviceEnumMemoryModules", get_memories, 1),
    FUNCTION("zesMemoryGetProperties", get_memory, 1),
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

/* --- what a GPU is */

/* A name that has a value keeps it: hwloc may have asked, too. */
static int say(struct weft_graph *graph, uint32_t node, const char *name, const char *value)
{
    return !*value || weft_graph_attribute(graph, node, name)
               ? WEFT_OK
               : weft_graph_set_attribute(graph, node, name, value);
}

static int say_number(struct weft_graph *graph, uint32_t node, const char *name, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return value ? say(graph, node, name, text) : WEFT_OK;
}

/* Its own memory, of all tiles, in KiB as hwloc has it. */
static int say_memory(struct asking *asking, void *device, uint32_t node)
{
    void **memories;
    uint32_t count;
    uint64_t bytes = 0;
    if (!asking->sysman.get_memories || !asking->sysman.get_memory)
        return WEFT_OK;
    int status = list(&asking->sysman, device, asking->sysman.get_memories, &memories, &count);
    for (uint32_t i = 0; i < count && !status; i++) {
        struct memory_properties memory;
        memset(&memory, 0, sizeof memory);
        memory.structure = STRUCTURE_MEMORY_PROPERTIES;
        if (asking->sysman.get_memory(memories[i], &memory) == SUCCESS && memory.location == 1)
            bytes += memory.bytes;
    }
    free(memories);
    return status ? status : say_number(asking->graph, node, "LevelZeroMemorySize", bytes / 1024);
}

static int say_device(struct asking *asking, void *device, uint32_t node,
                      const struct device_properties *properties)
{
    char name[sizeof properties->core.name + 1] = "", uuid[40] = "";
    const uint8_t *id = properties->core.uuid;
    int is_known = 0;
    snprintf(name, sizeof name, "%.*s", (int)sizeof properties->core.name, properties->core.name);
    for (int i = 0; i < 16; i++) {
        is_known |= id[i];
        snprintf(uuid + strlen(uuid), sizeof uuid - strlen(uuid),
                 i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", id[i]);
    }
    int status = say(asking->graph, node, "LevelZeroModel", name);
    if (!status && is_known)
        status = say(asking->graph, node, "LevelZeroUUID", uuid);
    if (!status)
        status = say_number(asking->graph, node, "LevelZeroSubdevices", properties->subdevices);
    return status ? status : say_memory(asking, device, node);
}

/* Whether it is one that the graph is to have, as Sysman says. */
static int is_gpu(struct asking *asking, void *device, struct device_properties *properties)
{
    memset(properties, 0, sizeof *properties);
    properties->structure = STRUCTURE_DEVICE_PROPERTIES;
    properties->core.structure = STRUCTURE_CORE_PROPERTIES;
    return asking->sysman.get_device && asking->sysman.get_device(device, properties) == SUCCESS &&
           properties->core.type == TYPE_GPU;
}

static int add_gpu(struct weft_graph *graph, const char *address, uint32_t *node)
{
    uint32_t host = WEFT_NODE_NONE;
    int32_t gpus = 0;
    if (weft_live_find(graph, WEFT_NODE_DEVICE, address) != WEFT_NODE_NONE)
        return WEFT_OK; /* is there, and no GPU by its class */
    char name[32];
    for (uint32_t i = 0; i < graph->node_count; i++) {
        gpus += graph->nodes[i].kind == WEFT_NODE_GPU;
        if (host == WEFT_NODE_NONE && graph->nodes[i].kind == WEFT_NODE_HOST)
            host = i;
    }
    if (host == WEFT_NODE_NONE)
        return WEFT_OK;
    snprintf(name, sizeof name, "gpu%d", gpus);
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_GPU, host, name);
    given.pci = address;
    given.index = gpus;
    return weft_graph_add_node(graph, &given, node);
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
    struct device_properties properties;
    int is_known = is_gpu(asking, device, &properties), status = WEFT_OK;
    if (node == WEFT_NODE_NONE && is_known)
        status = add_gpu(asking->graph, address, &node);
    if (!status && node != WEFT_NODE_NONE && is_known)
        status = say_device(asking, device, node, &properties);
    if (status || node == WEFT_NODE_NONE)
        return status;
    status = list(&asking->sysman, device, asking->sysman.get_ports, &ports, &count);
    for (uint32_t i = 0; i < count && !status; i++)
        status = add_port(asking, ports[i], node);
    free(ports);
    return status ? status : say_number(asking->graph, node, "FabricPorts", count);
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
    if (!enabled || strcmp(enabled, "1") != 0) {
        weft_log_once(WEFT_LOG_INFO,
                      "Level Zero's GPUs and Xe Links are not asked for: %s has no zesInit(): "
                      "ZES_ENABLE_SYSMAN=1 allows the older way",
                      WEFT_RUNTIME_ZE);
        return 0;
    }
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
