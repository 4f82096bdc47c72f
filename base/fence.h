/* SPDX-License-Identifier: Apache-2.0 */
/* Store-to-load ordering between a hot and a cold side.
 *
 * Whoever goes to sleep writes "I sleep" and then looks for work; whoever brings work writes it and then
 * reads whether somebody sleeps. Both need their store to be visible before their load. A full fence after
 * every message would wait for the message's cache line to arrive here (about 100 ns), so the cold side pays
 * for both: membarrier(2) interrupts every processor that runs a registered process, and the hot side needs
 * only order in the compiler. Where membarrier() is missing or forbidden on one side, both use full fences.
 */
#ifndef WEFT_BASE_FENCE_H
#define WEFT_BASE_FENCE_H

#include <stdatomic.h>

/* Registers this process with membarrier(). Returns 1 when it may be the light side and can call
 * weft_fence_heavy(), 0 when its pairs must use weft_fence_full(). Any thread, any number of times. */
int weft_fence_register(void);

/* Cold side, when all hot sides are registered. */
void weft_fence_heavy(void);

static inline void weft_fence_full(void)
{
#if defined __x86_64__
    __asm__ volatile("lock orl $0, (%%rsp)" ::: "memory", "cc");
#elif defined __aarch64__
    __asm__ volatile("dmb ish" ::: "memory");
#else
    __sync_synchronize();
#endif
}

/* Loads before it stay before loads after it. What atomic_thread_fence() does, which gcc refuses under the thread
 * sanitizer. */
static inline void weft_fence_loads(void)
{
#if defined __x86_64__
    __asm__ volatile("" ::: "memory");
#elif defined __aarch64__
    __asm__ volatile("dmb ishld" ::: "memory");
#else
    __sync_synchronize();
#endif
}

/* Hot side: light says that its cold sides use weft_fence_heavy(). */
static inline void weft_fence_hot(int light)
{
    if (light)
        __asm__ volatile("" ::: "memory");
    else
        weft_fence_full();
}

#endif
