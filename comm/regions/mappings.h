/* SPDX-License-Identifier: Apache-2.0 */
/* What kinds of mappings this process has: whether a range is private, anonymous memory, which nobody but this process can
 * take away. Pages do not show it: a private mapping of a file (of a memfd, on tmpfs or hugetlbfs) has anonymous
 * pages where it was written to, and ftruncate() of the file removes those as well.
 *
 * Linux 6.11 and later are asked for each mapping (PROCMAP_QUERY, Documentation/filesystems/proc.rst); elsewhere /proc/self/maps
 * is read from its beginning (proc_pid_maps(5)), a line for each mapping, in the order of addresses:
 *
 *   begin-end perms offset major:minor inode  name      7f01a000-7f01c000 rw-p 00000000 00:00 0
 *
 * A mapping is private when the fourth of perms is 'p', and anonymous when device and inode are 0. So MAP_HUGETLB does not
 * count, not even without a file of the program's: the kernel makes one.
 *
 * Other threads map and unmap meanwhile, so that between two reads lines may be repeated, overlap or be missing. What counts is
 * that lines without a gap between them cover the range; nobody is to change that range, as an operation uses it.
 */
#ifndef WEFT_COMM_REGIONS_MAPPINGS_H
#define WEFT_COMM_REGIONS_MAPPINGS_H

#include <stddef.h>
#include <stdint.h>

/* A descriptor of /proc/self/maps, for weft_fd_close(); -1 with errno. */
int weft_mappings_open(void);
/* Whether all of [begin, end), which is not empty, is private, anonymous memory. Allocates nothing. */
int weft_mappings_are_private(int fd, uintptr_t begin, uintptr_t end);

/* The text, in pieces. */
struct weft_mappings_text {
    uintptr_t at, end; /* what is left of the range; at >= end: all of it is private and anonymous */
    char line[128];    /* as much as the numbers need */
    size_t length;
};

/* 1 while there is something left to be found out, 0 when it is known. */
int weft_mappings_feed(struct weft_mappings_text *text, const char *bytes, size_t size);

#endif
