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
#include "devmem/reduce_table.h"
#include "devmem/reduce_vector.h"

/* Loops of a few rounds that become straight code, but only after the constants have been folded: spelling
 * them out would multiply compile time. */
#ifdef __clang__
#define UNROLL _Pragma("unroll 4")
#else
#define UNROLL _Pragma("GCC unroll 4")
#endif

/* What stays the same for every vector of a call. Kernels build it with constants where they can, and pass it
 * by value so that its fields become constants even where a sanitizer guards every variable with an address.
 * fixed: at most three sources, named here; otherwise they are taken from the caller's array. unroll: four
 * vectors at a time, for the cases that are bound by the caches. */
struct pass {
    weft_dtype dtype;
    weft_op op;
    int fixed, unroll, stream;
    int source_count;
    uint32_t finish;
    const char *first, *second, *third;
    const void *const *sources;
};

INLINE struct wide pass_load(struct pass pass, int source, size_t offset, size_t size)
{
    const char *from = pass.first;
    if (!pass.fixed)
        from = pass.sources[source];
    else if (source)
        from = source == 1 ? pass.second : pass.third;
    from += offset;
    return widen(pass.dtype, pass.op, size < VECTOR_BYTES ? vec_load_part(from, size) : vec_load(from));
}

/* The results of size bytes, at most a vector, at an offset. */
INLINE vec pass_at(struct pass pass, size_t offset, size_t size)
{
    struct wide result = pass_load(pass, 0, offset, size);
    UNROLL
    for (int i = 1; i < pass.source_count; i++)
        result = combine(pass.dtype, pass.op, result, pass_load(pass, i, offset, size));
    if (pass.finish)
        result = divide(pass.dtype, result, pass.finish);
    return narrow(pass.dtype, pass.op, result);
}

INLINE void pass_store(struct pass pass, char *to, vec value)
{
    if (pass.stream)
        vec_store_streaming(to, value);
    else
        vec_store(to, value);
}

/* Whole vectors from offset until at least last, where the last vector of the buffer begins. */
INLINE void pass_body(struct pass pass, char *to, size_t offset, size_t last)
{
    const size_t step = VECTOR_BYTES;
    for (; pass.unroll && offset + 3 * step < last; offset += 4 * step) {
        vec a = pass_at(pass, offset, step), b = pass_at(pass, offset + step, step);
        vec c = pass_at(pass, offset + 2 * step, step), d = pass_at(pass, offset + 3 * step, step);
        pass_store(pass, to + offset, a);
        pass_store(pass, to + offset + step, b);
        pass_store(pass, to + offset + 2 * step, c);
        pass_store(pass, to + offset + 3 * step, d);
    }
    for (; offset < last; offset += step)
        pass_store(pass, to + offset, pass_at(pass, offset, step));
}

