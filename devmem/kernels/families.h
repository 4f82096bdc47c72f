/* SPDX-License-Identifier: Apache-2.0 */
/* The families of reduction kernels, one per element type and operation that are not computed alike: what devmem/cuda/reduce.cu and
 * devmem/ze/reduce.cl make kernels of, what names them, and what the tests go through. Functions are those of devmem/kernels/arithmetic.h. A group
 * is the families of one element type, or of two that need the same of a device: the kind "ze" loads one at a time.
 *
 *   SUM(name, lane, accumulator, widen, combine, narrow, divide, times)    can divide by finish and multiply by a scalar
 *   OTHER(name, lane, edge, accumulator, widen, combine, narrow)
 *
 * lane: bits of an element. edge: bits of an element outside of whole vectors: bit operations and copies take 32 bits at a time where
 * they can, whatever the elements are. avg is sum, with finish in its last step. Sums and products of integers are the same for signed
 * and unsigned ones, but their averages are not. WEFT_KERNEL_REDUCTIONS are all but copies.
 */
#ifndef WEFT_DEVMEM_KERNELS_FAMILIES_H
#define WEFT_DEVMEM_KERNELS_FAMILIES_H

#define WEFT_KERNEL_GROUP_int8(SUM, OTHER)                                                                   \
    SUM(int8_sum, 8, uint32_t, bits32_same, int_add, int8_narrow, int8_divide, int_times)                    \
    SUM(uint8_sum, 8, uint32_t, bits32_same, int_add, int8_narrow, uint8_divide, int_times)                  \
    OTHER(int8_prod, 8, 8, uint32_t, bits32_same, int_times, int8_narrow)                                    \
    OTHER(int8_max, 8, 8, uint32_t, int8_widen, int_max, int8_narrow)                                        \
    OTHER(int8_min, 8, 8, uint32_t, int8_widen, int_min, int8_narrow)                                        \
    OTHER(uint8_max, 8, 8, uint32_t, bits32_same, uint_max, bits32_same)                                     \
    OTHER(uint8_min, 8, 8, uint32_t, bits32_same, uint_min, bits32_same)

#define WEFT_KERNEL_GROUP_int16(SUM, OTHER)                                                                  \
    SUM(int16_sum, 16, uint32_t, bits32_same, int_add, int16_narrow, int16_divide, int_times)                \
    SUM(uint16_sum, 16, uint32_t, bits32_same, int_add, int16_narrow, uint16_divide, int_times)              \
    OTHER(int16_prod, 16, 16, uint32_t, bits32_same, int_times, int16_narrow)                                \
    OTHER(int16_max, 16, 16, uint32_t, int16_widen, int_max, int16_narrow)                                   \
    OTHER(int16_min, 16, 16, uint32_t, int16_widen, int_min, int16_narrow)                                   \
    OTHER(uint16_max, 16, 16, uint32_t, bits32_same, uint_max, bits32_same)                                  \
    OTHER(uint16_min, 16, 16, uint32_t, bits32_same, uint_min, bits32_same)

#define WEFT_KERNEL_GROUP_int32(SUM, OTHER)                                                                  \
    SUM(int32_sum, 32, uint32_t, bits32_same, int_add, bits32_same, int32_divide, int_times)                 \
    SUM(uint32_sum, 32, uint32_t, bits32_same, int_add, bits32_same, uint32_divide, int_times)               \
    OTHER(int32_prod, 32, 32, uint32_t, bits32_same, int_times, bits32_same)                                 \
    OTHER(int32_max, 32, 32, uint32_t, bits32_same, int_max, bits32_same)                                    \
    OTHER(int32_min, 32, 32, uint32_t, bits32_same, int_min, bits32_same)                                    \
    OTHER(uint32_max, 32, 32, uint32_t, bits32_same, uint_max, bits32_same)                                  \
    OTHER(uint32_min, 32, 32, uint32_t, bits32_same, uint_min, bits32_same)

#define WEFT_KERNEL_GROUP_int64(SUM, OTHER)                                                                  \
    SUM(int64_sum, 64, uint64_t, bits64_same, int64_add, bits64_same, int64_divide, int64_times)             \
    SUM(uint64_sum, 64, uint64_t, bits64_same, int64_add, bits64_same, uint64_divide, int64_times)           \
    OTHER(int64_prod, 64, 64, uint64_t, bits64_same, int64_times, bits64_same)                               \
    OTHER(int64_max, 64, 64, uint64_t, bits64_same, int64_max, bits64_same)                                  \
    OTHER(int64_min, 64, 64, uint64_t, bits64_same, int64_min, bits64_same)                                  \
    OTHER(uint64_max, 64, 64, uint64_t, bits64_same, uint64_max, bits64_same)                                \
    OTHER(uint64_min, 64, 64, uint64_t, bits64_same, uint64_min, bits64_same)

