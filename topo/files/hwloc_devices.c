/* SPDX-License-Identifier: Apache-2.0 */
/* Bridges, PCI functions and what drivers made of them (OSDev), out of hwloc's XML.
 *
 * A PCI function is an adapter when its class says so (02xx) or a network device lies below it; it is a GPU when its
 * class is that of a 3D controller (0302) or accelerator (12xx), when it is a display controller of a maker of GPUs, or
 * when a driver for computing lies below it. Other display controllers only show a screen, as of a service processor.
 * Everything else stays a device. Adapters without a driver's device are kept, also the many functions of one adapter
 * (virtual or not), and say so: driver_device=none, and function_of=ADDRESS where function 0 is an adapter too.
 *
 * hwloc tells the link speed of a function as the function's own registers do. For an endpoint and for the upper port
 * of a switch that is the link to its parent; for a root port and a lower port of a switch it is the link below, and the
 * way up is inside a chip. So lower ports have no bandwidth of their own here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "topo/files/hwloc.h"

#define PORTS_MAX 255

/* --- what becomes what */

static int makes_gpus(uint16_t vendor)
{
    static const uint16_t vendors[] = {0x10de, 0x1002, 0x8086,
                                       0x1ed5}; /* NVIDIA, AMD, Intel, Moore Threads */
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++) {
        if (vendors[i] == vendor)
            return 1;
    }
    return 0;
}

static int computes(const struct weft_hwloc_object *device)
{
    if (device->device == WEFT_HWLOC_COPROC)
        return 1;
    return device->device == WEFT_HWLOC_GPU && device->subtype &&
           (strcmp(device->subtype, "NVML") == 0 || strcmp(device->subtype, "RSMI") == 0);
}

static void classify(struct weft_hwloc_file *file)
{
    for (uint32_t i = 0; i < file->object_count; i++) {
        const struct weft_hwloc_object *device = &file->objects[i];
        if (device->type != WEFT_HWLOC_DEVICE)
            continue;
        struct weft_hwloc_object *owner = &file->objects[device->owner];
        owner->becomes_gpu |= (uint8_t)computes(device);
        if (device->device == WEFT_HWLOC_OPENFABRICS && owner->fabric_device == WEFT_HWLOC_NONE)
            owner->fabric_device = i;
        if (device->device == WEFT_HWLOC_NETWORK && owner->network_device == WEFT_HWLOC_NONE)
            owner->network_device = i;
    }
    for (uint32_t i = 0; i < file->object_count; i++) {
        struct weft_hwloc_object *pci = &file->objects[i];
        if (pci->type != WEFT_HWLOC_PCI)
            continue;
        unsigned base = pci->pci_class >> 8;
        int shows = pci->pci_class == 0x0300 || pci->pci_class == 0x0380;
        int driven = pci->fabric_device != WEFT_HWLOC_NONE || pci->network_device != WEFT_HWLOC_NONE;
        pci->becomes_gpu = base != 0x02 && (pci->becomes_gpu || pci->pci_class == 0x0302 || base == 0x12 ||
                                            (shows && makes_gpus(pci->pci_ids[0])));
        pci->becomes_nic = !pci->becomes_gpu && (base == 0x02 || driven);
        file->gpu_count += pci->becomes_gpu;
    }
}

/* --- numbers of GPUs */

/* N of a device called PREFIX and N, -1 for others. */
static int64_t number_behind(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0 || !name[length])
        return -1;
    int64_t number = 0;
    for (const char *at = name + length; *at; at++) {
        if (*at < '0' || *at > '9' || number > INT32_MAX / 10)
            return -1;
        number = number * 10 + (*at - '0');
    }
    return number;
}

