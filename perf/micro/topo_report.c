/* SPDX-License-Identifier: Apache-2.0 */
/* What ordering ranks along a fabric is worth, in figures: docs/topology-report.md. `make topo-report` writes it.
 *
 *     topo_report [--quick] [FOLDER]    FOLDER: of real topologies; without, what needs them is left out, and said so.
 *                                       --quick: what takes little time, for tests/topo/test_topo_report.sh
 *
 * Nothing is measured but the time that ordering and pricing take; the rest follows from the graphs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/weft.h>

#include "algos/proof/contend.h"
#include "algos/hosts.h"
#include "topo/discover/discover.h"
#include "topo/order.h"
#include "topo/path.h"
#include "topo/read.h"
#include "topo/report/order_load.h"

#define SEEDS 10

/* Ranks somewhere in a graph. */
struct job {
    const struct weft_graph *graph;
    uint32_t ranks;
    struct weft_place *places;
    uint32_t *nic;
};

/* xorshift64* (Marsaglia 2003; Vigna 2016): the same shuffle everywhere. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

static void shuffle(uint32_t *list, uint32_t count, uint64_t seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (uint32_t i = 0; i < count; i++)
        list[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)(next_random(&state) % i), kept = list[i - 1];
        list[i - 1] = list[other];
        list[other] = kept;
    }
}

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void must(int status)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "topo_report: %s (%s)\n", weft_strerror(status), weft_error_detail());
    exit(1);
}

static void *room(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (memory)
        return memory;
    fprintf(stderr, "topo_report: no memory\n");
    exit(1);
}

/* As many ranks on every host, each near a GPU of its own where there is one; dealt out host by host in the order of the
 * graph, then numbered anew by the seed (0: not). Hosts with fewer ports are left out. */
static void job_make(struct job *job, const struct weft_graph *graph, uint32_t ports, uint32_t ranks_per_host,
                     uint64_t seed)
{
    uint32_t hosts = weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_HOST), made = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        hosts += graph->nodes[n].kind == WEFT_NODE_HOST && graph->nodes[n].parent == WEFT_NODE_NONE;
    struct weft_place *dealt = room((size_t)hosts * ranks_per_host, sizeof *dealt);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (graph->nodes[n].kind != WEFT_NODE_HOST ||
            weft_graph_count_below(graph, n, WEFT_NODE_PORT) < ports)
            continue;
        uint32_t gpu = weft_graph_next_below(graph, n, WEFT_NODE_GPU, WEFT_NODE_NONE);
        for (uint32_t r = 0; r < ranks_per_host; r++) {
            dealt[made++] = (struct weft_place){.host = n, .near = gpu};
            if (gpu != WEFT_NODE_NONE)
                gpu = weft_graph_next_below(graph, n, WEFT_NODE_GPU, gpu);
        }
    }
    uint32_t *number = room(made, sizeof *number);
    if (seed)
        shuffle(number, made, seed);
    *job = (struct job){graph, made, room(made, sizeof *job->places), room(made, sizeof *job->nic)};
    for (uint32_t i = 0; i < made; i++)
        job->places[seed ? number[i] : i] = dealt[i];
    must(weft_order_nics(graph, job->places, made, job->nic, NULL));
    free(dealt);
    free(number);
}

static void job_free(struct job *job)
{
    free(job->places);
    free(job->nic);
}

static void ring_load(const struct job *job, const uint32_t *ring, double *highest, uint64_t *crossings)
{
    struct weft_load load;
    must(weft_load_ring(job->graph, job->places, job->ranks, job->nic, ring, &load));
    *highest = load.highest;
    *crossings = load.crossings_leaf;
    weft_load_free(&load);
}

/* The rings of all rails at once, over the least that as many rings can have. */
static double rings_ratio(const struct job *job, const struct weft_layout *layout, struct weft_load *load)
{
    struct weft_bound bound;
    must(weft_load_rings(job->graph, job->places, layout, load));
    must(weft_load_bound(job->graph, job->places, job->ranks, layout->nic, layout->ring_count, &bound));
    return bound.highest > 0 ? load->highest / bound.highest : 1;
}

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *values)
{
    qsort(values, SEEDS, sizeof *values, compare_doubles);
    return (values[SEEDS / 2 - 1] + values[SEEDS / 2]) / 2;
}

