/* SPDX-License-Identifier: Apache-2.0 */
/* Pairing ports.
 *
 * Both ends compute the same list. So that this holds whatever the rules are, they are applied to the two addresses
 * in an order that both know (by instance number), and the caller's view is made of the result.
 *
 * The rules: two ports can talk when they have the same link layer, keys of the same partition, of which at least one is a
 * full member's (IB specification 1.4, 10.9.3), and two of their GIDs go together (verbs_gid_score). Of those pairs the
 * ones of the fastest speed class stay, and each port is given a partner, the best remaining pair first. Equally good are
 * most of them, and then ports of equal place go together: clusters that give each port of a host a switch of its own
 * (rail-optimised) connect equal places. Ports that are left over, where one end has more, share the partner that has the
 * fewest. */
#include "transport/verbs/address.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"

#define ADDRESS_FIXED 16
#define PORT_FIXED    22
#define GID_BYTES     19
#define LID_MULTICAST 0xc000 /* first that is not one port's */
#define FOREIGN       0x80
#define FULL_MEMBER   0x8000
#define NEEDS_GRH     1
#define HOPS          255

/* --- bytes */

struct cursor {
    const uint8_t *at, *end;
};

static void put(uint8_t **at, uint64_t value, int size)
{
    for (int i = 0; i < size; i++)
        *(*at)++ = (uint8_t)(value >> 8 * i);
}

static uint64_t get(struct cursor *cursor, int size)
{
    uint64_t value = 0;
    for (int i = 0; i < size; i++)
        value |= (uint64_t)cursor->at[i] << 8 * i;
    cursor->at += size;
    return value;
}

static int has(const struct cursor *cursor, size_t size)
{
    return (size_t)(cursor->end - cursor->at) >= size;
}

static void put_port(uint8_t **at, const struct verbs_port *port, int gid_count)
{
    put(at, port->guid, 8);
    put(at, port->speed_mbps, 4);
    put(at, port->lid, 2);
    put(at, port->lmc, 1);
    put(at, port->number, 1);
    put(at, port->layer, 1);
    put(at, port->mtu, 1);
    put(at, port->partition, 2);
    put(at, (uint64_t)gid_count, 1);
    put(at, port->needs_grh ? NEEDS_GRH : 0, 1);
    for (int i = 0; i < gid_count; i++) {
        const struct verbs_gid *gid = &port->gids[i];
        memcpy(*at, gid->raw, sizeof gid->raw);
        *at += sizeof gid->raw;
        put(at, gid->type | (gid->foreign ? FOREIGN : 0), 1);
        put(at, gid->prefix_bits, 1);
        put(at, gid->index, 1);
    }
}

size_t verbs_address_encode(const struct verbs_address *address, uint8_t bytes[WEFT_ADDRESS_MAX])
{
    size_t share = (WEFT_ADDRESS_MAX - ADDRESS_FIXED) / (size_t)address->port_count;
    int room = (int)((share - PORT_FIXED) / GID_BYTES);
    uint8_t *at = bytes;
    put(&at, VERBS_ADDRESS_MAGIC, 4);
    put(&at, address->version_min, 1);
    put(&at, address->version_max, 1);
    put(&at, address->port_count, 1);
    put(&at, 0, 1);
    put(&at, address->instance, 8);
    for (int i = 0; i < address->port_count; i++) {
        int gids = address->ports[i].gid_count;
        put_port(&at, &address->ports[i], gids < room ? gids : room);
    }
    return (size_t)(at - bytes);
}

static int get_gid(struct cursor *cursor, int layer, struct verbs_gid *gid)
{
    if (!has(cursor, GID_BYTES))
        return weft_fail(WEFT_PROTOCOL, "verbs: a peer's address ends inside a GID");
    memcpy(gid->raw, cursor->at, sizeof gid->raw);
    cursor->at += sizeof gid->raw;
    uint8_t type = (uint8_t)get(cursor, 1);
    gid->foreign = (type & FOREIGN) != 0;
    gid->type = type & (FOREIGN - 1);
    gid->prefix_bits = (uint8_t)get(cursor, 1);
    gid->index = (uint8_t)get(cursor, 1);
    if (gid->type > VERBS_GID_ROCE2 || (gid->type == VERBS_GID_IB) != (layer == IBV_LINK_LAYER_INFINIBAND) ||
        gid->prefix_bits > 128)
        return weft_fail(WEFT_PROTOCOL,
                         "verbs: a peer's address has a GID of type %u with a prefix of %u bits", gid->type,
                         gid->prefix_bits);
    return WEFT_OK;
}

