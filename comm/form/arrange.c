/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/form/arrange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "algos/hosts.h"
#include "base/log.h"
#include "base/majority.h"
#include "comm/form/agree.h"
#include "comm/core/comm.h"
#include "comm/form/ports.h"
#include "topo/order.h"
#include "topo/read.h"

#define HOST_NAME_MAX_BYTES 128
#define DOMAIN_INDEX        (1u << 24) /* first number of what is no NUMA node: no device is at one of these */

/* A rank by what sets its host apart from others. */
struct resident {
    const char *host;
    uint32_t machine; /* by its kernel; 0 where not all announce it */
    int32_t number;   /* of its host by the launcher, -1 where that does not number all */
    uint32_t lowest;  /* rank of those with these three */
    uint32_t
        domain; /* lowest rank that shares memory with it; 0 where none can, as under WEFT_TRANSPORT=tcp */
    uint32_t rank;
};

struct host {
    char name[HOST_NAME_MAX_BYTES];
    uint32_t first, count; /* of the residents */
    uint32_t domains;      /* in which ranks share memory */
    uint32_t node;         /* in the graph */
    int64_t index;         /* by lowest rank; -1: not counted yet */
};

/* All that is needed until the order is found. */
struct arranging {
    struct weft_comm *comm;
    const struct weft_announced_place *announced;
    struct resident *residents; /* [ranks] by host */
    struct host *hosts;         /* by name */
    uint32_t host_count;
    struct weft_graph *machines, *fabric; /* fabric: made here; otherwise the context's */
    struct weft_graph *graph;  /* what ranks are placed in, NULL: nothing tells hosts apart but their names */
    struct weft_place *places; /* [ranks] */
    struct weft_layout *layout;
    const char *source; /* what the order rests on */
};

static int compare_machines(const struct resident *a, const struct resident *b)
{
    int names = strcmp(a->host, b->host);
    if (names)
        return names;
    if (a->machine != b->machine)
        return a->machine < b->machine ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* By machine, then by rank: so the lowest is found. */
static int compare_by_machine(const void *a, const void *b)
{
    const struct resident *x = a, *y = b;
    int machines = compare_machines(x, y);
    return machines ? machines : (x->rank > y->rank) - (x->rank < y->rank);
}

static int compare_residents(const void *a, const void *b)
{
    const struct resident *x = a, *y = b;
    int names = strcmp(x->host, y->host);
    if (names)
        return names;
    const uint32_t left[] = {x->lowest, x->domain, x->rank}, right[] = {y->lowest, y->domain, y->rank};
    for (int i = 0; i < 3; i++) {
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    }
    return 0;
}

int weft_comm_has_nodes(const struct weft_comm *comm)
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

static int all_know_machines(const struct arranging *a)
{
    for (int r = 0; r < a->comm->ranks; r++) {
        if (!a->announced[r].machine)
            return 0;
    }
    return 1;
}

/* Otherwise who shares memory with whom says nothing of where ranks are. */
static int some_may_share(const struct weft_comm *comm)
{
    int r = 0;
    while (r < comm->ranks && !comm->members[r].sizes[WEFT_SHM])
        r++;
    return r < comm->ranks;
}

/* Ranks that share memory go by the lowest of them, whose name and machine are theirs. */
static void sort_residents(struct arranging *a, int machines)
{
    const struct weft_comm *comm = a->comm;
    uint32_t ranks = (uint32_t)comm->ranks;
    int numbers = weft_comm_has_nodes(comm), may_share = some_may_share(comm);
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t lead = comm->no_shm ? r : comm->members[r].host_group;
        const struct weft_member *member = &comm->members[lead];
        a->residents[r] = (struct resident){.host = *member->host ? member->host : "(none)",
                                            .machine = machines ? a->announced[lead].machine : 0,
                                            .number = numbers ? member->placement.node : -1,
                                            .domain = may_share ? lead : 0,
                                            .rank = r};
    }
    qsort(a->residents, ranks, sizeof *a->residents, compare_by_machine);
    for (uint32_t i = 0; i < ranks; i++) {
        struct resident *resident = &a->residents[i];
        int same = i && compare_machines(resident - 1, resident) == 0;
        resident->lowest = same ? resident[-1].lowest : resident->rank;
    }
    qsort(a->residents, ranks, sizeof *a->residents, compare_residents);
}

