/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/files/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <weft/weft.h>

#include "base/error.h"
#include "base/text.h"

static void compose(char out[WEFT_DETAIL_MAX], const struct weft_text *text, size_t line, const char *format,
                    va_list args)
{
    char message[WEFT_DETAIL_MAX], place[32] = "";
    vsnprintf(message, sizeof message, format, args);
    weft_text_clean(message);
    if (line)
        snprintf(place, sizeof place, "%zu:", line);
    snprintf(out, WEFT_DETAIL_MAX, "%.*s:%s %.*s", WEFT_READ_NAME_SHOWN_MAX, text->name, place,
             WEFT_DETAIL_MAX - WEFT_READ_NAME_SHOWN_MAX - 40, message);
}

int weft_read_fail(const struct weft_text *text, size_t line, const char *format, ...)
{
    char composed[WEFT_DETAIL_MAX];
    va_list args;
    va_start(args, format);
    compose(composed, text, line, format, args);
    va_end(args);
    return weft_fail(WEFT_INVALID, "%s", composed);
}

int weft_read_warn(const struct weft_text *text, struct weft_graph *graph, size_t line, const char *format,
                   ...)
{
    char composed[WEFT_DETAIL_MAX];
    va_list args;
    if (graph->warning_count == WEFT_WARNINGS_MAX)
        return WEFT_OK;
    va_start(args, format);
    compose(composed, text, line, format, args);
    va_end(args);
    const char *kept = weft_graph_string(graph, composed);
    if (!kept)
        return weft_fail(WEFT_NOMEM, "%.300s: no memory for a warning", text->name);
    graph->warnings[graph->warning_count++] = kept;
    return WEFT_OK;
}
