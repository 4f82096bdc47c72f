/* SPDX-License-Identifier: Apache-2.0 */
/* The floating-point environment a reduction needs: round to nearest, denormals kept. A caller's thread may
 * have flushing of denormals on (common in machine learning programs) or another rounding mode; the kernels
 * must not care, or ranks would disagree. Changing the environment only happens there.
 */
#ifndef WEFT_DEVMEM_REDUCE_FPU_H
#define WEFT_DEVMEM_REDUCE_FPU_H

#include <stdint.h>

#if defined(__x86_64__)

#include <emmintrin.h>

/* Reading MXCSR waits for every floating-point operation in flight, 5 ns on a small buffer, so that the
 * environment is judged by what it does: one addition whose lanes come out differently when denormal results
 * or inputs are flushed, or when rounding goes up, or down or to zero. */
static inline int fpu_is_default(void)
{
    static const struct {
        float a[4], b[4];
        uint32_t sum[4];
    } probe __attribute__((aligned(64))) = {
        {0x1p-126f, 1, 1, 0},
        {-0x1p-149f, 0x1p-25f, 0x1.8p-24f, 0},
        {0x007fffff, 0x3f800000, 0x3f800001, 0},
    };
    __m128 a = _mm_load_ps(probe.a);
    __asm__ volatile("" : "+x"(a)); /* or the compiler would add beforehand */
    __m128i sum = _mm_castps_si128(_mm_add_ps(a, _mm_load_ps(probe.b)));
    __m128i same = _mm_cmpeq_epi32(sum, _mm_load_si128((const __m128i *)(const void *)probe.sum));
    return __builtin_expect(_mm_movemask_epi8(same) == 0xffff, 1);
}

static inline uint64_t fpu_read(void)
{
    return _mm_getcsr();
}

static inline void fpu_write(uint64_t state)
{
    __asm__ volatile("" ::: "memory");
    _mm_setcsr((uint32_t)state);
    __asm__ volatile("" ::: "memory");
}

#define FPU_DEFAULT 0x1f80u /* nothing traps, nearest, no FTZ, no DAZ */

#elif defined(__aarch64__)

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

static inline int fpu_is_default(void)
{
    return __builtin_expect(fpu_read() == 0, 1);
}

#define FPU_DEFAULT 0u

#else

static inline int fpu_is_default(void)
{
    return 1;
}

static inline uint64_t fpu_read(void)
{
    return 0;
}

static inline void fpu_write(uint64_t state)
{
    (void)state;
}

#define FPU_DEFAULT 0u

#endif

#endif
