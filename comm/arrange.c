#include "comm/arrange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "algos/hosts.h"
#include "base/log.h"
#include "comm/comm.h"
#include "comm/ports.h"
#include "topo/order.h"
#include "topo/read.h"

#define HOST_NAME_MAX_BYTES 128

/* A rank by what tells its host from others. */
struct resident {
    const char *host;
    uint32_t part; /* tells hosts of one name apart */
    uint32_t rank;
};

struct host {
    char name[HOST_NAME_MAX_BYTES];
    uint32_t first, count; /* of the residents */
    uint32_t node;         /* in the graph */
};

/* All that is needed until the order is found. */
struct arranging {
    struct weft_comm *comm;
    const struct weft_told_place *told;
    struct resident *residents; /* [ranks] by host */
    struct host *hosts;         /* by name */
    uint32_t host_count;
    struct weft_graph *machines, *fabric; /* fabric: made here; otherwise the context's */
    struct weft_graph *graph;  /* what ranks are placed in, NULL: nothing tells hosts apart but their names */
    struct weft_place *places; /* [ranks] */
    struct weft_layout *layout;
    const char *source; /* what the order rests on */
};

static int compare_residents(const void *a, const void *b)
{
    const struct resident *x = a, *y = b;
    int names = strcmp(x->host, y->host);
    if (names)
        return names;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Whether one launcher has started all ranks and numbers their hosts. */
static int has_nodes(const struct weft_comm *comm)
{
    const struct weft_placement *first = &comm->members[0].placement;
    for (int r = 0; r < comm->ranks; r++) {
        const struct weft_placement *theirs = &comm->members[r].placement;
        if (!theirs->job || theirs->job != first->job || theirs->node < 0)
            return 0;
    }
    return 1;
}

/* Hosts of equal names get a number behind it, so that names say which host. */
static void name_host(struct host *host, const struct resident *resident, const struct resident *before,
                      uint32_t *same)
{
    *same = before && strcmp(before->host, resident->host) == 0 ? *same + 1 : 1;
    if (*same == 1)
        snprintf(host->name, sizeof host->name, "%s", resident->host);
    else
        snprintf(host->name, sizeof host->name, "%s#%u", resident->host, *same);
}

static int find_hosts(struct arranging *a)
{
    const struct weft_comm *comm = a->comm;
    uint32_t ranks = (uint32_t)comm->ranks, same = 0;
    int nodes = has_nodes(comm);
    a->residents = malloc(ranks * sizeof *a->residents);
    a->hosts = malloc(ranks * sizeof *a->hosts);
    if (!a->residents || !a->hosts)
        return weft_fail(WEFT_NOMEM, "no memory to arrange %u ranks", ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        const struct weft_member *member = &comm->members[r];
        uint32_t part = !comm->no_shm ? member->host_group : nodes ? (uint32_t)member->placement.node : 0;
        const char *name = comm->no_shm ? member->host : comm->members[part].host;
        a->residents[r] = (struct resident){*name ? name : "(none)", part, r};
    }
    qsort(a->residents, ranks, sizeof *a->residents, compare_residents);
    for (uint32_t i = 0; i < ranks; i++) {
        const struct resident *resident = &a->residents[i], *before = i ? resident - 1 : NULL;
        if (before && strcmp(before->host, resident->host) == 0 && before->part == resident->part) {
            a->hosts[a->host_count - 1].count++;
            continue;
        }
        struct host *host = &a->hosts[a->host_count++];
        *host = (struct host){.first = i, .count = 1, .node = WEFT_NODE_NONE};
        name_host(host, resident, before, &same);
    }
    return WEFT_OK;
}

/* How much of the host's name the address ends in: all, or what comes before the first dot; 0: it is another node's, as
 * where the variable was carried along from there. */
static int node_size(const struct host *host, const char *address)
{
    size_t size = strlen(address), whole = strlen(host->name), brief = strcspn(host->name, ".");
    const size_t tries[] = {whole, brief};
    for (int i = 0; i < 2; i++) {
        size_t own = tries[i];
        if (own && own <= size && memcmp(address + size - own, host->name, own) == 0 &&
            (own == size || address[size - own - 1] == '.'))
            return (int)own;
    }
    return 0;
}

/* A fabric that does not fit stops nobody: all ranks find that alike. */
static int go_without(const char *fabric)
{
    weft_log_once(WEFT_LOG_WARN, "ranks are ordered without %s: %s", fabric, weft_error_detail());
    weft_error_clear();
    return WEFT_OK;
}

/* A fabric of what Slurm has told one rank of each host. NULL where it has told none. */
static int fabric_of_slurm(struct arranging *a, struct weft_graph **fabric)
{
    size_t capacity = 1, used = 0;
    for (uint32_t h = 0; h < a->host_count; h++)
        capacity += HOST_NAME_MAX_BYTES + WEFT_PLACE_TEXT_MAX + 3;
    char *lines = malloc(capacity);
    if (!lines)
        return weft_fail(WEFT_NOMEM, "no memory for the addresses of %u hosts", a->host_count);
    for (uint32_t h = 0; h < a->host_count; h++) {
        const struct weft_told_place *told = &a->told[a->residents[a->hosts[h].first].rank];
        int name = node_size(&a->hosts[h], told->address);
        if (name)
            used += (size_t)snprintf(lines + used, capacity - used, "%.*s %s%s%s\n", name, a->hosts[h].name,
                                     told->address, *told->pattern ? " " : "", told->pattern);
    }
    struct weft_text text = {"SLURM_TOPOLOGY_ADDR", lines, used};
    int status = used ? weft_topo_read_text(&text, fabric) : WEFT_OK;
    free(lines);
    return status == WEFT_INVALID ? go_without("Slurm's topology") : status;
}

static int find_fabric(struct arranging *a, const struct weft_graph **fabric)
{
    *fabric = a->comm->context->fabric;
    a->source = "WEFT_TOPO_FILE";
    if (*fabric)
        return WEFT_OK;
    a->source = "SLURM_TOPOLOGY_ADDR";
    int status = fabric_of_slurm(a, &a->fabric);
    *fabric = a->fabric;
    if (!*fabric)
        a->source = "host names";
    return status;
}

static int compare_numbers(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The NUMA nodes that ranks of the host are bound to. numbers: room for as many as it has ranks. */
static int add_numa_nodes(struct arranging *a, const struct host *host, uint32_t node, int32_t *numbers)
{
    int status = WEFT_OK;
    for (uint32_t i = 0; i < host->count; i++)
        numbers[i] = a->told[a->residents[host->first + i].rank].numa;
    qsort(numbers, host->count, sizeof *numbers, compare_numbers);
    for (uint32_t i = 0; i < host->count && status == WEFT_OK; i++) {
        if (numbers[i] < 0 || (i && numbers[i] == numbers[i - 1]))
            continue;
        char name[24];
        uint32_t made;
        snprintf(name, sizeof name, "numa%d", numbers[i]);
        struct weft_node_told told = WEFT_NODE_TOLD(WEFT_NODE_NUMA, node, name);
        told.index = numbers[i];
        status = weft_graph_add_node(a->machines, &told, &made);
    }
    return status;
}

/* A graph of the hosts and what ranks have told of them. */
static int make_machines(struct arranging *a)
{
    int status = weft_graph_new("ranks", "what ranks tell", &a->machines);
    int32_t *numbers = malloc((size_t)a->comm->ranks * sizeof *numbers);
    if (status == WEFT_OK && !numbers)
        status = weft_fail(WEFT_NOMEM, "no memory to arrange %d ranks", a->comm->ranks);
    for (uint32_t h = 0; h < a->host_count && status == WEFT_OK; h++) {
        struct weft_node_told told = WEFT_NODE_TOLD(WEFT_NODE_HOST, WEFT_NODE_NONE, a->hosts[h].name);
        uint32_t node;
        status = weft_graph_add_node(a->machines, &told, &node);
        if (status == WEFT_OK)
            status = add_numa_nodes(a, &a->hosts[h], node, numbers);
        for (uint32_t i = 0; i < a->hosts[h].count; i++)
            numbers[i] = (int32_t)a->residents[a->hosts[h].first + i].rank;
        if (status == WEFT_OK)
            status = weft_ports_add(a->machines, node, a->told, numbers, a->hosts[h].count);
    }
    free(numbers);
    return status == WEFT_OK ? weft_graph_finish(a->machines) : status;
}

static int make_graph(struct arranging *a)
{
    const struct weft_graph *fabric;
    uint32_t joined, added;
    int status = find_fabric(a, &fabric);
    if (status == WEFT_OK)
        status = make_machines(a);
    if (status != WEFT_OK)
        return status;
    if (fabric) {
        status = weft_fabric_lay(a->machines, fabric, 0, &a->graph, &joined, &added);
        if (status != WEFT_INVALID)
            return status;
        go_without(a->source);
        a->source = "host names";
    }
    a->graph = a->machines;
    a->machines = NULL;
    return WEFT_OK;
}

/* By name, as the graph's names may have: hosts are its roots. */
static int compare_hosts(const void *a, const void *b)
{
    return strcmp(((const struct host *)a)->name, ((const struct host *)b)->name);
}

static int place_ranks(struct arranging *a)
{
    a->places = malloc((size_t)a->comm->ranks * sizeof *a->places);
    if (!a->places)
        return weft_fail(WEFT_NOMEM, "no memory to arrange %d ranks", a->comm->ranks);
    qsort(a->hosts, a->host_count, sizeof *a->hosts, compare_hosts);
    for (uint32_t n = weft_graph_first(a->graph, WEFT_NODE_NONE); n != WEFT_NODE_NONE;
         n = a->graph->nodes[n].sibling_next) {
        struct host wanted;
        snprintf(wanted.name, sizeof wanted.name, "%s", a->graph->nodes[n].name);
        struct host *host = a->graph->nodes[n].kind == WEFT_NODE_HOST
                                ? bsearch(&wanted, a->hosts, a->host_count, sizeof wanted, compare_hosts)
                                : NULL;
        if (host)
            host->node = n;
    }
    for (uint32_t h = 0; h < a->host_count; h++) {
        const struct host *host = &a->hosts[h];
        for (uint32_t i = 0; i < host->count; i++) {
            uint32_t rank = a->residents[host->first + i].rank, near = WEFT_NODE_NONE;
            for (uint32_t n = host->node == WEFT_NODE_NONE ? WEFT_NODE_NONE
                                                           : weft_graph_first(a->graph, host->node);
                 n != WEFT_NODE_NONE && near == WEFT_NODE_NONE; n = a->graph->nodes[n].sibling_next) {
                const struct weft_node *node = &a->graph->nodes[n];
                if (node->kind == WEFT_NODE_NUMA && a->told[rank].numa >= 0 &&
                    node->index == a->told[rank].numa)
                    near = n;
            }
            a->places[rank] = (struct weft_place){.host_name = host->name, .host = host->node, .near = near};
            weft_ports_place(a->graph, &a->told[rank], &a->places[rank]);
        }
    }
    return WEFT_OK;
}

/* The first rank whose file more than half of the ranks read (Boyer and Moore's vote, then counted), else rank 0. */
static int right_file(const struct weft_told_place *told, int ranks)
{
    int candidate = 0, lead = 0, votes = 0, lowest = -1;
    for (int r = 0; r < ranks; r++) {
        if (lead == 0)
            candidate = r;
        lead += told[r].fabric == told[candidate].fabric ? 1 : -1;
    }
    for (int r = 0; r < ranks; r++) {
        int same = told[r].fabric == told[candidate].fabric;
        lowest = same && lowest < 0 ? r : lowest;
        votes += same;
    }
    return 2 * votes > ranks ? lowest : 0;
}

/* Names the first rank that differs from the majority. All ranks see the same, so they all say the same. */
static int check_files(const struct weft_comm *comm, const struct weft_told_place *told)
{
    int right = right_file(told, comm->ranks), wrong = 0;
    while (wrong < comm->ranks && told[wrong].fabric == told[right].fabric)
        wrong++;
    if (wrong == comm->ranks)
        return WEFT_OK;
    const char *host = comm->members[wrong].host, *right_host = comm->members[right].host;
    if (!told[wrong].fabric || !told[right].fabric)
        return weft_fail(WEFT_SETTINGS,
                         "rank %d on host '%s' runs %s WEFT_TOPO_FILE, rank %d on host '%s' %s it", wrong,
                         host, told[wrong].fabric ? "with" : "without", right, right_host,
                         told[right].fabric ? "with" : "without");
    return weft_fail(
        WEFT_SETTINGS,
        "rank %d on host '%s' reads another fabric from WEFT_TOPO_FILE than rank %d on host '%s'", wrong,
        host, right, right_host);
}

static void say(const struct arranging *a)
{
    const struct weft_comm *comm = a->comm;
    uint32_t moved = 0;
    char why[400];
    if (!weft_log_enabled(WEFT_LOG_INFO))
        return;
    for (uint32_t p = 0; p < a->layout->ranks; p++)
        moved += a->layout->order[p] != p;
    weft_log(WEFT_LOG_INFO,
             "communicator %s: %d ranks on %u hosts, ordered by %s; %u stand elsewhere than their number",
             comm->name ? comm->name : "", comm->ranks, a->layout->host_count,
             comm->context->settings.order ? "rank (WEFT_ORDER=rank)" : a->source, moved);
    weft_order_explain(a->graph, a->places, a->layout, (uint32_t)comm->rank, why, sizeof why);
    weft_log(WEFT_LOG_DEBUG, "communicator %s: %s", comm->name ? comm->name : "", why);
}

static int order(struct arranging *a)
{
    struct weft_comm *comm = a->comm;
    struct weft_hosts *hosts = NULL;
    unsigned flags = comm->context->settings.order ? WEFT_ORDER_BY_RANK : 0;
    int status = weft_order_ranks(a->graph, a->places, (uint32_t)comm->ranks, flags, &a->layout);
    if (status == WEFT_OK)
        status = weft_hosts_of_layout(a->layout, &hosts);
    if (status != WEFT_OK)
        return status;
    say(a);
    if (hosts->count == 1 && !hosts->order) { /* as plans take it without being told */
        weft_hosts_free(hosts);
        hosts = NULL;
    }
    comm->hosts = hosts;
    return WEFT_OK;
}

int weft_comm_arrange(struct weft_comm *comm, const struct weft_told_place *told)
{
    struct arranging a = {.comm = comm, .told = told};
    int status = check_files(comm, told);
    if (status == WEFT_OK)
        status = find_hosts(&a);
    if (status == WEFT_OK)
        status = make_graph(&a);
    if (status == WEFT_OK)
        status = place_ranks(&a);
    if (status == WEFT_OK)
        status = order(&a);
    weft_layout_free(a.layout);
    free(a.places);
    weft_graph_free(a.graph);
    weft_graph_free(a.machines);
    weft_graph_free(a.fabric);
    free(a.hosts);
    free(a.residents);
    return status;
}

size_t weft_comm_hosts_bytes(const struct weft_comm *comm)
{
    return comm->hosts ? weft_hosts_bytes(comm->hosts) : 0;
}
