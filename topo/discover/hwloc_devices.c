/* SPDX-License-Identifier: Apache-2.0 */
/* Bridges, PCI functions and what drivers made of them (OSDev), as hwloc has them.
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
#include "topo/discover/hwloc.h"

#define PORTS_MAX    255
#define GB_PER_S_MAX 1e6f

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

static int computes(const struct hwloc_obj *device)
{
    if (device->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC)
        return 1;
    return device->attr->osdev.type == HWLOC_OBJ_OSDEV_GPU && device->subtype &&
           (strcmp(device->subtype, "NVML") == 0 || strcmp(device->subtype, "RSMI") == 0);
}

/* A function hears of the OS devices below it, before it is classified. */
static int find_owner(struct weft_hwloc_machine *machine, struct weft_hwloc_object *device)
{
    struct weft_hwloc_object *owner = device->owner;
    hwloc_obj_osdev_type_t type = device->object->attr->osdev.type;
    if (!device->object->name || !*device->object->name)
        return weft_read_fail(machine->text, 0, "an OSDev without name");
    if (owner->object->type == HWLOC_OBJ_PCI_DEVICE)
        owner->becomes_gpu |= (uint8_t)computes(device->object);
    if (type == HWLOC_OBJ_OSDEV_OPENFABRICS && !owner->fabric_device)
        owner->fabric_device = device;
    if (type == HWLOC_OBJ_OSDEV_NETWORK && !owner->network_device)
        owner->network_device = device;
    return WEFT_OK;
}

/* Of functions and bridges. */
static const struct hwloc_pcidev_attr_s *pci_of(const struct weft_hwloc_object *object)
{
    return object->object->type == HWLOC_OBJ_PCI_DEVICE ? &object->object->attr->pcidev
                                                        : &object->object->attr->bridge.upstream.pci;
}

static int is_host_bridge(const struct weft_hwloc_object *object)
{
    return object->object->type == HWLOC_OBJ_BRIDGE &&
           object->object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
}

static int classify(struct weft_hwloc_machine *machine)
{
    int status = WEFT_OK;
    for (uint32_t i = 0; i < machine->object_count && !status; i++) {
        if (machine->objects[i].object->type == HWLOC_OBJ_OS_DEVICE)
            status = find_owner(machine, &machine->objects[i]);
    }
    for (uint32_t i = 0; i < machine->object_count; i++) {
        struct weft_hwloc_object *object = &machine->objects[i];
        hwloc_obj_type_t type = object->object->type;
        if (type != HWLOC_OBJ_PCI_DEVICE && (type != HWLOC_OBJ_BRIDGE || is_host_bridge(object)))
            continue;
        const struct hwloc_pcidev_attr_s *pci = pci_of(object);
        snprintf(object->pci, sizeof object->pci, "%04x:%02x:%02x.%x", (unsigned)pci->domain, pci->bus,
                 pci->dev, pci->func);
        if (type != HWLOC_OBJ_PCI_DEVICE)
            continue;
        unsigned base = pci->class_id >> 8;
        int shows = pci->class_id == 0x0300 || pci->class_id == 0x0380;
        object->becomes_gpu = base != 0x02 && (object->becomes_gpu || pci->class_id == 0x0302 ||
                                               base == 0x12 || (shows && makes_gpus(pci->vendor_id)));
        object->becomes_nic =
            !object->becomes_gpu && (base == 0x02 || object->fabric_device || object->network_device);
        machine->gpu_count += object->becomes_gpu;
    }
    return status;
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
static int number_by(const struct weft_hwloc_machine *machine, const char *prefix, int32_t *numbers,
                     uint8_t *taken)
{
    uint32_t found = 0;
    memset(taken, 0, machine->gpu_count);
    memset(numbers, 0xff, machine->object_count * sizeof *numbers);
    for (uint32_t i = 0; i < machine->object_count; i++) {
        const struct weft_hwloc_object *device = &machine->objects[i];
        if (device->object->type != HWLOC_OBJ_OS_DEVICE || !device->owner->becomes_gpu)
            continue;
        int64_t number = number_behind(device->object->name, prefix);
        if (number < 0)
            continue;
        int32_t *owned = &numbers[device->owner - machine->objects];
        if (number >= machine->gpu_count || taken[number] || *owned >= 0)
            return 0;
        taken[number] = 1;
        *owned = (int32_t)number;
        found++;
    }
    return found == machine->gpu_count;
}

/* What their driver calls them (nvidia-smi, rocm-smi), or else their order. */
static int number_gpus(struct weft_hwloc_machine *machine, int32_t **result)
{
    static const char *const drivers[] = {"nvml", "rsmi", "ze", "cuda"};
    *result = NULL;
    if (!machine->gpu_count)
        return WEFT_OK;
    int32_t *numbers = malloc(machine->object_count * sizeof *numbers);
    uint8_t *taken = numbers ? malloc(machine->gpu_count) : NULL;
    if (!taken) {
        free(numbers);
        return weft_fail(WEFT_NOMEM, "no memory to number GPUs");
    }
    int done = 0;
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers && !done; i++)
        done = number_by(machine, drivers[i], numbers, taken);
    int32_t next = 0;
    for (uint32_t i = 0; i < machine->object_count && !done; i++) {
        if (machine->objects[i].becomes_gpu && machine->objects[i].object->type == HWLOC_OBJ_PCI_DEVICE)
            numbers[i] = next++;
    }
    free(taken);
    *result = numbers;
    return WEFT_OK;
}

