/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that were just written, handed to the cache that all processors share.
 *
 * Who waits for them on another processor fetches them from there, in place of asking this one's own cache: between processors of Intel's
 * newer servers small messages take a tenth to a fifth less then (docs/performance.md). It is a hint that the fourth generation of Xeon brought; who
 * asks weft_demote_works() first does nothing where there is none. Only what is waited for now is worth it: who writes ahead of
 * its readers, as the root of a broadcast does, is made slower.
 *
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CLDEMOTE.
 */
#ifndef WEFT_BASE_DEMOTE_H
#define WEFT_BASE_DEMOTE_H

#include <stddef.h>

/* Whether this processor has the instruction: 1 or 0. Any thread; the answer is remembered by whoever asks. */
int weft_demote_works(void);

/* The lines from memory on, which is where one begins. */
static inline void weft_demote(const void *memory, size_t bytes)
{
#if defined __x86_64__
    const char *line = memory, *end = line + bytes;
    for (; line < end; line += 64)
        __asm__ volatile(".byte 0x0f, 0x1c, 0x00" : : "a"(line) : "memory"); /* cldemote (%rax) */
#else
    (void)memory;
    (void)bytes;
#endif
}

#endif
