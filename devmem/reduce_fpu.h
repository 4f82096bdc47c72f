/* The floating-point environment a reduction needs: round to nearest, denormals kept, nothing trapping. A
 * caller's thread may have flushing of denormals on (common in machine learning programs); looking costs
 * about a nanosecond, changing it only happens there.
 */
#ifndef WEFT_DEVMEM_REDUCE_FPU_H
#define WEFT_DEVMEM_REDUCE_FPU_H

#include <stdint.h>

#if defined(__x86_64__)

#define FPU_CONTROL 0xffc0u /* MXCSR without its sticky flags */
#define FPU_DEFAULT 0x1f80u /* all exceptions masked, nearest, no FTZ, no DAZ */

static inline uint64_t fpu_read(void)
{
    return __builtin_ia32_stmxcsr();
}

static inline void fpu_write(uint64_t state)
{
    __asm__ volatile("" ::: "memory");
    __builtin_ia32_ldmxcsr((uint32_t)state);
    __asm__ volatile("" ::: "memory");
}

#elif defined(__aarch64__)

#define FPU_CONTROL 0x07ff9f07u /* FPCR: all that changes results or traps */
#define FPU_DEFAULT 0u

static inline uint64_t fpu_read(void)
{
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    return state;
}

static inline void fpu_write(uint64_t state)
{
    __asm__ volatile("msr fpcr, %0" ::"r"(state) : "memory");
}

#else

#define FPU_CONTROL 0u
#define FPU_DEFAULT 0u

static inline uint64_t fpu_read(void)
{
    return 0;
}

static inline void fpu_write(uint64_t state)
{
    (void)state;
}

#endif

static inline int fpu_is_default(uint64_t state)
{
    return (state & FPU_CONTROL) == FPU_DEFAULT;
}

#endif