/* split: ranks of a machine that do not share memory are hosts of their own. */
static void gather_hosts(struct arranging *a, int split)
{
    uint32_t same = 0;
    a->host_count = 0;
    for (uint32_t i = 0; i < (uint32_t)a->comm->ranks; i++) {
        const struct resident *resident = &a->residents[i], *before = i ? resident - 1 : NULL;
        int domain = !before || before->domain != resident->domain;
        if (before && compare_machines(before, resident) == 0 && !(split && domain)) {
            a->hosts[a->host_count - 1].count++;
            a->hosts[a->host_count - 1].domains += (uint32_t)domain;
            continue;
        }
        struct host *host = &a->hosts[a->host_count++];
        *host = (struct host){.first = i, .count = 1, .domains = 1, .node = WEFT_NODE_NONE, .index = -1};
        name_host(host, resident, before, &same);
    }
}

/* For who asks where a rank runs. What plans make of the hosts does not matter here: WEFT_ORDER=rank may leave them none. */
static void number_hosts(struct arranging *a)
{
    struct weft_member *members = a->comm->members;
    int64_t next = 0;
    for (uint32_t h = 0; h < a->host_count; h++) {
        for (uint32_t i = 0; i < a->hosts[h].count; i++)
            members[a->residents[a->hosts[h].first + i].rank].host_index = h;
    }
    for (int r = 0; r < a->comm->ranks; r++) {
        struct host *host = &a->hosts[members[r].host_index];
        host->index = host->index < 0 ? next++ : host->index;
        members[r].host_index = (uint32_t)host->index;
    }
}

