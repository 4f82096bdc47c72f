/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc's XML (lstopo machine.xml, hwloc_topology_export_xml()) as our graph; also how this machine is read.
 *
 * Machine becomes the host, NUMANode a NUMA node with what is told of the package around it, Core a core. Where
 * bridges and devices hang follows from the nodeset of the object that holds them: one NUMA node, or the host where it
 * has several (or none is told). Bridges and devices: hwloc_devices.c; links between GPUs: hwloc_links.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "topo/files/hwloc.h"
#include "topo/virtual.h"

/* The nearest object of the type around this one. */
static struct weft_hwloc_object *object_around(struct weft_hwloc_file *file,
                                               const struct weft_hwloc_object *object, unsigned type)
{
    for (uint32_t i = object->parent; i != WEFT_HWLOC_NONE; i = file->objects[i].parent) {
        if (file->objects[i].type == type)
            return &file->objects[i];
    }
    return NULL;
}

int weft_hwloc_set_infos(struct weft_hwloc_file *file, const struct weft_hwloc_object *object, uint32_t node)
{
    int status = WEFT_OK;
    for (uint32_t i = object->info_first; i != WEFT_HWLOC_NONE && !status; i = file->infos[i].next)
        status = weft_graph_set_attribute(file->graph, node, file->infos[i].name, file->infos[i].value);
    return status;
}

/* --- host */

static int add_host(struct weft_hwloc_file *file, unsigned flags)
{
    struct weft_hwloc_object *machine = &file->objects[0];
    const char *name = weft_hwloc_info(file, machine, "HostName");
    struct weft_node_told told =
        WEFT_NODE_TOLD(WEFT_NODE_HOST, WEFT_NODE_NONE, name && *name ? name : "host");
    told.flags = flags;
    if (weft_product_is_virtual(weft_hwloc_info(file, machine, "DMISysVendor"),
                                weft_hwloc_info(file, machine, "DMIProductName")))
        told.flags |= WEFT_HOST_VIRTUAL;
    int status = weft_graph_add_node(file->graph, &told, &machine->node);
    return status ? status : weft_hwloc_set_infos(file, machine, machine->node);
}

/* --- NUMA nodes */

static int by_os_index(const void *a, const void *b)
{
    int64_t x = ((const struct weft_hwloc_numa *)a)->os_index,
            y = ((const struct weft_hwloc_numa *)b)->os_index;
    return x < y ? -1 : x > y;
}

/* Of a package, at each of its NUMA nodes. These and no others, and no long ones: a file can have many NUMA nodes in a
 * package of many infos. */
static const char *const processor_infos[] = {"CPUVendor", "CPUModel", "CPUFamilyNumber", "CPUModelNumber"};

/* The processors of a NUMA node as Linux and NCCL spell them, "00000000,000000ff" for hwloc's "0x000000ff" and ",0xff":
 * every word with its eight digits. What is endless ("0xf...f") or longer than any machine needs is left out. */
static int set_affinity(struct weft_hwloc_file *file, const struct weft_hwloc_object *object)
{
    char words[4096];
    size_t used = 0;
    const char *at = object->cpuset;
    if (!at || !*at)
        return WEFT_OK;
    for (;; at++) {
        unsigned word = 0;
        int digits = 0;
        if (at[0] == '0' && at[1] == 'x') {
            for (at += 2; *at && strchr("0123456789abcdef", *at) && digits < 8; at++, digits++)
                word = word << 4 | (unsigned)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
        }
        if ((*at && *at != ',') || used + 10 > sizeof words)
            return WEFT_OK;
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%08x", used ? "," : "", word);
        if (!*at)
            return weft_graph_set_attribute(file->graph, object->node, "affinity", words);
    }
}

