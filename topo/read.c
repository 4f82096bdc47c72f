#include "topo/read.h"

#include <stdarg.h>
#include <stdio.h>
#include "base/error.h"

int weft_read_fail(const struct weft_text *text, size_t line, const char *format, ...)
{
    char message[WEFT_DETAIL_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (line == 0)
        return weft_fail(WEFT_INVALID, "%s: %s", text->name, message);
    return weft_fail(WEFT_INVALID, "%s:%zu: %s", text->name, line, message);
}
