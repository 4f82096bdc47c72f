/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a shared object is all there.
 *
 * The dynamic loader maps a file as its headers say. Of a file that was cut off it finds out by SIGBUS, at the first
 * touch of a page that is not there. So what the headers say is held against the file's length before it is loaded. What is no
 * object for this machine is left to the loader, which says so.
 */
#ifndef WEFT_DEVMEM_ELF_H
#define WEFT_DEVMEM_ELF_H

/* WEFT_INVALID, with what is missing of the file at path that fd is open on. */
int weft_elf_check(const char *path, int fd);

#endif