static int add_numa(struct weft_hwloc_file *file, struct weft_hwloc_object *object)
{
    char name[32];
    snprintf(name, sizeof name, "numa%lld", (long long)object->os_index);
    struct weft_node_told told = WEFT_NODE_TOLD(WEFT_NODE_NUMA, file->objects[0].node, name);
    told.index = (int32_t)object->os_index;
    int status = weft_graph_add_node(file->graph, &told, &object->node);
    const struct weft_hwloc_object *package = object_around(file, object, WEFT_HWLOC_PACKAGE);
    if (!status && package && package->os_index >= 0) {
        snprintf(name, sizeof name, "%lld", (long long)package->os_index);
        status = weft_graph_set_attribute(file->graph, object->node, "package", name);
    }
    if (!status)
        status = set_affinity(file, object);
    if (!status && object->subtype)
        status = weft_graph_set_attribute(file->graph, object->node, "subtype", object->subtype);
    for (size_t i = 0; i < sizeof processor_infos / sizeof *processor_infos && package && !status; i++) {
        const char *value = weft_hwloc_info(file, package, processor_infos[i]);
        if (value && strlen(value) < WEFT_NAME_SIZE_MAX)
            status = weft_graph_set_attribute(file->graph, object->node, processor_infos[i], value);
    }
    return status ? status : weft_hwloc_set_infos(file, object, object->node);
}

static int add_numas(struct weft_hwloc_file *file)
{
    for (uint32_t i = 0; i < file->object_count; i++)
        file->numa_count += file->objects[i].type == WEFT_HWLOC_NUMA;
    if (!file->numa_count)
        return WEFT_OK;
    file->numas = malloc(file->numa_count * sizeof *file->numas);
    if (!file->numas)
        return weft_fail(WEFT_NOMEM, "no memory to read hwloc's XML");
    uint32_t count = 0;
    for (uint32_t i = 0; i < file->object_count; i++) {
        struct weft_hwloc_object *object = &file->objects[i];
        if (object->type != WEFT_HWLOC_NUMA)
            continue;
        int status = add_numa(file, object);
        if (status)
            return status;
        file->numas[count++] = (struct weft_hwloc_numa){object->os_index, object->node};
        if (object->subtype && strcmp(object->subtype, "GPUMemory") == 0)
            continue;
        struct weft_hwloc_object *above = &file->objects[object->parent];
        int is_first = above->local_numa == WEFT_HWLOC_NUMA_UNTOLD;
        above->local_numa = is_first ? (int32_t)object->os_index : WEFT_HWLOC_NUMA_SEVERAL;
    }
    qsort(file->numas, count, sizeof *file->numas, by_os_index);
    for (uint32_t i = 1; i < count; i++) {
        if (file->numas[i].os_index == file->numas[i - 1].os_index)
            return weft_read_fail(file->text, 0, "two objects NUMANode have os_index %lld",
                                  (long long)file->numas[i].os_index);
    }
    return WEFT_OK;
}

/* Two packages with a NUMA node each: what joins them is the link between the processors, whatever its speed. With more
 * of either, who is cabled to whom is not told (distances between NUMA nodes say nothing of cables), and packages of a virtual
 * machine are whatever its maker liked. */
static int join_packages(struct weft_hwloc_file *file)
{
    const struct weft_hwloc_object *nodes[2] = {NULL, NULL}, *packages[2];
    uint32_t package_count = 0;
    for (uint32_t i = 0, at = 0; i < file->object_count; i++) {
        package_count += file->objects[i].type == WEFT_HWLOC_PACKAGE;
        if (file->objects[i].type == WEFT_HWLOC_NUMA && at < 2)
            nodes[at++] = &file->objects[i];
    }
    if (package_count != 2 || file->numa_count != 2 ||
        (file->graph->nodes[file->objects[0].node].flags & WEFT_HOST_VIRTUAL))
        return WEFT_OK;
    for (int i = 0; i < 2; i++)
        packages[i] = object_around(file, nodes[i], WEFT_HWLOC_PACKAGE);
    if (!packages[0] || !packages[1] || packages[0] == packages[1])
        return WEFT_OK;
    struct weft_edge told = {.a = nodes[0]->node,
                             .b = nodes[1]->node,
                             .kind = WEFT_EDGE_SOCKET,
                             .flags = WEFT_EDGE_LINKS_UNKNOWN,
                             .port_a = -1,
                             .port_b = -1};
    uint32_t edge;
    return weft_graph_add_edge(file->graph, &told, &edge);
}

