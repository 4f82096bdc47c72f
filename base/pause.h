/* SPDX-License-Identifier: Apache-2.0 */
/* Between two looks at a word that another processor is to write. */
#ifndef WEFT_BASE_PAUSE_H
#define WEFT_BASE_PAUSE_H

static inline void weft_pause(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

#endif
