/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/files/lines.h"

#include <string.h>

int weft_line_next(const struct weft_text *text, size_t *at, struct weft_cursor *cursor)
{
    if (*at == 0 && text->size >= 3 && memcmp(text->data, "\xef\xbb\xbf", 3) == 0)
        *at = 3;
    if (*at >= text->size)
        return 0;
    const char *start = text->data + *at, *end = memchr(start, '\n', text->size - *at);
    *at = end ? (size_t)(end - text->data) + 1 : text->size;
    if (!end)
        end = text->data + text->size;
    if (end > start && end[-1] == '\r')
        end--;
    *cursor = (struct weft_cursor){start, end, cursor->line + 1};
    return 1;
}

static int is_blank(char letter)
{
    return letter == ' ' || letter == '\t';
}

void weft_line_skip_blanks(struct weft_cursor *cursor)
{
    while (cursor->at < cursor->end && is_blank(*cursor->at))
        cursor->at++;
}

int weft_line_take(struct weft_cursor *cursor, const char *literal)
{
    if (!weft_span_starts(weft_line_rest(cursor), literal))
        return 0;
    cursor->at += strlen(literal);
    return 1;
}

int weft_line_take_word(struct weft_cursor *cursor, struct weft_span *word)
{
    const char *start = cursor->at;
    while (cursor->at < cursor->end && !is_blank(*cursor->at))
        cursor->at++;
    *word = (struct weft_span){start, (size_t)(cursor->at - start)};
    return word->size > 0;
}

int weft_line_take_number(struct weft_cursor *cursor, uint32_t most, uint32_t *number)
{
    const char *at = cursor->at;
    uint64_t value = 0;
    for (; at < cursor->end && *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
        if (value > most)
            return 0;
    }
    if (at == cursor->at)
        return 0;
    cursor->at = at;
    *number = (uint32_t)value;
    return 1;
}

static int hex_digit(char letter)
{
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    letter |= 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

int weft_line_take_hex(struct weft_cursor *cursor, uint64_t *number)
{
    const char *at = cursor->at;
    uint64_t value = 0;
    for (; at < cursor->end && hex_digit(*at) >= 0; at++) {
        if (at - cursor->at == 16)
            return 0;
        value = value << 4 | (uint64_t)hex_digit(*at);
    }
    if (at == cursor->at)
        return 0;
    cursor->at = at;
    *number = value;
    return 1;
}

struct weft_span weft_line_rest(const struct weft_cursor *cursor)
{
    return (struct weft_span){cursor->at, (size_t)(cursor->end - cursor->at)};
}

int weft_span_is(struct weft_span span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.data, text, span.size) == 0;
}

int weft_span_is_any_case(struct weft_span span, const char *lower_case)
{
    if (span.size != strlen(lower_case))
        return 0;
    for (size_t i = 0; i < span.size; i++) {
        char letter = span.data[i];
        if ((letter >= 'A' && letter <= 'Z' ? (char)(letter | 0x20) : letter) != lower_case[i])
            return 0;
    }
    return 1;
}

int weft_span_starts(struct weft_span span, const char *text)
{
    size_t length = strlen(text);
    return span.size >= length && memcmp(span.data, text, length) == 0;
}
