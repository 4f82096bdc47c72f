/* SPDX-License-Identifier: Apache-2.0 */
/* What the reader of NCCL's XML says of an element, and asks of it. */
#include <stdarg.h>
#include <stdio.h>
#include <weft/weft.h>

#include "base/error.h"
#include "topo/machines/nccl.h"

int weft_nccl_failed(const struct weft_nccl_file *file, uint32_t element, int status)
{
    char reason[WEFT_DETAIL_MAX];
    if (status != WEFT_INVALID)
        return status;
    snprintf(reason, sizeof reason, "%s", weft_error_detail());
    return weft_read_fail(file->text, file->tree.nodes[element].line, "%s", reason);
}

const char *weft_nccl_value(const struct weft_nccl_file *file, uint32_t element, const char *name)
{
    struct weft_xml_element view = weft_xml_tree_element(&file->tree, element);
    return weft_xml_attribute(&view, name);
}

void weft_nccl_odd(struct weft_nccl_file *file, enum weft_nccl_odd odd, uint32_t line, const char *format,
                   ...)
{
    va_list args;
    va_start(args, format);
    if (file->odd[odd].count++ == 0) {
        file->odd[odd].line = line;
        vsnprintf(file->odd[odd].first, sizeof file->odd[odd].first, format, args);
    }
    va_end(args);
}