/* Rows for as many ranks per host: dealt out in order, shuffled, and weft's order of the shuffled. */
static void report_loads(const struct weft_graph *graph, uint32_t ports, uint32_t ranks_per_host)
{
    struct job job;
    double highest[3][SEEDS], crossings[3][SEEDS], worst = 0, rings = 0, rings_worst = 0;
    uint64_t crossed;
    struct weft_bound bound = {0};
    uint32_t ranks = 0, ring_count = 0;
    for (int s = 0; s < SEEDS; s++) {
        struct weft_layout *layout;
        job_make(&job, graph, ports, ranks_per_host, (uint64_t)s + 1);
        uint32_t *ring = room(job.ranks, sizeof *ring);
        ranks = job.ranks;
        for (uint32_t i = 0; i < ranks; i++)
            ring[i] = i;
        ring_load(&job, ring, &highest[0][s], &crossed);
        crossings[0][s] = (double)crossed;
        shuffle(ring, ranks, (uint64_t)s + 1000);
        ring_load(&job, ring, &highest[1][s], &crossed);
        crossings[1][s] = (double)crossed;
        must(weft_order_ranks(graph, job.places, ranks, 0, &layout));
        ring_load(&job, layout->order, &highest[2][s], &crossed);
        crossings[2][s] = (double)crossed;
        must(weft_load_bound(graph, job.places, ranks, job.nic, 1, &bound));
        worst = bound.highest > 0 && highest[2][s] / bound.highest > worst ? highest[2][s] / bound.highest
                                                                           : worst;
        ring_count = layout->ring_count;
        struct weft_load load;
        double ratio = rings_ratio(&job, layout, &load);
        rings = load.highest > rings ? load.highest : rings;
        rings_worst = ratio > rings_worst ? ratio : rings_worst;
        weft_load_free(&load);
        weft_layout_free(layout);
        free(ring);
        job_free(&job);
    }
    static const char *const names[] = {"rank order (ranks placed at random)", "another random order",
                                        "weft's order"};
    printf("\n%u ranks, %u on each host with %u ports or more:\n\n| ring | highest link load, streams | "
           "inter-leaf crossings |\n| "
           "--- | --- | --- |\n",
           ranks, ranks_per_host, ports);
    for (int k = 0; k < 3; k++)
        printf("| %s | %.3f | %.0f |\n", names[k], median(highest[k]), median(crossings[k]));
    printf("| the least possible | %.3f | %" PRIu64 " |\n", bound.highest, bound.crossings_leaf);
    printf("\nMedians of %d shuffles. weft's highest load is at most %.3f times the least possible in each "
           "of them.\n",
           SEEDS, worst);
    if (ring_count > 1)
        printf("The %u rings of the rails together put at most %.3f streams on a link, %.3f times the least "
               "possible.\n",
               ring_count, rings, rings_worst);
    printf("\nWhy no ring can do with less: %s.\n", bound.argument ? bound.argument : "");
}

/* An allreduce by ring over the ranks in this order. order: NULL as numbered. */
static double allreduce_ms(const struct job *job, const struct weft_hosts *hosts,
                           enum weft_algorithm algorithm, uint64_t bytes)
{
    struct weft_plan **plans = room(job->ranks, sizeof *plans);
    for (uint32_t r = 0; r < job->ranks; r++) {
        struct weft_plan_request request = {.collective = WEFT_ALLREDUCE,
                                            .algorithm = algorithm,
                                            .ranks = job->ranks,
                                            .rank = r,
                                            .root = -1,
                                            .hosts = hosts};
        must(weft_plan_make(&request, &plans[r]));
    }
    struct weft_contention_request request = {.plans = (const struct weft_plan *const *)plans,
                                              .ranks = job->ranks,
                                              .bytes = bytes,
                                              .graph = job->graph,
                                              .places = job->places,
                                              .nic = job->nic,
                                              .latency_ns = 2000,
                                              .local_latency_ns = 500,
                                              .local_byte_ns = 0.005};
    struct weft_contention contention;
    must(weft_plans_contend(&request, &contention));
    for (uint32_t r = 0; r < job->ranks; r++)
        weft_plan_free(plans[r]);
    free(plans);
    return contention.time_ns / 1e6;
}

/* The same hosts, but ring 0 alone. */
static struct weft_hosts one_ring(const struct weft_hosts *hosts)
{
    struct weft_hosts one = *hosts;
    one.rings = one.places = NULL;
    one.ring_count = 1;
    return one;
}