/* --- bridges and functions */

static const struct weft_hwloc_object *parent_object(const struct weft_hwloc_object *object)
{
    return weft_hwloc_of(object->object->parent);
}

static uint32_t parent_of(const struct weft_hwloc_machine *machine, const struct weft_hwloc_object *object)
{
    const struct weft_hwloc_object *parent = parent_object(object);
    return parent->object->type == HWLOC_OBJ_BRIDGE ? parent->node : weft_hwloc_place(machine, parent);
}

/* GB/s as hwloc writes them into XML, which is what people compare with: with six digits, of which a float has not all. */
static uint64_t bytes_per_s(float gigabytes)
{
    return gigabytes > 0 && gigabytes <= GB_PER_S_MAX ? (uint64_t)((double)gigabytes * 1e6 + 0.5) * 1000 : 0;
}

static int set_pci_attributes(struct weft_hwloc_machine *machine, struct weft_hwloc_object *object)
{
    static const char *const names[] = {"vendor", "device", "subsystem_vendor", "subsystem_device"};
    const struct hwloc_pcidev_attr_s *pci = pci_of(object);
    const unsigned ids[] = {pci->vendor_id, pci->device_id, pci->subvendor_id, pci->subdevice_id};
    char value[16];
    int status = WEFT_OK;
    if (*object->pci && pci->class_id) {
        /* As sysfs and NCCL write it; the interface, which hwloc leaves out, is 00 for what matters here. */
        snprintf(value, sizeof value, "0x%04x00", pci->class_id);
        status = weft_graph_set_attribute(machine->graph, object->node, "class", value);
        for (int i = 0; i < 4 && !status; i++) {
            snprintf(value, sizeof value, "0x%04x", ids[i]);
            if (i < 2 || pci->subvendor_id)
                status = weft_graph_set_attribute(machine->graph, object->node, names[i], value);
        }
    }
    return status ? status : weft_hwloc_set_infos(machine, object, object->node);
}

static int add_host_bridge(struct weft_hwloc_machine *machine, struct weft_hwloc_object *object)
{
    const struct hwloc_bridge_attr_s *bridge = &object->object->attr->bridge;
    char name[32]; /* like /sys/devices/pci0000:00 */
    snprintf(name, sizeof name, "pci%04x:%02x", (unsigned)bridge->downstream.pci.domain,
             bridge->downstream.pci.secondary_bus);
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_BRIDGE, parent_of(machine, object), name);
    given.bridge = WEFT_BRIDGE_HOST;
    int status = weft_graph_add_node(machine->graph, &given, &object->node);
    return status ? status : set_pci_attributes(machine, object);
}

static int add_bridge(struct weft_hwloc_machine *machine, struct weft_hwloc_object *object)
{
    const struct weft_hwloc_object *parent = parent_object(object);
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_BRIDGE, parent_of(machine, object), object->pci);
    if (is_host_bridge(object))
        return add_host_bridge(machine, object);
    given.pci = object->pci;
    given.parent_pci = 1;
    if (parent->object->type != HWLOC_OBJ_BRIDGE) {
        given.bridge = WEFT_BRIDGE_UNKNOWN;
    } else if (is_host_bridge(parent)) {
        given.bridge = WEFT_BRIDGE_PORT;
    } else {
        unsigned above = machine->graph->nodes[given.parent].bridge;
        given.bridge = WEFT_BRIDGE_SWITCH;
        object->faces_up = above == WEFT_BRIDGE_PORT || (above == WEFT_BRIDGE_SWITCH && !parent->faces_up);
        given.parent_bytes_per_s = object->faces_up ? bytes_per_s(pci_of(object)->linkspeed) : 0;
    }
    int status = weft_graph_add_node(machine->graph, &given, &object->node);
    return status ? status : set_pci_attributes(machine, object);
}