/* Numbers GPUs as one driver does, when it numbers each of them and no two alike: 1, else 0. numbers: by object. */
static int number_by(const struct weft_hwloc_file *file, const char *prefix, int32_t *numbers, uint8_t *taken)
{
    uint32_t found = 0;
    memset(taken, 0, file->gpu_count);
    for (uint32_t i = 0; i < file->object_count; i++) {
        const struct weft_hwloc_object *device = &file->objects[i];
        if (device->type != WEFT_HWLOC_DEVICE || !file->objects[device->owner].becomes_gpu)
            continue;
        int64_t number = number_behind(device->name, prefix);
        if (number < 0)
            continue;
        if (number >= file->gpu_count || taken[number])
            return 0;
        taken[number] = 1;
        numbers[device->owner] = (int32_t)number;
        found++;
    }
    /* As many numbers as GPUs, all different: but two might be of one GPU, and another has none then. */
    for (uint32_t i = 0; i < file->object_count && found == file->gpu_count; i++) {
        const struct weft_hwloc_object *device = &file->objects[i];
        if (device->type == WEFT_HWLOC_DEVICE && file->objects[device->owner].becomes_gpu) {
            int64_t number = number_behind(device->name, prefix);
            if (number >= 0 && numbers[device->owner] != number)
                return 0;
        }
    }
    return found == file->gpu_count;
}

/* What their driver calls them (nvidia-smi, rocm-smi), or else their order in the file. */
static int number_gpus(struct weft_hwloc_file *file, int32_t **result)
{
    static const char *const drivers[] = {"nvml", "rsmi", "ze", "cuda"};
    *result = NULL;
    if (!file->gpu_count)
        return WEFT_OK;
    int32_t *numbers = calloc(file->object_count, sizeof *numbers);
    uint8_t *taken = numbers ? malloc(file->gpu_count) : NULL;
    if (!taken) {
        free(numbers);
        return weft_fail(WEFT_NOMEM, "no memory to read hwloc's XML");
    }
    int done = 0;
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers && !done; i++)
        done = number_by(file, drivers[i], numbers, taken);
    int32_t next = 0;
    for (uint32_t i = 0; i < file->object_count && !done; i++) {
        if (file->objects[i].becomes_gpu && file->objects[i].type == WEFT_HWLOC_PCI)
            numbers[i] = next++;
    }
    free(taken);
    *result = numbers;
    return WEFT_OK;
}

/* --- bridges and functions */

static int parent_of(struct weft_hwloc_file *file, const struct weft_hwloc_object *object, uint32_t *node)
{
    const struct weft_hwloc_object *parent = &file->objects[object->parent];
    if (parent->type != WEFT_HWLOC_BRIDGE)
        return weft_hwloc_place(file, parent, node);
    *node = parent->node;
    return WEFT_OK;
}

static int set_pci_attributes(struct weft_hwloc_file *file, const struct weft_hwloc_object *object)
{
    static const char *const names[] = {"vendor", "device", "subsystem_vendor", "subsystem_device"};
    char value[16];
    int status = WEFT_OK;
    if (object->pci_class) {
        /* As sysfs and NCCL write it; the interface, which hwloc leaves out, is 00 for what matters here. */
        snprintf(value, sizeof value, "0x%04x00", object->pci_class);
        status = weft_graph_set_attribute(file->graph, object->node, "class", value);
        for (int i = 0; i < 4 && !status; i++) {
            snprintf(value, sizeof value, "0x%04x", object->pci_ids[i]);
            if (i < 2 || object->pci_ids[2])
                status = weft_graph_set_attribute(file->graph, object->node, names[i], value);
        }
    }
    return status ? status : weft_hwloc_set_infos(file, object, object->node);
}