/* One row. leaves: of 32 nodes, each with as many GPUs and ranks as rails. hier: whether the hierarchical plan is priced too, whose rounds all differ somewhere. */
static void report_allreduce(uint32_t leaves, uint32_t rails, uint64_t bytes, int hier)
{
    struct weft_graph *graph;
    struct job job;
    struct weft_layout *layout;
    struct weft_hosts *hosts;
    char text[128], cell[32] = "";
    snprintf(text, sizeof text, "fat-tree:leaves=%u,nodes-per-leaf=32,gpus=%u,rails=%u,oversubscription=4",
             leaves, rails, rails);
    must(weft_topo_read(text, &graph));
    job_make(&job, graph, rails, rails, 1);
    double shuffled = allreduce_ms(&job, NULL, WEFT_ALGO_RING, bytes);
    double start = cpu_s();
    must(weft_order_ranks(graph, job.places, job.ranks, 0, &layout));
    must(weft_hosts_of_layout(layout, &hosts));
    double ordered_s = cpu_s();
    struct weft_hosts one = one_ring(hosts);
    double ordered = allreduce_ms(&job, &one, WEFT_ALGO_RING, bytes);
    double end = cpu_s();
    if (hier)
        snprintf(cell, sizeof cell, "%.1f ms", allreduce_ms(&job, hosts, WEFT_ALGO_HIER, bytes));
    printf("| %u | %u | %" PRIu64 " MiB | %.1f ms | %.1f ms | %.1f | %s | %.2f s | %.2f s |\n", leaves * 32,
           job.ranks, bytes >> 20, shuffled, ordered, shuffled / ordered, cell, ordered_s - start,
           end - ordered_s);
    weft_hosts_free(hosts);
    weft_layout_free(layout);
    job_free(&job);
    weft_graph_free(graph);
}

/* One row: 8 GPUs, NICs and ranks on each node, one ring against one per rail. own_leaves: each rail has leaves of its own. */
static void report_rails(uint32_t nodes, int own_leaves, uint64_t bytes, int hier)
{
    struct weft_graph *graph;
    struct job job;
    struct weft_layout *layout;
    struct weft_hosts *hosts;
    char text[128], cell[32] = "";
    snprintf(text, sizeof text,
             "fat-tree:leaves=%u,nodes-per-leaf=32,gpus=8,rails=8,rail-optimised=%d,oversubscription=4",
             nodes / 32 * (own_leaves ? 8 : 1), own_leaves);
    must(weft_topo_read(text, &graph));
    job_make(&job, graph, 8, 8, 1);
    must(weft_order_ranks(graph, job.places, job.ranks, 0, &layout));
    must(weft_hosts_of_layout(layout, &hosts));
    struct weft_hosts one = one_ring(hosts);
    double ring = allreduce_ms(&job, &one, WEFT_ALGO_RING, bytes), start = cpu_s();
    double rings = allreduce_ms(&job, hosts, WEFT_ALGO_RING, bytes), end = cpu_s();
    if (hier)
        snprintf(cell, sizeof cell, "%.1f ms", allreduce_ms(&job, hosts, WEFT_ALGO_HIER, bytes));
    printf("| %u | %u | %s | %" PRIu64 " MiB | %.1f ms | %.1f ms (%u rings) | %.1f | %s | %.2f s |\n", nodes,
           job.ranks, own_leaves ? "own" : "shared", bytes >> 20, ring, rings, weft_hosts_rings(hosts),
           ring / rings, cell, end - start);
    weft_hosts_free(hosts);
    weft_layout_free(layout);
    job_free(&job);
    weft_graph_free(graph);
}

/* One line for a machine: what it has, and the NIC of each GPU. */
static void report_machine(const char *folder, const char *file)
{
    char path[1024];
    struct weft_graph *graph;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    must(weft_topo_read(path, &graph));
    uint32_t gpus = 0, nics = 0, numas = 0, hosts = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        gpus += graph->nodes[n].kind == WEFT_NODE_GPU;
        nics += graph->nodes[n].kind == WEFT_NODE_NIC;
        numas += graph->nodes[n].kind == WEFT_NODE_NUMA;
        hosts += graph->nodes[n].kind == WEFT_NODE_HOST;
    }
    printf("| `%s` | %u | %u | %u | %u |", file, hosts, numas, gpus, nics);
    struct weft_place *places = room(gpus, sizeof *places);
    uint32_t *nic = room(gpus, sizeof *nic), count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (graph->nodes[n].kind == WEFT_NODE_GPU)
            places[count++] = (struct weft_place){.host = graph->nodes[n].host, .near = n};
    }
    if (count && hosts == 1)
        must(weft_order_nics(graph, places, count, nic, NULL));
    for (uint32_t i = 0; i < count && hosts == 1; i++) {
        uint32_t of =
            nic[i] == WEFT_NODE_NONE ? WEFT_NODE_NONE : weft_graph_above(graph, nic[i], WEFT_NODE_NIC);
        printf(" %s: %s%s%s%s", graph->nodes[places[i].near].name,
               of == WEFT_NODE_NONE ? "none" : graph->nodes[of].name, of == WEFT_NODE_NONE ? "" : " ",
               of == WEFT_NODE_NONE ? ""
                                    : weft_path_class_name(weft_path_classify(graph, places[i].near, of)),
               i + 1 < count ? ";" : "");
    }
    printf(" |\n");
    free(places);
    free(nic);
    weft_graph_free(graph);
}

