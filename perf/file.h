/* SPDX-License-Identifier: Apache-2.0 */
/* Files that appear whole or not at all. */
#ifndef WEFT_PERF_FILE_H
#define WEFT_PERF_FILE_H

#include <stddef.h>

/* Whether path can be written, found out before a long measurement instead of after it. 0, or -1 after a
 * message that names the path. */
int perf_file_probe(const char *path);

/* Writes a temporary file beside path and renames it into place. What is not a regular file (a terminal, a
 * pipe, /dev/null) is written to as it is. 0, or -1 after a message that names the path. */
int perf_file_write(const char *path, const char *bytes, size_t size);

#endif
