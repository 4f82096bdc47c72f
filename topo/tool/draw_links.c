/* SPDX-License-Identifier: Apache-2.0 */
/* Links between GPUs (beneath them) and between NUMA nodes (above them), without a tangle.
 *
 * The ends that links join fall into connected pieces. A piece in which every two ends have the same link is a bar
 * with a stub to each end, so that a full mesh is one shape; a piece with few links has a track of its own for each,
 * like the wires of a board; any other is a matrix of numbers of links. Where something stands between an end and the
 * room for links (machines broken into rows), there are no stubs: the ends are underlined and named instead. Pieces have
 * colours in turn.
 *
 * A piece stands at the bottom of the smallest box that all its ends are in, so that links within a PCI switch or a NUMA
 * node are drawn there. Links between NUMA nodes stand at the top of the host; `up` mirrors them.
 */
#include "topo/tool/draw_links.h"

#include <stdlib.h>
#include <string.h>

enum {
    TRACKS_MAX = 24, /* links of a piece; more are a matrix */
    MATRIX_MAX = 32, /* ends of a piece; more are a line of text */
    BOX_PAD = 8,
    FIRST = 9 /* from the ends' box to the first row */
};

int draw_box_pad(const struct draw_box *box)
{
    return box->role == DRAW_IS_PLACE ? 0 : box->role == DRAW_IS_HOST ? BOX_PAD + 4 : BOX_PAD;
}

