/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of a fabric: tiers from the top down, a box per group of equal switches, the hosts beneath the leaves. What
 * a tier is, and what leads up from it in all, stands on the left; lines join groups that are cabled, and say no more. */
#include "topo/tool/draw_fabric.h"

#include <stdlib.h>
#include <string.h>

#include "topo/natural.h"

enum {
    LINE = 13,
    GAP = 24,        /* between groups */
    TIER_GAP = 62,   /* between tiers */
    HOSTS_GAP = 18,  /* between leaves and their hosts */
    LINES_MAX = 210, /* width of a group's text */
    LEFT_GAP = 24
};

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* Widths are multiples of 4, so that what stands in the middle of the same width stands there exactly. */
static int even(int width)
{
    return (width + 3) / 4 * 4;
}

/* "16 x 400 Gb/s"; as much of it as is known. */
static const char *cables_text(struct draw_sheet *sheet, const struct draw_bundle *bundle, const char *number)
{
    if (bundle->uncounted)
        return bundle->mixed || !bundle->bytes_per_s
                   ? ""
                   : draw_format(sheet, "%s a cable", draw_bits(sheet, bundle->bytes_per_s));
    return bundle->mixed
               ? draw_format(sheet, "%s cables of several rates", number)
               : draw_format(sheet, "%s \xc3\x97 %s", number, draw_bits(sheet, bundle->bytes_per_s));
}

static const char *bundle_text(struct draw_sheet *sheet, const struct draw_bundle *bundle)
{
    return cables_text(sheet, bundle, draw_format(sheet, "%llu", (unsigned long long)bundle->links));
}

/* "15-17" from the least and most. */
static const char *span(struct draw_sheet *sheet, uint64_t least, uint64_t most)
{
    return least == most
               ? draw_format(sheet, "%llu", (unsigned long long)least)
               : draw_format(sheet, "%llu-%llu", (unsigned long long)least, (unsigned long long)most);
}

static void add_line(struct draw_sheet *sheet, struct draw_group *group, enum draw_font font,
                     const char *text)
{
    if (group->line_count == 6 || !*text)
        return;
    group->fonts[group->line_count] = font;
    group->lines[group->line_count] = draw_fit(sheet, font, text, LINES_MAX);
    group->w = larger(group->w, draw_text_width(font, group->lines[group->line_count++]) + 16);
}

static void add_host_line(struct draw_sheet *sheet, struct draw_group *group, enum draw_font font,
                          const char *text)
{
    if (group->host_line_count == 3 || !*text)
        return;
    group->host_fonts[group->host_line_count] = font;
    group->host_lines[group->host_line_count] = draw_fit(sheet, font, text, LINES_MAX);
    group->host_w =
        larger(group->host_w, draw_text_width(font, group->host_lines[group->host_line_count++]) + 16);
}

static const char *tier_name(struct draw_sheet *sheet, const struct draw_fabric *fabric, uint32_t tier)
{
    static const char *const names[] = {"leaf", "spine", "core"};
    if (tier == fabric->unreached && tier < fabric->tier_count)
        return "no way to a host";
    uint32_t tiers = fabric->unreached;
    return tiers > 1 && tiers <= 3  ? names[tier]
           : tier == 0 && tiers > 1 ? names[0]
           : tiers == 1             ? "switch"
                                    : draw_format(sheet, "tier %u", tier + 1);
}

static const char *group_names(struct draw_sheet *sheet, const struct draw_fabric *fabric,
                               const struct draw_group *group)
{
    const char **names = draw_alloc(sheet, group->count * sizeof *names);
    if (!names)
        return "";
    for (uint32_t i = 0; i < group->count; i++)
        names[i] = fabric->graph->nodes[fabric->switches[group->first + i].node].name;
    return draw_ranges(sheet, DRAW_SMALL, names, group->count, LINES_MAX);
}

