/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of the kernel's, below a root: "" for this machine's own, HWLOC_FSROOT for a copy of another's.
 *
 * What is not there or cannot be read is an answer like any other, so these say 0 or -1 and record no error. Threads:
 * any.
 */
#ifndef WEFT_TOPO_LIVE_SYSFS_H
#define WEFT_TOPO_LIVE_SYSFS_H

#include <stddef.h>
#include <stdint.h>

#define WEFT_SYSFS_PATH_MAX 1024
#define WEFT_SYSFS_LINE_MAX 256

/* First line of the file without its end, cut at WEFT_SYSFS_LINE_MAX: its length, -1 when there is none. */
int weft_sysfs_line(const char *root, char line[WEFT_SYSFS_LINE_MAX], const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A decimal number; `missing` when the file is not there or holds none. */
int64_t weft_sysfs_number(const char *root, int64_t missing, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Up to size - 1 bytes of the file and a 0: how many, -1 when it cannot be read. */
int weft_sysfs_bytes(const char *root, char *bytes, size_t size, const char *path);

int weft_sysfs_exists(const char *root, const char *path);

/* Where a symbolic link leads, as written: its length, -1 when there is none. */
int weft_sysfs_link(const char *root, char target[WEFT_SYSFS_PATH_MAX], const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Names in a folder, sorted, without those that begin with a dot; none when the folder cannot be read. WEFT_NOMEM is
 * the one error. The caller frees names, which holds everything. */
int weft_sysfs_list(const char *root, const char *path, char ***names, uint32_t *count);

#endif
