/* SPDX-License-Identifier: Apache-2.0 */
/* The reduction kernels of one instruction set. Each reduce_<isa>.c names its table and vector width,
 * includes this file, and is compiled with that instruction set's flags.
 *
 * A pass over the buffers. Elements are lanes of vectors; a buffer shorter than one vector is done in one
 * step with partial loads and stores. Otherwise the last vector, which may overlap the one before it, is
 * computed first and stored last; likewise a first vector where the destination is not aligned. Holding both
 * in registers meanwhile lets everything between be whole vectors to aligned addresses, and stays right when
 * the destination is one of the sources: what the loop overwrites had been read by then.
 */
#include "devmem/reduce_fpu.h"
#include "devmem/reduce_lanes.h"
#include "devmem/reduce_table.h"

/* What stays the same for every vector of a call. Kernels build it with constants where they can, and pass it
 * by value so that its fields become constants even where a sanitizer guards every variable with an address.
 * fixed: at most three sources, named here; otherwise they are taken from the caller's array. unroll: four
 * vectors at a time, for the cases that are bound by the caches. */
struct pass {
    weft_op op;
    int fixed, unroll, stream;
    int source_count;
    uint32_t finish;
    const char *first, *second, *third;
    const void *const *sources;
};

INLINE void pass_store(struct pass pass, char *to, vec value)
{
    if (pass.stream)
        vec_store_streaming(to, value);
    else
        vec_store(to, value);
}

/* Bytes up to the first aligned vector of the destination. */
INLINE size_t skew_of(const void *to)
{
    return -(uintptr_t)to & (VECTOR_BYTES - 1);
}

/* Buffers too short to be worth aligning, or with elements that cannot be. */
INLINE int stays_unaligned(weft_dtype dtype, const void *to, size_t size)
{
    return size < 8 * VECTOR_BYTES || skew_of(to) % element_size(dtype);
}

/* Partial loads and stores are long where there are no masks for bytes: most types share one copy. */
static __attribute__((noinline)) vec load_short(const char *from, size_t size)
{
    return vec_load_part(from, size);
}

static __attribute__((noinline)) void store_short(char *to, vec value, size_t size)
{
    vec_store_part(to, value, size);
}

/* Types that are bound by arithmetic: knowing the number of sources beforehand gains them nothing. */
INLINE int is_heavy(weft_dtype dtype)
{
    return is_float8(dtype) || dtype == WEFT_COMPLEX64 || dtype == WEFT_COMPLEX128;
}

/* Whole vectors past the caches; to is aligned, and size a multiple of four vectors. */
INLINE void store_past(char *to, const char *from, size_t size)
{
    const size_t step = VECTOR_BYTES;
    for (size_t offset = 0; offset < size; offset += 4 * step) {
        vec a = vec_load(from + offset), b = vec_load(from + offset + step);
        vec c = vec_load(from + offset + 2 * step), d = vec_load(from + offset + 3 * step);
        vec_store_streaming(to + offset, a);
        vec_store_streaming(to + offset + step, b);
        vec_store_streaming(to + offset + 2 * step, c);
        vec_store_streaming(to + offset + 3 * step, d);
    }
}

static void copy_streaming(void *destination, const void *source, size_t size)
{
    char *to = destination;
    const char *from = source;
    const size_t step = VECTOR_BYTES;
    if (size < 8 * step) {
        memcpy(to, from, size);
        return;
    }
    size_t offset = -(uintptr_t)to & (step - 1), whole = (size - offset) / (4 * step) * (4 * step);
    if (offset)
        vec_store(to, vec_load(from));
    store_past(to + offset, from + offset, whole);
    offset += whole;
    memcpy(to + offset, from + offset, size - offset);
    vec_streaming_end();
}

/* Streaming stores for types that have no kernels of their own for them: pieces are reduced into a block that
 * stays in the innermost cache, and copied from there. Two sources; to can be aligned by whole elements. */