/* "up: 16 x 400 Gb/s", of the one switch or of each; spans where they differ. */
static const char *cables_line(struct draw_sheet *sheet, const struct draw_fabric *fabric,
                               const struct draw_group *group, const char *word, size_t offset)
{
    struct draw_bundle all = {0}, least = {.links = UINT64_MAX};
    for (uint32_t i = 0; i < group->count; i++) {
        const char *at = (const char *)&fabric->switches[group->first + i] + offset;
        const struct draw_bundle *bundle = (const struct draw_bundle *)(const void *)at;
        if (bundle->links)
            all.mixed |= bundle->mixed || (all.links && all.bytes_per_s != bundle->bytes_per_s);
        all.uncounted |= bundle->uncounted;
        all.links = bundle->links > all.links ? bundle->links : all.links;
        least.links = bundle->links < least.links ? bundle->links : least.links;
        all.bytes_per_s = bundle->links ? bundle->bytes_per_s : all.bytes_per_s;
    }
    const char *text = all.links ? cables_text(sheet, &all, span(sheet, least.links, all.links)) : "";
    return *text ? draw_format(sheet, "%s %s", word, text) : "";
}

/* More down than up: the ratio. Only where every rate is known. */
static const char *oversubscription(struct draw_sheet *sheet, const struct draw_switch *at)
{
    if (!at->up.links || !at->up.bytes_per_s || !at->to_hosts.bytes_per_s || at->up.mixed ||
        at->to_hosts.mixed)
        return "";
    double ratio = (double)at->to_hosts.links * (double)at->to_hosts.bytes_per_s /
                   ((double)at->up.links * (double)at->up.bytes_per_s);
    return ratio > 1.005 ? draw_format(sheet, "%.3g : 1 oversubscribed", ratio) : "";
}

static void describe_hosts(struct draw_sheet *sheet, const struct draw_fabric *fabric,
                           struct draw_group *group)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        uint64_t hosts = fabric->switches[group->first + i].hosts;
        least = hosts < least ? hosts : least;
        most = hosts > most ? hosts : most;
    }
    if (most == 0)
        return;
    add_host_line(sheet, group, DRAW_HEAD,
                  draw_format(sheet, "%s host%s%s", span(sheet, least, most), most == 1 ? "" : "s",
                              group->count > 1 ? " each" : ""));
    if (group->count == 1) {
        const struct draw_switch *at = &fabric->switches[group->first];
        const char **names = draw_alloc(sheet, at->hosts * sizeof *names);
        for (uint32_t i = 0; names && i < at->hosts; i++)
            names[i] = fabric->pairs[at->pairs_first + i].name;
        if (names)
            add_host_line(sheet, group, DRAW_SMALL,
                          draw_ranges(sheet, DRAW_SMALL, names, at->hosts, LINES_MAX));
    }
    add_host_line(sheet, group, DRAW_SMALL,
                  cables_line(sheet, fabric, group, "on", offsetof(struct draw_switch, to_hosts)));
}

static void describe(struct draw_sheet *sheet, const struct draw_fabric *fabric, struct draw_group *group)
{
    uint64_t dead = 0;
    const struct draw_switch *first = &fabric->switches[group->first];
    for (uint32_t i = 0; i < group->count; i++)
        dead += first[i].up.dead + first[i].down.dead + first[i].across.dead + first[i].to_hosts.dead;
    if (group->count == 1)
        add_line(sheet, group, DRAW_NAME, fabric->graph->nodes[first->node].name);
    else
        add_line(sheet, group, DRAW_NAME,
                 draw_format(sheet, "%u%s \xc3\x97 %s", group->count, group->rest ? " other" : "",
                             tier_name(sheet, fabric, group->tier)));
    if (group->count > 1)
        add_line(sheet, group, DRAW_SMALL, group_names(sheet, fabric, group));
    add_line(sheet, group, DRAW_SMALL,
             cables_line(sheet, fabric, group, "up", offsetof(struct draw_switch, up)));
    add_line(sheet, group, DRAW_SMALL,
             cables_line(sheet, fabric, group, "down", offsetof(struct draw_switch, down)));
    add_line(sheet, group, DRAW_SMALL,
             cables_line(sheet, fabric, group, "across", offsetof(struct draw_switch, across)));
    if (!group->rest)
        add_line(sheet, group, DRAW_SMALL, oversubscription(sheet, first));
    if (dead)
        add_line(sheet, group, DRAW_BAD,
                 draw_format(sheet, "%llu ends of cables down", (unsigned long long)dead));
    group->w = even(larger(group->w, 80));
    group->h = group->line_count * LINE + 10;
    describe_hosts(sheet, fabric, group);
    group->host_w = even(group->host_w);
    group->host_h = group->host_line_count * LINE + 10;
}

