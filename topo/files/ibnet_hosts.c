/* SPDX-License-Identifier: Apache-2.0 */
/* Which adapters are in one host.
 *
 * A fabric does not know hosts. It knows the description that the host's driver wrote into each adapter: the host's name and
 * the device's ("node-1 mlx5_0", "node-1 HCA-1": rdma-ndd(8) and older scripts), or only the host's name. Adapters with the
 * same host's name are in one host, but for these:
 *
 *   - without a driver an adapter says what its firmware wrote, such as maker and model, which tells of no host;
 *   - names that many hosts have (localhost) tell of none;
 *   - if the same host's name comes twice with the same device, or twice without one, two hosts bear it (images that were
 *     cloned) and none of the adapters with it can be placed by it.
 *
 * Those are placed by their system image GUID, which is one for all adapters of a card: in the host of the others on that
 * card where these are in one host, else in a host of their own, named after the GUID. So two hosts never become one;
 * one with several such cards may become several.
 *
 * "mlx5_0" and the like count from 0, "HCA-1" from 1: the number behind, counted from 0, is the rail. Names that follow
 * the place on PCI ("ibp12s0", systemd's scheme) have numbers, but no rail.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "topo/files/ibnet.h"

/* Per name of host, in weft_ibnet_host's order, while hosts are found. */
struct finder {
    struct weft_ibnet *net;
    struct weft_names hosts;        /* names to hosts */
    struct weft_names descriptions; /* host and device to the host; to find those that come twice */
    struct weft_names systems;      /* names made of system image GUIDs to hosts */
};

struct parts {
    struct weft_span host, device;
};

/* What kernel and scripts call RDMA devices; a number behind each. rail_from: the first device's number, -1 where numbers
 * do not count devices. */
static const struct {
    const char *prefix;
    int rail_from;
} device_names[] = {
    {"mlx5_bond_", -1}, {"mlx5_", 0},  {"mlx4_", 0},  {"mthca", 0},  {"HCA-", 1},   {"hfi1_", 0},
    {"qib", 0},         {"ipath", 0},  {"ionic_", 0}, {"efa_", 0},   {"hns_", 0},   {"irdma", 0},
    {"bnxt_re", 0},     {"cxgb4_", 0}, {"rxe", 0},    {"siw", 0},    {"ibp", -1},   {"ibs", -1},
    {"ibo", -1},        {"ibx", -1},   {"rocep", -1}, {"roces", -1}, {"roceo", -1}, {"rocex", -1},
};

static int is_device(struct weft_span word, uint32_t *rail)
{
    for (size_t i = 0; i < sizeof device_names / sizeof *device_names; i++) {
        if (!weft_span_starts(word, device_names[i].prefix))
            continue;
        size_t length = strlen(device_names[i].prefix);
        struct weft_cursor cursor = {word.data + length, word.data + word.size, 0};
        uint32_t number;
        if (!weft_line_take_number(&cursor, 4095, &number))
            continue;
        int counted = device_names[i].rail_from >= 0 && cursor.at == cursor.end &&
                      number >= (uint32_t)device_names[i].rail_from;
        *rail = counted ? number - (uint32_t)device_names[i].rail_from : WEFT_IBNET_NONE;
        return 1;
    }
    return 0;
}

static int is_common_name(struct weft_span host)
{
    static const char *const names[] = {"localhost", "localhost.localdomain", "(none)", "unknown"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (weft_span_is_any_case(host, names[i]))
            return 1;
    }
    return 0;
}

/* Of one word or two, with the device last; else both parts are empty. Letters that no host's name has end the guessing. */
static struct parts take_parts(struct weft_span description, uint32_t *rail)
{
    struct weft_cursor cursor = {description.data, description.data + description.size, 0};
    struct parts none = {{"", 0}, {"", 0}}, parts = none;
    weft_line_skip_blanks(&cursor);
    weft_line_take_word(&cursor, &parts.host);
    weft_line_skip_blanks(&cursor);
    weft_line_take_word(&cursor, &parts.device);
    weft_line_skip_blanks(&cursor);
    *rail = WEFT_IBNET_NONE;
    if (cursor.at < cursor.end || !parts.host.size)
        return none;
    if (!parts.device.size && is_device(parts.host, rail))
        return (struct parts){{"", 0}, parts.host};
    if (parts.device.size && !is_device(parts.device, rail))
        return none;
    for (size_t i = 0; i < parts.host.size; i++) {
        unsigned char letter = (unsigned char)parts.host.data[i];
        if (letter <= ' ' || letter >= 0x7f || letter == '"' || letter == '/')
            parts.host.size = 0;
    }
    return is_common_name(parts.host) ? (struct parts){{"", 0}, parts.device} : parts;
}

/* A host of that text's name, which is new. */
static int add_host(struct finder *f, const char *name, uint32_t line, uint32_t *host)
{
    struct weft_ibnet *net = f->net;
    const char *copy = weft_graph_string(net->graph, name);
    if (!copy)
        return weft_fail(WEFT_NOMEM, "no memory for the hosts of a fabric");
    int status = weft_ibnet_grow((void **)&net->hosts, net->host_count, &net->host_room, sizeof *net->hosts);
    if (status)
        return status;
    net->hosts[net->host_count] =
        (struct weft_ibnet_host){.name = copy, .line = line, .node = WEFT_NODE_NONE};
    *host = net->host_count++;
    return 0;
}

