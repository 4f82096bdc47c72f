/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/tool/json_say.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/tool/tool.h"

json_t *weft_json_text(const char *text)
{
    if (!text)
        return json_null();
    size_t size = strlen(text) + 1;
    char *clean = malloc(size);
    if (!clean)
        return NULL;
    json_t *made = json_string(weft_topo_clean(text, clean, size));
    free(clean);
    return made;
}

json_t *weft_json_or_null(int64_t number, int known)
{
    return known ? json_integer(number) : json_null();
}

json_t *weft_json_guid(uint64_t guid)
{
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, guid);
    return guid ? json_string(text) : json_null();
}

json_t *weft_json_head(const struct weft_graph *graph, const char *view)
{
    return json_pack("{s:i, s:s, s:s, s:o, s:o}", "schema", WEFT_TOPO_SCHEMA, "program", "weft-topo", "view",
                     view, "source", weft_json_text(graph->source), "format", weft_json_text(graph->format));
}

int weft_json_put(json_t *root, FILE *file)
{
    /* A stream that fails is the caller's to notice: it keeps its error. */
    int made = root && (json_dumpf(root, file, JSON_INDENT(2)) == 0 || ferror(file));
    json_decref(root);
    fputc('\n', file);
    return made ? WEFT_OK : weft_fail(WEFT_NOMEM, "no memory to write JSON");
}
