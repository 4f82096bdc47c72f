/* SPDX-License-Identifier: Apache-2.0 */
/* NVLinks from NVML (libnvidia-ml.so.1), which NVIDIA's driver brings along. NVML API Reference Guide, "NvLink Methods",
 * "Field Value Queries".
 *
 * Each link of a GPU has a state and what is at its other end: another GPU (told by its PCI address), an NVSwitch or a
 * POWER processor. Links to another GPU are counted into one edge. GPUs with links to NVSwitches reach each other with as
 * many links as the one with fewer has, where NVML does not deny that the two can (partitions of a fabric).
 *
 * Speed is what the driver tells in MB/s, of the link or common to all. nvmlDeviceGetNvLinkVersion() is used for the
 * oldest only: Hopper was seen to report the version of its successor, which is twice as fast.
 *
 * The declarations are our own, of what is used: the structures' layouts are part of NVML's ABI. Functions without a
 * version suffix are those whose first version is still the present one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/runtime.h"
#include "topo/discover/discover.h"
#include "topo/live/live.h"

#define DEVICES_MAX 256
#define LINKS_MAX   64 /* of one GPU; Blackwell has 18 */

enum { SUCCESS = 0, ACTIVE = 1, P2P_NVLINK = 2, P2P_OK = 0, TYPE_UNSIGNED = 1, TYPE_UNSIGNED_LONG_LONG = 3 };
enum { FIELD_SPEED_COMMON = 90, FIELD_SPEED = 164, FIELD_C2C_COUNT = 170, FIELD_C2C_STATUS, FIELD_C2C_SPEED };
enum remote { REMOTE_GPU, REMOTE_NPU, REMOTE_SWITCH, REMOTE_UNKNOWN = 255 };

