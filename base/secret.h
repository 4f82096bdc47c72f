/* SPDX-License-Identifier: Apache-2.0 */
/* Where a job's secret comes from.
 *
 * A secret is 16 to 4096 raw bytes that every rank of a job knows and nobody else. It never comes from a command
 * line or from the value of an environment variable, both of which others on a host can see. Threads: no shared
 * state.
 */
#ifndef WEFT_BASE_SECRET_H
#define WEFT_BASE_SECRET_H

#include <stddef.h>

#define WEFT_SECRET_MIN 16
#define WEFT_SECRET_MAX 4096

struct weft_secret {
    size_t size; /* 0: there is none */
    unsigned char bytes[WEFT_SECRET_MAX];
};

/* From WEFT_SECRET_FD, an inherited descriptor of a file, which stays open and is read from its beginning (so that
 * several communicators can), else from WEFT_SECRET_FILE: an absolute path of a regular file of the effective user
 * that nobody else may read or write. Neither is set, or both are ignored (base/secure.h): size 0. WEFT_INVALID says
 * what is wrong and what was expected. The caller wipes (weft_secret_wipe()), also after a failure. */
int weft_secret_from_environment(struct weft_secret *secret);

void weft_secret_wipe(struct weft_secret *secret);

#endif