static void report_samples(const char *folder)
{
    static const char *const files[] = {
        "nccl-xml/azure-ndv4.xml",
        "nccl-xml/aws-p4d-24xl.xml",
        "nccl-xml/rocm-8gpu-8nic-mi300.xml",
        "nccl-xml/rocm-16gpu-16nic.xml",
        "nccl-xml/rocm-8gpu-rome-7numa.xml",
        "hwloc-xml/16intel64-manyVFs.xml",
        "hwloc-xml/32em64t-2n8c2t-pci-wholeio.xml",
        "hwloc-xml/power8gpudistances.xml",
        "fabric/ibnetdiscover-ndr.out",
        "fabric/topograph-medium.yaml",
    };
    printf("\n## Machines and fabrics\n\nOf the ports that are surest to be up, the NIC of each GPU is the "
           "nearest by path, then the one that fewest GPUs use.\n\n"
           "| file | hosts | NUMA nodes | GPUs | NICs | NIC of each GPU |\n| --- | --- | --- | --- | --- | "
           "--- |\n");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        report_machine(folder, files[i]);
}

static void section_loads(const char *folder, int quick)
{
    struct weft_graph *graph;
    char path[1024];
    if (quick) {
        static const char tree[] = "fat-tree:leaves=8,nodes-per-leaf=4,gpus=2,rails=2,oversubscription=2";
        must(weft_topo_read(tree, &graph));
        printf("\n## A small fat tree, ranks placed at random\n\n`%s`.\n", tree);
        report_loads(graph, 2, 2);
        weft_graph_free(graph);
    }
    if (!*folder) {
        printf("\nThe folder of real topologies was not there: what needs it is left out.\n");
        return;
    }
    snprintf(path, sizeof path, "%s/fabric/ibnetdiscover-ndr.out", folder);
    must(weft_topo_read(path, &graph));
    printf("\n## A real NDR fabric, ranks placed at random\n\n`ibnetdiscover-ndr.out`: 40 switches, 582 "
           "channel adapters.\n");
    report_loads(graph, 1, 1);
    report_loads(graph, 4, 4);
    if (!quick)
        report_loads(graph, 4, 8);
    weft_graph_free(graph);
}

static void section_allreduce(int quick)
{
    printf("\n## Allreduce on up to 2,048 nodes, fat tree with 4:1 oversubscription\n\n"
           "`fat-tree:leaves=64,nodes-per-leaf=32,gpus=N,rails=N,oversubscription=4`, one rank per GPU, "
           "priced with links shared\n"
           "(algos/proof/contend.h). Ranks are numbered at random. The last columns are seconds of one core. "
           "The "
           "hierarchical plan is\n"
           "priced where its rounds, which all differ somewhere, are few enough.\n\n"
           "| nodes | ranks | data | ring, ranks as numbered | ring, weft's order | ratio | hierarchical | "
           "to order "
           "| to price the ordered ring |\n"
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    if (!quick) {
        report_allreduce(64, 1, (uint64_t)1 << 30, 1);
        report_allreduce(64, 8, (uint64_t)1 << 30, 0);
    }
    report_allreduce(8, 8, (uint64_t)1 << 30, 1);
}

static void section_rails(int quick)
{
    printf(
        "\n## One ring and one per rail\n\n"
        "Nodes of 8 GPUs, 8 NICs and 8 ranks on the same fat tree, ranks in weft's order: the allreduce by a "
        "ring over ring 0 alone,\n"
        "and over all rings of the layout, each with its share of the data. Leaves: one for all NICs of a "
        "node, or one for each\n"
        "rail (`rail-optimised=1`). The last column is seconds of one core for all rings.\n\n"
        "| nodes | ranks | leaves of rails | data | one ring | one per rail | ratio | hierarchical | to "
        "price "
        "|\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    if (!quick) {
        report_rails(256, 0, (uint64_t)1 << 30, 1);
        report_rails(256, 1, (uint64_t)1 << 30, 1);
    }
    report_rails(256, 1, (uint64_t)1 << 26, 1);
    if (!quick)
        report_rails(2048, 1, (uint64_t)1 << 30, 0);
}

int main(int argc, char **argv)
{
    int quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    const char *folder = argc > 1 + quick ? argv[1 + quick] : "";
    weft_discover_begin();
    printf("# What the order of ranks is worth\n\n"
           "Written by `make topo-report` (perf/micro/topo_report.c). Loads are in streams: a ring puts one "
           "on each link that it\n"
           "passes once, and a flow divides evenly over all shortest routes. docs/topology.md says how the "
           "order is found.\n");
    section_loads(folder, quick);
    section_allreduce(quick);
    section_rails(quick);
    if (*folder)
        report_samples(folder);
    return fflush(stdout) || ferror(stdout);
}
