/* SPDX-License-Identifier: Apache-2.0 */
/* What the elements of NCCL's XML are, before anything is made of them. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/machines/nccl.h"

/* --- what lies in what */

#define IN(k) (1u << WEFT_NCCL_##k)

/* What an element may lie in; 0: in nothing, as the root. */
static const unsigned parents_of[WEFT_NCCL_KIND_COUNT] = {
    [WEFT_NCCL_SYSTEM] = 0,
    [WEFT_NCCL_CPU] = IN(SYSTEM),
    [WEFT_NCCL_PCI] = IN(CPU) | IN(PCI),
    [WEFT_NCCL_GPU] = IN(PCI),
    [WEFT_NCCL_NIC] = IN(CPU) | IN(PCI),
    [WEFT_NCCL_NET] = IN(NIC),
    [WEFT_NCCL_NVLINK] = IN(GPU),
    [WEFT_NCCL_XGMI] = IN(GPU),
    [WEFT_NCCL_C2C] = IN(GPU),
    [WEFT_NCCL_PCILINK] = IN(PCI),
    [WEFT_NCCL_OTHER] = IN(SYSTEM) | IN(CPU) | IN(PCI) | IN(GPU) | IN(NIC) | IN(NET),
};

static int check_place(const struct weft_nccl_file *file, uint32_t element)
{
    const struct weft_xml_node *node = &file->tree.nodes[element];
    struct weft_xml_element view = weft_xml_tree_element(&file->tree, element);
    enum weft_nccl_kind kind = file->marks[element].kind;
    if (node->parent == WEFT_XML_NONE)
        return kind == WEFT_NCCL_SYSTEM
                   ? WEFT_OK
                   : weft_xml_fail(&view, "the root is <%.64s>, expected <system>", view.name);
    enum weft_nccl_kind within = file->marks[node->parent].kind;
    if (parents_of[kind] & 1u << within)
        return WEFT_OK;
    const char *where = file->tree.nodes[node->parent].name;
    switch (kind) {
    case WEFT_NCCL_OTHER:
        return weft_xml_fail(&view, "<%.64s> within <%.64s>, expected nothing there", view.name, where);
    case WEFT_NCCL_SYSTEM:
        return weft_xml_fail(&view, "<system> within <%.64s>, expected only as the root", where);
    case WEFT_NCCL_PCI:
    case WEFT_NCCL_NIC:
        return weft_xml_fail(&view, "<%s> within <%.64s>, expected within <cpu> or <pci>", view.name, where);
    default: /* the others have one place */
        within = 0;
        while (parents_of[kind] != 1u << within)
            within++;
        return weft_xml_fail(&view, "<%s> within <%.64s>, expected within <%s>", view.name, where,
                             weft_nccl_kind_name(within));
    }
}

static int classify(struct weft_nccl_file *file)
{
    int status = WEFT_OK;
    for (uint32_t i = 0; i < file->tree.count && status == WEFT_OK; i++) {
        struct weft_xml_element view = weft_xml_tree_element(&file->tree, i);
        struct weft_nccl_mark *mark = &file->marks[i];
        mark->kind = (uint8_t)weft_nccl_kind_find(view.name);
        mark->host = mark->node = mark->device = WEFT_XML_NONE;
        status = check_place(file, i);
        if (mark->kind > WEFT_NCCL_NET && file->tree.nodes[i].parent != WEFT_XML_NONE)
            mark->number = file->marks[file->tree.nodes[i].parent].leaves++;
        if (status == WEFT_OK)
            status = weft_nccl_check(file, i);
    }
    return status;
}

/* --- what a pci is */

/* The base class and subclass, 0x0302 of "0x030200"; NCCL itself writes "0x03" where it knows no more. */
static unsigned class_of(const char *text)
{
    unsigned value = 0;
    size_t digits = 0;
    for (const char *at = text + 2 * (text[0] == '0' && (text[1] | 0x20) == 'x'); *at && digits < 4;
         at++, digits++)
        value = value << 4 | (unsigned)(*at <= '9' ? *at - '0' : (*at | 0x20) - 'a' + 10);
    return digits >= 4 ? value : value << 4 * (4 - digits);
}