static void stream_pieces(weft_reduce_function *kernel, char *to, const void *const *sources, size_t size,
                          size_t element)
{
    char block[4096] __attribute__((aligned(64)));
    const char *first = sources[0], *second = sources[1];
    size_t offset = skew_of(to), piece = offset;
    kernel(to, sources, 2, piece / element, 0);
    for (; size - offset >= 4 * VECTOR_BYTES; offset += piece) {
        piece = (size - offset) / (4 * VECTOR_BYTES) * (4 * VECTOR_BYTES);
        piece = piece < sizeof block ? piece : sizeof block;
        kernel(block, (const void *[]){first + offset, second + offset}, 2, piece / element, 0);
        store_past(to + offset, block, piece);
    }
    kernel(to + offset, (const void *[]){first + offset, second + offset}, 2, (size - offset) / element, 0);
    vec_streaming_end();
}

/* One function per type and operation, and one with streaming stores; sum is avg without finish. */
#define NUMBERS KERNEL(sum, WEFT_AVG) KERNEL(prod, WEFT_PROD) KERNEL(max, WEFT_MAX) KERNEL(min, WEFT_MIN)
#define BITS    KERNEL(and, WEFT_AND) KERNEL(or, WEFT_OR) KERNEL(xor, WEFT_XOR)

#define ELEMENT   int8
#define DTYPE     WEFT_INT8
#define KERNELS   NUMBERS
#define IS_COMMON 0
#include "devmem/reduce_pass.h"

#define ELEMENT   uint8
#define DTYPE     WEFT_UINT8
#define KERNELS   NUMBERS
#define IS_COMMON 0
#include "devmem/reduce_pass.h"

#define ELEMENT   int16
#define DTYPE     WEFT_INT16
#define KERNELS   NUMBERS
#define IS_COMMON 0
#include "devmem/reduce_pass.h"

#define ELEMENT   uint16
#define DTYPE     WEFT_UINT16
#define KERNELS   NUMBERS
#define IS_COMMON 0
#include "devmem/reduce_pass.h"

#define ELEMENT   int32
#define DTYPE     WEFT_INT32
#define KERNELS   NUMBERS
#define IS_COMMON 1
#include "devmem/reduce_pass.h"

#define ELEMENT   uint32
#define DTYPE     WEFT_UINT32
#define KERNELS   NUMBERS
#define IS_COMMON 0
#include "devmem/reduce_pass.h"

#define ELEMENT   int64
#define DTYPE     WEFT_INT64
#define KERNELS   NUMBERS
#define IS_COMMON 0
#include "devmem/reduce_pass.h"

#define ELEMENT   uint64
#define DTYPE     WEFT_UINT64
#define KERNELS   NUMBERS
#define IS_COMMON 0
#include "devmem/reduce_pass.h"

#define ELEMENT   float8_e4m3
#define DTYPE     WEFT_FLOAT8_E4M3
#define KERNELS   NUMBERS
#define IS_COMMON 0
#include "devmem/reduce_pass.h"

#define ELEMENT   float8_e5m2
#define DTYPE     WEFT_FLOAT8_E5M2
#define KERNELS   NUMBERS
#define IS_COMMON 0
#include "devmem/reduce_pass.h"

#define ELEMENT   float16
#define DTYPE     WEFT_FLOAT16
#define KERNELS   NUMBERS
#define IS_COMMON (VECTOR_BYTES > 16)
#include "devmem/reduce_pass.h"

#define ELEMENT   bfloat16
#define DTYPE     WEFT_BFLOAT16
#define KERNELS   NUMBERS
#define IS_COMMON 1
#include "devmem/reduce_pass.h"

#define ELEMENT   float32
#define DTYPE     WEFT_FLOAT32
#define KERNELS   NUMBERS
#define IS_COMMON 1
#include "devmem/reduce_pass.h"

#define ELEMENT   float64
#define DTYPE     WEFT_FLOAT64
#define KERNELS   NUMBERS
#define IS_COMMON 1
#include "devmem/reduce_pass.h"

#define ELEMENT   complex64
#define DTYPE     WEFT_COMPLEX64
#define KERNELS   KERNEL(prod, WEFT_PROD)
#define IS_COMMON 0
#include "devmem/reduce_pass.h"

#define ELEMENT   complex128
#define DTYPE     WEFT_COMPLEX128
#define KERNELS   KERNEL(prod, WEFT_PROD)
#define IS_COMMON 0
#include "devmem/reduce_pass.h"

#define ELEMENT   bool
#define DTYPE     WEFT_BOOL
#define KERNELS   BITS
#define IS_COMMON 0
#include "devmem/reduce_pass.h"