/* An adapter that no driver made a device of. `zero` is the last function 0 that was an adapter. */
static int mark_bare_nic(struct weft_hwloc_machine *machine, const struct weft_hwloc_object *object,
                         const struct weft_hwloc_object *zero)
{
    int status = weft_graph_set_attribute(machine->graph, object->node, "driver_device", "none");
    size_t length = strlen(object->pci);
    if (!status && zero && strlen(zero->pci) == length && strncmp(zero->pci, object->pci, length - 1) == 0 &&
        zero != object)
        status = weft_graph_set_attribute(machine->graph, object->node, "function_of", zero->pci);
    const char *product = weft_hwloc_info(object, "PCIDevice");
    if (!status && product && strstr(product, "Virtual Function"))
        status = weft_graph_set_attribute(machine->graph, object->node, "virtual_function", "yes");
    return status;
}

static int add_function(struct weft_hwloc_machine *machine, struct weft_hwloc_object *object, int32_t number,
                        const struct weft_hwloc_object **zero)
{
    const struct weft_hwloc_object *device =
        object->fabric_device ? object->fabric_device : object->network_device;
    char gpu[32];
    snprintf(gpu, sizeof gpu, "gpu%d", (int)number);
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_DEVICE, parent_of(machine, object), object->pci);
    if (object->becomes_gpu) {
        given.kind = WEFT_NODE_GPU;
        given.name = gpu;
        given.index = number;
    } else if (object->becomes_nic) {
        given.kind = WEFT_NODE_NIC;
        if (device)
            given.name = device->object->name;
    }
    given.pci = object->pci;
    given.parent_pci = 1;
    given.parent_bytes_per_s = bytes_per_s(pci_of(object)->linkspeed);
    int status = weft_graph_add_node(machine->graph, &given, &object->node);
    if (!status)
        status = set_pci_attributes(machine, object);
    if (status || !object->becomes_nic)
        return status;
    if (pci_of(object)->func == 0)
        *zero = object;
    return device ? WEFT_OK : mark_bare_nic(machine, object, *zero);
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

static int add_port(struct weft_hwloc_machine *machine, uint32_t nic, unsigned number, uint32_t *port)
{
    char name[WEFT_NAME_SIZE_MAX + 16];
    snprintf(name, sizeof name, "%s:%u", machine->graph->nodes[nic].name, number);
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_PORT, nic, name);
    given.index = (int32_t)number;
    return weft_graph_add_node(machine->graph, &given, port);
}

static int set_port_property(struct weft_hwloc_machine *machine, uint32_t port, const char *property,
                             const char *value, int is_infiniband)
{
    struct weft_node *node = &machine->graph->nodes[port];
    if (strcmp(property, "State") == 0) {
        int known = value[0] >= '1' && value[0] <= '4' && !value[1];
        node->state = (uint8_t)(known ? WEFT_PORT_DOWN + (value[0] - '1') : WEFT_PORT_UNKNOWN);
        return WEFT_OK;
    }
    /* On InfiniBand the lower half of a port's first GID is its GUID. */
    if (strcmp(property, "GID0") == 0 && is_infiniband)
        node->guid = read_guid(value, 8);
    return weft_graph_set_attribute(machine->graph, port, property, value);
}

/* An OpenFabrics device and its ports. */
static int set_fabric_infos(struct weft_hwloc_machine *machine, const struct weft_hwloc_object *device,
                            uint32_t nic)
{
    const struct weft_hwloc_object *owner = device->owner;
    uint32_t ports[PORTS_MAX + 1];
    memset(ports, 0xff, sizeof ports);
    int is_infiniband = owner->object->type == HWLOC_OBJ_PCI_DEVICE && pci_of(owner)->class_id == 0x0207;
    int status = WEFT_OK;
    for (unsigned i = 0; i < device->object->infos_count && !status; i++) {
        const struct hwloc_info_s *info = &device->object->infos[i];
        unsigned number;
        const char *property = port_property(info->name, &number);
        if (!property) {
            if (strcmp(info->name, "NodeGUID") == 0)
                machine->graph->nodes[nic].guid = read_guid(info->value, 4);
            status = weft_graph_set_attribute(machine->graph, nic, info->name, info->value);
            continue;
        }
        if (ports[number] == WEFT_NODE_NONE)
            status = add_port(machine, nic, number, &ports[number]);
        if (!status)
            status = set_port_property(machine, ports[number], property, info->value, is_infiniband);
    }
    return status;
}