static int get_port(struct cursor *cursor, struct verbs_port *port)
{
    if (!has(cursor, PORT_FIXED))
        return weft_fail(WEFT_PROTOCOL, "verbs: a peer's address ends inside a port");
    port->guid = get(cursor, 8);
    port->speed_mbps = (uint32_t)get(cursor, 4);
    port->lid = (uint16_t)get(cursor, 2);
    port->lmc = (uint8_t)get(cursor, 1);
    port->number = (uint8_t)get(cursor, 1);
    port->layer = (uint8_t)get(cursor, 1);
    port->mtu = (uint8_t)get(cursor, 1);
    port->partition = (uint16_t)get(cursor, 2);
    port->gid_count = (uint8_t)get(cursor, 1);
    port->needs_grh = get(cursor, 1) & NEEDS_GRH;
    int is_infiniband = port->layer == IBV_LINK_LAYER_INFINIBAND;
    if ((!is_infiniband && port->layer != IBV_LINK_LAYER_ETHERNET) || port->number == 0 ||
        port->mtu < IBV_MTU_256 || port->mtu > IBV_MTU_4096 || port->gid_count == 0 ||
        port->gid_count > VERBS_PORT_GIDS || port->lmc > 7 ||
        (is_infiniband && (port->lid == 0 || port->lid + (1 << port->lmc) > LID_MULTICAST)))
        return weft_fail(
            WEFT_PROTOCOL,
            "verbs: a peer's address has a port %u of link layer %u, LID %u with LMC %u, MTU %u and "
            "%u GIDs",
            port->number, port->layer, port->lid, port->lmc, port->mtu, port->gid_count);
    for (int i = 0; i < port->gid_count; i++) {
        int status = get_gid(cursor, port->layer, &port->gids[i]);
        if (status)
            return status;
    }
    return WEFT_OK;
}

int verbs_address_decode(const void *bytes, size_t size, struct verbs_address *address)
{
    struct cursor cursor = {bytes, (const uint8_t *)bytes + size};
    struct verbs_address read;
    memset(&read, 0, sizeof read);
    if (size < ADDRESS_FIXED || size > WEFT_ADDRESS_MAX || get(&cursor, 4) != VERBS_ADDRESS_MAGIC)
        return weft_fail(WEFT_PROTOCOL, "verbs: %zu bytes of a peer are not an address of this transport",
                         size);
    read.version_min = (uint8_t)get(&cursor, 1);
    read.version_max = (uint8_t)get(&cursor, 1);
    read.port_count = (uint8_t)get(&cursor, 1);
    cursor.at++;
    read.instance = get(&cursor, 8);
    if (read.version_min > VERBS_VERSION || read.version_max < VERBS_VERSION_MIN)
        return weft_fail(WEFT_PROTOCOL, "verbs: a peer speaks versions %u to %u, expected one from %d to %d",
                         read.version_min, read.version_max, VERBS_VERSION_MIN, VERBS_VERSION);
    if (read.port_count == 0 || read.port_count > VERBS_RAILS)
        return weft_fail(WEFT_PROTOCOL, "verbs: a peer's address has %u ports, expected 1 to %d",
                         read.port_count, VERBS_RAILS);
    for (int i = 0; i < read.port_count; i++) {
        int status = get_port(&cursor, &read.ports[i]);
        if (status)
            return status;
    }
    if (cursor.at != cursor.end)
        return weft_fail(WEFT_PROTOCOL, "verbs: a peer's address has %zu bytes too many",
                         (size_t)(cursor.end - cursor.at));
    *address = read;
    return WEFT_OK;
}

/* --- pairs */

/* Two ports that can talk; score 0: they cannot. */
struct option {
    int score;
    uint32_t speed;
    uint8_t low_gid, high_gid;
};

struct table {
    struct option options[VERBS_RAILS][VERBS_RAILS];
    int low_uses[VERBS_RAILS], high_uses[VERBS_RAILS];
    int low_count, high_count;
};

/* Two hosts' virtual networks often have the same addresses: that is nobody else's GID. */
static int is_clash(const struct verbs_port *low, const struct verbs_port *high, const struct verbs_gid *a,
                    const struct verbs_gid *b)
{
    return low->guid != high->guid && memcmp(a->raw, b->raw, sizeof a->raw) == 0;
}

static int is_same_partition(const struct verbs_port *low, const struct verbs_port *high)
{
    return ((low->partition ^ high->partition) & ~FULL_MEMBER) == 0 &&
           ((low->partition | high->partition) & FULL_MEMBER);
}

static struct option best_gids(const struct verbs_port *low, const struct verbs_port *high)
{
    struct option best = {0};
    int is_possible = low->layer == high->layer && is_same_partition(low, high);
    for (int i = 0; i < low->gid_count && is_possible; i++) {
        for (int k = 0; k < high->gid_count; k++) {
            const struct verbs_gid *a = &low->gids[i], *b = &high->gids[k];
            int score = is_clash(low, high, a, b) ? 0 : verbs_gid_score(a, b);
            if (score > best.score)
                best = (struct option){score, 0, (uint8_t)i, (uint8_t)k};
        }
    }
    best.speed = low->speed_mbps < high->speed_mbps ? low->speed_mbps : high->speed_mbps;
    return best;
}