static int add_bridge(struct weft_hwloc_file *file, struct weft_hwloc_object *object)
{
    const struct weft_hwloc_object *parent = &file->objects[object->parent];
    uint32_t place;
    int status = parent_of(file, object, &place);
    if (status)
        return status;
    struct weft_node_told told =
        WEFT_NODE_TOLD(WEFT_NODE_BRIDGE, place, object->bridge_host ? object->name : object->pci);
    told.pci = object->pci;
    told.parent_pci = !object->bridge_host;
    told.bridge = WEFT_BRIDGE_HOST;
    if (!object->bridge_host && parent->type != WEFT_HWLOC_BRIDGE)
        told.bridge = WEFT_BRIDGE_UNKNOWN;
    else if (!object->bridge_host && parent->bridge_host)
        told.bridge = WEFT_BRIDGE_PORT;
    else if (!object->bridge_host) {
        unsigned above = file->graph->nodes[place].bridge;
        told.bridge = WEFT_BRIDGE_SWITCH;
        object->faces_up = above == WEFT_BRIDGE_PORT || (above == WEFT_BRIDGE_SWITCH && !parent->faces_up);
        told.parent_bytes_per_s = object->faces_up ? object->bytes_per_s : 0;
    }
    status = weft_graph_add_node(file->graph, &told, &object->node);
    return status ? status : set_pci_attributes(file, object);
}

/* An adapter that no driver made a device of. `zero` is the last function 0 that was an adapter. */
static int mark_bare_nic(struct weft_hwloc_file *file, const struct weft_hwloc_object *object,
                         const struct weft_hwloc_object *zero)
{
    int status = weft_graph_set_attribute(file->graph, object->node, "driver_device", "none");
    size_t length = strlen(object->pci);
    if (!status && zero && strlen(zero->pci) == length && strncmp(zero->pci, object->pci, length - 1) == 0 &&
        zero != object)
        status = weft_graph_set_attribute(file->graph, object->node, "function_of", zero->pci);
    const char *product = weft_hwloc_info(file, object, "PCIDevice");
    if (!status && product && strstr(product, "Virtual Function"))
        status = weft_graph_set_attribute(file->graph, object->node, "virtual_function", "yes");
    return status;
}

static int add_function(struct weft_hwloc_file *file, struct weft_hwloc_object *object, int32_t number,
                        const struct weft_hwloc_object **zero)
{
    uint32_t place;
    int status = parent_of(file, object, &place);
    if (status)
        return status;
    uint32_t device =
        object->fabric_device != WEFT_HWLOC_NONE ? object->fabric_device : object->network_device;
    char gpu[32];
    snprintf(gpu, sizeof gpu, "gpu%d", (int)number);
    struct weft_node_told told = WEFT_NODE_TOLD(WEFT_NODE_DEVICE, place, object->pci);
    if (object->becomes_gpu) {
        told.kind = WEFT_NODE_GPU;
        told.name = gpu;
        told.index = number;
    } else if (object->becomes_nic) {
        told.kind = WEFT_NODE_NIC;
        if (device != WEFT_HWLOC_NONE)
            told.name = file->objects[device].name;
    }
    told.pci = object->pci;
    told.parent_pci = 1;
    told.parent_bytes_per_s = object->bytes_per_s;
    status = weft_graph_add_node(file->graph, &told, &object->node);
    if (!status)
        status = set_pci_attributes(file, object);
    if (status || !object->becomes_nic)
        return status;
    if (object->pci[strlen(object->pci) - 1] == '0')
        *zero = object;
    return device == WEFT_HWLOC_NONE ? mark_bare_nic(file, object, *zero) : WEFT_OK;
}

/* --- adapters' ports */

/* "248a:0703:001e:39fe", or the last four groups of a GID; 0 when it is no such text. */
static uint64_t read_guid(const char *text, int groups)
{
    uint64_t guid = 0;
    for (int i = 0; i < groups; i++) {
        char *end;
        if (strspn(text, "0123456789abcdefABCDEF") != 4)
            return 0;
        guid = guid << 16 | strtoul(text, &end, 16);
        if (*end != (i + 1 < groups ? ':' : '\0'))
            return 0;
        text = end + 1;
    }
    return guid;
}