INLINE size_t element_size(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT64 ? 8 : dtype == WEFT_BFLOAT16 ? 2 : 4;
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

INLINE void pass_run(struct pass pass, char *to, size_t size)
{
    const size_t step = VECTOR_BYTES;
    if (!pass.stream && size < step) {
        if (size)
            vec_store_part(to, pass_at(pass, 0, size), size);
        return;
    }
    size_t last = size - step;
    size_t skew = !pass.stream && stays_unaligned(pass.dtype, to, size) ? 0 : skew_of(to);
    vec tail = pass_at(pass, last, step);
    vec head = skew ? pass_at(pass, 0, step) : tail;
    pass_body(pass, to, skew, last);
    if (skew)
        vec_store(to, head);
    vec_store(to + last, tail);
}

/* Makes the number of sources a constant in the cases that matter. */
INLINE void pass_split(weft_dtype dtype, weft_op op, char *to, const void *const *sources, int source_count,
                       size_t size, uint32_t finish)
{
    struct pass pass = {.dtype = dtype, .op = op, .source_count = source_count, .sources = sources};
    pass.first = sources[0];
    pass.fixed = pass.unroll = 1;
    if (source_count == 2 && !finish) {
        pass.second = sources[1];
        pass.source_count = 2;
        pass_run(pass, to, size);
    } else if (source_count == 3 && !finish) {
        pass.second = sources[1];
        pass.third = sources[2];
        pass.source_count = 3;
        pass_run(pass, to, size);
    } else {
        pass.fixed = pass.unroll = 0;
        pass.finish = finish;
        pass_run(pass, to, size);
    }
}

INLINE void reduce(weft_dtype dtype, weft_op op, void *to, const void *const *sources, int source_count,
                   size_t count, uint32_t finish)
{
    int foreign = dtype != WEFT_INT32 && !fpu_is_default();
    uint64_t state = 0;
    if (foreign) {
        state = fpu_read();
        fpu_write(FPU_DEFAULT);
    }
    pass_split(dtype, op, to, sources, source_count, count * element_size(dtype),
               op == WEFT_AVG ? finish : 0);
    if (foreign)
        fpu_write(state);
}

/* Streaming stores are for two sources and large aligned pieces; 0 where it is not that case. */
INLINE int reduce_streaming(weft_dtype dtype, weft_op op, void *to, const void *const *sources,
                            int source_count, size_t count, uint32_t finish)
{
    size_t size = count * element_size(dtype);
    if (source_count != 2 || finish || stays_unaligned(dtype, to, size))
        return 0;
    if (dtype != WEFT_INT32 && !fpu_is_default())
        return 0;
    struct pass pass = {.dtype = dtype, .op = op, .fixed = 1, .unroll = 1, .stream = 1, .source_count = 2};
    pass.first = sources[0];
    pass.second = sources[1];
    pass_run(pass, to, size);
    vec_streaming_end();
    return 1;
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
    size_t offset = -(uintptr_t)to & (step - 1);
    vec_store(to, vec_load(from));
    for (; offset + 4 * step <= size; offset += 4 * step) {
        vec a = vec_load(from + offset), b = vec_load(from + offset + step);
        vec c = vec_load(from + offset + 2 * step), d = vec_load(from + offset + 3 * step);
        vec_store_streaming(to + offset, a);
        vec_store_streaming(to + offset + step, b);
        vec_store_streaming(to + offset + 2 * step, c);
        vec_store_streaming(to + offset + 3 * step, d);
    }
    memcpy(to + offset, from + offset, size - offset);
    vec_streaming_end();
}

/* One function per type and operation; sum is avg without finish. */
#define REDUCE_LIST(X)                                                                                       \
    X(float32_sum, float32_sum_streaming, WEFT_FLOAT32, WEFT_AVG)                                            \
    X(float32_prod, float32_prod_streaming, WEFT_FLOAT32, WEFT_PROD)                                         \
    X(float32_max, float32_max_streaming, WEFT_FLOAT32, WEFT_MAX)                                            \
    X(float32_min, float32_min_streaming, WEFT_FLOAT32, WEFT_MIN)                                            \
    X(float64_sum, float64_sum_streaming, WEFT_FLOAT64, WEFT_AVG)                                            \
    X(float64_prod, float64_prod_streaming, WEFT_FLOAT64, WEFT_PROD)                                         \
    X(float64_max, float64_max_streaming, WEFT_FLOAT64, WEFT_MAX)                                            \
    X(float64_min, float64_min_streaming, WEFT_FLOAT64, WEFT_MIN)                                            \
    X(bfloat16_sum, bfloat16_sum_streaming, WEFT_BFLOAT16, WEFT_AVG)                                         \
    X(bfloat16_prod, bfloat16_prod_streaming, WEFT_BFLOAT16, WEFT_PROD)                                      \
    X(bfloat16_max, bfloat16_max_streaming, WEFT_BFLOAT16, WEFT_MAX)                                         \
    X(bfloat16_min, bfloat16_min_streaming, WEFT_BFLOAT16, WEFT_MIN)                                         \
    X(int32_sum, int32_sum_streaming, WEFT_INT32, WEFT_AVG)                                                  \
    X(int32_prod, int32_prod_streaming, WEFT_INT32, WEFT_PROD)                                               \
    X(int32_max, int32_max_streaming, WEFT_INT32, WEFT_MAX)                                                  \
    X(int32_min, int32_min_streaming, WEFT_INT32, WEFT_MIN)

#define X(name, name_streaming, dtype, op)                                                                   \
    static void name(void *to, const void *const *sources, int source_count, size_t count, uint32_t finish)  \
    {                                                                                                        \
        reduce(dtype, op, to, sources, source_count, count, finish);                                         \
    }                                                                                                        \
    static void name_streaming(void *to, const void *const *sources, int source_count, size_t count,         \
                               uint32_t finish)                                                              \
    {                                                                                                        \
        if (!reduce_streaming(dtype, op, to, sources, source_count, count, finish))                          \
            name(to, sources, source_count, count, finish);                                                  \
    }
REDUCE_LIST(X)
#undef X

#define ROW(sum, prod, max, min)                                                                             \
    {                                                                                                        \
        [WEFT_SUM] = sum, [WEFT_PROD] = prod, [WEFT_MAX] = max, [WEFT_MIN] = min, [WEFT_AVG] = sum           \
    }

const struct weft_reduce_table REDUCE_TABLE = {
    .isa = REDUCE_ISA,
    .kernels =
        {
            [WEFT_FLOAT32] = ROW(float32_sum, float32_prod, float32_max, float32_min),
            [WEFT_FLOAT64] = ROW(float64_sum, float64_prod, float64_max, float64_min),
            [WEFT_BFLOAT16] = ROW(bfloat16_sum, bfloat16_prod, bfloat16_max, bfloat16_min),
            [WEFT_INT32] = ROW(int32_sum, int32_prod, int32_max, int32_min),
        },
    .streaming =
        {
            [WEFT_FLOAT32] = ROW(float32_sum_streaming, float32_prod_streaming, float32_max_streaming,
                                 float32_min_streaming),
            [WEFT_FLOAT64] = ROW(float64_sum_streaming, float64_prod_streaming, float64_max_streaming,
                                 float64_min_streaming),
            [WEFT_BFLOAT16] = ROW(bfloat16_sum_streaming, bfloat16_prod_streaming, bfloat16_max_streaming,
                                  bfloat16_min_streaming),
            [WEFT_INT32] =
                ROW(int32_sum_streaming, int32_prod_streaming, int32_max_streaming, int32_min_streaming),
        },
    .copy_streaming = copy_streaming,
};
