/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank announces of its place: comm/form/arrange.h. */
#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/secure.h"
#include "comm/form/arrange.h"
#include "comm/drive/context.h"
#include "topo/live/numa.h"
#include "topo/live/sysfs.h"
#include "topo/read.h"

/* All that a layout may rest on: two ranks that read different files would otherwise make plans that do not fit. */
static uint64_t digest_of(const struct weft_graph *graph)
{
    uint64_t digest = WEFT_HASH_START; /* tells files apart that differ by mistake, not by intent */
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct weft_node *node = &graph->nodes[n];
        const char *pci = node->pci ? node->pci : "";
        const uint64_t announced[] = {node->kind,           node->bridge, node->state,
                                      node->flags,          node->parent, (uint64_t)node->index,
                                      (uint64_t)node->rail, node->guid,   node->bytes_per_s};
        digest = weft_hash_bytes(weft_hash_bytes(digest, announced, sizeof announced), node->name,
                                 strlen(node->name) + 1);
        digest = weft_hash_bytes(digest, pci, strlen(pci) + 1);
        for (uint32_t a = node->attributes_first; a != WEFT_NODE_NONE; a = graph->attributes[a].next) {
            const struct weft_attribute *attribute = &graph->attributes[a]; /* NICs are chosen by some */
            digest = weft_hash_bytes(digest, attribute->name, strlen(attribute->name) + 1);
            digest = weft_hash_bytes(digest, attribute->value, strlen(attribute->value) + 1);
        }
    }
    for (uint32_t e = 0; e < graph->edge_count; e++) {
        const struct weft_edge *edge = &graph->edges[e];
        const uint64_t announced[] = {edge->a,
                                      edge->b,
                                      edge->kind,
                                      edge->flags,
                                      edge->links,
                                      edge->bytes_per_s,
                                      edge->latency_ns,
                                      (uint64_t)edge->port_a,
                                      (uint64_t)edge->port_b};
        digest = weft_hash_bytes(digest, announced, sizeof announced);
    }
    return digest ? digest : 1;
}

int weft_context_read_fabric(struct weft_context *context)
{
    const char *path = context->settings.topo_file;
    if (!*path)
        return WEFT_OK;
    int status = weft_topo_read(path, &context->form.fabric);
    if (status != WEFT_OK) {
        char reason[WEFT_DETAIL_MAX];
        snprintf(reason, sizeof reason, "%s", weft_error_detail());
        return weft_fail(status, "WEFT_TOPO_FILE: %.900s", reason);
    }
    for (uint32_t i = 0; i < context->form.fabric->warning_count; i++)
        weft_log(WEFT_LOG_WARN, "WEFT_TOPO_FILE: %s", context->form.fabric->warnings[i]);
    context->form.fabric_digest = digest_of(context->form.fabric);
    return WEFT_OK;
}

/* A value that can be a word of a line: printable, without spaces. */
static const char *word_of(const char *name)
{
    const char *value = weft_environment_get(name);
    for (const char *c = value; c && *c; c++) {
        if (*c <= ' ' || *c == 0x7f)
            return "";
    }
    return value ? value : "";
}

/* Ranks are few enough that 32 bits do: it tells only hosts of one name apart. */
static uint32_t machine_of(const char *root)
{
    char line[WEFT_SYSFS_LINE_MAX];
    int length = weft_sysfs_line(root, line, "/proc/sys/kernel/random/boot_id");
    if (length <= 0)
        return 0;
    uint64_t digest = weft_hash_bytes(WEFT_HASH_START, line, (size_t)length);
    uint32_t folded = (uint32_t)(digest ^ digest >> 32);
    return folded ? folded : 1;
}

/* What the context knows of these processors. 0: nothing yet. */
static int recall(struct weft_context *context, const cpu_set_t *processors, int32_t *numa)
{
    int found = 0;
    weft_context_lock(context);
    for (uint32_t i = 0; i < WEFT_KNOWN_NUMAS && i < context->form.numa_count && !found; i++) {
        found = CPU_EQUAL(&context->form.numas[i].processors, processors);
        *numa = context->form.numas[i].numa;
    }
    weft_context_unlock(context);
    return found;
}

/* From sysfs, once for each set of processors (but for programs that move about more than WEFT_KNOWN_NUMAS): a file for each NUMA
 * node is too much for every communicator. */
static int32_t numa_of(struct weft_context *context, const cpu_set_t *processors)
{
    const char *root = weft_secure_getenv("HWLOC_FSROOT");
    char sysfs[WEFT_SYSFS_PATH_MAX];
    int32_t numa;
    if (recall(context, processors, &numa))
        return numa;
    int length = snprintf(sysfs, sizeof sysfs, "%s/sys", root ? root : "");
    numa = length < (int)sizeof sysfs ? weft_numa_of(processors, sysfs) : -1;
    weft_context_lock(context);
    context->form.numas[context->form.numa_count++ % WEFT_KNOWN_NUMAS] =
        (struct weft_known_numa){*processors, numa};
    weft_context_unlock(context);
    return numa;
}

size_t weft_place_announce(struct weft_context *context, const cpu_set_t *processors,
                           struct weft_announced_place *place, char text[WEFT_PLACE_TEXT_MAX])
{
    const char *root = weft_secure_getenv("HWLOC_FSROOT");
    *place = (struct weft_announced_place){.numa = numa_of(context, processors),
                                           .machine = machine_of(root ? root : ""),
                                           .fabric = context->form.fabric_digest};
    const char *address = word_of("SLURM_TOPOLOGY_ADDR");
    const char *pattern = word_of("SLURM_TOPOLOGY_ADDR_PATTERN");
    size_t address_size = strlen(address) + 1, pattern_size = strlen(pattern) + 1;
    if (address_size + pattern_size > WEFT_PLACE_TEXT_MAX) {
        address = pattern = "";
        address_size = pattern_size = 1;
    }
    memcpy(text, address, address_size);
    memcpy(text + address_size, pattern, pattern_size);
    return address_size + pattern_size;
}

int weft_place_read_text(const char *text, size_t size, struct weft_announced_place *place)
{
    if (size > WEFT_PLACE_TEXT_MAX || size < 2 || text[size - 1] != '\0')
        return 0;
    size_t address = strlen(text) + 1;
    if (address >= size || address + strlen(text + address) + 1 != size)
        return 0;
    for (size_t i = 0; i + 1 < size; i++) {
        if (i + 1 != address && ((unsigned char)text[i] <= ' ' || text[i] == 0x7f))
            return 0;
    }
    place->address = text;
    place->pattern = text + address;
    return 1;
}
