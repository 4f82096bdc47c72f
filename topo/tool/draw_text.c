/* SPDX-License-Identifier: Apache-2.0 */
/* Text in pictures: reading it, how wide it is, making it fit.
 *
 * Advance widths in hundredths of the font's size, rounded up, of the characters from ' ' to '~' in DejaVu Sans, regular
 * and bold. Other characters count with the widest of their kind, so that a text is never wider than it was measured to be.
 */
#include "topo/tool/draw.h"

#include <stdlib.h>
#include <string.h>

#include "topo/tool/tool.h"

static const uint8_t advance[2][95] = {
    {32, 41, 46, 84, 64, 96, 78, 28, 40,  40, 51, 84, 32, 37, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
     64, 64, 34, 34, 84, 84, 84, 54, 101, 69, 69, 70, 78, 64, 58, 78, 76, 30, 30, 66, 56, 87, 75, 79,
     61, 79, 70, 64, 62, 74, 69, 99, 69,  62, 69, 40, 34, 40, 84, 51, 51, 62, 64, 55, 64, 62, 36, 64,
     64, 28, 28, 58, 28, 98, 64, 62, 64,  64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84},
    {35, 46, 53, 84, 70, 101, 88, 31,  46,  46, 53, 84, 38, 42, 38, 37, 70, 70, 70, 70, 70, 70,  70, 70,
     70, 70, 40, 40, 84, 84,  84, 59,  101, 78, 77, 74, 84, 69, 69, 83, 84, 38, 38, 78, 64, 100, 84, 86,
     74, 86, 78, 73, 69, 82,  78, 111, 78,  73, 73, 46, 37, 46, 84, 51, 51, 68, 72, 60, 72, 68,  44, 72,
     72, 35, 35, 67, 35, 105, 72, 69,  72,  72, 50, 60, 48, 72, 66, 93, 65, 66, 59, 72, 37, 72,  84},
};

static const struct {
    uint8_t size, bold;
} fonts[DRAW_FONT_COUNT] = {
    [DRAW_TITLE] = {16, 1}, [DRAW_NOTE] = {11, 0}, [DRAW_HEAD] = {11, 1},   [DRAW_NAME] = {12, 1},
    [DRAW_SMALL] = {10, 0}, [DRAW_BAD] = {10, 1},  [DRAW_ON_BAR] = {10, 1},
};

int draw_font_size(enum draw_font font)
{
    return fonts[font].size;
}

uint32_t draw_decode(const char **text)
{
    char bytes[4] = "";
    if (!**text)
        return 0;
    size_t length = weft_topo_clean_one(text, bytes);
    uint32_t c = (unsigned char)bytes[0];
    c = length == 1 ? c : c & 0xffu >> (length + 1);
    for (size_t i = 1; i < length; i++)
        c = c << 6 | ((unsigned char)bytes[i] & 0x3f);
    return c;
}

static int width_of(uint32_t c, int bold)
{
    if (c >= 0x20 && c < 0x7f)
        return advance[bold][c - 0x20];
    if (c == 0xd7) /* the times sign */
        return 84;
    if (c == 0xb7) /* the dot between words */
        return 38;
    return c < 0x250 ? 156 : 202;
}

/* Rounded up only at the end. */
static int width_up_to(enum draw_font font, const char *text, const char *end)
{
    int64_t sum = 0;
    while (*text && (!end || text < end))
        sum += width_of(draw_decode(&text), fonts[font].bold);
    sum = (sum * fonts[font].size + 99) / 100;
    return sum > 1000000 ? 1000000 : (int)sum;
}

int draw_text_width(enum draw_font font, const char *text)
{
    return width_up_to(font, text, NULL);
}

/* The end matters as much as the beginning: names often differ there only. */
const char *draw_fit(struct draw_sheet *sheet, enum draw_font font, const char *text, int width)
{
    const char *head = text, *tail = text, *next = text;
    int total = draw_text_width(font, text), room = width - draw_text_width(font, "...");
    if (total <= width)
        return text;
    while (*next && width_up_to(font, text, next) <= room * 3 / 5) {
        head = next;
        draw_decode(&next);
    }
    for (tail = head; *tail && draw_text_width(font, tail) > room - width_up_to(font, text, head);)
        draw_decode(&tail);
    return draw_format(sheet, "%.*s...%s", (int)(head - text), text, tail);
}