#define WEFT_KERNEL_GROUP_bits(SUM, OTHER)                                                                   \
    OTHER(bits_or, 32, 8, uint32_t, bits32_same, int_or, bits32_same)                                        \
    OTHER(bits_and, 32, 8, uint32_t, bits32_same, int_and, bits32_same)                                      \
    OTHER(bits_xor, 32, 8, uint32_t, bits32_same, int_xor, bits32_same)

#define WEFT_KERNEL_GROUP_bool(SUM, OTHER)                                                                   \
    OTHER(bool_or, 8, 8, uint32_t, bool_widen, int_or, bits32_same)                                          \
    OTHER(bool_and, 8, 8, uint32_t, bool_widen, int_and, bits32_same)                                        \
    OTHER(bool_xor, 8, 8, uint32_t, bool_widen, int_xor, bits32_same)

#define WEFT_KERNEL_GROUP_float8(SUM, OTHER)                                                                 \
    SUM(e4m3_sum, 8, float, e4m3_widen, float_add, e4m3_narrow, float_divide, float_times)                   \
    SUM(e5m2_sum, 8, float, e5m2_widen, float_add, e5m2_narrow, float_divide, float_times)                   \
    OTHER(e4m3_prod, 8, 8, float, e4m3_widen, float_times, e4m3_narrow)                                      \
    OTHER(e4m3_max, 8, 8, uint32_t, e4m3_max_widen, int_max, e4m3_max_narrow)                                \
    OTHER(e4m3_min, 8, 8, uint32_t, e4m3_min_widen, int_min, e4m3_min_narrow)                                \
    OTHER(e5m2_prod, 8, 8, float, e5m2_widen, float_times, e5m2_narrow)                                      \
    OTHER(e5m2_max, 8, 8, uint32_t, e5m2_max_widen, int_max, e5m2_max_narrow)                                \
    OTHER(e5m2_min, 8, 8, uint32_t, e5m2_min_widen, int_min, e5m2_min_narrow)

#define WEFT_KERNEL_GROUP_float16(SUM, OTHER)                                                                \
    SUM(float16_sum, 16, float, float16_widen, float_add, float16_narrow, float_divide, float_times)         \
    OTHER(float16_prod, 16, 16, float, float16_widen, float_times, float16_narrow)                           \
    OTHER(float16_max, 16, 16, uint32_t, float16_max_widen, int_max, float16_max_narrow)                     \
    OTHER(float16_min, 16, 16, uint32_t, float16_min_widen, int_min, float16_min_narrow)

#define WEFT_KERNEL_GROUP_bfloat16(SUM, OTHER)                                                               \
    SUM(bfloat16_sum, 16, float, bfloat16_widen, float_add, bfloat16_narrow, float_divide, float_times)      \
    OTHER(bfloat16_prod, 16, 16, float, bfloat16_widen, float_times, bfloat16_narrow)                        \
    OTHER(bfloat16_max, 16, 16, uint32_t, bfloat16_max_widen, int_max, bfloat16_max_narrow)                  \
    OTHER(bfloat16_min, 16, 16, uint32_t, bfloat16_min_widen, int_min, bfloat16_min_narrow)

#define WEFT_KERNEL_GROUP_float32(SUM, OTHER)                                                                \
    SUM(float32_sum, 32, float, float_of_bits, float_add, float32_narrow, float_divide, float_times)         \
    OTHER(float32_prod, 32, 32, float, float_of_bits, float_times, float32_narrow)                           \
    OTHER(float32_max, 32, 32, uint32_t, float32_max_widen, int_max, float32_max_narrow)                     \
    OTHER(float32_min, 32, 32, uint32_t, float32_min_widen, int_min, float32_min_narrow)

#define WEFT_KERNEL_GROUP_float64(SUM, OTHER)                                                                \
    SUM(float64_sum, 64, double, double_of_bits, double_add, float64_narrow, double_divide, double_times)    \
    OTHER(float64_prod, 64, 64, double, double_of_bits, double_times, float64_narrow)                        \
    OTHER(float64_max, 64, 64, uint64_t, float64_max_widen, int64_max, float64_max_narrow)                   \
    OTHER(float64_min, 64, 64, uint64_t, float64_min_widen, int64_min, float64_min_narrow)

