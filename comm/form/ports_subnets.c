/* SPDX-License-Identifier: Apache-2.0 */
/* Subnets that look like one: comm/form/ports.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/form/arrange.h"
#include "comm/core/comm.h"
#include "comm/form/ports.h"

#define LID_END 0xc000 /* above are those of multicast groups, and 0xffff, which says that there is none */

struct entry {
    const struct weft_announced_port *port;
    int32_t rank;
};

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->port->subnet != y->port->subnet)
        return x->port->subnet < y->port->subnet ? -1 : 1;
    if (x->port->lid != y->port->lid)
        return x->port->lid < y->port->lid ? -1 : 1;
    if (x->port->guid != y->port->guid)
        return x->port->guid < y->port->guid ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int are_of_one_host(const struct weft_comm *comm, int32_t a, int32_t b)
{
    const struct weft_member *x = &comm->members[a], *y = &comm->members[b];
    return x->machine == y->machine && strcmp(x->host, y->host) == 0;
}

/* Different ports with one prefix and LID, each once. The first has another rail than one of the others: which; 0: none, or two are
 * of one host. */
static uint32_t find_other_rail(const struct weft_comm *comm, const struct entry *ports, uint32_t count)
{
    uint32_t other = 0;
    for (uint32_t i = 1; i < count; i++) {
        if (are_of_one_host(comm, ports[0].rank, ports[i].rank))
            return 0;
        if (!other && ports[i].port->rail != ports[0].port->rail)
            other = i;
    }
    return other;
}

/* Keeps the first of the entries that speak of one port. */
static uint32_t drop_repeated(struct entry *entries, uint32_t count)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_announced_port *last = used ? entries[used - 1].port : NULL;
        if (!last || last->guid != entries[i].port->guid || last->lid != entries[i].port->lid ||
            last->subnet != entries[i].port->subnet)
            entries[used++] = entries[i];
    }
    return used;
}

int weft_ports_are_apart(const struct weft_comm *comm, const struct weft_announced_place *announced,
                         char reason[WEFT_APART_TEXT])
{
    struct entry *entries = malloc((size_t)comm->ranks * WEFT_ANNOUNCED_PORTS * sizeof *entries);
    uint32_t used = 0, other = 0;
    if (!entries)
        return weft_fail(WEFT_NOMEM, "no memory for the ports of %d ranks", comm->ranks);
    for (int r = 0; r < comm->ranks; r++) {
        for (uint32_t p = 0; p < announced[r].port_count; p++) {
            const struct weft_announced_port *port = &announced[r].ports[p];
            if (port->guid && port->lid && port->lid < LID_END && port->rail != WEFT_RAIL_NONE)
                entries[used++] = (struct entry){port, r};
        }
    }
    qsort(entries, used, sizeof *entries, compare_entries);
    used = drop_repeated(entries, used);
    for (uint32_t first = 0, next; first < used && !other; first = next) {
        const struct weft_announced_port *a = entries[first].port;
        next = first + 1;
        while (next < used && entries[next].port->lid == a->lid && entries[next].port->subnet == a->subnet)
            next++;
        other = find_other_rail(comm, &entries[first], next - first);
        if (other)
            snprintf(reason, WEFT_APART_TEXT, "rank %d's %s:%u and rank %d's %s:%u both have LID %u",
                     entries[first].rank, a->device, a->number, entries[first + other].rank,
                     entries[first + other].port->device, entries[first + other].port->number, a->lid);
    }
    free(entries);
    return other != 0;
}