void draw_escape(FILE *out, const char *text)
{
    for (uint32_t c; (c = draw_decode(&text)) != 0;) {
        if (c == '<')
            fputs("&lt;", out);
        else if (c == '>')
            fputs("&gt;", out);
        else if (c == '&')
            fputs("&amp;", out);
        else if (c == '"')
            fputs("&quot;", out);
        else if (c == '\'')
            fputs("&#39;", out);
        else if (c < 0x80)
            putc((int)c, out);
        else
            fwrite(text - (c < 0x800 ? 2 : c < 0x10000 ? 3 : 4), 1, c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, out);
    }
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Length of the name in front of the number that it ends with; digits: of that number, at most 9. */
static size_t stem_of(const char *name, size_t *digits)
{
    size_t length = strlen(name);
    *digits = 0;
    while (*digits < 9 && *digits < length && is_digit(name[length - 1 - *digits]))
        ++*digits;
    return length - *digits;
}

/* How many names from the first on count up by one behind the same stem, with as many digits or with the next more. */
static uint32_t run_of(const char *const *names, uint32_t count)
{
    size_t digits, stem = stem_of(names[0], &digits);
    uint32_t run = 1;
    if (digits == 0)
        return 1;
    long number = strtol(names[0] + stem, NULL, 10);
    for (; run < count; run++) {
        size_t more_digits, more_stem = stem_of(names[run], &more_digits);
        if (more_stem != stem || memcmp(names[run], names[0], stem) != 0 ||
            strtol(names[run] + stem, NULL, 10) != number + (long)run)
            break;
        if (more_digits != digits && (names[run][stem] == '0' || (digits > 1 && names[0][stem] == '0')))
            break;
    }
    return run;
}

const char *draw_ranges(struct draw_sheet *sheet, enum draw_font font, const char *const *names,
                        uint32_t count, int width)
{
    const char *text = "";
    for (uint32_t i = 0; i < count;) {
        size_t digits, stem = stem_of(names[i], &digits);
        uint32_t first = i, run = run_of(names + i, count - i), last = i + run - 1;
        const char *piece = run == 1 ? names[i]
                                     : draw_format(sheet, "%.*s[%s-%s]", (int)stem, names[i], names[i] + stem,
                                                   names[last] + stem);
        const char *longer = draw_format(sheet, "%s%s%s", text, *text ? ", " : "", piece);
        const char *rest = last + 1 < count ? draw_format(sheet, " and %u more", count - last - 1) : "";
        if (draw_text_width(font, longer) + draw_text_width(font, rest) > width) {
            if (!*text && run == 1 && count == 1)
                return draw_fit(sheet, font, piece, width);
            return *text ? draw_fit(sheet, font, draw_format(sheet, "%s and %u more", text, count - first),
                                    width)
                         : draw_fit(sheet, font, longer, width);
        }
        text = longer;
        i = last + 1;
    }
    return text;
}

const char *draw_bytes(struct draw_sheet *sheet, uint64_t bytes_per_s)
{
    char text[WEFT_TOPO_AMOUNT_SIZE];
    sheet->bytes_given = 1;
    sheet->unknown_given |= bytes_per_s == 0;
    return bytes_per_s ? draw_format(sheet, "%s", weft_topo_rate(bytes_per_s, text)) : "? GB/s";
}

const char *draw_bits(struct draw_sheet *sheet, uint64_t bytes_per_s)
{
    char text[WEFT_TOPO_AMOUNT_SIZE];
    sheet->bits_given = 1;
    sheet->unknown_given |= bytes_per_s == 0;
    return bytes_per_s ? draw_format(sheet, "%s", weft_topo_bits(bytes_per_s, text)) : "? Gb/s";
}
