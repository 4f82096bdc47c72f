/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/files/slurm_net.h"

#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "base/error.h"
#include "topo/files/hostlist.h"

/* Every level above the leaves may name all nodes again; so many levels may. */
#define LEVELS_MAX 32

static const char *name_of(const struct weft_slurm_net *net, uint32_t which)
{
    return net->named->graph->nodes[net->named->nodes[which].node].name;
}

int weft_slurm_net_begin(struct weft_slurm_net *net, struct weft_span name, const char *kind, size_t line)
{
    struct weft_named *named = net->named;
    int status = weft_named_find(named, name, 0, line, &net->upper);
    if (status)
        return status;
    struct weft_named_node *node = &named->nodes[net->upper];
    if (node->given)
        return weft_read_fail(named->text, line, "switch \"%.*s\" is in line %u already",
                              WEFT_SPAN_SHOWN(name), node->given);
    node->given = (uint32_t)line;
    net->has_switches = 1;
    net->below = 0;
    return kind ? weft_named_attribute(named, net->upper, "slurm", (struct weft_span){kind, strlen(kind)})
                : WEFT_OK;
}

static int take_child(void *arg, struct weft_span name)
{
    struct weft_slurm_net *net = arg;
    uint32_t child;
    int status = weft_named_find(net->named, name, net->is_hosts, net->line, &child);
    if (status)
        return status;
    net->below++;
    net->named->nodes[child].place = net->upper + 1;
    return weft_named_join(net->named, net->upper, child, net->line);
}

int weft_slurm_net_add(struct weft_slurm_net *net, struct weft_span list, int is_hosts, size_t line)
{
    if (!list.size)
        return WEFT_OK;
    net->line = line;
    net->is_hosts = is_hosts;
    return weft_hostlist_expand(net->named->text, line, list, &net->named->budget, take_child, net);
}

int weft_slurm_net_note(struct weft_slurm_net *net, struct weft_span nodes, uint32_t level, size_t line)
{
    if (net->list_count == net->list_room) {
        uint32_t room = net->list_room ? net->list_room * 2 : 64;
        struct weft_slurm_list *grown = realloc(net->lists, room * sizeof *grown);
        if (!grown)
            return weft_fail(WEFT_NOMEM, "no memory for the switches of a topology");
        net->lists = grown;
        net->list_room = room;
    }
    net->lists[net->list_count++] = (struct weft_slurm_list){nodes, net->upper, level, line};
    return WEFT_OK;
}

int weft_slurm_net_end(struct weft_slurm_net *net, size_t line)
{
    return net->below ? WEFT_OK
                      : weft_read_warn(net->named->text, net->named->graph, line,
                                       "switch \"%s\" has neither nodes nor switches below it",
                                       name_of(net, net->upper));
}

/* One that hangs on a switch that has a line stays there, and is not counted again. */
static int take_rest(void *arg, struct weft_span name)
{
    struct weft_slurm_net *net = arg;
    uint32_t host;
    int status = weft_named_find(net->named, name, 1, net->line, &host);
    if (status || net->named->nodes[host].place)
        return status;
    if (!net->named->budget)
        return weft_hostlist_refuse(net->named->text, net->line);
    net->named->budget--;
    return take_child(net, name);
}

/* By level, then as they were written. */
static int compare_lists(const void *a, const void *b)
{
    const struct weft_slurm_list *one = a, *other = b;
    if (one->level != other->level)
        return one->level < other->level ? -1 : 1;
    return one->line < other->line ? -1 : one->line > other->line;
}

static int take_lists(struct weft_slurm_net *net)
{
    int status = WEFT_OK;
    if (net->list_count)
        qsort(net->lists, net->list_count, sizeof *net->lists, compare_lists);
    uint32_t budget = 0, levels = 0;
    for (uint32_t i = 0; i < net->list_count && !status; i++) {
        const struct weft_slurm_list *list = &net->lists[i];
        int is_next = i == 0 || list->level != list[-1].level;
        if (is_next && levels < LEVELS_MAX) {
            budget = WEFT_HOSTLIST_NAMES_MAX;
            levels++;
        }
        net->line = list->line;
        net->upper = list->upper;
        net->is_hosts = 1;
        net->below = 0;
        status = weft_hostlist_expand(net->named->text, list->line, list->nodes, &budget, take_rest, net);
        if (!status && net->below)
            status =
                weft_read_warn(net->named->text, net->named->graph, list->line,
                               "no line says on which switch below \"%s\" %u of its nodes hang: they are "
                               "taken to hang on that one",
                               name_of(net, list->upper), net->below);
    }
    return status;
}

int weft_slurm_net_finish(struct weft_slurm_net *net)
{
    const struct weft_named *named = net->named;
    for (uint32_t i = 0; i < named->count && net->has_switches; i++) {
        const struct weft_named_node *node = &named->nodes[i];
        static const char unnamed[] = "switch \"%s\" is below another, but no %s names it";
        if (node->is_host || node->given)
            continue;
        if (!net->is_shown)
            return weft_read_fail(named->text, node->line, unnamed, name_of(net, i), net->entry);
        int status =
            weft_read_warn(named->text, named->graph, node->line, unnamed, name_of(net, i), net->entry);
        if (status)
            return status;
    }
    return take_lists(net);
}

void weft_slurm_net_close(struct weft_slurm_net *net)
{
    free(net->lists);
    *net = (struct weft_slurm_net){0};
}