int weft_hwloc_place(struct weft_hwloc_file *file, const struct weft_hwloc_object *object, uint32_t *node)
{
    const struct weft_hwloc_object *at = object;
    while (at->numa == WEFT_HWLOC_NUMA_UNTOLD && at->parent != WEFT_HWLOC_NONE)
        at = &file->objects[at->parent];
    /* The memory of GPUs can be NUMA nodes of the package that they are joined with. */
    int32_t number = at->numa;
    if (number == WEFT_HWLOC_NUMA_SEVERAL && at->type == WEFT_HWLOC_PACKAGE)
        number = at->local_numa;
    if (number < 0) {
        *node = file->objects[0].node;
        return WEFT_OK;
    }
    struct weft_hwloc_numa wanted = {.os_index = number};
    const struct weft_hwloc_numa *found =
        file->numa_count ? bsearch(&wanted, file->numas, file->numa_count, sizeof wanted, by_os_index) : NULL;
    if (!found)
        return weft_read_fail(file->text, at->line, "nodeset names NUMA node %d, which no object NUMANode is",
                              (int)number);
    *node = found->node;
    return WEFT_OK;
}

/* --- cores */

/* A PU belongs to the core around it; one without becomes a core of its own. */
static void count_processors(struct weft_hwloc_file *file)
{
    for (uint32_t i = 0; i < file->object_count; i++) {
        struct weft_hwloc_object *object = &file->objects[i];
        if (object->type != WEFT_HWLOC_PU)
            continue;
        struct weft_hwloc_object *core = object_around(file, object, WEFT_HWLOC_CORE);
        int32_t number = (int32_t)object->os_index;
        if (!core)
            object->first_pu = number;
        else if (core->first_pu < 0 || number < core->first_pu)
            core->first_pu = number;
    }
}

static int add_cores(struct weft_hwloc_file *file)
{
    count_processors(file);
    for (uint32_t i = 0; i < file->object_count; i++) {
        struct weft_hwloc_object *object = &file->objects[i];
        if ((object->type != WEFT_HWLOC_CORE && object->type != WEFT_HWLOC_PU) || object->first_pu < 0)
            continue;
        uint32_t place;
        int status = weft_hwloc_place(file, object, &place);
        if (status)
            return status;
        char name[32];
        snprintf(name, sizeof name, "core%d", (int)object->first_pu);
        struct weft_node_told told = WEFT_NODE_TOLD(WEFT_NODE_CORE, place, name);
        told.index = object->first_pu;
        status = weft_graph_add_node(file->graph, &told, &object->node);
        if (status)
            return status;
    }
    return WEFT_OK;
}

int weft_hwloc_read(const struct weft_text *text, unsigned host_flags, struct weft_graph *graph)
{
    struct weft_hwloc_file file = {.text = text, .graph = graph};
    int status = weft_hwloc_parse(&file);
    if (!status)
        status = add_host(&file, host_flags);
    if (!status)
        status = add_numas(&file);
    if (!status)
        status = join_packages(&file);
    if (!status)
        status = add_cores(&file);
    if (!status)
        status = weft_hwloc_devices(&file);
    if (!status)
        status = weft_hwloc_links(&file);
    weft_hwloc_forget(&file);
    return status;
}

int weft_read_hwloc_xml(const struct weft_text *text, struct weft_graph *graph)
{
    return weft_hwloc_read(text, 0, graph);
}
