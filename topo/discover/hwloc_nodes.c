/* SPDX-License-Identifier: Apache-2.0 */
/* What hwloc has found as our graph, whether it looked at this machine or at a file.
 *
 * Machine becomes the host, NUMANode a NUMA node with what is told of the package around it, Core a core. Where
 * bridges and devices hang follows from the nodeset of the object that holds them: one NUMA node, or the host where it
 * has several. Bridges and devices: hwloc_devices.c; links between GPUs: hwloc_links.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "topo/discover/hwloc.h"
#include "topo/discover/virtual.h"

#define INFOS_MAX 200 /* of one object with the devices below it; hwloc writes 10 to 40 */

/* --- objects */

/* Both walk the same way. The depth is that of the text, which is bounded. */
static uint32_t objects_count(hwloc_obj_t object)
{
    hwloc_obj_t lists[] = {object->memory_first_child, object->first_child, object->io_first_child};
    uint32_t count = 1;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (hwloc_obj_t child = lists[i]; child; child = child->next_sibling)
            count += objects_count(child);
    }
    return count;
}

static void object_add(struct weft_hwloc_machine *machine, hwloc_obj_t object)
{
    hwloc_obj_t lists[] = {object->memory_first_child, object->first_child, object->io_first_child};
    struct weft_hwloc_object *added = &machine->objects[machine->object_count++];
    *added = (struct weft_hwloc_object){.object = object, .owner = added, .node = WEFT_NODE_NONE};
    object->userdata = added;
    if (object->type == HWLOC_OBJ_OS_DEVICE && object->parent->type == HWLOC_OBJ_OS_DEVICE)
        added->owner = weft_hwloc_of(object->parent)->owner;
    else if (object->type == HWLOC_OBJ_OS_DEVICE)
        added->owner = weft_hwloc_of(object->parent);
    machine->numa_count += object->type == HWLOC_OBJ_NUMANODE;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (hwloc_obj_t child = lists[i]; child; child = child->next_sibling)
            object_add(machine, child);
    }
}

const char *weft_hwloc_info(const struct weft_hwloc_object *object, const char *name)
{
    for (unsigned i = 0; i < object->object->infos_count; i++) {
        if (strcmp(object->object->infos[i].name, name) == 0)
            return object->object->infos[i].value;
    }
    return NULL;
}

int weft_hwloc_set_infos(struct weft_hwloc_machine *machine, struct weft_hwloc_object *object, uint32_t node)
{
    const struct hwloc_obj *from = object->object;
    int status = WEFT_OK;
    if (from->infos_count > INFOS_MAX || (object->owner->info_count += from->infos_count) > INFOS_MAX)
        return weft_read_fail(machine->text, 0, "more than %d infos of one object", INFOS_MAX);
    for (unsigned i = 0; i < from->infos_count && !status; i++)
        status = weft_graph_set_attribute(machine->graph, node, from->infos[i].name, from->infos[i].value);
    return status;
}

/* The nearest object of the type around this one. */
static struct weft_hwloc_object *object_around(const struct weft_hwloc_object *object, hwloc_obj_type_t type)
{
    for (hwloc_obj_t at = object->object->parent; at; at = at->parent) {
        if (at->type == type)
            return weft_hwloc_of(at);
    }
    return NULL;
}

/* --- host */

static int add_host(struct weft_hwloc_machine *machine, unsigned flags)
{
    struct weft_hwloc_object *host = &machine->objects[0];
    const char *name = weft_hwloc_info(host, "HostName");
    struct weft_node_given given =
        WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, name && *name ? name : "host");
    given.flags = flags;
    if (weft_product_is_virtual(weft_hwloc_info(host, "DMISysVendor"),
                                weft_hwloc_info(host, "DMIProductName")))
        given.flags |= WEFT_HOST_VIRTUAL;
    int status = weft_graph_add_node(machine->graph, &given, &host->node);
    return status ? status : weft_hwloc_set_infos(machine, host, host->node);
}

/* --- NUMA nodes */

