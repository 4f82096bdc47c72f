/* SPDX-License-Identifier: Apache-2.0 */
/* Texts made of lines, taken apart from left to right.
 *
 * A cursor is what is left of one line: weft_line_next() gives the lines one after the other (ends \n or \r\n, a byte
 * order mark at the very beginning passed over), the others take something off its front and answer whether it was
 * there; what was not there leaves the cursor where it was. Blanks are spaces and tabs. Threads: any.
 */
#ifndef WEFT_TOPO_FILES_LINES_H
#define WEFT_TOPO_FILES_LINES_H

#include <stdint.h>

#include "topo/files/reader.h"

struct weft_span {
    const char *data;
    size_t size;
};

struct weft_cursor {
    const char *at, *end;
    size_t line; /* from 1 */
};

/* For messages: at most 60 bytes of what a file says, as printf's "%.*s" wants them. */
#define WEFT_SPAN_SHOWN(span) (int)((span).size < 60 ? (span).size : 60), (span).data

/* *at starts at 0, cursor->line as well. 0 at the end of the text. */
int weft_line_next(const struct weft_text *text, size_t *at, struct weft_cursor *cursor);

void weft_line_skip_blanks(struct weft_cursor *cursor);
int weft_line_take(struct weft_cursor *cursor, const char *literal);
/* The bytes up to the next blank; 0 when there are none. */
int weft_line_take_word(struct weft_cursor *cursor, struct weft_span *word);
/* Digits only, at most `most`. */
int weft_line_take_number(struct weft_cursor *cursor, uint32_t most, uint32_t *number);
/* 1 to 16 hexadecimal digits and no more. */
int weft_line_take_hex(struct weft_cursor *cursor, uint64_t *number);
struct weft_span weft_line_rest(const struct weft_cursor *cursor);

int weft_span_is(struct weft_span span, const char *text);
int weft_span_is_any_case(struct weft_span span, const char *lower_case);
int weft_span_starts(struct weft_span span, const char *text);

#endif