/* Where line number k of n leaves a box of that width. */
static int spread(int x, int w, int k, int n)
{
    return x + w * (k + 1) / (n + 1);
}

/* Which of the group's partners in tiers above (or below) this one is, and of how many. */
static int place_of(const struct draw_fabric *fabric, uint32_t group, uint32_t partner, int above, int *count)
{
    int at = 0;
    *count = 0;
    for (uint32_t g = 0; g < fabric->group_count; g++) {
        uint32_t p = g < group ? g : group, q = g < group ? group : g;
        const struct draw_bundle *bundle = &fabric->between[p * fabric->group_count + q];
        int is_above = fabric->groups[g].tier > fabric->groups[group].tier;
        if (fabric->groups[g].tier == fabric->groups[group].tier || is_above != above ||
            !(bundle->links + bundle->dead))
            continue;
        at = g == partner ? *count : at;
        ++*count;
    }
    return at;
}

static void paint_lines(struct draw_sheet *sheet, const struct draw_fabric *fabric)
{
    uint64_t most = 1;
    for (uint32_t i = 0; i < fabric->group_count * fabric->group_count; i++)
        most = fabric->between[i].links > most ? fabric->between[i].links : most;
    for (uint32_t low = 0; low < fabric->group_count; low++) {
        for (uint32_t high = low + 1; high < fabric->group_count; high++) {
            const struct draw_bundle *bundle = &fabric->between[low * fabric->group_count + high];
            const struct draw_group *p = &fabric->groups[low], *q = &fabric->groups[high];
            int ups, downs, up = place_of(fabric, low, high, 1, &ups),
                            down = place_of(fabric, high, low, 0, &downs);
            if (p->tier == q->tier || bundle->links == 0)
                continue;
            int points[2][2] = {{spread(p->x, p->w, up, ups), p->y},
                                {spread(q->x, q->w, down, downs), q->y + q->h}};
            draw_line(sheet, DRAW_LINE_FABRIC, 1 + (int)(5 * bundle->links / most), (const int(*)[2])points,
                      2);
        }
    }
}

static void paint_group(struct draw_sheet *sheet, const struct draw_group *group)
{
    int middle = group->x + group->w / 2, hosts_y = group->y + group->h + HOSTS_GAP;
    if (group->host_line_count) {
        int points[2][2] = {{middle, group->y + group->h}, {middle, hosts_y}};
        draw_line(sheet, DRAW_LINE_FABRIC, 3, (const int(*)[2])points, 2);
        draw_rect(sheet, DRAW_HOSTS, middle - group->host_w / 2, hosts_y, group->host_w, group->host_h, NULL);
        for (int i = 0; i < group->host_line_count; i++)
            draw_text(sheet, (enum draw_font)group->host_fonts[i], DRAW_MIDDLE, middle,
                      hosts_y + 3 + (i + 1) * LINE, group->host_lines[i]);
    }
    draw_rect(sheet, DRAW_SWITCH, group->x, group->y, group->w, group->h, NULL);
    for (int i = 0; i < group->line_count; i++)
        draw_text(sheet, (enum draw_font)group->fonts[i], DRAW_MIDDLE, middle, group->y + 3 + (i + 1) * LINE,
                  group->lines[i]);
}