#define ELEMENT   bits1
#define DTYPE     WEFT_UINT8
#define KERNELS   BITS
#define IS_COMMON 0
#include "devmem/reduce_pass.h"

/* Elements that are several of a type that has a kernel. */
#define SEVERAL(name, kernel, of)                                                                            \
    static void name(void *to, const void *const *sources, int source_count, size_t count, uint32_t finish)  \
    {                                                                                                        \
        kernel(to, sources, source_count, count *(of), finish);                                              \
    }                                                                                                        \
    static void name##_streaming(void *to, const void *const *sources, int source_count, size_t count,       \
                                 uint32_t finish)                                                            \
    {                                                                                                        \
        kernel##_streaming(to, sources, source_count, count *(of), finish);                                  \
    }

SEVERAL(complex64_sum, float32_sum, 2)
SEVERAL(complex128_sum, float64_sum, 2)
SEVERAL(bits2_and, bits1_and, 2)
SEVERAL(bits2_or, bits1_or, 2)
SEVERAL(bits2_xor, bits1_xor, 2)
SEVERAL(bits4_and, bits1_and, 4)
SEVERAL(bits4_or, bits1_or, 4)
SEVERAL(bits4_xor, bits1_xor, 4)
SEVERAL(bits8_and, bits1_and, 8)
SEVERAL(bits8_or, bits1_or, 8)
SEVERAL(bits8_xor, bits1_xor, 8)
#define ORDERED(type, how)                                                                                   \
    [WEFT_SUM] = type##_sum##how, [WEFT_AVG] = type##_sum##how, [WEFT_PROD] = type##_prod##how,              \
    [WEFT_MAX] = type##_max##how, [WEFT_MIN] = type##_min##how
#define BITWISE(type, how)                                                                                   \
    [WEFT_AND] = type##_and##how, [WEFT_OR] = type##_or##how, [WEFT_XOR] = type##_xor##how
#define COMPLEX(type, how)                                                                                   \
    [WEFT_SUM] = type##_sum##how, [WEFT_AVG] = type##_sum##how, [WEFT_PROD] = type##_prod##how
#define BOOLS(how)                                                                                           \
    [WEFT_SUM] = bool_or##how, [WEFT_MAX] = bool_or##how, [WEFT_PROD] = bool_and##how,                       \
    [WEFT_MIN] = bool_and##how, BITWISE(bool, how)

#define TABLE(how)                                                                                           \
    {                                                                                                        \
        [WEFT_INT8] = {ORDERED(int8, how), BITWISE(bits1, how)},                                             \
        [WEFT_UINT8] = {ORDERED(uint8, how), BITWISE(bits1, how)},                                           \
        [WEFT_INT16] = {ORDERED(int16, how), BITWISE(bits2, how)},                                           \
        [WEFT_UINT16] = {ORDERED(uint16, how), BITWISE(bits2, how)},                                         \
        [WEFT_INT32] = {ORDERED(int32, how), BITWISE(bits4, how)},                                           \
        [WEFT_UINT32] = {ORDERED(uint32, how), BITWISE(bits4, how)},                                         \
        [WEFT_INT64] = {ORDERED(int64, how), BITWISE(bits8, how)},                                           \
        [WEFT_UINT64] = {ORDERED(uint64, how), BITWISE(bits8, how)},                                         \
        [WEFT_FLOAT8_E4M3] = {ORDERED(float8_e4m3, how)}, [WEFT_FLOAT8_E5M2] = {ORDERED(float8_e5m2, how)},  \
        [WEFT_FLOAT16] = {ORDERED(float16, how)}, [WEFT_BFLOAT16] = {ORDERED(bfloat16, how)},                \
        [WEFT_FLOAT32] = {ORDERED(float32, how)}, [WEFT_FLOAT64] = {ORDERED(float64, how)},                  \
        [WEFT_COMPLEX64] = {COMPLEX(complex64, how)}, [WEFT_COMPLEX128] = {COMPLEX(complex128, how)},        \
        [WEFT_BOOL] = {BOOLS(how)},                                                                          \
    }

const struct weft_reduce_table REDUCE_TABLE = {
    .isa = REDUCE_ISA,
    .kernels = TABLE(),
    .streaming = TABLE(_streaming),
    .copy_streaming = copy_streaming,
};