static int by_os_index(const void *a, const void *b)
{
    unsigned x = (*(struct weft_hwloc_object *const *)a)->object->os_index,
             y = (*(struct weft_hwloc_object *const *)b)->object->os_index;
    return x < y ? -1 : x > y;
}

/* Of a package, at each of its NUMA nodes. These and no others, and no long ones: a file can have many NUMA nodes in a
 * package of many infos. */
static const char *const processor_infos[] = {"CPUVendor", "CPUModel", "CPUFamilyNumber", "CPUModelNumber"};

/* The processors of a NUMA node as Linux and NCCL spell them, "00000001,000000ff". What is endless or longer than any
 * machine needs is left out. */
static int set_affinity(struct weft_hwloc_machine *machine, const struct weft_hwloc_object *object)
{
    hwloc_const_cpuset_t set = object->object->cpuset;
    char words[4096];
    size_t used = 0;
    int last = machine->hwloc->bitmap_last(set);
    if (last < 0 && machine->hwloc->bitmap_first(set) >= 0)
        return WEFT_OK;
    int word = last < 0 ? 0 : last / 32, per_long = (int)(8 * sizeof(unsigned long) / 32);
    if ((size_t)word >= sizeof words / 9 - 1)
        return WEFT_OK;
    for (; word >= 0; word--) {
        unsigned long bits =
            machine->hwloc->bitmap_to_ith_ulong(set, (unsigned)(word / per_long)) >> (word % per_long * 32);
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%08lx", used ? "," : "",
                                 bits & 0xffffffff);
    }
    return weft_graph_set_attribute(machine->graph, object->node, "affinity", words);
}

static int add_numa(struct weft_hwloc_machine *machine, struct weft_hwloc_object *object)
{
    char name[32];
    snprintf(name, sizeof name, "numa%u", object->object->os_index);
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_NUMA, machine->objects[0].node, name);
    given.index = (int32_t)object->object->os_index;
    int status = weft_graph_add_node(machine->graph, &given, &object->node);
    const struct weft_hwloc_object *package = object_around(object, HWLOC_OBJ_PACKAGE);
    if (!status && package && package->object->os_index <= INT32_MAX) {
        snprintf(name, sizeof name, "%u", package->object->os_index);
        status = weft_graph_set_attribute(machine->graph, object->node, "package", name);
    }
    if (!status)
        status = set_affinity(machine, object);
    if (!status && object->object->subtype)
        status = weft_graph_set_attribute(machine->graph, object->node, "subtype", object->object->subtype);
    for (size_t i = 0; i < sizeof processor_infos / sizeof *processor_infos && package && !status; i++) {
        const char *value = weft_hwloc_info(package, processor_infos[i]);
        if (value && strlen(value) < WEFT_NAME_SIZE_MAX)
            status = weft_graph_set_attribute(machine->graph, object->node, processor_infos[i], value);
    }
    return status ? status : weft_hwloc_set_infos(machine, object, object->node);
}

static int add_numas(struct weft_hwloc_machine *machine)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < machine->object_count; i++) {
        if (machine->objects[i].object->type != HWLOC_OBJ_NUMANODE)
            continue;
        int status = add_numa(machine, &machine->objects[i]);
        if (status)
            return status;
        machine->numas[count++] = &machine->objects[i];
    }
    qsort(machine->numas, count, sizeof *machine->numas, by_os_index);
    return WEFT_OK;
}

/* Two packages with a NUMA node each: what joins them is the link between the processors, whatever its speed. With more
 * of either, who is cabled to whom is not told (distances between NUMA nodes say nothing of cables), and packages of a virtual
 * machine are whatever its maker liked. */
