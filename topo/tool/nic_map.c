/* The NIC of each GPU, as JSON: docs/weft-topo-json.md.
 *
 * The choice is the library's (weft_order_nics(), one rank per GPU). The reason is worked out beside it, from the classes of all
 * NICs of the host, so that one can be held against the other.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "topo/nics.h"
#include "topo/tool/json_say.h"
#include "topo/tool/places.h"
#include "topo/tool/tool.h"

static uint32_t nic_of(const struct weft_graph *graph, uint32_t index)
{
    return index == WEFT_NODE_NONE ? index : weft_graph_above(graph, index, WEFT_NODE_NIC);
}

/* Whether the NIC has ports and all of them are down. */
static int is_down(const struct weft_graph *graph, uint32_t nic)
{
    uint32_t ports = 0, down = 0;
    for (uint32_t at = weft_graph_first(graph, nic); at != WEFT_NODE_NONE;
         at = graph->nodes[at].sibling_next) {
        if (graph->nodes[at].kind != WEFT_NODE_PORT)
            continue;
        ports++;
        down += graph->nodes[at].state == WEFT_PORT_DOWN;
    }
    return ports > 0 && down == ports;
}

/* NICs of the host that are not down: how many there are, and how many of the class or nearer; and those nearer but down. */
struct nearness {
    uint32_t all, near, nearer_down;
};

static struct nearness nearness_find(const struct weft_graph *graph, uint32_t gpu,
                                     enum weft_path_class path_class)
{
    struct nearness found = {0, 0, 0};
    uint32_t host = graph->nodes[gpu].host;
    for (uint32_t at = weft_graph_next_below(graph, host, WEFT_NODE_NIC, WEFT_NODE_NONE);
         at != WEFT_NODE_NONE; at = weft_graph_next_below(graph, host, WEFT_NODE_NIC, at)) {
        enum weft_path_class other = weft_path_classify(graph, gpu, at);
        int down = is_down(graph, at);
        found.all += !down;
        found.near += !down && other <= path_class;
        found.nearer_down += down && other < path_class;
    }
    return found;
}

static void why_write(const struct weft_graph *graph, const struct weft_place *place, uint32_t nic,
                      char *text, size_t size)
{
    if (nic == WEFT_NODE_NONE) {
        uint32_t all = weft_graph_count_below(graph, place->host, WEFT_NODE_NIC);
        snprintf(text, size, all ? "no NIC of the host is up" : "the host has no NIC");
        return;
    }
    struct nearness found = nearness_find(graph, place->near, weft_path_classify(graph, place->near, nic));
    uint32_t equal = weft_nics_equal(graph, place);
    int used;
    if (found.all == 1)
        used = snprintf(text, size, "the only NIC");
    else if (equal > 1)
        used = snprintf(text, size,
                        "one of %" PRIu32 " that serve it equally, of %" PRIu32 " NICs: shared out evenly",
                        equal, found.all);
    else if (found.near > 1)
        used =
            snprintf(text, size, "the best, by rate or cable, of the %" PRIu32 " nearest of %" PRIu32 " NICs",
                     found.near, found.all);
    else
        used = snprintf(text, size, "the nearest of %" PRIu32 " NICs", found.all);
    if (found.nearer_down && used >= 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, "; %" PRIu32 " nearer %s down", found.nearer_down,
                 found.nearer_down == 1 ? "is" : "are");
}

static int gpu_json(const struct weft_graph *graph, const struct weft_place *place, uint32_t chosen,
                    json_t **made)
{
    static const char *const answers[] = {[WEFT_DIRECT_NO] = "no",
                                          [WEFT_DIRECT_UNKNOWN] = "unknown",
                                          [WEFT_DIRECT_POSSIBLE] = "possible",
                                          [WEFT_DIRECT_SENSIBLE] = "sensible"};
    const struct weft_node *node = &graph->nodes[place->near];
    uint32_t nic = nic_of(graph, chosen);
    char why[160];
    struct weft_path path;
    int status = nic == WEFT_NODE_NONE ? WEFT_OK : weft_path_find(graph, place->near, nic, &path);
    if (status != WEFT_OK)
        return status;
    json_t *object =
        json_pack("{s:o, s:o, s:o}", "gpu", weft_json_text(node->name), "gpu_index",
                  weft_json_or_null(node->index, node->index >= 0), "gpu_pci", weft_json_text(node->pci));
    why_write(graph, place, nic, why, sizeof why);
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

/* One object per host with GPUs. */
static int hosts_json(const struct weft_graph *graph, const struct weft_place *places, const uint32_t *nics,
                      uint32_t gpus, json_t **made)
{
    json_t *hosts = json_array(), *list = NULL, *gpu;
    for (uint32_t i = 0; i < gpus; i++) {
        if (i == 0 || places[i].host != places[i - 1].host) {
            list = json_array();
            json_array_append_new(hosts,
                                  json_pack("{s:o, s:o}", "host",
                                            weft_json_text(graph->nodes[places[i].host].name), "gpus", list));
        }
        int status = gpu_json(graph, &places[i], nics[i], &gpu);
        if (status != WEFT_OK) {
            json_decref(hosts);
            return status;
        }
        json_array_append_new(list, gpu);
    }
    *made = hosts;
    return WEFT_OK;
}

/* One place per GPU, host by host. *places and *nics are malloc'ed, one piece of memory each. */
static int gpus_find(const struct weft_graph *graph, struct weft_place **places, uint32_t **nics,
                     uint32_t *gpus)
{
    uint32_t count = weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_GPU), found = 0;
    *places = malloc(((size_t)count + 1) * sizeof **places);
    *nics = malloc(((size_t)count + 1) * sizeof **nics);
    if (!*places || !*nics) {
        free(*places);
        free(*nics);
        return weft_fail(WEFT_NOMEM, "no memory for the places of %" PRIu32 " GPUs", count);
    }
    for (uint32_t at = weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_GPU, WEFT_NODE_NONE);
         at != WEFT_NODE_NONE && found < count;
         at = weft_graph_next_below(graph, WEFT_NODE_NONE, WEFT_NODE_GPU, at))
        (*places)[found++] = (struct weft_place){.host = graph->nodes[at].host, .near = at};
    *gpus = found;
    return WEFT_OK;
}

int weft_topo_nic_map(const struct weft_graph *graph, FILE *file)
{
    struct weft_place *places;
    uint32_t *nics, gpus = 0;
    int status = gpus_find(graph, &places, &nics, &gpus);
    if (status != WEFT_OK)
        return status;
    if (gpus)
        status = weft_order_nics(graph, places, gpus, nics);
    json_t *hosts;
    if (status == WEFT_OK)
        status = hosts_json(graph, places, nics, gpus, &hosts);
    if (status == WEFT_OK) {
        json_t *root = weft_json_head(graph, "nic-map");
        json_object_set_new(root, "hosts", hosts);
        status = weft_json_put(root, file);
    }
    free(nics);
    free(places);
    return status;
}
