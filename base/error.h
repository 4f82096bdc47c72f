/* SPDX-License-Identifier: Apache-2.0 */
/* Failing with a reason.
 *
 * weft_fail() records one line for the calling thread and returns the status, so that an error is worded
 * once, where it is first decided: `return weft_fail(WEFT_INVALID, "count %zu is ...", count);`. Callers
 * further up return the status as it is. Threads: the detail is thread-local.
 */
#ifndef WEFT_BASE_ERROR_H
#define WEFT_BASE_ERROR_H

#include <weft/status.h>

#define WEFT_DETAIL_MAX                                                                                      \
    1024 /* a transport's text (560) behind who says it of whom; what both ends of a link
                                say is cut at its end where it is longer */

/* Records the detail and returns status. */
int weft_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Like weft_fail(WEFT_SYSTEM, ...), with errno's text appended. */
int weft_fail_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Text of an errno value; where it means that a limit was hit, it says what to raise. Valid until the calling
 * thread asks again. */
const char *weft_errno_text(int error);

/* WEFT_SYSTEM for a thread that pthread_create() refused with error. */
int weft_fail_thread(int error, const char *thread);

/* Replaces the detail by a finished text, as when a failure decided on another thread is reported here. */
void weft_error_set_detail(const char *text);

/* Start of a public call: clears the calling thread's detail. */
void weft_error_clear(void);

#endif