static int join_packages(struct weft_hwloc_machine *machine)
{
    uint32_t package_count = 0;
    for (uint32_t i = 0; i < machine->object_count; i++)
        package_count += machine->objects[i].object->type == HWLOC_OBJ_PACKAGE;
    if (package_count != 2 || machine->numa_count != 2 ||
        (machine->graph->nodes[machine->objects[0].node].flags & WEFT_HOST_VIRTUAL))
        return WEFT_OK;
    const struct weft_hwloc_object *a = object_around(machine->numas[0], HWLOC_OBJ_PACKAGE),
                                   *b = object_around(machine->numas[1], HWLOC_OBJ_PACKAGE);
    if (!a || !b || a == b)
        return WEFT_OK;
    struct weft_edge given = {.a = machine->numas[0]->node,
                              .b = machine->numas[1]->node,
                              .kind = WEFT_EDGE_SOCKET,
                              .flags = WEFT_EDGE_LINKS_UNKNOWN,
                              .port_a = -1,
                              .port_b = -1};
    uint32_t edge;
    return weft_graph_add_edge(machine->graph, &given, &edge);
}

/* The one NUMA node right below the object that is no GPU's memory, or NULL. */
static const struct weft_hwloc_object *own_numa(hwloc_obj_t object)
{
    const struct weft_hwloc_object *found = NULL;
    for (hwloc_obj_t at = object->memory_first_child; at; at = at->next_sibling) {
        if (at->type != HWLOC_OBJ_NUMANODE || (at->subtype && strcmp(at->subtype, "GPUMemory") == 0))
            continue;
        if (found)
            return NULL;
        found = weft_hwloc_of(at);
    }
    return found;
}

uint32_t weft_hwloc_place(const struct weft_hwloc_machine *machine, const struct weft_hwloc_object *object)
{
    hwloc_obj_t at = object->object;
    int nodes = 0;
    while ((!at->nodeset || (nodes = machine->hwloc->bitmap_weight(at->nodeset)) == 0) && at->parent)
        at = at->parent;
    const struct weft_hwloc_object *place = NULL;
    if (nodes == 1) {
        struct hwloc_obj numbered = {.os_index = (unsigned)machine->hwloc->bitmap_first(at->nodeset)};
        struct weft_hwloc_object wanted = {.object = &numbered}, *key = &wanted;
        struct weft_hwloc_object **found =
            bsearch(&key, machine->numas, machine->numa_count, sizeof *machine->numas, by_os_index);
        place = found ? *found : NULL;
    } else if (at->type == HWLOC_OBJ_PACKAGE) {
        /* The memory of GPUs can be NUMA nodes of the package that they are joined with. */
        place = own_numa(at);
    }
    return place ? place->node : machine->objects[0].node;
}

/* --- cores */

/* Cores, and processors that are in none. */
static int add_cores(struct weft_hwloc_machine *machine)
{
    int status = WEFT_OK;
    for (uint32_t i = 0; i < machine->object_count && !status; i++) {
        struct weft_hwloc_object *object = &machine->objects[i];
        hwloc_obj_type_t type = object->object->type;
        if (type != HWLOC_OBJ_CORE && (type != HWLOC_OBJ_PU || object_around(object, HWLOC_OBJ_CORE)))
            continue;
        int first = machine->hwloc->bitmap_first(object->object->cpuset);
        if (first < 0)
            continue;
        char name[32];
        snprintf(name, sizeof name, "core%d", first);
        struct weft_node_given given =
            WEFT_NODE_GIVEN(WEFT_NODE_CORE, weft_hwloc_place(machine, object), name);
        given.index = first;
        status = weft_graph_add_node(machine->graph, &given, &object->node);
    }
    return status;
}

int weft_hwloc_nodes(struct weft_hwloc_machine *machine, unsigned host_flags)
{
    hwloc_obj_t root = machine->hwloc->get_obj_by_depth(machine->topology, 0, 0);
    machine->objects = malloc(objects_count(root) * sizeof *machine->objects);
    if (machine->objects)
        object_add(machine, root);
    if (machine->objects)
        machine->numas = malloc((machine->numa_count + 1) * sizeof *machine->numas);
    if (!machine->numas)
        return weft_fail(WEFT_NOMEM, "no memory for what hwloc knows");
    int status = add_host(machine, host_flags);
    if (!status)
        status = add_numas(machine);
    if (!status)
        status = join_packages(machine);
    return status ? status : add_cores(machine);
}