/* N and what follows of "PortNState"; NULL for other names. */
static const char *port_property(const char *name, unsigned *number)
{
    if (strncmp(name, "Port", 4) != 0 || name[4] < '1' || name[4] > '9')
        return NULL;
    const char *at = name + 4;
    for (*number = 0; *at >= '0' && *at <= '9' && *number <= PORTS_MAX; at++)
        *number = *number * 10 + (unsigned)(*at - '0');
    return *number <= PORTS_MAX && *at ? at : NULL;
}

static int add_port(struct weft_hwloc_file *file, uint32_t nic, unsigned number, uint32_t *port)
{
    char name[WEFT_NAME_SIZE_MAX + 16];
    snprintf(name, sizeof name, "%s:%u", file->graph->nodes[nic].name, number);
    struct weft_node_told told = WEFT_NODE_TOLD(WEFT_NODE_PORT, nic, name);
    told.index = (int32_t)number;
    return weft_graph_add_node(file->graph, &told, port);
}

static int set_port_property(struct weft_hwloc_file *file, uint32_t port, const char *property,
                             const char *value, int is_infiniband)
{
    struct weft_node *node = &file->graph->nodes[port];
    if (strcmp(property, "State") == 0) {
        int known = value[0] >= '1' && value[0] <= '4' && !value[1];
        node->state = (uint8_t)(known ? WEFT_PORT_DOWN + (value[0] - '1') : WEFT_PORT_UNKNOWN);
        return WEFT_OK;
    }
    /* On InfiniBand the lower half of a port's first GID is its GUID. */
    if (strcmp(property, "GID0") == 0 && is_infiniband)
        node->guid = read_guid(value, 8);
    return weft_graph_set_attribute(file->graph, port, property, value);
}

/* An OpenFabrics device and its ports. */
static int set_fabric_infos(struct weft_hwloc_file *file, const struct weft_hwloc_object *device,
                            uint32_t nic)
{
    uint32_t ports[PORTS_MAX + 1];
    memset(ports, 0xff, sizeof ports);
    int is_infiniband = file->objects[device->owner].pci_class == 0x0207;
    int status = WEFT_OK;
    for (uint32_t i = device->info_first; i != WEFT_HWLOC_NONE && !status; i = file->infos[i].next) {
        const struct weft_hwloc_info *info = &file->infos[i];
        unsigned number;
        const char *property = port_property(info->name, &number);
        if (!property) {
            if (strcmp(info->name, "NodeGUID") == 0)
                file->graph->nodes[nic].guid = read_guid(info->value, 4);
            status = weft_graph_set_attribute(file->graph, nic, info->name, info->value);
            continue;
        }
        if (ports[number] == WEFT_NODE_NONE)
            status = add_port(file, nic, number, &ports[number]);
        if (!status)
            status = set_port_property(file, ports[number], property, info->value, is_infiniband);
    }
    return status;
}

/* A network device names the port that it uses; an adapter known by it alone has that port. */
static int add_network(struct weft_hwloc_file *file, const struct weft_hwloc_object *device, uint32_t nic)
{
    const char *told = weft_hwloc_info(file, device, "Port");
    int64_t number = told ? number_behind(told, "") : 1;
    if (number < 1 || number > PORTS_MAX)
        number = 1;
    uint32_t port = weft_graph_first(file->graph, nic);
    while (port != WEFT_NODE_NONE && file->graph->nodes[port].index != number)
        port = file->graph->nodes[port].sibling_next;
    int status = WEFT_OK;
    if (port == WEFT_NODE_NONE)
        status = add_port(file, nic, (unsigned)number, &port);
    if (!status && !weft_graph_attribute(file->graph, port, "net"))
        status = weft_graph_set_attribute(file->graph, port, "net", device->name);
    const char *address = weft_hwloc_info(file, device, "Address");
    if (!status && address && !weft_graph_attribute(file->graph, port, "address"))
        status = weft_graph_set_attribute(file->graph, port, "address", address);
    return status;
}

/* --- drivers' devices */

