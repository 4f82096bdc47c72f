/* SPDX-License-Identifier: Apache-2.0 */
/* From the elements of NCCL's XML to nodes of the graph, and the attributes that writing them again needs. */
#include <stdio.h>
#include <string.h>

#include "topo/machines/nccl.h"

#define SPEED_MAX 100000000 /* Mb/s: 100 Tb/s, which no net has */
#define NAME_SIZE 512       /* the file's name of a thing with a number behind; the graph refuses long ones */

/* --- attributes */

static int keep(struct weft_nccl_file *file, uint32_t element, const char *name, const char *value)
{
    int status = weft_graph_set_attribute(file->graph, file->marks[element].node, name, value);
    return weft_nccl_failed(file, element, status);
}

/* busid is the node's address and needs no attribute. */
static int keep_attributes(struct weft_nccl_file *file, uint32_t element)
{
    enum weft_nccl_kind kind = file->marks[element].kind;
    struct weft_xml_element view = weft_xml_tree_element(&file->tree, element);
    int status = WEFT_OK;
    for (const char *const *at = view.attributes; *at && !status; at += 2) {
        char name[NAME_SIZE];
        int known = weft_nccl_attribute_is_known(kind, at[0]);
        if (kind == WEFT_NCCL_PCI && strcmp(at[0], "busid") == 0)
            continue;
        int size = known ? snprintf(name, sizeof name, "%s", at[0])
                         : snprintf(name, sizeof name, "%s.%s", weft_nccl_kind_name(kind), at[0]);
        status = size < NAME_SIZE ? keep(file, element, name, at[1])
                                  : weft_xml_fail(&view, "<%s> has an attribute with a name of %zu bytes",
                                                  view.name, strlen(at[0]));
    }
    return status;
}

/* Adds text to tag with what XML reserves escaped; 0 when there is no room. */
static int tag_add(char *tag, size_t capacity, size_t *used, const char *text, int escape)
{
    for (; *text; text++) {
        const char *as = escape && *text == '&'   ? "&amp;"
                         : escape && *text == '<' ? "&lt;"
                         : escape && *text == '"' ? "&quot;"
                                                  : NULL;
        size_t size = as ? strlen(as) : 1;
        if (*used + size + 1 > capacity)
            return 0;
        memcpy(tag + *used, as ? as : text, size);
        *used += size;
    }
    tag[*used] = '\0';
    return 1;
}

/* An element that becomes no node of its own: its tag without the brackets, as an attribute of what it lies in. */
static int keep_leaf(struct weft_nccl_file *file, uint32_t element)
{
    uint32_t owner = file->tree.nodes[element].parent;
    struct weft_xml_element view = weft_xml_tree_element(&file->tree, element);
    char name[32], tag[4096];
    size_t used = 0;
    uint32_t number = file->marks[element].number;
    if (file->tree.nodes[element].child_first != WEFT_XML_NONE)
        return weft_xml_fail(&view,
                             "<%.64s> has elements within: expected none in what the format does not define",
                             view.name);
    if (number >= WEFT_NCCL_LEAVES_MAX)
        return weft_xml_fail(&view, "<%.64s> is one of more than %d links and unknown elements in one <%s>",
                             view.name, WEFT_NCCL_LEAVES_MAX, file->tree.nodes[owner].name);
    int fits = tag_add(tag, sizeof tag, &used, view.name, 0);
    for (const char *const *at = view.attributes; *at && fits; at += 2)
        fits = tag_add(tag, sizeof tag, &used, " ", 0) && tag_add(tag, sizeof tag, &used, at[0], 0) &&
               tag_add(tag, sizeof tag, &used, "=\"", 0) && tag_add(tag, sizeof tag, &used, at[1], 1) &&
               tag_add(tag, sizeof tag, &used, "\"", 0);
    if (!fits)
        return weft_xml_fail(&view, "<%.64s> has more than %zu bytes", view.name, sizeof tag - 1);
    snprintf(name, sizeof name, "%s/%u", weft_nccl_kind_name(file->marks[owner].kind), number);
    return keep(file, owner, name, tag);
}

/* What the node stands for. */
static int keep_origin(struct weft_nccl_file *file, uint32_t element)
{
    enum weft_nccl_kind kind = file->marks[element].kind;
    uint32_t device = kind == WEFT_NCCL_PCI ? file->marks[element].device : WEFT_XML_NONE;
    if (device == WEFT_XML_NONE)
        return keep(file, element, "nccl", weft_nccl_kind_name(kind));
    return keep(file, element, "nccl", file->marks[device].kind == WEFT_NCCL_GPU ? "pci gpu" : "pci nic");
}

/* --- nodes */

static int add(struct weft_nccl_file *file, uint32_t element, const struct weft_node_given *given)
{
    uint32_t node;
    int status = weft_graph_add_node(file->graph, given, &node);
    if (status)
        return weft_nccl_failed(file, element, status);
    file->marks[element].node = node;
    status = keep_origin(file, element);
    return status ? status : keep_attributes(file, element);
}

