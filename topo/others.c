/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/others.h"

#include <string.h>

#define FABRIC  "the fabric from what ibnetdiscover prints: ibnetdiscover > FILE"
#define MACHINE "a machine from hwloc's XML: lstopo --of xml > FILE"
#define NVLINK  "links between GPUs from the XML that NCCL writes: NCCL_TOPO_DUMP_FILE=FILE"
#define NETWORK "the network from topology.conf, topology.yaml or what \"scontrol show topology\" prints"
#define LABEL   "network.topology.nvidia.com/"
#define PACKED  "it when it is unpacked"
#define UTF_8   "text in ASCII or UTF-8"

enum place { BEGIN, INSIDE, WHOLE };

/* A line, blanks before it left out, that has `text` at its begin, anywhere or as all that it is, and `also`, where that is
 * given, anywhere. */
struct pattern {
    enum place place;
    const char *text, *also;
    struct weft_topo_other other;
};

static const struct pattern lines[] = {
    {INSIDE, "==(", ")==>", {"what iblinkinfo prints", FABRIC}},
    {BEGIN, "{ SW", "SystemGUID:", {"the list of links that opensm and ibdiagnet write", FABRIC}},
    {BEGIN, "{ CA", "SystemGUID:", {"the list of links that opensm and ibdiagnet write", FABRIC}},
    {BEGIN, "CA '", NULL, {"what ibstat prints", FABRIC}},
    {BEGIN, "hca_id:", NULL, {"what ibv_devinfo prints", MACHINE}},
    {BEGIN, "Machine (", NULL, {"what lstopo prints as text", MACHINE}},
    {BEGIN, "Machine L#", NULL, {"what lstopo prints as text", MACHINE}},
    {BEGIN, "[NUMANode(", NULL, {"hwloc's synthetic description", MACHINE}},
    {BEGIN, "Package:", "PU:", {"hwloc's synthetic description", MACHINE}},
    {BEGIN, "NUMANode:", "PU:", {"hwloc's synthetic description", MACHINE}},
    {BEGIN, "-[0000:", NULL, {"what lspci -t prints", MACHINE}},
    {BEGIN, "-+-[", NULL, {"what lspci -t prints", MACHINE}},
    {INSIDE, "GPU0", "Affinity", {"what \"nvidia-smi topo -m\" prints", NVLINK}},
    {INSIDE, "ROCm System Management Interface", NULL, {"what rocm-smi prints", NVLINK}},
    {INSIDE, " NCCL INFO ", NULL, {"NCCL's log", NVLINK}},
    {BEGIN, "NodeName=", NULL, {"what slurm.conf and \"scontrol show node\" say of nodes", NETWORK}},
    {BEGIN, "PartitionName=", NULL, {"what slurm.conf and \"scontrol show partition\" say", NETWORK}},
    {BEGIN, "ClusterName=", NULL, {"slurm.conf", NETWORK}},
    {BEGIN, "SlurmctldHost=", NULL, {"slurm.conf", NETWORK}},
    {BEGIN, "Configuration data as of", NULL, {"what \"scontrol show config\" prints", NETWORK}},
    {BEGIN, "PARTITION ", "NODELIST", {"what sinfo prints", NETWORK}},
    {INSIDE, LABEL, NULL, {"labels that topograph gives to nodes of Kubernetes", NETWORK}},
    {INSIDE,
     "\"network_layers\"",
     NULL,
     {"what topograph's engine graph writes, with instances for hosts", NETWORK}},
    {WHOLE, "kind: ConfigMap", NULL, {"an object of Kubernetes around a file", "that file alone"}},
    {BEGIN, "\"kind\": \"ConfigMap\"", NULL, {"an object of Kubernetes around a file", "that file alone"}},
    {BEGIN,
     "{\"apiVersion\":",
     "\"kind\":\"ConfigMap\"",
     {"an object of Kubernetes around a file", "that file alone"}},
    {WHOLE, "kind: Node", NULL, {"a node of Kubernetes", NETWORK}},
    {BEGIN, "\"kind\": \"Node\"", NULL, {"a node of Kubernetes", NETWORK}},
    {BEGIN,
     "\"program\": \"weft-topo\"",
     NULL,
     {"what weft-topo prints with --format json",
      "what it was made from, or NCCL's XML: weft-topo --format xml"}},
    {BEGIN, "digraph ", "{", {"a drawing for Graphviz", "what it was made from"}},
    {BEGIN, "graph ", "{", {"a drawing for Graphviz", "what it was made from"}},
};

static const struct pattern roots[] = {
    {WHOLE,
     "graphs",
     NULL,
     {"NCCL's file of graphs (NCCL_GRAPH_DUMP_FILE), the paths that it has chosen",
      "the machine that they were chosen for: NCCL_TOPO_DUMP_FILE=FILE"}},
    {WHOLE, "topologydiff", NULL, {"the difference of two topologies of hwloc", MACHINE}},
    {WHOLE, "svg", NULL, {"a picture", "what it was made from"}},
};

static const struct {
    const char *bytes;
    size_t size;
    struct weft_topo_other other;
} begins[] = {
    {"\x1f\x8b", 2, {"packed by gzip", PACKED}},
    {"\x28\xb5\x2f\xfd", 4, {"packed by zstd", PACKED}},
    {"\xfd"
     "7zXZ",
     5,
     {"packed by xz", PACKED}},
    {"BZh", 3, {"packed by bzip2", PACKED}},
    {"\xff\xfe", 2, {"text in UTF-16", UTF_8}},
    {"\xfe\xff", 2, {"text in UTF-16", UTF_8}},
};

static int has(struct weft_span line, const char *text)
{
    return memmem(line.data, line.size, text, strlen(text)) != NULL;
}

/* Without blanks around it; Windows' ends of lines are blanks. */
static struct weft_span trim(struct weft_span line)
{
    while (line.size && strchr(" \t\r", *line.data) && *line.data)
        line = (struct weft_span){line.data + 1, line.size - 1};
    while (line.size && strchr(" \t\r", line.data[line.size - 1]) && line.data[line.size - 1])
        line.size--;
    return line;
}

static const struct weft_topo_other *find(const struct pattern *patterns, size_t count, struct weft_span line)
{
    for (size_t i = 0; i < count; i++) {
        const struct pattern *p = &patterns[i];
        int is = p->place == BEGIN    ? weft_span_starts(line, p->text)
                 : p->place == INSIDE ? has(line, p->text)
                                      : weft_span_is(line, p->text);
        if (is && (!p->also || has(line, p->also)))
            return &p->other;
    }
    return NULL;
}

const struct weft_topo_other *weft_topo_other_line(struct weft_span line)
{
    return find(lines, sizeof lines / sizeof *lines, trim(line));
}

int weft_topo_other_is_object(struct weft_span line)
{
    return weft_span_starts(line, "apiVersion:");
}

const struct weft_topo_other *weft_topo_other_of_object(const struct weft_span *line)
{
    static const struct weft_topo_other object = {"an object of Kubernetes",
                                                  "the file or the topology in it alone"};
    if (!line)
        return &object;
    struct weft_span text = trim(*line);
    return weft_span_starts(text, "kind:") || has(text, LABEL) ? weft_topo_other_line(*line) : NULL;
}

const struct weft_topo_other *weft_topo_other_root(struct weft_span name)
{
    return find(roots, sizeof roots / sizeof *roots, name);
}

const struct weft_topo_other *weft_topo_other_bytes(struct weft_span text)
{
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        if (text.size >= begins[i].size && memcmp(text.data, begins[i].bytes, begins[i].size) == 0)
            return &begins[i].other;
    }
    return NULL;
}