int draw_middle_of(const struct draw_box *box)
{
    return box->x + box->w / 2;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static int is_in(const struct draw_box *box, const struct draw_box *around)
{
    while (box && box != around)
        box = box->parent;
    return box != NULL;
}

/* Whether nothing of the box in stands between an end in it and the room for links. */
static int is_clear(const struct draw_machine *machine, const struct draw_box *in, const struct draw_box *box,
                    int up)
{
    for (uint32_t i = 0; i < machine->box_count; i++) {
        const struct draw_box *other = machine->boxes[i];
        if (box->x >= other->x + other->w || other->x >= box->x + box->w)
            continue;
        if ((up ? other->y + other->h <= box->y : other->y >= box->y + box->h) && is_in(other, in))
            return 0;
    }
    return 1;
}

static uint32_t root_of(uint32_t *up, uint32_t i)
{
    while (up[i] != i)
        i = up[i] = up[up[i]];
    return i;
}

static int by_group(const void *a, const void *b)
{
    const struct draw_link *p = a, *q = b;
    if (p->group != q->group)
        return p->group < q->group ? -1 : 1;
    if (p->a != q->a || p->b != q->b)
        return p->a != q->a ? (p->a < q->a ? -1 : 1) : (p->b < q->b ? -1 : 1);
    if (p->flags != q->flags)
        return p->flags < q->flags ? -1 : 1;
    return (p->bytes_per_s > q->bytes_per_s) - (p->bytes_per_s < q->bytes_per_s);
}

/* Groups are named by their first end, so that pieces come in the order of their ends. */
static int set_groups(struct draw_sheet *sheet, struct draw_links *links)
{
    uint32_t *up = draw_alloc(sheet, (links->end_count + 1) * sizeof *up);
    if (!up)
        return -1;
    for (uint32_t i = 0; i < links->end_count; i++)
        up[i] = i;
    for (uint32_t i = 0; i < links->link_count; i++) {
        uint32_t a = root_of(up, links->links[i].a), b = root_of(up, links->links[i].b);
        up[a > b ? a : b] = a > b ? b : a;
    }
    for (uint32_t i = 0; i < links->link_count; i++)
        links->links[i].group = root_of(up, links->links[i].a);
    qsort(links->links, links->link_count, sizeof *links->links, by_group);
    return 0;
}

static int alike(const struct draw_link *a, const struct draw_link *b)
{
    return a->links == b->links && a->bytes_per_s == b->bytes_per_s && a->flags == b->flags;
}

static const char *technique(const struct draw_links *links, unsigned flags)
{
    if (links->kind == WEFT_EDGE_SOCKET)
        return flags & WEFT_EDGE_XGMI ? "xGMI" : "socket link";
    return flags & WEFT_EDGE_NVLINK ? "NVLink"
           : flags & WEFT_EDGE_XGMI ? "xGMI"
           : flags & WEFT_EDGE_XE   ? "Xe Link"
                                    : "GPU link";
}

/* What the links of a piece have in common: "NVLink x12 through NVSwitch, all to all, 25 GB/s each". */
static const char *describe(struct draw_sheet *sheet, const struct draw_links *links,
                            const struct draw_piece *piece)
{
    const struct draw_link *first = &links->links[piece->first];
    int same_count = 1, same_rate = 1;
    unsigned flags = first->flags;
    for (uint32_t i = 1; i < piece->count; i++) {
        same_count &= first[i].links == first->links;
        same_rate &= first[i].bytes_per_s == first->bytes_per_s;
        flags &= first[i].flags;
    }
    int counted = same_count && !(flags & WEFT_EDGE_LINKS_UNKNOWN);
    const char *times = counted && (first->links > 1 || links->kind == WEFT_EDGE_GPU_LINK)
                            ? draw_format(sheet, " \xc3\x97%u", first->links)
                            : "";
    const char *rate = same_rate ? draw_bytes(sheet, first->bytes_per_s) : "rates differ";
    return draw_format(sheet, "%s%s%s%s, %s%s", technique(links, flags), times,
                       flags & WEFT_EDGE_NVSWITCH ? " through NVSwitch" : "",
                       piece->kind == PIECE_BAR && piece->member_count > 2 ? ", all to all" : "", rate,
                       same_rate && counted && first->links > 1 ? " each" : "");
}

/* The ends of a piece's links, once each, in order. */
static int set_members(struct draw_sheet *sheet, const struct draw_machine *machine,
                       const struct draw_links *links, struct draw_piece *piece)
{
    unsigned char *seen = draw_alloc(sheet, links->end_count + 1);
    piece->members = draw_alloc(sheet, links->end_count * sizeof *piece->members);
    if (sheet->failed)
        return -1;
    for (uint32_t i = piece->first; i < piece->first + piece->count; i++)
        seen[links->links[i].a] = seen[links->links[i].b] = 1;
    for (uint32_t i = 0; i < links->end_count; i++) {
        if (!seen[i])
            continue;
        piece->members[piece->member_count++] = i;
        if (!piece->in)
            piece->in = links->up ? machine->top : links->ends[i]->parent;
        while (!is_in(links->ends[i], piece->in) || piece->in->role == DRAW_IS_PLACE)
            piece->in = piece->in->parent;
    }
    piece->clear = 1;
    for (uint32_t i = 0; i < piece->member_count; i++)
        piece->clear &= is_clear(machine, piece->in, links->ends[piece->members[i]], links->up);
    return 0;
}

static void choose_kind(const struct draw_links *links, struct draw_piece *piece)
{
    uint64_t n = piece->member_count;
    int uniform = piece->count == n * (n - 1) / 2;
    for (uint32_t i = piece->first + 1; uniform && i < piece->first + piece->count; i++)
        uniform = alike(&links->links[i], &links->links[i - 1]) &&
                  (links->links[i].a != links->links[i - 1].a || links->links[i].b != links->links[i - 1].b);
    if (uniform)
        piece->kind = PIECE_BAR;
    else if (piece->clear && piece->count <= TRACKS_MAX)
        piece->kind = PIECE_TRACKS;
    else
        piece->kind = piece->member_count <= MATRIX_MAX ? PIECE_MATRIX : PIECE_WORDS;
}

static const char *list_members(struct draw_sheet *sheet, const struct draw_links *links,
                                const struct draw_piece *piece)
{
    const char **names = draw_alloc(sheet, piece->member_count * sizeof *names);
    if (!names)
        return "";
    for (uint32_t i = 0; i < piece->member_count; i++)
        names[i] = links->ends[piece->members[i]]->name;
    return draw_ranges(sheet, DRAW_SMALL, names, piece->member_count, 400);
}

static int make_pieces(struct draw_sheet *sheet, const struct draw_machine *machine, struct draw_links *links)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < links->link_count; i++)
        count += i == 0 || links->links[i].group != links->links[i - 1].group;
    links->pieces = draw_alloc(sheet, count * sizeof *links->pieces);
    if (!links->pieces)
        return -1;
    links->piece_count = count;
    for (uint32_t i = 0, at = 0; i < count; i++) {
        struct draw_piece *piece = &links->pieces[i];
        *piece = (struct draw_piece){.first = at, .colour = (int)(i % DRAW_LINK_COLOURS)};
        while (at < links->link_count && links->links[at].group == links->links[piece->first].group)
            at++;
        piece->count = at - piece->first;
        if (set_members(sheet, machine, links, piece) != 0)
            return -1;
        choose_kind(links, piece);
        piece->clear &= piece->kind == PIECE_BAR || piece->kind == PIECE_TRACKS;
        piece->label = describe(sheet, links, piece);
        if (piece->kind != PIECE_BAR || !piece->clear)
            piece->label = draw_format(sheet, "%s: %s", list_members(sheet, links, piece), piece->label);
    }
    return 0;
}