static enum weft_node_kind kind_by_class(const char *text)
{
    unsigned class = text ? class_of(text) : 0;
    switch (class >> 8) {
    case 0x03: /* display */
    case 0x12: /* processing accelerator */
        return WEFT_NODE_GPU;
    case 0x02: /* network */
        return WEFT_NODE_NIC;
    default:
        return class == 0x0604 ? WEFT_NODE_BRIDGE : WEFT_NODE_DEVICE; /* 0604: PCI bridge */
    }
}

static void decide_pci(struct weft_nccl_file *file, uint32_t element)
{
    struct weft_nccl_mark *mark = &file->marks[element];
    uint32_t devices = 0, inner = 0, device = WEFT_XML_NONE;
    for (uint32_t c = file->tree.nodes[element].child_first; c != WEFT_XML_NONE;
         c = file->tree.nodes[c].next) {
        enum weft_nccl_kind kind = file->marks[c].kind;
        if (kind == WEFT_NCCL_GPU || kind == WEFT_NCCL_NIC) {
            devices++;
            device = c;
        }
        inner += kind == WEFT_NCCL_PCI;
    }
    if (devices == 1 && inner == 0) {
        mark->device = device;
        mark->becomes = file->marks[device].kind == WEFT_NCCL_GPU ? WEFT_NODE_GPU : WEFT_NODE_NIC;
    } else {
        mark->becomes =
            devices + inner ? WEFT_NODE_BRIDGE : kind_by_class(weft_nccl_value(file, element, "class"));
    }
}

/* --- what appears twice */

static int compare_text(const char *a, const char *b)
{
    return a == b ? 0 : !a ? -1 : !b ? 1 : strcmp(a, b);
}

static int same_key(const struct weft_nccl_key *a, const struct weft_nccl_key *b)
{
    return a->group == b->group && a->number == b->number && compare_text(a->text, b->text) == 0;
}

static int compare_keys(const void *left, const void *right)
{
    const struct weft_nccl_key *a = left, *b = right;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    int by_text = compare_text(a->text, b->text);
    return by_text ? by_text : a->element < b->element ? -1 : a->element > b->element;
}

static void sort_keys(struct weft_nccl_key *keys, uint32_t count)
{
    if (count)
        qsort(keys, count, sizeof *keys, compare_keys);
}

/* Tells each element how many with its key came before. */
static void number_keys(struct weft_nccl_file *file, struct weft_nccl_key *keys, uint32_t count)
{
    sort_keys(keys, count);
    for (uint32_t i = 1; i < count; i++) {
        if (same_key(&keys[i - 1], &keys[i]))
            file->marks[keys[i].element].number = file->marks[keys[i - 1].element].number + 1;
    }
}

/* The hosts by their hash; the first cpu of each stands for it. */
static void find_hosts(struct weft_nccl_file *file, struct weft_nccl_key *keys)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < file->tree.count; i++) {
        if (file->marks[i].kind != WEFT_NCCL_CPU)
            continue;
        struct weft_xml_element view = weft_xml_tree_element(&file->tree, i);
        uint64_t hash = 0;
        weft_xml_unsigned(&view, "host_hash", UINT64_MAX, 0, &hash); /* was checked */
        /* Not told is not the same as 0: a host's cpus either all tell it or none does. */
        const char *given = weft_xml_attribute(&view, "host_hash") ? "told" : NULL;
        keys[count++] = (struct weft_nccl_key){.number = hash, .text = given, .element = i};
    }
    sort_keys(keys, count);
    for (uint32_t i = 0; i < count; i++)
        file->marks[keys[i].element].host =
            i && same_key(&keys[i - 1], &keys[i]) ? file->marks[keys[i - 1].element].host : keys[i].element;
    for (uint32_t i = 1; i < file->tree.count; i++) {
        if (file->marks[i].kind != WEFT_NCCL_CPU)
            file->marks[i].host = file->marks[file->tree.nodes[i].parent].host;
    }
}

