/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tool/xml_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/status.h>

static void append(struct weft_xml_out *out, const char *text, size_t size)
{
    if (out->no_memory)
        return;
    if (out->room - out->size < size) {
        size_t more = out->room + size > 2 * out->room ? out->room + size + 4096 : 2 * out->room;
        char *grown = realloc(out->data, more);
        if (!grown) {
            out->no_memory = 1;
            return;
        }
        out->data = grown;
        out->room = more;
    }
    memcpy(out->data + out->size, text, size);
    out->size += size;
}

static void append_text(struct weft_xml_out *out, const char *text)
{
    append(out, text, strlen(text));
}

static void append_line_begin(struct weft_xml_out *out)
{
    if (out->open)
        append_text(out, ">\n");
    out->open = 0;
    for (int i = 0; i < out->depth; i++)
        append_text(out, "  ");
}

void weft_xml_begin(struct weft_xml_out *out, const char *name)
{
    append_line_begin(out);
    append_text(out, "<");
    append_text(out, name);
    out->open = 1;
    out->depth++;
}

void weft_xml_end(struct weft_xml_out *out, const char *name)
{
    out->depth--;
    if (out->open) {
        append_text(out, "/>\n");
    } else {
        if (!out->has_text)
            append_line_begin(out);
        append_text(out, "</");
        append_text(out, name);
        append_text(out, ">\n");
    }
    out->open = out->has_text = 0;
}

void weft_xml_put(struct weft_xml_out *out, const char *name, const char *value)
{
    static const char *const escapes[][2] = {{"&", "&amp;"},   {"<", "&lt;"},   {">", "&gt;"},
                                             {"\"", "&quot;"}, {"\n", "&#10;"}, {"\r", "&#13;"},
                                             {"\t", "&#9;"}};
    append_text(out, " ");
    append_text(out, name);
    append_text(out, "=\"");
    for (size_t plain; *value; value += plain) {
        plain = strcspn(value, "&<>\"\n\r\t");
        append(out, value, plain);
        for (size_t i = 0; plain == 0 && i < sizeof escapes / sizeof *escapes; i++) {
            if (*value == *escapes[i][0])
                append_text(out, escapes[i][1]);
        }
        plain += plain == 0;
    }
    append_text(out, "\"");
}

void weft_xml_put_number(struct weft_xml_out *out, const char *name, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    weft_xml_put(out, name, text);
}

void weft_xml_put_text(struct weft_xml_out *out, const char *text, size_t size)
{
    if (out->open)
        append_text(out, ">");
    out->open = 0;
    out->has_text = 1;
    append(out, text, size);
}

int weft_xml_finish(struct weft_xml_out *out, char **xml, size_t *size)
{
    append(out, "", 1);
    if (out->no_memory) {
        free(out->data);
        return WEFT_NOMEM;
    }
    *xml = out->data;
    *size = out->size - 1;
    return WEFT_OK;
}