static int left_of(const struct draw_piece *piece)
{
    return piece->in->x + draw_box_pad(piece->in);
}

/* The pieces in a box: what of its bottom they take, from its left edge. */
struct band {
    struct draw_box *in;
    int away, width;
};

/* A bar spans its ends and its label. */
static void span_bar(const struct draw_links *links, struct draw_piece *piece)
{
    int least = draw_text_width(DRAW_ON_BAR, piece->label) + 16;
    piece->left = piece->right = draw_middle_of(links->ends[piece->members[0]]);
    for (uint32_t m = 0; piece->clear && m < piece->member_count; m++) {
        int x = draw_middle_of(links->ends[piece->members[m]]);
        piece->left = x - 8 < piece->left ? x - 8 : piece->left;
        piece->right = larger(piece->right, x + 8);
    }
    int more = least - (piece->right - piece->left);
    if (more > 0) {
        piece->left = larger(left_of(piece), piece->left - (more + 1) / 2);
        piece->right = larger(piece->right, piece->left + least);
    }
}

/* The first row from away in which the bar meets none of those that have their place. */
static int free_row(const struct draw_piece *piece, struct draw_piece *const *placed, uint32_t count,
                    int away)
{
    for (uint32_t i = 0; i < count; i++) {
        if (placed[i]->away == away && piece->left < placed[i]->right + 6 &&
            placed[i]->left < piece->right + 6) {
            away += DRAW_BAR_STEP;
            i = (uint32_t)-1;
        }
    }
    return away;
}

static int by_span(const void *a, const void *b)
{
    const struct draw_piece *p = *(struct draw_piece *const *)a, *q = *(struct draw_piece *const *)b;
    int first = p->right - p->left, second = q->right - q->left;
    if (first != second)
        return first < second ? -1 : 1;
    return p->first < q->first ? -1 : p->first > q->first;
}

/* Bars side by side where they do not meet, else a row further away: short ones near, so that few stubs of long ones pass
 * behind them; those with stubs first. */
static void lay_bars(struct draw_sheet *sheet, struct draw_links *links, struct band *band, int clear)
{
    uint32_t count = 0;
    struct draw_piece **bars = draw_alloc(sheet, links->piece_count * sizeof(struct draw_piece *));
    if (!bars)
        return;
    for (uint32_t i = 0; i < links->piece_count; i++) {
        struct draw_piece *piece = &links->pieces[i];
        if (piece->kind != PIECE_BAR || piece->in != band->in || piece->clear != clear)
            continue;
        span_bar(links, piece);
        bars[count++] = piece;
    }
    if (count == 0)
        return;
    qsort(bars, count, sizeof *bars, by_span);
    int bottom = band->away;
    for (uint32_t i = 0; i < count; i++) {
        bars[i]->away = free_row(bars[i], bars, i, band->away);
        bottom = larger(bottom, bars[i]->away + DRAW_BAR_STEP);
        band->width = larger(band->width, bars[i]->right - left_of(bars[i]));
    }
    band->away = bottom;
}

struct pin {
    uint32_t end, other, link;
    int side, x; /* where the other end is; side: 0 for a link's end a */
};

static int by_end(const void *a, const void *b)
{
    const struct pin *p = a, *q = b;
    if (p->end != q->end)
        return p->end < q->end ? -1 : 1;
    if (p->x != q->x)
        return p->x < q->x ? -1 : 1;
    return p->link < q->link ? -1 : p->link > q->link;
}

/* Spreads the places where links leave an end over its width, those to the left on the left. */
static int lay_pins(struct draw_sheet *sheet, const struct draw_links *links, struct draw_piece *piece)
{
    uint32_t count = 2 * piece->count;
    struct pin *pins = draw_alloc(sheet, count * sizeof *pins);
    piece->pins = draw_alloc(sheet, piece->count * sizeof *piece->pins);
    piece->tracks = draw_alloc(sheet, piece->count * sizeof *piece->tracks);
    if (sheet->failed)
        return -1;
    for (uint32_t i = 0; i < piece->count; i++) {
        const struct draw_link *link = &links->links[piece->first + i];
        pins[2 * i] = (struct pin){link->a, link->b, i, 0, draw_middle_of(links->ends[link->b])};
        pins[2 * i + 1] = (struct pin){link->b, link->a, i, 1, draw_middle_of(links->ends[link->a])};
    }
    qsort(pins, count, sizeof *pins, by_end);
    for (uint32_t i = 0, end; i < count; i = end) {
        const struct draw_box *box = links->ends[pins[i].end];
        for (end = i; end < count && pins[end].end == pins[i].end; end++)
            ;
        for (uint32_t k = i; k < end; k++)
            piece->pins[pins[k].link][pins[k].side] = box->x + box->w * (int)(k - i + 1) / (int)(end - i + 1);
    }
    return 0;
}