static int check_numa(const struct weft_nccl_file *file, struct weft_nccl_key *keys)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < file->tree.count; i++) {
        if (file->marks[i].kind != WEFT_NCCL_CPU)
            continue;
        struct weft_xml_element view = weft_xml_tree_element(&file->tree, i);
        int64_t number = 0;
        weft_xml_integer(&view, "numaid", -1, INT32_MAX, 0, &number); /* was checked */
        keys[count++] = (struct weft_nccl_key){
            .group = file->marks[i].host, .number = (uint64_t)(number + 1), .element = i};
    }
    sort_keys(keys, count);
    for (uint32_t i = 1; i < count; i++) {
        if (same_key(&keys[i - 1], &keys[i]))
            return weft_read_fail(file->text, file->tree.nodes[keys[i].element].line,
                                  "numaid %lld again, which line %u has for the same host",
                                  (long long)keys[i].number - 1, file->tree.nodes[keys[i - 1].element].line);
    }
    return WEFT_OK;
}

/* A canonical address as a number: its digits. */
static uint64_t address_number(const char *canonical)
{
    uint64_t number = 0;
    for (const char *at = canonical; *at; at++) {
        if (*at != ':' && *at != '.')
            number = number << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
    }
    return number;
}

/* RCCL's files have one address for several switches, which says nothing. Where others share one, links that name it mean the
 * first GPU there. */
static void address_again(struct weft_nccl_file *file, uint32_t first, uint32_t again)
{
    struct weft_nccl_key *keys = file->addresses;
    const struct weft_nccl_mark *one = &file->marks[keys[first].element],
                                *other = &file->marks[keys[again].element];
    if (one->becomes == WEFT_NODE_BRIDGE && other->becomes == WEFT_NODE_BRIDGE)
        return;
    weft_nccl_odd(file, WEFT_NCCL_ODD_ADDRESS, file->tree.nodes[keys[again].element].line,
                  "busid %s again, which line %u has: links that name it lead to the first GPU there",
                  other->pci, file->tree.nodes[keys[first].element].line);
    if (one->becomes != WEFT_NODE_GPU && other->becomes == WEFT_NODE_GPU) {
        struct weft_nccl_key moved = keys[first];
        keys[first] = keys[again];
        keys[again] = moved;
    }
}

static int check_addresses(struct weft_nccl_file *file)
{
    for (uint32_t i = 0; i < file->tree.count; i++) {
        struct weft_nccl_mark *mark = &file->marks[i];
        if (mark->kind != WEFT_NCCL_PCI)
            continue;
        int status = weft_pci_parse(weft_nccl_value(file, i, "busid"), mark->pci);
        if (status)
            return weft_nccl_failed(file, i, status);
        decide_pci(file, i);
        if (mark->becomes == WEFT_NODE_DEVICE && !weft_nccl_value(file, i, "class"))
            weft_nccl_odd(
                file, WEFT_NCCL_ODD_BARE, file->tree.nodes[i].line,
                "<pci> %s has no class and nothing within: NCCL asks the machine what it is, and here "
                "it is unknown",
                mark->pci);
        file->addresses[file->address_count++] =
            (struct weft_nccl_key){.group = mark->host, .number = address_number(mark->pci), .element = i};
    }
    number_keys(file, file->addresses, file->address_count);
    for (uint32_t i = 1, first = 0; i < file->address_count; i++) {
        if (same_key(&file->addresses[first], &file->addresses[i]))
            address_again(file, first, i);
        else
            first = i;
    }
    return WEFT_OK;
}