/* A network device names the port that it uses; an adapter known by it alone has that port. */
static int add_network(struct weft_hwloc_machine *machine, const struct weft_hwloc_object *device,
                       uint32_t nic)
{
    const char *given = weft_hwloc_info(device, "Port"), *address = weft_hwloc_info(device, "Address");
    int64_t number = given ? number_behind(given, "") : 1;
    if (number < 1 || number > PORTS_MAX)
        number = 1;
    uint32_t port = weft_graph_first(machine->graph, nic);
    while (port != WEFT_NODE_NONE && machine->graph->nodes[port].index != number)
        port = machine->graph->nodes[port].sibling_next;
    int status = WEFT_OK;
    if (port == WEFT_NODE_NONE)
        status = add_port(machine, nic, (unsigned)number, &port);
    if (!status && !weft_graph_attribute(machine->graph, port, "net"))
        status = weft_graph_set_attribute(machine->graph, port, "net", device->object->name);
    if (!status && address && !weft_graph_attribute(machine->graph, port, "address"))
        status = weft_graph_set_attribute(machine->graph, port, "address", address);
    return status;
}

/* --- drivers' devices */

/* A further adapter: a second OpenFabrics device of one function, or a device that is not on PCI. */
static int add_nic(struct weft_hwloc_machine *machine, const struct weft_hwloc_object *device, uint32_t *nic)
{
    const struct weft_hwloc_object *owner = device->owner;
    int on_pci = owner->object->type == HWLOC_OBJ_PCI_DEVICE;
    uint32_t place = on_pci                                    ? parent_of(machine, owner)
                     : owner->object->type == HWLOC_OBJ_BRIDGE ? owner->node
                                                               : weft_hwloc_place(machine, owner);
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_NIC, place, device->object->name);
    given.pci = on_pci ? owner->pci : NULL;
    given.parent_pci = on_pci;
    given.parent_bytes_per_s = on_pci ? bytes_per_s(pci_of(owner)->linkspeed) : 0;
    return weft_graph_add_node(machine->graph, &given, nic);
}

/* What a driver calls its device of a GPU or of anything else: the first of each kind. */
static int name_device(struct weft_hwloc_machine *machine, struct weft_hwloc_object *device)
{
    static const char *const kinds[] = {
        [HWLOC_OBJ_OSDEV_BLOCK] = "block",     [HWLOC_OBJ_OSDEV_GPU] = "gpu",
        [HWLOC_OBJ_OSDEV_NETWORK] = "network", [HWLOC_OBJ_OSDEV_OPENFABRICS] = "openfabrics",
        [HWLOC_OBJ_OSDEV_DMA] = "dma",         [HWLOC_OBJ_OSDEV_COPROC] = "coprocessor",
    };
    const struct weft_hwloc_object *owner = device->owner;
    const struct hwloc_obj *object = device->object;
    unsigned type = (unsigned)object->attr->osdev.type;
    if (owner->object->type != HWLOC_OBJ_PCI_DEVICE)
        return WEFT_OK;
    const char *kind = object->subtype && *object->subtype   ? object->subtype
                       : type < sizeof kinds / sizeof *kinds ? kinds[type]
                                                             : "device";
    if (weft_graph_attribute(machine->graph, owner->node, kind))
        return WEFT_OK;
    int status = weft_graph_set_attribute(machine->graph, owner->node, kind, object->name);
    return status ? status : weft_hwloc_set_infos(machine, device, owner->node);
}

static int add_device(struct weft_hwloc_machine *machine, struct weft_hwloc_object *device)
{
    const struct weft_hwloc_object *owner = device->owner;
    int is_fabric = device->object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
    /* A device for computing may have a network of its own. */
    if (owner->becomes_gpu || (!is_fabric && device->object->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK))
        return name_device(machine, device);
    uint32_t nic = owner->node;
    int status = WEFT_OK;
    if (!owner->becomes_nic || (is_fabric && owner->fabric_device != device))
        status = add_nic(machine, device, &nic);
    if (status)
        return status;
    return is_fabric ? set_fabric_infos(machine, device, nic) : add_network(machine, device, nic);
}

int weft_hwloc_devices(struct weft_hwloc_machine *machine)
{
    int32_t *numbers = NULL;
    int status = classify(machine);
    if (!status)
        status = number_gpus(machine, &numbers);
    const struct weft_hwloc_object *zero = NULL;
    /* Network devices last: they name ports that an OpenFabrics device behind them has told of. */
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < machine->object_count && !status; i++) {
            struct weft_hwloc_object *object = &machine->objects[i];
            hwloc_obj_type_t type = object->object->type;
            if (type == HWLOC_OBJ_OS_DEVICE &&
                pass == (object->object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK))
                status = add_device(machine, object);
            else if (type == HWLOC_OBJ_BRIDGE && pass == 0)
                status = add_bridge(machine, object);
            else if (type == HWLOC_OBJ_PCI_DEVICE && pass == 0)
                status = add_function(machine, object, numbers ? numbers[i] : 0, &zero);
        }
    }
    free(numbers);
    return status;
}