#define WEFT_KERNEL_GROUP_complex64(SUM, OTHER)                                                              \
    SUM(complex64_sum, 64, struct weft_complex64, complex64_widen, complex64_add, complex64_narrow,          \
        complex64_divide, complex64_times)                                                                   \
    OTHER(complex64_prod, 64, 64, struct weft_complex64, complex64_widen, complex64_times, complex64_narrow)

#define WEFT_KERNEL_GROUP_complex128(SUM, OTHER)                                                             \
    SUM(complex128_sum, 128, struct weft_complex128, complex128_widen, complex128_add, complex128_narrow,    \
        complex128_divide, complex128_times)                                                                 \
    OTHER(complex128_prod, 128, 128, struct weft_complex128, complex128_widen, complex128_times,             \
          complex128_narrow)

#define WEFT_KERNEL_REDUCTIONS(SUM, OTHER)                                                                   \
    WEFT_KERNEL_GROUP_int8(SUM, OTHER) WEFT_KERNEL_GROUP_int16(SUM, OTHER)                                   \
        WEFT_KERNEL_GROUP_int32(SUM, OTHER) WEFT_KERNEL_GROUP_int64(SUM, OTHER)                              \
            WEFT_KERNEL_GROUP_bits(SUM, OTHER) WEFT_KERNEL_GROUP_bool(SUM, OTHER)                            \
                WEFT_KERNEL_GROUP_float8(SUM, OTHER) WEFT_KERNEL_GROUP_float16(SUM, OTHER)                   \
                    WEFT_KERNEL_GROUP_bfloat16(SUM, OTHER) WEFT_KERNEL_GROUP_float32(SUM, OTHER)             \
                        WEFT_KERNEL_GROUP_float64(SUM, OTHER) WEFT_KERNEL_GROUP_complex64(SUM, OTHER)        \
                            WEFT_KERNEL_GROUP_complex128(SUM, OTHER)

/* All groups, by name. */
#define WEFT_KERNEL_GROUPS(GROUP)                                                                            \
    GROUP(int8)                                                                                              \
    GROUP(int16)                                                                                             \
    GROUP(int32)                                                                                             \
    GROUP(int64)                                                                                             \
    GROUP(bits)                                                                                              \
    GROUP(bool)                                                                                              \
    GROUP(float8)                                                                                            \
    GROUP(float16)                                                                                           \
    GROUP(bfloat16)                                                                                          \
    GROUP(float32)                                                                                           \
    GROUP(float64)                                                                                           \
    GROUP(complex64)                                                                                         \
    GROUP(complex128)

#define WEFT_KERNEL_FAMILIES(SUM, OTHER)                                                                     \
    WEFT_KERNEL_REDUCTIONS(SUM, OTHER) OTHER(copy, 32, 8, uint32_t, bits32_same, int_or, bits32_same)

/* Those with kernels of their own for a number of sources, and vectors that each thread has in flight there. */
#define WEFT_KERNEL_FIXED(FIXED)                                                                             \
    FIXED(copy, 1, 8)                                                                                        \
    FIXED(int32_sum, 2, 4)                                                                                   \
    FIXED(int32_sum, 3, 2)                                                                                   \
    FIXED(float16_sum, 2, 4)                                                                                 \
    FIXED(float16_sum, 3, 2)                                                                                 \
    FIXED(float16_max, 2, 4)                                                                                 \
    FIXED(float16_min, 2, 4)                                                                                 \
    FIXED(float16_prod, 2, 4)                                                                                \
    FIXED(bfloat16_sum, 2, 4)                                                                                \
    FIXED(bfloat16_sum, 3, 2)                                                                                \
    FIXED(bfloat16_max, 2, 4)                                                                                \
    FIXED(bfloat16_min, 2, 4)                                                                                \
    FIXED(bfloat16_prod, 2, 4)                                                                               \
    FIXED(float32_sum, 2, 4)                                                                                 \
    FIXED(float32_sum, 3, 2)                                                                                 \
    FIXED(float32_max, 2, 4)                                                                                 \
    FIXED(float32_min, 2, 4)                                                                                 \
    FIXED(float32_prod, 2, 4)                                                                                \
    FIXED(float64_sum, 2, 4)                                                                                 \
    FIXED(float64_sum, 3, 2)                                                                                 \
    FIXED(float64_max, 2, 4)                                                                                 \
    FIXED(float64_min, 2, 4)                                                                                 \
    FIXED(float64_prod, 2, 4)

#endif
