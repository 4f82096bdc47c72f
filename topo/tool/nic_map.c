/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC of each GPU, as JSON: docs/weft-topo-json.md. Choice and reason are the library's (weft_order_nics()), for one
 * rank per GPU. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "topo/tool/json_say.h"
#include "topo/tool/places.h"
#include "topo/tool/tool.h"

static uint32_t nic_of(const struct weft_graph *graph, uint32_t index)
{
    return index == WEFT_NODE_NONE ? index : weft_graph_above(graph, index, WEFT_NODE_NIC);
}

static void why_write(const struct weft_graph *graph, const struct weft_place *place, uint32_t nic,
                      const struct weft_nic_reason *reason, char *text, size_t size)
{
    if (nic == WEFT_NODE_NONE) {
        uint32_t first = weft_graph_next_below(graph, place->host, WEFT_NODE_NIC, WEFT_NODE_NONE);
        snprintf(text, size, first == WEFT_NODE_NONE ? "the host has no NIC" : "no NIC of the host is up");
        return;
    }
    int used;
    if (reason->fit == 1)
        used = snprintf(text, size, reason->others ? "the only NIC to choose from" : "the only NIC");
    else if (reason->equal > 1)
        used = snprintf(text, size,
                        "one of %" PRIu32 " that serve it equally, of %" PRIu32 " NICs: shared out evenly",
                        reason->equal, reason->fit);
    else if (reason->near > 1)
        used =
            snprintf(text, size, "the best, by rate or cable, of the %" PRIu32 " nearest of %" PRIu32 " NICs",
                     reason->near, reason->fit);
    else
        used = snprintf(text, size, "the nearest of %" PRIu32 " NICs", reason->fit);
    if (reason->nearer_down && used >= 0 && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, "; %" PRIu32 " nearer %s down",
                         reason->nearer_down, reason->nearer_down == 1 ? "is" : "are");
    if (reason->others && used >= 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used,
                 "; passed over: %" PRIu32 " that %s plain Ethernet or less sure to be up", reason->others,
                 reason->others == 1 ? "is" : "are");
}

static int gpu_json(const struct weft_graph *graph, const struct weft_place *place, uint32_t chosen,
                    const struct weft_nic_reason *reason, json_t **made)
{
    static const char *const answers[] = {[WEFT_DIRECT_NO] = "no",
                                          [WEFT_DIRECT_UNKNOWN] = "unknown",
                                          [WEFT_DIRECT_POSSIBLE] = "possible",
                                          [WEFT_DIRECT_SENSIBLE] = "sensible"};
    const struct weft_node *node = &graph->nodes[place->near];
    uint32_t nic = nic_of(graph, chosen);
    char why[256];
    struct weft_path path;
    int status = nic == WEFT_NODE_NONE ? WEFT_OK : weft_path_find(graph, place->near, nic, &path);
    if (status != WEFT_OK)
        return status;
    json_t *object =
        json_pack("{s:o, s:o, s:o}", "gpu", weft_json_text(node->name), "gpu_index",
                  weft_json_or_null(node->index, node->index >= 0), "gpu_pci", weft_json_text(node->pci));
    why_write(graph, place, nic, reason, why, sizeof why);
    if (nic != WEFT_NODE_NONE) {
        const struct weft_node *of = &graph->nodes[chosen];
        json_object_set_new(object, "nic", weft_json_text(graph->nodes[nic].name));
        json_object_set_new(object, "nic_pci", weft_json_text(graph->nodes[nic].pci));
        json_object_set_new(object, "port",
                            weft_json_or_null(of->index, of->kind == WEFT_NODE_PORT && of->index >= 0));
        json_object_set_new(object, "rail", weft_json_or_null(of->rail, of->rail >= 0));
        json_object_set_new(object, "class", json_string(weft_path_class_name(path.path_class)));
        json_object_set_new(object, "direct", json_string(answers[path.direct]));
    } else {
        static const char *const absent[] = {"nic", "nic_pci", "port", "rail", "class", "direct"};
        for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
            json_object_set_new(object, absent[i], json_null());
    }
    json_object_set_new(object, "why", json_string(why));
    *made = object;
    return WEFT_OK;
}

/* What was found for each GPU. */
struct found {
    struct weft_place *places;
    uint32_t *nics;
    struct weft_nic_reason *reasons;
    uint32_t gpus;
};

/* One object per host with GPUs. */
static int hosts_json(const struct weft_graph *graph, const struct found *found, json_t **made)
{
    json_t *hosts = json_array(), *list = NULL, *gpu;
    const struct weft_place *places = found->places;
    for (uint32_t i = 0; i < found->gpus; i++) {
        if (i == 0 || places[i].host != places[i - 1].host) {
            list = json_array();
            json_array_append_new(hosts,
                                  json_pack("{s:o, s:o}", "host",
                                            weft_json_text(graph->nodes[places[i].host].name), "gpus", list));
        }
        int status = gpu_json(graph, &places[i], found->nics[i], &found->reasons[i], &gpu);
        if (status != WEFT_OK) {
            json_decref(hosts);
            return status;
        }
        json_array_append_new(list, gpu);
    }
    *made = hosts;
    return WEFT_OK;
}

/* One place per GPU, host by host; its NIC and the reason. */
static int gpus_find(const struct weft_graph *graph, struct found *found)
{
    uint32_t count = weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_GPU);
    found->places = malloc(((size_t)count + 1) * sizeof *found->places);
    found->nics = malloc(((size_t)count + 1) * sizeof *found->nics);
    found->reasons = malloc(((size_t)count + 1) * sizeof *found->reasons);
    if (!found->places || !found->nics || !found->reasons)
        return weft_fail(WEFT_NOMEM, "no memory for the places of %" PRIu32 " GPUs", count);
    for (uint32_t at = weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_GPU, WEFT_NODE_NONE);
         at != WEFT_NODE_NONE && found->gpus < count;
         at = weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_GPU, at))
        found->places[found->gpus++] = (struct weft_place){.host = graph->nodes[at].host, .near = at};
    if (!found->gpus)
        return WEFT_OK;
    return weft_order_nics(graph, found->places, found->gpus, found->nics, found->reasons);
}

int weft_topo_nic_map(const struct weft_graph *graph, FILE *file)
{
    struct found found = {0};
    json_t *hosts;
    int status = gpus_find(graph, &found);
    if (status == WEFT_OK)
        status = hosts_json(graph, &found, &hosts);
    if (status == WEFT_OK) {
        json_t *root = weft_json_head(graph, "nic-map");
        json_object_set_new(root, "hosts", hosts);
        status = weft_json_put(root, file);
    }
    free(found.reasons);
    free(found.nics);
    free(found.places);
    return status;
}