uint32_t weft_nccl_at(const struct weft_nccl_file *file, uint32_t host, const char *canonical)
{
    struct weft_nccl_key wanted = {.group = host, .number = address_number(canonical)};
    uint32_t low = 0, high = file->address_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_keys(&file->addresses[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < file->address_count && same_key(&file->addresses[low], &wanted)
               ? file->addresses[low].element
               : WEFT_XML_NONE;
}

/* --- names */

/* The element that names a GPU or NIC: itself, or the pci that has no more in it. */
static enum weft_node_kind device_kind(const struct weft_nccl_mark *mark)
{
    if (mark->kind == WEFT_NCCL_GPU)
        return WEFT_NODE_GPU;
    if (mark->kind == WEFT_NCCL_NIC)
        return WEFT_NODE_NIC;
    if (mark->kind == WEFT_NCCL_PCI && mark->device == WEFT_XML_NONE &&
        (mark->becomes == WEFT_NODE_GPU || mark->becomes == WEFT_NODE_NIC))
        return (enum weft_node_kind)mark->becomes;
    return WEFT_NODE_KIND_COUNT;
}

/* The order of GPUs and NICs in each host is counted at its first cpu, in fields that a cpu has no use for. */
static void count_devices(struct weft_nccl_file *file)
{
    for (uint32_t i = 0; i < file->tree.count; i++) {
        struct weft_nccl_mark *mark = &file->marks[i];
        enum weft_node_kind kind = device_kind(mark);
        if (kind == WEFT_NODE_GPU)
            mark->order = file->marks[mark->host].order++;
        else if (kind == WEFT_NODE_NIC)
            mark->order = (int32_t)file->marks[mark->host].number++;
    }
}

int64_t weft_nccl_gpu_index(const struct weft_nccl_file *file, uint32_t element)
{
    struct weft_xml_element view = weft_xml_tree_element(&file->tree, element);
    int64_t dev = -1;
    if (file->marks[element].kind == WEFT_NCCL_GPU)
        weft_xml_integer(&view, "dev", -1, INT32_MAX, -1, &dev); /* was checked */
    return dev >= 0 ? dev : file->marks[element].order;
}

const char *weft_nccl_net_name(const struct weft_nccl_file *file, uint32_t nic)
{
    uint32_t net = file->marks[nic].kind == WEFT_NCCL_NIC ? file->tree.nodes[nic].child_first : WEFT_XML_NONE;
    while (net != WEFT_XML_NONE && file->marks[net].kind != WEFT_NCCL_NET)
        net = file->tree.nodes[net].next;
    const char *name = net == WEFT_XML_NONE ? NULL : weft_nccl_value(file, net, "name");
    return name && *name ? name : NULL;
}

/* A port is called by its number; a net that is called otherwise than its adapter by its own name. */
const char *weft_nccl_port_name(const struct weft_nccl_file *file, uint32_t net)
{
    const char *adapter = weft_nccl_net_name(file, file->tree.nodes[net].parent);
    const char *name = weft_nccl_value(file, net, "name"), *port = weft_nccl_value(file, net, "port");
    if (name && *name && adapter && strcmp(name, adapter) != 0)
        return name;
    return port && *port ? port : NULL;
}

static uint64_t place_of(const struct weft_nccl_file *file, uint32_t element)
{
    uint32_t parent = file->tree.nodes[element].parent;
    /* The gpu or nic that makes one node with its pci stands where that does. */
    return file->marks[parent].device == element ? file->tree.nodes[parent].parent : parent;
}

static void number_names(struct weft_nccl_file *file, struct weft_nccl_key *keys)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < file->tree.count; i++) {
        if (device_kind(&file->marks[i]) == WEFT_NODE_GPU)
            keys[count++] = (struct weft_nccl_key){
                .group = file->marks[i].host, .number = (uint64_t)weft_nccl_gpu_index(file, i), .element = i};
    }
    number_keys(file, keys, count);
    count = 0;
    for (uint32_t i = 0; i < file->tree.count; i++) {
        if (device_kind(&file->marks[i]) == WEFT_NODE_NIC)
            keys[count++] = (struct weft_nccl_key){
                .group = place_of(file, i), .text = weft_nccl_net_name(file, i), .element = i};
    }
    number_keys(file, keys, count);
    count = 0;
    for (uint32_t i = 0; i < file->tree.count; i++) {
        if (file->marks[i].kind == WEFT_NCCL_NET)
            keys[count++] = (struct weft_nccl_key){
                .group = file->tree.nodes[i].parent, .text = weft_nccl_port_name(file, i), .element = i};
    }
    number_keys(file, keys, count);
}

int weft_nccl_survey(struct weft_nccl_file *file)
{
    int status = classify(file);
    if (status)
        return status;
    struct weft_nccl_key *keys = malloc(file->tree.count * sizeof *keys);
    if (!keys)
        return weft_fail(WEFT_NOMEM, "%.300s: no memory for %u elements", file->text->name, file->tree.count);
    find_hosts(file, keys);
    status = check_numa(file, keys);
    if (!status)
        status = check_addresses(file);
    if (!status) {
        count_devices(file);
        number_names(file, keys);
    }
    free(keys);
    return status;
}