static int64_t integer_of(const struct weft_nccl_file *file, uint32_t element, const char *name,
                          int64_t missing)
{
    struct weft_xml_element view = weft_xml_tree_element(&file->tree, element);
    int64_t value = missing;
    const char *text = weft_xml_attribute(&view, name);
    if (text && *text)
        weft_xml_integer(&view, name, INT64_MIN, INT64_MAX, missing, &value); /* was checked */
    return value;
}

/* The name, with "#2" behind where it is the second of its kind. */
static void name_set(char name[NAME_SIZE], const char *base, uint32_t number)
{
    if (number)
        snprintf(name, NAME_SIZE, "%.400s#%u", base, number + 1);
    else
        snprintf(name, NAME_SIZE, "%.400s", base);
}

/* The system's name and attributes are its hosts'. */
static int add_host(struct weft_nccl_file *file, uint32_t *host)
{
    char name[NAME_SIZE];
    uint32_t count = file->host_count++;
    const char *given = weft_nccl_value(file, 0, "name");
    if (given && *given)
        name_set(name, given, count);
    else
        snprintf(name, sizeof name, "host%u", count);
    struct weft_node_given node = WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, name);
    int status = add(file, 0, &node);
    *host = file->marks[0].node;
    return status;
}

static int add_numa(struct weft_nccl_file *file, uint32_t element)
{
    uint32_t first = file->marks[element].host, host;
    int status = WEFT_OK;
    if (first == element)
        status = add_host(file, &host);
    else
        host = file->graph->nodes[file->marks[first].node].parent;
    if (status)
        return status;
    int64_t index = integer_of(file, element, "numaid", -1);
    char name[NAME_SIZE] = "numa";
    if (index >= 0)
        snprintf(name, sizeof name, "numa%lld", (long long)index);
    struct weft_node_given node = WEFT_NODE_GIVEN(WEFT_NODE_NUMA, host, name);
    node.index = (int32_t)index;
    return add(file, element, &node);
}

/* NCCL's IB transport tells the system image GUID as the verbs give it, in network order, printed as a number of a
 * little-endian machine. */
static uint64_t guid_of(const struct weft_nccl_file *file, uint32_t nic)
{
    uint64_t guid = 0;
    for (uint32_t net = file->tree.nodes[nic].child_first; net != WEFT_XML_NONE && !guid;
         net = file->tree.nodes[net].next) {
        struct weft_xml_element view = weft_xml_tree_element(&file->tree, net);
        if (file->marks[net].kind == WEFT_NCCL_NET)
            weft_xml_unsigned(&view, "guid", UINT64_MAX, 0, &guid); /* was checked */
    }
    return __builtin_bswap64(guid);
}

/* Linux says "Unknown" and "Unknown speed", NCCL "" where it cannot ask. */
static int pci_rate(const struct weft_nccl_file *file, uint32_t element, uint64_t *bytes_per_s)
{
    const char *speed = weft_nccl_value(file, element, "link_speed");
    int64_t width = integer_of(file, element, "link_width", 0);
    double gigatransfers;
    *bytes_per_s = 0;
    if (!speed || !*speed || strncmp(speed, "Unknown", 7) == 0)
        return WEFT_OK;
    int status = weft_pci_speed_parse(speed, &gigatransfers);
    if (status)
        return weft_read_fail(file->text, file->tree.nodes[element].line,
                              "<pci> has link_speed=\"%.64s\", expected one like \"16.0 GT/s\"", speed);
    *bytes_per_s = weft_pci_bytes_per_s(gigatransfers, (unsigned)width);
    return WEFT_OK;
}

/* What a gpu or nic says of its node, which may be its pci's. */
static void describe_device(const struct weft_nccl_file *file, uint32_t element, struct weft_node_given *node,
                            char name[NAME_SIZE])
{
    const struct weft_nccl_mark *mark = &file->marks[element];
    char base[NAME_SIZE];
    if (node->kind == WEFT_NODE_GPU) {
        node->index = (int32_t)weft_nccl_gpu_index(file, element);
        snprintf(base, sizeof base, "gpu%d", node->index);
        name_set(name, base, mark->number);
        return;
    }
    const char *given = weft_nccl_net_name(file, element);
    node->index = mark->order;
    node->guid = mark->kind == WEFT_NCCL_NIC ? guid_of(file, element) : 0;
    snprintf(base, sizeof base, "nic%d", mark->order);
    name_set(name, given ? given : base, given ? mark->number : 0);
}

