/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that are about to be written, asked for before they are.
 *
 * Where another processor has read them a store has to wait until it has let go of them, and stores become visible one after the other. So who
 * writes many lines asks for them first. It is a hint, which processors that do not know it pass over. The compiler's own,
 * __builtin_prefetch(), asks for reading alone unless it is built with -mprfchw.
 *
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2B, PREFETCHW.
 */
#ifndef WEFT_BASE_PREFETCH_H
#define WEFT_BASE_PREFETCH_H

#include <stddef.h>

/* The lines from memory on, which is best where one begins. */
static inline void weft_prefetch_write(const void *memory, size_t bytes)
{
    const char *line = memory, *end = line + bytes;
    for (; line < end; line += 64) {
#if defined __x86_64__
        __asm__ volatile("prefetchw %0" : : "m"(*line));
#else
        __builtin_prefetch(line, 1, 3);
#endif
    }
}

#endif