struct pci_info {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct field_value {
    unsigned field, scope;
    long long timestamp, latency_us;
    unsigned type;
    int result;
    union {
        double real;
        unsigned number;
        unsigned long long large;
    } value;
};

struct library {
    int (*init)(void);
    int (*shutdown)(void);
    int (*get_count)(unsigned *count);
    int (*get_handle)(unsigned index, void **device);
    int (*get_pci_info)(void *device, struct pci_info *info);
    int (*get_link_state)(void *device, unsigned link, unsigned *is_active);
    int (*get_link_remote)(void *device, unsigned link, struct pci_info *info);
    int (*get_link_remote_type)(void *device, unsigned link, unsigned *type);
    int (*get_link_version)(void *device, unsigned link, unsigned *version);
    int (*get_field_values)(void *device, int count, struct field_value *values);
    int (*get_p2p_status)(void *a, void *b, int capability, unsigned *status);
};

#define FUNCTION(name, field, optional)                                                                      \
    {                                                                                                        \
        "nvml" name, offsetof(struct library, field), optional                                               \
    }
static const struct weft_live_function functions[] = {
    FUNCTION("Init_v2", init, 0),
    FUNCTION("Shutdown", shutdown, 0),
    FUNCTION("DeviceGetCount_v2", get_count, 0),
    FUNCTION("DeviceGetHandleByIndex_v2", get_handle, 0),
    FUNCTION("DeviceGetPciInfo_v3", get_pci_info, 0),
    FUNCTION("DeviceGetNvLinkState", get_link_state, 0),
    FUNCTION("DeviceGetNvLinkRemotePciInfo_v2", get_link_remote, 0),
    FUNCTION("DeviceGetNvLinkRemoteDeviceType", get_link_remote_type, 1),
    FUNCTION("DeviceGetNvLinkVersion", get_link_version, 1),
    FUNCTION("DeviceGetFieldValues", get_field_values, 1),
    FUNCTION("DeviceGetP2PStatus", get_p2p_status, 1),
};

struct device {
    void *handle;
    uint32_t node;         /* NONE: not in the graph */
    uint32_t switch_links; /* to NVSwitches */
    uint32_t npu_links;
    uint64_t bytes_per_s; /* of one link, the slowest; 0 unknown */
};

struct asking {
    struct library nvml;
    struct weft_graph *graph;
    struct device *devices;
    uint32_t count;
    uint32_t *direct; /* [count][count]: links from one to the other */
};

/* One number of a GPU or link; 0 when it is not told. */
static uint64_t field_of(const struct asking *asking, void *device, unsigned field, unsigned scope)
{
    struct field_value value = {.field = field, .scope = scope, .result = -1};
    if (!asking->nvml.get_field_values || asking->nvml.get_field_values(device, 1, &value) != SUCCESS ||
        value.result != SUCCESS)
        return 0;
    if (value.type == TYPE_UNSIGNED)
        return value.value.number;
    return value.type == TYPE_UNSIGNED_LONG_LONG && value.value.large < UINT64_MAX / 1000000
               ? value.value.large
               : 0;
}

static uint64_t speed_of(const struct asking *asking, void *device, unsigned link)
{
    uint64_t megabytes = field_of(asking, device, FIELD_SPEED, link);
    if (!megabytes)
        megabytes = field_of(asking, device, FIELD_SPEED_COMMON, 0);
    unsigned version = 0;
    if (!megabytes && asking->nvml.get_link_version &&
        asking->nvml.get_link_version(device, link, &version) == SUCCESS)
        megabytes = version == 1 ? 20000 : version == 2 ? 25000 : 0;
    return megabytes * 1000000;
}

static uint32_t device_at(const struct asking *asking, const char *bus_id)
{
    char pci[32];
    if (weft_pci_parse(bus_id, pci) != WEFT_OK)
        return UINT32_MAX;
    for (uint32_t i = 0; i < asking->count; i++) {
        uint32_t node = asking->devices[i].node;
        if (node != WEFT_NODE_NONE && strcmp(asking->graph->nodes[node].pci, pci) == 0)
            return i;
    }
    return UINT32_MAX;
}

static void read_link(struct asking *asking, uint32_t index, unsigned link)
{
    struct device *device = &asking->devices[index];
    struct pci_info info;
    unsigned type = REMOTE_UNKNOWN;
    memset(&info, 0, sizeof info);
    if (asking->nvml.get_link_remote_type &&
        asking->nvml.get_link_remote_type(device->handle, link, &type) != SUCCESS)
        type = REMOTE_UNKNOWN;
    uint32_t remote = UINT32_MAX;
    if (asking->nvml.get_link_remote(device->handle, link, &info) == SUCCESS) {
        info.bus_id[sizeof info.bus_id - 1] = '\0';
        remote = device_at(asking, info.bus_id);
    }
    int given = 1;
    if (type == REMOTE_SWITCH)
        device->switch_links++;
    else if (type == REMOTE_NPU)
        device->npu_links++;
    else if (remote != UINT32_MAX && remote != index)
        asking->direct[(size_t)index * asking->count + remote]++;
    else
        given = 0;
    uint64_t speed = given ? speed_of(asking, device->handle, link) : 0;
    if (speed && (!device->bytes_per_s || speed < device->bytes_per_s))
        device->bytes_per_s = speed;
}

static void read_links(struct asking *asking, uint32_t index)
{
    const struct device *device = &asking->devices[index];
    unsigned is_active;
    for (unsigned link = 0; link < LINKS_MAX && device->node != WEFT_NODE_NONE; link++) {
        if (asking->nvml.get_link_state(device->handle, link, &is_active) != SUCCESS)
            break; /* no more links */
        if (is_active == ACTIVE)
            read_link(asking, index, link);
    }
}

static int add_edge(struct asking *asking, uint32_t a, uint32_t b, unsigned flags, uint32_t links,
                    uint64_t speed)
{
    struct weft_edge given = {.a = a,
                              .b = b,
                              .kind = WEFT_EDGE_GPU_LINK,
                              .flags = (uint8_t)flags,
                              .links = links,
                              .bytes_per_s = speed,
                              .port_a = -1,
                              .port_b = -1};
    uint32_t edge;
    return weft_graph_add_edge(asking->graph, &given, &edge);
}

static uint64_t slower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int switches_join(const struct asking *asking, const struct device *a, const struct device *b)
{
    unsigned status;
    if (!a->switch_links || !b->switch_links)
        return 0;
    return !asking->nvml.get_p2p_status ||
           asking->nvml.get_p2p_status(a->handle, b->handle, P2P_NVLINK, &status) != SUCCESS ||
           status == P2P_OK;
}

static int add_pair(struct asking *asking, uint32_t i, uint32_t j)
{
    const struct device *a = &asking->devices[i], *b = &asking->devices[j];
    uint32_t there = asking->direct[(size_t)i * asking->count + j];
    uint32_t back = asking->direct[(size_t)j * asking->count + i];
    uint32_t links = there > back ? there : back;
    uint64_t speed = slower(a->bytes_per_s, b->bytes_per_s);
    int status = WEFT_OK;
    if (links)
        status = add_edge(asking, a->node, b->node, WEFT_EDGE_NVLINK, links, speed);
    if (!status && switches_join(asking, a, b))
        status = add_edge(asking, a->node, b->node, WEFT_EDGE_NVLINK | WEFT_EDGE_NVSWITCH,
                          a->switch_links < b->switch_links ? a->switch_links : b->switch_links, speed);
    return status;
}

/* Links to the processor that the GPU hangs on: NVLink on POWER, C2C on Grace. */
static int add_processor_links(struct asking *asking, const struct device *device)
{
    uint32_t numa = weft_graph_above(asking->graph, device->node, WEFT_NODE_NUMA);
    if (numa == WEFT_NODE_NONE)
        return WEFT_OK;
    int status = WEFT_OK;
    if (device->npu_links)
        status =
            add_edge(asking, device->node, numa, WEFT_EDGE_NVLINK, device->npu_links, device->bytes_per_s);
    uint64_t links = field_of(asking, device->handle, FIELD_C2C_COUNT, 0);
    uint32_t active = 0;
    uint64_t speed = 0;
    for (unsigned link = 0; link < links && link < LINKS_MAX; link++) {
        if (field_of(asking, device->handle, FIELD_C2C_STATUS, link) != ACTIVE)
            continue;
        active++;
        speed = field_of(asking, device->handle, FIELD_C2C_SPEED, link) * 1000000;
    }
    return status || !active ? status : add_edge(asking, device->node, numa, WEFT_EDGE_C2C, active, speed);
}

/* Numbers as NVML gives them, where it knows every GPU of the graph. */
static int number_gpus(struct asking *asking)
{
    uint32_t gpus = 0, known = 0;
    char name[32];
    for (uint32_t i = 0; i < asking->graph->node_count; i++)
        gpus += asking->graph->nodes[i].kind == WEFT_NODE_GPU;
    for (uint32_t i = 0; i < asking->count; i++)
        known += asking->devices[i].node != WEFT_NODE_NONE;
    int status = WEFT_OK;
    for (uint32_t i = 0; i < asking->count && !status; i++) {
        uint32_t node = asking->devices[i].node;
        if (node == WEFT_NODE_NONE)
            continue;
        snprintf(name, sizeof name, "nvml%u", i);
        status = weft_graph_set_attribute(asking->graph, node, "NVML", name);
        if (status || gpus != known || known != asking->count)
            continue;
        snprintf(name, sizeof name, "gpu%u", i);
        status = weft_graph_rename(asking->graph, node, name);
        asking->graph->nodes[node].index = (int32_t)i;
    }
    return status;
}

static int ask_devices(struct asking *asking)
{
    char pci[32];
    struct pci_info info;
    for (uint32_t i = 0; i < asking->count; i++) {
        struct device *device = &asking->devices[i];
        device->node = WEFT_NODE_NONE;
        memset(&info, 0, sizeof info);
        if (asking->nvml.get_handle(i, &device->handle) != SUCCESS ||
            asking->nvml.get_pci_info(device->handle, &info) != SUCCESS)
            continue;
        info.bus_id[sizeof info.bus_id - 1] = '\0';
        if (weft_pci_parse(info.bus_id, pci) == WEFT_OK)
            device->node = weft_live_find(asking->graph, WEFT_NODE_GPU, pci);
        for (uint32_t j = 0; j < i && device->node != WEFT_NODE_NONE; j++) {
            if (asking->devices[j].node == device->node)
                device->node = WEFT_NODE_NONE;
        }
    }
    int status = number_gpus(asking);
    for (uint32_t i = 0; i < asking->count && !status; i++)
        read_links(asking, i);
    for (uint32_t i = 0; i < asking->count && !status; i++) {
        if (asking->devices[i].node == WEFT_NODE_NONE)
            continue;
        for (uint32_t j = i + 1; j < asking->count && !status; j++) {
            if (asking->devices[j].node != WEFT_NODE_NONE)
                status = add_pair(asking, i, j);
        }
        if (!status)
            status = add_processor_links(asking, &asking->devices[i]);
    }
    return status;
}

static int ask(void *context)
{
    struct asking *asking = context;
    unsigned count = 0;
    if (asking->nvml.init() != SUCCESS)
        return WEFT_OK;
    int status = WEFT_OK;
    if (asking->nvml.get_count(&count) == SUCCESS && count > 0) {
        asking->count = count < DEVICES_MAX ? count : DEVICES_MAX;
        asking->devices = calloc(asking->count, sizeof *asking->devices);
        asking->direct = calloc((size_t)asking->count * asking->count, sizeof *asking->direct);
        status = asking->devices && asking->direct ? ask_devices(asking)
                                                   : weft_fail(WEFT_NOMEM, "no memory to ask NVML");
    }
    asking->nvml.shutdown();
    free(asking->devices);
    free(asking->direct);
    return status;
}

int weft_live_nvml(struct weft_graph *graph)
{
    struct asking asking = {.graph = graph};
    return weft_live_ask(WEFT_RUNTIME_NVML, functions, sizeof functions / sizeof *functions, &asking.nvml,
                         ask, &asking);
}
