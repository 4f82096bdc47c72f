/* SPDX-License-Identifier: Apache-2.0 */
/* How GIDs are compared.
 *
 * RoCE v2 (annex A17 of the IB specification) puts a GID's IP address into an IP and UDP header, which routers
 * forward; v1 (annex A16) puts the whole GID into a frame of the local network segment. So v2 is better, and v1 works
 * between neighbours only. Of v2's entries those with a routable address come first: link-local ones work
 * between neighbours too, and nothing in them says who is one. When both ends know that they share a subnet, that
 * is surer than a way through routers. IPv4 goes before IPv6, which fabrics' counters and access lists cover less
 * often. */
#include "transport/verbs/gid.h"

#include <arpa/inet.h>
#include <string.h>

enum family { IPV4, IPV6 };

static enum family family_of(const struct verbs_gid *gid)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid->raw, mapped, sizeof mapped) == 0 ? IPV4 : IPV6;
}

static int is_link_local(const struct verbs_gid *gid)
{
    if (family_of(gid) == IPV4)
        return gid->raw[12] == 169 && gid->raw[13] == 254;
    return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

static int is_zero(const struct verbs_gid *gid)
{
    static const uint8_t zero[16];
    return memcmp(gid->raw, zero, sizeof zero) == 0;
}

static int common_bits(const uint8_t a[16], const uint8_t b[16])
{
    int bits = 0;
    while (bits < 128 && !((a[bits / 8] ^ b[bits / 8]) & 0x80 >> bits % 8))
        bits++;
    return bits;
}

enum subnet { UNKNOWN, OTHER, SAME };

/* Only two ends that agree on the prefix's length can say. */
static enum subnet compare_subnets(const struct verbs_gid *a, const struct verbs_gid *b)
{
    if (!a->prefix_bits || a->prefix_bits != b->prefix_bits)
        return UNKNOWN;
    return common_bits(a->raw, b->raw) >= a->prefix_bits ? SAME : OTHER;
}

/* InfiniBand: equal prefixes are one subnet. Others are reached by routers only where both GIDs carry the LID under
 * which the own subnet knows them (FLID: site-local prefix fec0, LID in bytes 4 and 5), which is how subnet managers
 * set up routing between subnets; anything else would take a path record of the subnet administrator. */
static int score_infiniband(const struct verbs_gid *a, const struct verbs_gid *b)
{
    if (memcmp(a->raw, b->raw, 8) == 0)
        return 2;
    const struct verbs_gid *both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        const uint8_t *raw = both[i]->raw;
        if (raw[0] != 0xfe || raw[1] != 0xc0 || !(raw[4] | raw[5]))
            return 0;
    }
    return 1;
}

int verbs_gid_score(const struct verbs_gid *a, const struct verbs_gid *b)
{
    if (a->type != b->type || is_zero(a) || is_zero(b))
        return 0;
    if (a->type == VERBS_GID_IB)
        return score_infiniband(a, b);
    enum subnet subnet = compare_subnets(a, b);
    if (family_of(a) != family_of(b) || is_link_local(a) != is_link_local(b) ||
        (a->type == VERBS_GID_ROCE1 && subnet == OTHER))
        return 0;
    return 1 + 32 * (a->type == VERBS_GID_ROCE2) + 16 * (!a->foreign && !b->foreign) + 8 * !is_link_local(a) +
           2 * (subnet == SAME ? 2 : subnet == UNKNOWN) + (family_of(a) == IPV4);
}

/* Of one port's entries: how useful it is to peers of which nothing is known. */
static int rank_of(const struct verbs_gid *gid)
{
    if (gid->type == VERBS_GID_IB)
        return 0;
    return 8 * (gid->type == VERBS_GID_ROCE2) + 4 * !gid->foreign + 2 * !is_link_local(gid) +
           (family_of(gid) == IPV4);
}

/* Two that serve the same peers. */
static int is_alike(const struct verbs_gid *a, const struct verbs_gid *b)
{
    return a->type == b->type && family_of(a) == family_of(b) && is_link_local(a) == is_link_local(b) &&
           (a->type != VERBS_GID_IB || memcmp(a->raw, b->raw, 8) == 0);
}

/* The best one that is not like any chosen so far; the first of equals. NULL when none is left. */
static const struct verbs_gid *next_best(const struct verbs_gid *table, int count,
                                         const struct verbs_gid *chosen, int chosen_count)
{
    const struct verbs_gid *best = NULL;
    for (int i = 0; i < count; i++) {
        int is_new = !is_zero(&table[i]);
        for (int k = 0; k < chosen_count && is_new; k++)
            is_new = !is_alike(&table[i], &chosen[k]);
        if (is_new && (!best || rank_of(&table[i]) > rank_of(best)))
            best = &table[i];
    }
    return best;
}

int verbs_gids_choose(const struct verbs_gid *table, int count, int wanted,
                      struct verbs_gid chosen[VERBS_PORT_GIDS])
{
    for (int i = 0; i < count && wanted >= 0; i++) {
        if (table[i].index == wanted && !is_zero(&table[i])) {
            chosen[0] = table[i];
            return 1;
        }
    }
    int used = 0;
    const struct verbs_gid *next;
    while (wanted < 0 && used < VERBS_PORT_GIDS && (next = next_best(table, count, chosen, used)))
        chosen[used++] = *next;
    return used;
}

const char *verbs_gid_text(const uint8_t raw[16], char text[VERBS_GID_TEXT])
{
    return inet_ntop(AF_INET6, raw, text, VERBS_GID_TEXT) ? text : "?";
}

const char *verbs_gid_type_text(int type)
{
    static const char *const names[] = {"InfiniBand", "RoCE v1", "RoCE v2"};
    return type >= 0 && type <= VERBS_GID_ROCE2 ? names[type] : "?";
}