/* A further adapter: a second OpenFabrics device of one function, or a device that is not on PCI. */
static int add_nic(struct weft_hwloc_file *file, const struct weft_hwloc_object *device, uint32_t *nic)
{
    const struct weft_hwloc_object *owner = &file->objects[device->owner];
    int on_pci = owner->type == WEFT_HWLOC_PCI;
    uint32_t place = owner->node;
    int status = on_pci                             ? parent_of(file, owner, &place)
                 : owner->type == WEFT_HWLOC_BRIDGE ? WEFT_OK
                                                    : weft_hwloc_place(file, owner, &place);
    if (status)
        return status;
    struct weft_node_told told = WEFT_NODE_TOLD(WEFT_NODE_NIC, place, device->name);
    told.pci = on_pci ? owner->pci : NULL;
    told.parent_pci = on_pci;
    told.parent_bytes_per_s = on_pci ? owner->bytes_per_s : 0;
    return weft_graph_add_node(file->graph, &told, nic);
}

/* The adapter that a network or OpenFabrics device is of. */
static int nic_of(struct weft_hwloc_file *file, uint32_t index, uint32_t *nic)
{
    const struct weft_hwloc_object *device = &file->objects[index], *owner = &file->objects[device->owner];
    int is_network = device->device == WEFT_HWLOC_NETWORK;
    if (owner->becomes_nic && (is_network || owner->fabric_device == index)) {
        *nic = owner->node;
        return WEFT_OK;
    }
    return add_nic(file, device, nic);
}

/* What a driver calls its device of a GPU or of anything else: the first of each kind. */
static int name_device(struct weft_hwloc_file *file, const struct weft_hwloc_object *device)
{
    static const char *const kinds[] = {"block", "gpu", "network", "openfabrics", "dma", "coprocessor"};
    const struct weft_hwloc_object *owner = &file->objects[device->owner];
    if (owner->type != WEFT_HWLOC_PCI)
        return WEFT_OK;
    const char *kind = device->subtype && *device->subtype ? device->subtype : kinds[device->device];
    if (weft_graph_attribute(file->graph, owner->node, kind))
        return WEFT_OK;
    int status = weft_graph_set_attribute(file->graph, owner->node, kind, device->name);
    return status ? status : weft_hwloc_set_infos(file, device, owner->node);
}

static int add_device(struct weft_hwloc_file *file, uint32_t index)
{
    const struct weft_hwloc_object *device = &file->objects[index], *owner = &file->objects[device->owner];
    int is_fabric = device->device == WEFT_HWLOC_OPENFABRICS;
    if (!is_fabric && device->device != WEFT_HWLOC_NETWORK)
        return name_device(file, device);
    if (owner->becomes_gpu) /* a device for computing with a network of its own */
        return name_device(file, device);
    uint32_t nic;
    int status = nic_of(file, index, &nic);
    if (status)
        return status;
    return is_fabric ? set_fabric_infos(file, device, nic) : add_network(file, device, nic);
}

int weft_hwloc_devices(struct weft_hwloc_file *file)
{
    classify(file);
    int32_t *numbers;
    int status = number_gpus(file, &numbers);
    const struct weft_hwloc_object *zero = NULL;
    for (uint32_t i = 0; i < file->object_count && !status; i++) {
        struct weft_hwloc_object *object = &file->objects[i];
        if (object->type == WEFT_HWLOC_BRIDGE)
            status = add_bridge(file, object);
        else if (object->type == WEFT_HWLOC_PCI)
            status = add_function(file, object, numbers ? numbers[i] : 0, &zero);
        else if (object->type == WEFT_HWLOC_DEVICE && object->device != WEFT_HWLOC_NETWORK)
            status = add_device(file, i);
    }
    /* Network devices last: they name ports that an OpenFabrics device behind them has told of. */
    for (uint32_t i = 0; i < file->object_count && !status; i++) {
        if (file->objects[i].type == WEFT_HWLOC_DEVICE && file->objects[i].device == WEFT_HWLOC_NETWORK)
            status = add_device(file, i);
    }
    free(numbers);
    return status;
}