static int add_pci(struct weft_nccl_file *file, uint32_t element)
{
    struct weft_nccl_mark *mark = &file->marks[element];
    char name[NAME_SIZE];
    struct weft_node_given node =
        WEFT_NODE_GIVEN(mark->becomes, file->marks[file->tree.nodes[element].parent].node, name);
    node.pci = weft_nccl_value(file, element, "busid");
    node.parent_pci = 1;
    int status = pci_rate(file, element, &node.parent_bytes_per_s);
    if (status)
        return status;
    if (mark->becomes == WEFT_NODE_GPU || mark->becomes == WEFT_NODE_NIC) {
        describe_device(file, mark->device == WEFT_XML_NONE ? element : mark->device, &node, name);
    } else {
        name_set(name, mark->pci, mark->number);
        const char *class = weft_nccl_value(file, element, "class");
        if (mark->becomes == WEFT_NODE_BRIDGE && class && strncmp(class, "0x0604", 6) == 0) {
            node.bridge = WEFT_BRIDGE_SWITCH;
            node.flags = WEFT_BRIDGE_WHOLE;
        }
    }
    return add(file, element, &node);
}

/* A gpu or nic: one node with its pci, or one of several in it, or a nic that lies on no PCI. */
static int add_device(struct weft_nccl_file *file, uint32_t element)
{
    uint32_t parent = file->tree.nodes[element].parent;
    struct weft_nccl_mark *mark = &file->marks[element];
    if (file->marks[parent].device == element) {
        mark->node = file->marks[parent].node;
        return keep_attributes(file, element);
    }
    char name[NAME_SIZE];
    struct weft_node_given node = WEFT_NODE_GIVEN(mark->kind == WEFT_NCCL_GPU ? WEFT_NODE_GPU : WEFT_NODE_NIC,
                                                  file->marks[parent].node, name);
    if (file->marks[parent].kind == WEFT_NCCL_PCI)
        node.pci = weft_nccl_value(file, parent, "busid");
    describe_device(file, element, &node, name);
    return add(file, element, &node);
}

static int add_port(struct weft_nccl_file *file, uint32_t element)
{
    uint32_t nic = file->tree.nodes[element].parent;
    const char *given = weft_nccl_port_name(file, element), *port = weft_nccl_value(file, element, "port");
    const char *latency = weft_nccl_value(file, element, "latency");
    char base[NAME_SIZE], name[NAME_SIZE];
    double microseconds = 0;
    int64_t speed = integer_of(file, element, "speed", 0), number = integer_of(file, element, "port", -1);
    if (given && given != port)
        snprintf(base, sizeof base, "%.400s", given);
    else /* as other sources call ports */
        snprintf(base, sizeof base, "%.300s:%.80s", file->graph->nodes[file->marks[nic].node].name,
                 given ? given : "port");
    name_set(name, base, file->marks[element].number);
    struct weft_node_given node = WEFT_NODE_GIVEN(WEFT_NODE_PORT, file->marks[nic].node, name);
    node.index = number > 0 ? (int32_t)number : -1;
    if (speed > SPEED_MAX)
        weft_nccl_odd(file, WEFT_NCCL_ODD_SPEED, file->tree.nodes[element].line,
                      "<net> has speed=\"%lld\", which are more than 100 Tb/s: its rate is unknown",
                      (long long)speed);
    else if (speed > 0)
        node.bytes_per_s = (uint64_t)speed * 125000;
    if (latency && weft_nccl_decimal(latency, &microseconds) == 0 && microseconds < 1e6)
        node.parent_latency_ns = (uint32_t)(microseconds * 1000 + 0.5);
    return add(file, element, &node);
}

static int add_element(struct weft_nccl_file *file, uint32_t element)
{
    switch ((enum weft_nccl_kind)file->marks[element].kind) {
    case WEFT_NCCL_SYSTEM: /* the first cpu of each host stands for it */
        return WEFT_OK;
    case WEFT_NCCL_CPU:
        return add_numa(file, element);
    case WEFT_NCCL_PCI:
        return add_pci(file, element);
    case WEFT_NCCL_GPU:
    case WEFT_NCCL_NIC:
        return add_device(file, element);
    case WEFT_NCCL_NET:
        return add_port(file, element);
    default:
        return file->tree.nodes[element].parent == 0 ? WEFT_OK : keep_leaf(file, element);
    }
}

int weft_nccl_nodes(struct weft_nccl_file *file)
{
    int status = WEFT_OK;
    for (uint32_t i = 0; i < file->tree.count && status == WEFT_OK; i++)
        status = add_element(file, i);
    if (status == WEFT_OK && file->graph->node_count == 0)
        return weft_read_fail(file->text, file->tree.nodes[0].line, "<system> has no <cpu>");
    /* What lies in the system itself is the first host's. */
    file->marks[0].node = weft_graph_first(file->graph, WEFT_NODE_NONE);
    for (uint32_t i = file->tree.nodes[0].child_first; i != WEFT_XML_NONE && status == WEFT_OK;
         i = file->tree.nodes[i].next) {
        if (file->marks[i].kind == WEFT_NCCL_OTHER)
            status = keep_leaf(file, i);
    }
    return status;
}