static int span_of(const struct draw_piece *piece, uint32_t link)
{
    return abs(piece->pins[link][1] - piece->pins[link][0]);
}

static int tracks_meet(const struct draw_piece *piece, uint32_t a, uint32_t b)
{
    const int *p = piece->pins[a], *q = piece->pins[b];
    int p_left = p[0] < p[1] ? p[0] : p[1], q_left = q[0] < q[1] ? q[0] : q[1];
    return p_left < q_left + span_of(piece, b) + 6 && q_left < p_left + span_of(piece, a) + 6;
}

/* Short links nearest, each on the first track that is free over its span. Returns how many tracks. */
static int lay_tracks(struct draw_piece *piece)
{
    int count = 0;
    uint32_t order[TRACKS_MAX];
    for (uint32_t i = 0; i < piece->count; i++) {
        uint32_t at = i;
        for (; at > 0 && span_of(piece, order[at - 1]) > span_of(piece, i); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (uint32_t i = 0; i < piece->count; i++) {
        int track = 0;
        for (uint32_t k = 0; k < i; k++) {
            if (piece->tracks[order[k]] == track && tracks_meet(piece, order[i], order[k])) {
                track++;
                k = (uint32_t)-1;
            }
        }
        piece->tracks[order[i]] = track;
        count = larger(count, track + 1);
    }
    return count;
}

static void lay_matrix(const struct draw_links *links, struct draw_piece *piece)
{
    piece->cell_w = 26;
    for (uint32_t i = 0; i < piece->member_count; i++) {
        int w = draw_text_width(DRAW_SMALL, links->ends[piece->members[i]]->lines[0]) + 8;
        piece->cell_w = larger(piece->cell_w, w < 64 ? w : 64);
        piece->label_w = larger(piece->label_w, w < 110 ? w : 110);
    }
}

static void lay_rest(struct draw_sheet *sheet, struct draw_links *links, struct band *band,
                     enum piece_kind kind)
{
    for (uint32_t i = 0; i < links->piece_count; i++) {
        struct draw_piece *piece = &links->pieces[i];
        if (piece->kind != kind || piece->in != band->in)
            continue;
        piece->away = band->away;
        piece->left = left_of(piece);
        int width = draw_text_width(DRAW_NOTE, piece->label) + 20;
        if (piece->kind == PIECE_TRACKS) {
            if (lay_pins(sheet, links, piece) != 0)
                return;
            band->away += lay_tracks(piece) * DRAW_TRACK_STEP + 2;
        } else if (piece->kind == PIECE_MATRIX) {
            width += draw_text_width(DRAW_NOTE, DRAW_MATRIX_TEXT);
            lay_matrix(links, piece);
            width = larger(width, piece->label_w + (int)piece->member_count * piece->cell_w);
            band->away += DRAW_LABEL_H + (int)(piece->member_count + 1) * DRAW_CELL_H + 10;
        } else {
            band->away += DRAW_LABEL_H + 2;
        }
        band->width = larger(band->width, width);
    }
    for (uint32_t i = 0; i < links->piece_count && kind == PIECE_TRACKS; i++) {
        if (links->pieces[i].kind == kind && links->pieces[i].in == band->in) {
            links->pieces[i].label_away = band->away;
            band->away += DRAW_LABEL_H;
        }
    }
}

static void lay_band(struct draw_sheet *sheet, struct draw_machine *machine, struct draw_links *links,
                     struct draw_box *in)
{
    struct band band = {in, FIRST, 0};
    lay_bars(sheet, links, &band, 1);
    lay_bars(sheet, links, &band, 0);
    lay_rest(sheet, links, &band, PIECE_TRACKS);
    lay_rest(sheet, links, &band, PIECE_MATRIX);
    lay_rest(sheet, links, &band, PIECE_WORDS);
    if (links->up) {
        machine->above_h = band.away;
        machine->above_w = band.width;
    } else {
        in->band_h = band.away - 2;
        in->band_w = band.width;
    }
}

void draw_links_plan(struct draw_sheet *sheet, struct draw_machine *machine, struct draw_links *links)
{
    if (links->link_count == 0 || set_groups(sheet, links) != 0 || make_pieces(sheet, machine, links) != 0)
        return;
    for (uint32_t i = 0; i < links->piece_count; i++) {
        uint32_t first = 0;
        while (links->pieces[first].in != links->pieces[i].in)
            first++;
        if (first == i)
            lay_band(sheet, machine, links, links->pieces[i].in);
    }
}