static int find_hosts(struct arranging *a)
{
    uint32_t ranks = (uint32_t)a->comm->ranks;
    a->residents = malloc(ranks * sizeof *a->residents);
    a->hosts = malloc(ranks * sizeof *a->hosts);
    if (!a->residents || !a->hosts)
        return weft_fail(WEFT_NOMEM, "no memory to arrange %u ranks", ranks);
    int machines = all_know_machines(a);
    sort_residents(a, machines);
    gather_hosts(a, !machines);
    if (a->host_count == 1)
        gather_hosts(a, 1);
    number_hosts(a);
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

/* A fabric of what Slurm has said to one rank of each host. NULL where it has said nothing. */
static int fabric_of_slurm(struct arranging *a, struct weft_graph **fabric)
{
    size_t capacity = 1, used = 0;
    for (uint32_t h = 0; h < a->host_count; h++)
        capacity += HOST_NAME_MAX_BYTES + WEFT_PLACE_TEXT_MAX + 3;
    char *lines = malloc(capacity);
    if (!lines)
        return weft_fail(WEFT_NOMEM, "no memory for the addresses of %u hosts", a->host_count);
    for (uint32_t h = 0; h < a->host_count; h++) {
        const struct weft_announced_place *announced = &a->announced[a->residents[a->hosts[h].first].rank];
        int name = node_size(&a->hosts[h], announced->address);
        if (name)
            used += (size_t)snprintf(lines + used, capacity - used, "%.*s %s%s%s\n", name, a->hosts[h].name,
                                     announced->address, *announced->pattern ? " " : "", announced->pattern);
    }
    struct weft_text text = {"SLURM_TOPOLOGY_ADDR", lines, used};
    int status = used ? weft_topo_read_text(&text, fabric) : WEFT_OK;
    free(lines);
    return status == WEFT_INVALID ? go_without("Slurm's topology") : status;
}

static int find_fabric(struct arranging *a, const struct weft_graph **fabric)
{
    *fabric = a->comm->context->form.fabric;
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
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Ranks with the same are nearest to each other within their host: the NUMA node, and where not all share memory first of
 * all who does. The graph gets a NUMA node for each. */
struct corner {
    uint32_t domain; /* 0 where all share memory */
    int32_t numa;    /* -1: not known */
};

static struct corner corner_of(const struct arranging *a, const struct host *host, uint32_t resident)
{
    const struct resident *announced = &a->residents[host->first + resident];
    return (struct corner){host->domains > 1 ? announced->domain : 0, a->announced[announced->rank].numa};
}

/* Sorts what is not known behind what is. */
static uint64_t number_of(struct corner corner)
{
    return (uint64_t)corner.domain << 32 | (corner.numa < 0 ? UINT32_MAX : (uint32_t)corner.numa);
}

/* Whether there is anything to say: the name of its node, which begins as no device's may (comm/form/ports_graph.c). */
static int name_corner(const struct host *host, struct corner corner, char name[48])
{
    if (host->domains > 1 && corner.numa < 0)
        snprintf(name, 48, "numa-domain%u", corner.domain);
    else if (host->domains > 1)
        snprintf(name, 48, "numa%d-domain%u", corner.numa, corner.domain);
    else
        snprintf(name, 48, "numa%d", corner.numa);
    return host->domains > 1 || corner.numa >= 0;
}

/* numbers: room for as many as the host has ranks. */
static int add_corners(struct arranging *a, const struct host *host, uint32_t node, uint64_t *numbers)
{
    int status = WEFT_OK;
    for (uint32_t i = 0; i < host->count; i++)
        numbers[i] = number_of(corner_of(a, host, i));
    qsort(numbers, host->count, sizeof *numbers, compare_numbers);
    for (uint32_t i = 0; i < host->count && status == WEFT_OK; i++) {
        char name[48];
        uint32_t made;
        struct corner corner = {(uint32_t)(numbers[i] >> 32), (int32_t)(uint32_t)numbers[i]};
        if ((i && numbers[i] == numbers[i - 1]) || !name_corner(host, corner, name))
            continue;
        struct weft_node_given announced = WEFT_NODE_GIVEN(WEFT_NODE_NUMA, node, name);
        announced.index = host->domains > 1 ? (int32_t)(DOMAIN_INDEX + i) : corner.numa;
        status = weft_graph_add_node(a->machines, &announced, &made);
    }
    return status;
}

/* The NICs that the host's ranks use. */
static int add_ports(struct arranging *a, const struct host *host, uint32_t node)
{
    int32_t *ranks = malloc(host->count * sizeof *ranks);
    if (!ranks)
        return weft_fail(WEFT_NOMEM, "no memory to arrange %u ranks", host->count);
    for (uint32_t i = 0; i < host->count; i++)
        ranks[i] = (int32_t)a->residents[host->first + i].rank;
    int status = weft_ports_add(a->machines, node, a->announced, ranks, host->count);
    free(ranks);
    return status;
}

/* A graph of the hosts and what ranks have announced of them. */
static int make_machines(struct arranging *a)
{
    int status = weft_graph_new("ranks", "what ranks announce", &a->machines);
    uint64_t *numbers = malloc((size_t)a->comm->ranks * sizeof *numbers);
    if (status == WEFT_OK && !numbers)
        status = weft_fail(WEFT_NOMEM, "no memory to arrange %d ranks", a->comm->ranks);
    for (uint32_t h = 0; h < a->host_count && status == WEFT_OK; h++) {
        struct weft_node_given announced = WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, a->hosts[h].name);
        uint32_t node;
        status = weft_graph_add_node(a->machines, &announced, &node);
        if (status == WEFT_OK)
            status = add_corners(a, &a->hosts[h], node, numbers);
        if (status == WEFT_OK)
            status = add_ports(a, &a->hosts[h], node);
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

/* The node of a resident's corner in the graph, or WEFT_NODE_NONE. */
static uint32_t find_corner(const struct arranging *a, const struct host *host, uint32_t resident)
{
    char name[48];
    if (host->node == WEFT_NODE_NONE || !name_corner(host, corner_of(a, host, resident), name))
        return WEFT_NODE_NONE;
    uint32_t n = weft_graph_first(a->graph, host->node);
    while (n != WEFT_NODE_NONE &&
           !(a->graph->nodes[n].kind == WEFT_NODE_NUMA && strcmp(a->graph->nodes[n].name, name) == 0))
        n = a->graph->nodes[n].sibling_next;
    return n;
}

static void find_nodes(struct arranging *a)
{
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
}

static int place_ranks(struct arranging *a)
{
    a->places = malloc((size_t)a->comm->ranks * sizeof *a->places);
    if (!a->places)
        return weft_fail(WEFT_NOMEM, "no memory to arrange %d ranks", a->comm->ranks);
    find_nodes(a);
    for (uint32_t h = 0; h < a->host_count; h++) {
        const struct host *host = &a->hosts[h];
        for (uint32_t i = 0; i < host->count; i++) {
            uint32_t rank = a->residents[host->first + i].rank;
            a->places[rank] = (struct weft_place){
                .host_name = host->name, .host = host->node, .near = find_corner(a, host, i)};
            weft_ports_place(a->graph, &a->announced[rank], &a->places[rank]);
        }
    }
    return WEFT_OK;
}

static int same_file(const void *arg, int a, int b)
{
    const struct weft_announced_place *announced = arg;
    return announced[a].fabric == announced[b].fabric;
}

/* Names the first rank that differs from the majority. All ranks see the same, so they all say the same. */
static int check_files(const struct weft_comm *comm, const struct weft_announced_place *announced)
{
    int right = weft_majority(comm->ranks, same_file, announced), wrong = 0;
    while (wrong < comm->ranks && announced[wrong].fabric == announced[right].fabric)
        wrong++;
    if (wrong == comm->ranks)
        return WEFT_OK;
    const char *host = comm->members[wrong].host, *right_host = comm->members[right].host;
    if (!announced[wrong].fabric || !announced[right].fabric)
        return weft_fail(WEFT_SETTINGS,
                         "rank %d on host '%s' runs %s WEFT_TOPO_FILE, rank %d on host '%s' %s it", wrong,
                         host, announced[wrong].fabric ? "with" : "without", right, right_host,
                         announced[right].fabric ? "with" : "without");
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
    const char *source = comm->context->settings.order ? "rank (WEFT_ORDER=rank)" : a->source;
    char name[80] = "communicator", place[80] = "each in the place of its number";
    if (comm->name && *comm->name)
        snprintf(name, sizeof name, "communicator %.60s", comm->name);
    if (moved)
        snprintf(place, sizeof place, "%u not in the place of their number", moved);
    weft_log(WEFT_LOG_INFO, "%s: %d ranks on %u host%s, ordered by %s: %s", name, comm->ranks,
             a->layout->host_count, a->layout->host_count == 1 ? "" : "s", source, place);
    weft_order_explain(a->graph, a->places, a->layout, (uint32_t)comm->rank, why, sizeof why);
    weft_log(WEFT_LOG_DEBUG, "%s: %s", name, why);
}

static int order(struct arranging *a)
{
    struct weft_comm *comm = a->comm;
    struct weft_hosts *hosts = NULL;
    unsigned flags = WEFT_ORDER_GIVEN_NICS | (comm->context->settings.order ? WEFT_ORDER_BY_RANK : 0);
    int status = weft_order_ranks(a->graph, a->places, (uint32_t)comm->ranks, flags, &a->layout);
    if (status == WEFT_OK)
        status = weft_hosts_of_layout(a->layout, &hosts);
    if (status != WEFT_OK)
        return status;
    say(a);
    if (hosts->count == 1 && !hosts->order) { /* as plans take it anyway */
        weft_hosts_free(hosts);
        hosts = NULL;
    }
    comm->hosts = hosts;
    return WEFT_OK;
}

int weft_comm_arrange(struct weft_comm *comm, const struct weft_announced_place *announced)
{
    struct arranging a = {.comm = comm, .announced = announced};
    int status = check_files(comm, announced);
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
