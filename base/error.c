/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/limits.h"
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

/* Limits that people run into, and what they are called where they are set. */
static const struct {
    int error;
    const char *text;
} limits[] = {
    {EMFILE, "too many open files in this process: raise its limit (ulimit -n)"},
    {ENFILE, "too many open files on this host: raise the sysctl fs.file-max"},
    {ETOOMANYREFS, "too many descriptors in flight: raise the limit of open files (ulimit -n)"},
    {EFBIG, "larger than files may be: raise the limit of file sizes (ulimit -f)"},
    {ENOMEM, "out of memory: raise what limits this process (ulimit -v, the container's memory, "
             "vm.max_map_count)"},
};

const char *weft_errno_text(int error)
{
    static _Thread_local char text[128];
    weft_limits_note(error);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (limits[i].error == error)
            return limits[i].text;
    }
    return strerror_r(error, text, sizeof text);
}

int weft_fail_thread(int error, const char *thread)
{
    if (error == EAGAIN)
        return weft_fail(WEFT_SYSTEM,
                         "cannot start the %s thread: too many threads, or no memory for one more: raise the "
                         "limit of processes and threads (ulimit -u, the container's pids.max)",
                         thread);
    return weft_fail(WEFT_SYSTEM, "cannot start the %s thread: %s", thread, weft_errno_text(error));
}

int weft_fail_errno(const char *format, ...)
{
    int saved = errno;
    va_list args;
    va_start(args, format);
    int used = vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof detail)
        snprintf(detail + used, sizeof detail - (size_t)used, ": %s", weft_errno_text(saved));
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