/* Fills the table with what can talk and is not of a slower class. */
static void tabulate(const struct verbs_address *low, const struct verbs_address *high, struct table *table)
{
    uint32_t fastest = 0;
    memset(table, 0, sizeof *table);
    table->low_count = low->port_count;
    table->high_count = high->port_count;
    for (int i = 0; i < low->port_count; i++) {
        for (int k = 0; k < high->port_count; k++) {
            struct option *option = &table->options[i][k];
            *option = best_gids(&low->ports[i], &high->ports[k]);
            if (option->score && option->speed > fastest)
                fastest = option->speed;
        }
    }
    for (int i = 0; i < low->port_count; i++) {
        for (int k = 0; k < high->port_count; k++) {
            if (table->options[i][k].speed <= fastest / 2)
                table->options[i][k].score = fastest ? 0 : table->options[i][k].score;
        }
    }
}

/* Whether option (i, k) is better than (a, b), which may be (-1, -1). With sharing, fewer uses count first. */
static int is_better(const struct table *table, int i, int k, int a, int b)
{
    if (a < 0)
        return 1;
    int uses = table->low_uses[i] + table->high_uses[k], best_uses = table->low_uses[a] + table->high_uses[b];
    if (uses != best_uses)
        return uses < best_uses;
    if (table->options[i][k].score != table->options[a][b].score)
        return table->options[i][k].score > table->options[a][b].score;
    return abs(i - k) < abs(a - b);
}

/* Takes the best option that leaves a port without a partner no longer; 0 when there is none. */
static int take(struct table *table, struct verbs_pair *pair)
{
    int a = -1, b = -1;
    for (int i = 0; i < table->low_count; i++) {
        for (int k = 0; k < table->high_count; k++) {
            int is_needed = !table->low_uses[i] || !table->high_uses[k];
            if (table->options[i][k].score && is_needed && is_better(table, i, k, a, b)) {
                a = i;
                b = k;
            }
        }
    }
    if (a < 0)
        return 0;
    table->low_uses[a]++;
    table->high_uses[b]++;
    *pair = (struct verbs_pair){(uint8_t)a, (uint8_t)b, table->options[a][b].low_gid,
                                table->options[a][b].high_gid};
    return 1;
}

int verbs_pairs(const struct verbs_address *mine, const struct verbs_address *theirs,
                struct verbs_pair pairs[VERBS_PAIRS])
{
    int is_low = mine->instance <= theirs->instance;
    struct table table;
    tabulate(is_low ? mine : theirs, is_low ? theirs : mine, &table);
    int count = 0;
    while (count < VERBS_PAIRS && take(&table, &pairs[count])) {
        struct verbs_pair pair = pairs[count];
        if (!is_low)
            pairs[count] = (struct verbs_pair){pair.theirs, pair.mine, pair.their_gid, pair.my_gid};
        count++;
    }
    return count;
}

/* --- paths */

int verbs_mtu_bytes(int mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128 << mtu : 0;
}

void verbs_path(const struct verbs_address *mine, const struct verbs_address *theirs,
                const struct verbs_pair *pair, int number, struct verbs_path *path)
{
    const struct verbs_port *from = &mine->ports[pair->mine], *to = &theirs->ports[pair->theirs];
    const struct verbs_gid *source = &from->gids[pair->my_gid], *target = &to->gids[pair->their_gid];
    memset(path, 0, sizeof *path);
    path->mtu = from->mtu < to->mtu ? from->mtu : to->mtu;
    path->gid_index = source->index;
    memcpy(path->gid, target->raw, sizeof path->gid);
    if (from->layer == IBV_LINK_LAYER_ETHERNET) {
        path->is_global = 1;
        return;
    }
    int is_far = memcmp(source->raw, target->raw, 8) != 0;
    path->is_global = is_far || from->needs_grh || to->needs_grh;
    if (is_far) {
        path->lid = (uint16_t)(target->raw[4] << 8 | target->raw[5]);
        return;
    }
    int lmc = from->lmc < to->lmc ? from->lmc : to->lmc;
    int bits = number & ((1 << lmc) - 1);
    path->lid = (uint16_t)(to->lid + bits);
    path->bits = (uint8_t)bits;
}

void verbs_path_fill(const struct verbs_path *path, const struct weft_verbs_settings *settings, int port,
                     struct ibv_qp_attr *attributes)
{
    struct ibv_ah_attr *ah = &attributes->ah_attr;
    memset(ah, 0, sizeof *ah);
    attributes->path_mtu = (enum ibv_mtu)path->mtu;
    ah->port_num = (uint8_t)port;
    ah->sl = (uint8_t)settings->service_level;
    ah->dlid = path->lid;
    ah->src_path_bits = path->bits;
    ah->is_global = (uint8_t)path->is_global;
    if (!path->is_global)
        return;
    memcpy(ah->grh.dgid.raw, path->gid, sizeof path->gid);
    ah->grh.sgid_index = (uint8_t)path->gid_index;
    ah->grh.hop_limit = HOPS;
    ah->grh.traffic_class = (uint8_t)settings->traffic_class;
}
