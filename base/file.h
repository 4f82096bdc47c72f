/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are read whole: of /proc and of sysfs, records, secrets. Errors are errno's; who calls knows the name, and says
 * it. Nothing here waits for anybody. For streams, which say nothing of their end, see topo/read.c. */
#ifndef WEFT_BASE_FILE_H
#define WEFT_BASE_FILE_H

#include <stdint.h>
#include <sys/types.h>

/* Reads a file from offset on, up to its end or capacity, without moving a position that others may share. How many bytes;
 * -1 with errno, which is ESPIPE for what has no positions. */
ssize_t weft_file_read_fd(int fd, void *bytes, size_t capacity, uint64_t offset);

/* The same by its name, as a text that ends with '\0': what does not fit is cut off. On failure the text is empty. A FIFO
 * without a writer is not waited for. */
ssize_t weft_file_read(const char *path, char *text, size_t capacity);

/* Its first line, without the end of the line; the length. */
ssize_t weft_file_read_line(const char *path, char *line, size_t capacity);

/* The NUMA node of a PCI device ("0000:3b:00.0"), as sysfs has it; -1: not known. */
int32_t weft_file_numa(const char *pci);

#endif
