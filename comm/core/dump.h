/* SPDX-License-Identifier: Apache-2.0 */
/* What this rank waits for, in words: weft_comm_dump(). */
#ifndef WEFT_COMM_CORE_DUMP_H
#define WEFT_COMM_CORE_DUMP_H

#include <stddef.h>

struct weft_comm;

/* The lines of weft_comm_dump(), each with its newline; cut where capacity ends. Returns the length of the whole.
 * [lock] */
size_t weft_dump_locked(const struct weft_comm *comm, char *text, size_t capacity);

#endif
