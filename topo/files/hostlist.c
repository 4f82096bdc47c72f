/* SPDX-License-Identifier: Apache-2.0 */
/* Hostlists as Slurm writes and reads them (scontrol(1), "show hostnames"; slurm.conf(5), NodeName).
 *
 * A list is expressions joined by commas. An expression is text with brackets in it; a bracket holds numbers and ranges
 * joined by commas. A range's names are as wide as its first number is written, with zeros in front: [08-11] is 08 09 10
 * 11. Several brackets in one expression count like the digits of a number, the last one fastest. Brackets do not nest.
 *
 * Each expression is read twice: once for its parts, then, part by part, for its names. A part is where its text lies
 * and, for a bracket, the range and the number in it that are next.
 */
#include "topo/files/hostlist.h"

#include <string.h>

#define BRACKETS_MAX 8
#define NUMBER_MAX   999999999u

struct bracket {
    struct weft_span before; /* text in front of it */
    struct weft_span inside;
    size_t at; /* where in it the range is */
    size_t next;
    uint32_t number, last;
    unsigned width;
};

struct expression {
    const struct weft_text *text;
    size_t line;
    struct weft_span whole;
    struct weft_span behind; /* text behind the last bracket */
    unsigned count;
    struct bracket brackets[BRACKETS_MAX];
};

static int fail(const struct expression *e, const char *what)
{
    return weft_read_fail(e->text, e->line, "\"%.*s\" %s", WEFT_SPAN_SHOWN(e->whole), what);
}

/* Takes the bracket's range at `next`, the first where there is none left, and sets *wrapped then. */
static int take_range(const struct expression *e, struct bracket *bracket, int *wrapped)
{
    *wrapped = bracket->next > bracket->inside.size;
    bracket->at = *wrapped ? 0 : bracket->next;
    struct weft_cursor cursor = {bracket->inside.data + bracket->at,
                                 bracket->inside.data + bracket->inside.size, e->line};
    const char *start = cursor.at;
    if (!weft_line_take_number(&cursor, NUMBER_MAX, &bracket->number))
        return fail(e, "has something else than numbers in its brackets, expected like n[0-3,7]");
    bracket->width = (unsigned)(cursor.at - start);
    bracket->last = bracket->number;
    if (weft_line_take(&cursor, "-") && !weft_line_take_number(&cursor, NUMBER_MAX, &bracket->last))
        return fail(e, "has a range without an end, expected like n[0-3,7]");
    if (bracket->last < bracket->number)
        return fail(e, "has a range that runs backwards, expected like n[0-3,7]");
    if (bracket->width > 10)
        return fail(e, "has a number of more than 10 digits");
    if (cursor.at < cursor.end && *cursor.at != ',')
        return fail(e, "has something else than numbers in its brackets, expected like n[0-3,7]");
    bracket->next = (size_t)(cursor.at - bracket->inside.data) + 1;
    return 0;
}

/* The expression's parts, each bracket at its first number. */
static int take_apart(struct expression *e)
{
    const char *at = e->whole.data, *end = at + e->whole.size, *start = at;
    for (e->count = 0; at < end; at++) {
        if (*at == ']')
            return fail(e, "closes a bracket that is not open");
        if (*at != '[')
            continue;
        if (e->count == BRACKETS_MAX)
            return fail(e, "has more than 8 brackets");
        const char *close = memchr(at, ']', (size_t)(end - at));
        if (!close)
            return fail(e, "has a bracket that is not closed");
        struct bracket *bracket = &e->brackets[e->count++];
        *bracket = (struct bracket){.before = {start, (size_t)(at - start)},
                                    .inside = {at + 1, (size_t)(close - at) - 1}};
        int wrapped, status = take_range(e, bracket, &wrapped);
        if (status)
            return status;
        at = close;
        start = close + 1;
    }
    e->behind = (struct weft_span){start, (size_t)(end - start)};
    return 0;
}

int weft_hostlist_refuse(const struct weft_text *text, size_t line)
{
    return weft_read_fail(text, line, "lists stand for more than %u names, the most that is read",
                          WEFT_HOSTLIST_NAMES_MAX);
}

static int put(const struct expression *e, char *name, size_t *used, struct weft_span span)
{
    if (span.size >= WEFT_NAME_SIZE_MAX - *used)
        return fail(e, "stands for a name of more than 255 bytes");
    if (span.size)
        memcpy(name + *used, span.data, span.size);
    *used += span.size;
    return 0;
}

static int put_number(const struct expression *e, char *name, size_t *used, const struct bracket *bracket)
{
    char digits[16];
    unsigned at = sizeof digits, width = bracket->width;
    for (uint32_t rest = bracket->number; rest || width; rest /= 10) {
        digits[--at] = (char)('0' + rest % 10);
        width -= width > 0;
    }
    return put(e, name, used, (struct weft_span){digits + at, sizeof digits - at});
}

/* Moves to the next name; *over when the one that was there was the last. */
static int step(struct expression *e, int *over)
{
    *over = 0;
    for (unsigned i = e->count; i-- > 0;) {
        struct bracket *bracket = &e->brackets[i];
        if (bracket->number < bracket->last) {
            bracket->number++;
            return 0;
        }
        int wrapped, status = take_range(e, bracket, &wrapped);
        if (status || !wrapped)
            return status;
    }
    *over = 1;
    return 0;
}

static int expand_one(struct expression *e, uint32_t *budget, weft_hostlist_take *take, void *arg)
{
    if (!e->whole.size)
        return weft_read_fail(e->text, e->line,
                              "a list of names has an empty one, expected like n[0-3,7],m1");
    int status = take_apart(e);
    for (int over = 0; !over && !status;) {
        char name[WEFT_NAME_SIZE_MAX];
        size_t used = 0;
        if (!*budget)
            return weft_hostlist_refuse(e->text, e->line);
        --*budget;
        for (unsigned i = 0; i < e->count && !status; i++) {
            status = put(e, name, &used, e->brackets[i].before);
            if (!status)
                status = put_number(e, name, &used, &e->brackets[i]);
        }
        if (!status)
            status = put(e, name, &used, e->behind);
        if (!status)
            status = take(arg, (struct weft_span){name, used});
        if (!status)
            status = step(e, &over);
    }
    return status;
}

int weft_hostlist_expand(const struct weft_text *text, size_t line, struct weft_span list, uint32_t *budget,
                         weft_hostlist_take *take, void *arg)
{
    struct expression e = {.text = text, .line = line};
    for (size_t start = 0, at = 0, open = 0; at <= list.size; at++) {
        char letter = at < list.size ? list.data[at] : ',';
        open = letter == '[' ? 1 : letter == ']' ? 0 : open;
        if (at < list.size && (letter != ',' || open))
            continue;
        e.whole = (struct weft_span){list.data + start, at - start};
        int status = expand_one(&e, budget, take, arg);
        if (status)
            return status;
        start = at + 1;
    }
    return 0;
}