static struct weft_span span_of(const char *text)
{
    return (struct weft_span){text, strlen(text)};
}

/* The host of that name, made when it is new. */
static int host_by_name(struct finder *f, struct weft_span name, uint32_t line, uint32_t *host)
{
    char text[WEFT_NAME_SIZE_MAX];
    if (weft_names_find(&f->hosts, name, host))
        return 0;
    memcpy(text, name.data, name.size);
    text[name.size] = '\0';
    int status = add_host(f, text, line, host);
    return status ? status : weft_names_put(&f->hosts, span_of(f->net->hosts[*host].name), *host, host);
}

/* Whether the node is the second with its host's and device's name, and not a second function of the same card. */
static int comes_twice(struct finder *f, uint32_t at, const struct parts *parts, int *twice)
{
    struct weft_ibnet_node *nodes = f->net->nodes;
    char text[2 * WEFT_NAME_SIZE_MAX];
    uint32_t first;
    snprintf(text, sizeof text, "%.*s %.*s", (int)parts->host.size, parts->host.data, (int)parts->device.size,
             parts->device.data);
    const char *copy = weft_graph_string(f->net->graph, text);
    if (!copy)
        return weft_fail(WEFT_NOMEM, "no memory for the hosts of a fabric");
    int status = weft_names_put(&f->descriptions, span_of(copy), at, &first);
    if (status)
        return status;
    int one_card = nodes[at].system_guid && nodes[at].system_guid == nodes[first].system_guid;
    *twice = first != at && !(one_card && !parts->device.size);
    return 0;
}

/* Places what can be placed by description. */
static int place_by_name(struct finder *f, uint32_t at)
{
    struct weft_ibnet_node *node = &f->net->nodes[at];
    int twice = 0;
    struct parts parts = take_parts(node->description, &node->device);
    node->device_name = parts.device;
    if (!parts.host.size)
        return 0;
    int status = host_by_name(f, parts.host, node->line, &node->host);
    if (!status)
        status = comes_twice(f, at, &parts, &twice);
    if (!status && twice)
        f->net->hosts[node->host].doubtful = 1;
    return status;
}

static uint64_t system_of(const struct weft_ibnet_node *node)
{
    return node->system_guid ? node->system_guid : node->guid;
}

static const char *system_name(const struct finder *f, const struct weft_ibnet_node *node)
{
    char text[32];
    snprintf(text, sizeof text, "host-%016llx", (unsigned long long)system_of(node));
    return weft_graph_string(f->net->graph, text);
}

/* Notes in which host the card of a placed adapter is, or that it is in several. */
static int note_system(struct finder *f, const struct weft_ibnet_node *node)
{
    const char *name = system_name(f, node);
    uint32_t host;
    if (!name)
        return weft_fail(WEFT_NOMEM, "no memory for the hosts of a fabric");
    int status = weft_names_put(&f->systems, span_of(name), node->host, &host);
    if (!status && host != node->host)
        weft_names_change(&f->systems, span_of(name), WEFT_IBNET_NONE);
    return status;
}

/* Places by system image GUID what has no host yet. Its device's name may be another's there, so it goes by its GUID. */
static int place_by_system(struct finder *f, struct weft_ibnet_node *node)
{
    const char *name = system_name(f, node);
    uint32_t host;
    if (!name)
        return weft_fail(WEFT_NOMEM, "no memory for the hosts of a fabric");
    node->device_name = (struct weft_span){"", 0};
    if (weft_names_find(&f->systems, span_of(name), &host) && host != WEFT_IBNET_NONE) {
        node->host = host;
        return 0;
    }
    return host_by_name(f, span_of(name), node->line, &node->host);
}

static int is_in_host(const struct weft_ibnet_node *node)
{
    return node->kind == WEFT_IBNET_ADAPTER && !node->aggregates;
}

static void note_guids(struct weft_ibnet *net)
{
    for (uint32_t i = 0; i < net->node_count; i++) {
        const struct weft_ibnet_node *node = &net->nodes[i];
        if (!is_in_host(node))
            continue;
        struct weft_ibnet_host *host = &net->hosts[node->host];
        if (host->adapters++ == 0)
            host->system_guid = system_of(node);
        else if (host->system_guid != system_of(node))
            host->system_guid = 0;
    }
}

int weft_ibnet_find_hosts(struct weft_ibnet *net)
{
    struct finder f = {.net = net};
    int status = 0;
    for (uint32_t i = 0; i < net->node_count && !status; i++) {
        if (is_in_host(&net->nodes[i]))
            status = place_by_name(&f, i);
    }
    for (uint32_t i = 0; i < net->node_count && !status; i++) {
        struct weft_ibnet_node *node = &net->nodes[i];
        if (node->host != WEFT_IBNET_NONE && net->hosts[node->host].doubtful)
            node->host = WEFT_IBNET_NONE;
        if (node->host != WEFT_IBNET_NONE)
            status = note_system(&f, node);
    }
    for (uint32_t i = 0; i < net->node_count && !status; i++) {
        struct weft_ibnet_node *node = &net->nodes[i];
        if (is_in_host(node) && node->host == WEFT_IBNET_NONE)
            status = place_by_system(&f, node);
    }
    if (!status)
        note_guids(net);
    weft_names_free(&f.hosts);
    weft_names_free(&f.descriptions);
    weft_names_free(&f.systems);
    return status;
}
