#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static _Thread_local char detail[WEFT_DETAIL_MAX];

int weft_fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    return status;
}

int weft_fail_errno(const char *format, ...)
{
    int saved = errno;
    va_list args;
    va_start(args, format);
    int used = vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof detail) {
        char text[128];
        const char *message = strerror_r(saved, text, sizeof text);
        snprintf(detail + used, sizeof detail - (size_t)used, ": %s", message);
    }
    errno = saved;
    return WEFT_SYSTEM;
}

void weft_error_set_detail(const char *text)
{
    if (text != detail)
        snprintf(detail, sizeof detail, "%s", text);
}

void weft_error_clear(void)
{
    detail[0] = '\0';
}

const char *weft_error_detail(void)
{
    return detail;
}

const char *weft_strerror(int status)
{
    switch (status) {
#define X(name, value, text)                                                                                 \
    case name:                                                                                               \
        return text;
        WEFT_STATUS_LIST(X)
#undef X
    default:
        return "unknown status";
    }
}
