/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/layouts.h"

#include <stdio.h>
#include <string.h>

#include "algos/hosts.h"
#include "comm/core/comm.h"
#include "tests/support/ranks.h"

/* The pieces of an order in which hosts follow each other, or nothing where that is not so. */
struct pieces {
    uint32_t order[TEST_LAYOUT_RANKS], sizes[TEST_LAYOUT_RANKS], count, at; /* at: ranks in them */
};

static void piece_begin(struct pieces *pieces)
{
    pieces->sizes[pieces->count++] = 0;
}

/* NUMA nodes by number, ranks of which it is not known behind. */
static void add_domain(struct pieces *pieces, const struct test_layout *layout, char host, char domain)
{
    for (const char *node = "0123456789-"; *node; node++) {
        for (uint32_t rank = 0; layout->hosts[rank]; rank++) {
            if (layout->hosts[rank] != host || (layout->domains && layout->domains[rank] != domain) ||
                *node != (layout->numa ? layout->numa[rank] : '-'))
                continue;
            pieces->order[pieces->at++] = rank;
            pieces->sizes[pieces->count - 1]++;
        }
    }
}

/* Domains of a host by their lowest ranks: one piece, or one each. */
static void add_host(struct pieces *pieces, const struct test_layout *layout, char host, int split)
{
    const char *hosts = layout->hosts;
    uint32_t first = pieces->at;
    for (uint32_t rank = 0; hosts[rank]; rank++) {
        int seen = 0;
        for (uint32_t p = first; p < pieces->at; p++)
            seen |= pieces->order[p] == rank;
        if (hosts[rank] != host || seen)
            continue;
        if (split || pieces->at == first)
            piece_begin(pieces);
        add_domain(pieces, layout, host, layout->domains ? layout->domains[rank] : 0);
    }
}

static struct pieces in_sequence(const struct test_layout *layout)
{
    struct pieces pieces = {.count = 0};
    int one_host = strspn(layout->hosts, (char[]){layout->hosts[0], 0}) == strlen(layout->hosts);
    for (const char *host = layout->sequence ? layout->sequence : "abcdefghijklmnop"; *host; host++)
        add_host(&pieces, layout, *host, layout->same_name || one_host);
    return pieces;
}

static struct pieces as_numbered(const char *hosts)
{
    struct pieces pieces = {.count = 0};
    for (uint32_t rank = 0; hosts[rank]; rank++) {
        pieces.order[rank] = rank;
        if (rank && hosts[rank] == hosts[rank - 1]) {
            pieces.sizes[pieces.count - 1]++;
        } else if (memchr(hosts, hosts[rank], rank)) { /* back to a host that was left */
            pieces.count = 0;
            break;
        } else {
            pieces.sizes[pieces.count++] = 1;
        }
    }
    return pieces;
}

static int is_plain(const struct pieces *pieces, uint32_t ranks)
{
    for (uint32_t p = 0; p < ranks && pieces->count; p++) {
        if (pieces->order[p] != p)
            return 0;
    }
    return pieces->count <= 1;
}

/* Hosts are counted by their lowest ranks, whatever the order is. */
static int check_indices(const weft_comm *comm, const struct test_layout *layout)
{
    struct pieces pieces = in_sequence(layout);
    int host_of[TEST_LAYOUT_RANKS], index_of[TEST_LAYOUT_RANKS], next = 0;
    for (uint32_t h = 0, p = 0; h < pieces.count; h++) {
        index_of[h] = -1;
        for (uint32_t end = p + pieces.sizes[h]; p < end; p++)
            host_of[pieces.order[p]] = (int)h;
    }
    for (int r = 0; layout->hosts[r]; r++) {
        weft_rank_info info = WEFT_RANK_INFO_INIT;
        int *index = &index_of[host_of[r]];
        CHECK_OK(weft_comm_get_rank_info(comm, r, &info));
        *index = *index < 0 ? next++ : *index;
        CHECK(info.host_index == *index);
    }
    return 0;
}

int test_layout_check(const weft_comm *comm, const struct test_layout *layout)
{
    const struct weft_hosts *hosts = comm->hosts;
    uint32_t ranks = (uint32_t)strlen(layout->hosts);
    CHECK(weft_comm_size(comm) == (int)ranks && ranks <= TEST_LAYOUT_RANKS);
    struct pieces pieces = layout->by_rank ? as_numbered(layout->hosts) : in_sequence(layout);
    for (uint32_t r = 0; r < ranks; r++) {
        const char name[2] = {layout->hosts[r]};
        weft_rank_info info = WEFT_RANK_INFO_INIT;
        CHECK_OK(weft_comm_get_rank_info(comm, (int)r, &info));
        CHECK(strcmp(info.host, name) == 0);
    }
    CHECK(check_indices(comm, layout) == 0);
    CHECK((hosts == NULL) == is_plain(&pieces, ranks));
    if (!hosts)
        return 0;
    CHECK(hosts->ranks == ranks && hosts->count == pieces.count);
    for (uint32_t h = 0; h < pieces.count; h++)
        CHECK(weft_hosts_size(hosts, h) == pieces.sizes[h]);
    for (uint32_t p = 0; p < ranks; p++) {
        CHECK(weft_hosts_rank(hosts, p) == pieces.order[p]);
        CHECK(weft_hosts_position(hosts, pieces.order[p]) == p);
    }
    return 0;
}