/* On the left: a tier's name and number of switches, and what leads up from it. Returns the width; paints with y set. */
static int tier_text(struct draw_sheet *sheet, const struct draw_fabric *fabric, uint32_t tier, int x, int y)
{
    uint64_t switches = 0;
    for (uint32_t g = 0; g < fabric->group_count; g++)
        switches += fabric->groups[g].tier == tier ? fabric->groups[g].count : 0;
    const char *name = tier_name(sheet, fabric, tier);
    const char *count =
        draw_format(sheet, "%llu switch%s", (unsigned long long)switches, switches == 1 ? "" : "es");
    const char *up = fabric->tier_up[tier].links ? bundle_text(sheet, &fabric->tier_up[tier]) : "";
    up = *up ? draw_format(sheet, "\xe2\x86\x91 %s", up) : "";
    if (y >= 0) {
        draw_text(sheet, DRAW_HEAD, DRAW_LEFT, x, y + 13, name);
        draw_text(sheet, DRAW_NOTE, DRAW_LEFT, x, y + 27, count);
        draw_text(sheet, DRAW_NOTE, DRAW_LEFT, x, y - TIER_GAP / 2 + 4, up);
    }
    return larger(draw_text_width(DRAW_HEAD, name),
                  larger(draw_text_width(DRAW_NOTE, count), draw_text_width(DRAW_NOTE, up)));
}

static int group_room(const struct draw_group *group)
{
    return larger(group->w, group->host_w);
}

/* Places the groups of the tier in the middle of the width, their tops at y. Returns the height. */
static int place_tier(const struct draw_fabric *fabric, uint32_t tier, int x, int width, int y, int *taken)
{
    int total = -GAP, tallest = 0;
    for (uint32_t g = 0; g < fabric->group_count; g++) {
        if (fabric->groups[g].tier == tier) {
            total += group_room(&fabric->groups[g]) + GAP;
            tallest = larger(tallest, fabric->groups[g].h);
        }
    }
    *taken = total;
    x += (width - total) / 2;
    for (uint32_t g = 0; g < fabric->group_count; g++) {
        struct draw_group *group = &fabric->groups[g];
        if (group->tier != tier)
            continue;
        group->x = x + (group_room(group) - group->w) / 2;
        group->y = y;
        group->h = tallest;
        x += group_room(group) + GAP;
    }
    return tallest;
}

int draw_fabric_paint(struct draw_sheet *sheet, const struct draw_fabric *fabric, int x, int y, int least)
{
    int left = 0, width = 0, taken, hosts_h = 0, top = y;
    for (uint32_t g = 0; g < fabric->group_count; g++) {
        describe(sheet, fabric, &fabric->groups[g]);
        hosts_h = larger(hosts_h, fabric->groups[g].host_line_count ? fabric->groups[g].host_h : 0);
    }
    for (uint32_t tier = 0; tier < fabric->tier_count; tier++) {
        left = larger(left, tier_text(sheet, fabric, tier, 0, -1));
        place_tier(fabric, tier, 0, 0, 0, &taken);
        width = larger(width, taken);
    }
    const char *hosts =
        draw_format(sheet, "%u host%s", fabric->host_count, fabric->host_count == 1 ? "" : "s");
    const char *on = fabric->to_hosts.links ? bundle_text(sheet, &fabric->to_hosts) : "";
    left = larger(left, larger(draw_text_width(DRAW_HEAD, hosts), draw_text_width(DRAW_NOTE, on))) + LEFT_GAP;
    width = even(larger(width, least - left));
    if (sheet->failed)
        return 0;
    for (uint32_t tier = fabric->tier_count; tier-- > 0;) {
        int h = place_tier(fabric, tier, x + left, width, y, &taken);
        tier_text(sheet, fabric, tier, x, y);
        y += h + (tier ? TIER_GAP : HOSTS_GAP);
    }
    if (fabric->host_count) {
        draw_text(sheet, DRAW_HEAD, DRAW_LEFT, x, y + 13, hosts);
        draw_text(sheet, DRAW_NOTE, DRAW_LEFT, x, y + 27, on);
    }
    paint_lines(sheet, fabric);
    for (uint32_t g = 0; g < fabric->group_count; g++)
        paint_group(sheet, &fabric->groups[g]);
    return y + hosts_h - top;
}
