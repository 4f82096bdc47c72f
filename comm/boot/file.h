/* SPDX-License-Identifier: Apache-2.0 */
/* The record of rank 0 in a file: the path is the user's, and so may be whatever is there.
 *
 * Only a file that does not exist, or that is a record of weft's, is written or removed. Anything else (a file with
 * other content, a FIFO, a symbolic link to anything, a directory, a device) stays as it is, and the error says
 * what is there. What has come to the path between a look and what follows from it is put back.
 */
#ifndef WEFT_COMM_BOOT_FILE_H
#define WEFT_COMM_BOOT_FILE_H

#include <stddef.h>

struct weft_boot_record;

/* Writes text as the file, whole or not at all, in place of a record that may be there, and notes in record which file it
 * is. WEFT_INVALID when something else has the name. */
int weft_boot_file_write(const char *path, struct weft_boot_record *record, const char *text, size_t size);

/* Reads it once. WEFT_RANKS_ABSENT while there is none; WEFT_INVALID when something else has the name, which no rank 0 would
 * replace. Never blocks. */
int weft_boot_file_read(const char *path, struct weft_boot_record *record);

/* Removes the file that weft_boot_file_write() has noted in record, if it is still that one. */
void weft_boot_file_remove(const char *path, const struct weft_boot_record *record);

#endif
