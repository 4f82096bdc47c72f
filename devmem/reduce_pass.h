/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of one element type: included once per type by devmem/reduce_kernel.h, with
 *
 *   ELEMENT    name of the type, which begins the names of all that is defined here
 *   DTYPE      its number
 *   KERNELS    which operations get kernels, by a list of KERNEL(name, operation)
 *   IS_COMMON  whether speed matters enough for kernels of their own for three sources and streaming stores, for
 *              four vectors at a time, and for partial vectors without a call
 *
 * Text for each type, not one text for all with the type as a parameter, because everything here is inlined many
 * times over: compilers take minutes when each time comes with all types' arithmetic.
 */
#define PASTE_NAMES(element, name) element##_##name
#define PASTE(element, name)       PASTE_NAMES(element, name)
#define NAMED(name)                PASTE(ELEMENT, name)

INLINE struct wide NAMED(load)(struct pass pass, int source, size_t offset, size_t size)
{
    const char *from = pass.first;
    if (!pass.fixed)
        from = pass.sources[source];
    else if (source)
        from = source == 1 ? pass.second : pass.third;
    from += offset;
    if (size == VECTOR_BYTES)
        return widen(DTYPE, pass.op, vec_load(from));
    return widen(DTYPE, pass.op, IS_COMMON ? vec_load_part(from, size) : load_short(from, size));
}

/* The results of size bytes, at most a vector, at an offset. */
INLINE vec NAMED(at)(struct pass pass, size_t offset, size_t size)
{
    struct wide result = NAMED(load)(pass, 0, offset, size);
    UNROLL
    for (int i = 1; i < pass.source_count; i++)
        result = combine(DTYPE, pass.op, result, NAMED(load)(pass, i, offset, size));
    if (pass.finish)
        result = divide(DTYPE, result, pass.finish);
    return narrow(DTYPE, pass.op, result);
}

/* Whole vectors from offset until at least last, where the last vector of the buffer begins. */
INLINE void NAMED(body)(struct pass pass, char *to, size_t offset, size_t last)
{
    const size_t step = VECTOR_BYTES;
#if IS_COMMON
    for (; pass.unroll && offset + 3 * step < last; offset += 4 * step) {
        vec a = NAMED(at)(pass, offset, step), b = NAMED(at)(pass, offset + step, step);
        vec c = NAMED(at)(pass, offset + 2 * step, step), d = NAMED(at)(pass, offset + 3 * step, step);
        pass_store(pass, to + offset, a);
        pass_store(pass, to + offset + step, b);
        pass_store(pass, to + offset + 2 * step, c);
        pass_store(pass, to + offset + 3 * step, d);
    }
#endif
    for (; offset < last; offset += step)
        pass_store(pass, to + offset, NAMED(at)(pass, offset, step));
}

INLINE void NAMED(run)(struct pass pass, char *to, size_t size)
{
    const size_t step = VECTOR_BYTES;
    if (!pass.stream && size < step) {
        if (size && IS_COMMON)
            vec_store_part(to, NAMED(at)(pass, 0, size), size);
        else if (size)
            store_short(to, NAMED(at)(pass, 0, size), size);
        return;
    }
    size_t last = size - step;
    size_t skew = !pass.stream && stays_unaligned(DTYPE, to, size) ? 0 : skew_of(to);
    vec tail = NAMED(at)(pass, last, step);
    vec head = skew ? NAMED(at)(pass, 0, step) : tail;
    NAMED(body)(pass, to, skew, last);
    if (skew)
        vec_store(to, head);
    vec_store(to + last, tail);
}

/* Makes the number of sources a constant in the cases that matter. The decision looks at arguments, not at a
 * struct pass, which the compiler would put into memory for it. */
INLINE void NAMED(split)(weft_op op, char *to, const void *const *sources, int source_count, size_t size,
                         uint32_t finish)
{
    struct pass pass = {.op = op, .sources = sources, .first = sources[0]};
    int worthwhile = IS_COMMON || size >= VECTOR_BYTES;
    pass.fixed = pass.unroll = 1;
    if (source_count == 2 && !finish && !is_heavy(DTYPE) && worthwhile) {
        pass.second = sources[1];
        pass.source_count = 2;
        NAMED(run)(pass, to, size);
    } else if (IS_COMMON && source_count == 3 && !finish) {
        pass.second = sources[1];
        pass.third = sources[2];
        pass.source_count = 3;
        NAMED(run)(pass, to, size);
    } else {
        pass.fixed = pass.unroll = 0;
        pass.source_count = source_count;
        pass.finish = finish;
        NAMED(run)(pass, to, size);
    }
}

INLINE void NAMED(reduce)(weft_op op, void *to, const void *const *sources, int source_count, size_t count,
                          uint32_t finish)
{
    int foreign = uses_floats(DTYPE, op) && !fpu_is_default();
    uint64_t state = 0;
    if (foreign) {
        state = fpu_read();
        fpu_write(FPU_DEFAULT);
    }
    NAMED(split)(op, to, sources, source_count, count * element_size(DTYPE), op == WEFT_AVG ? finish : 0);
    if (foreign)
        fpu_write(state);
}

/* Streaming stores are for two sources and large aligned pieces; 0 where it is not that case. */
INLINE int NAMED(stream)(weft_op op, void *to, const void *const *sources, int source_count, size_t count,
                         uint32_t finish, weft_reduce_function *kernel)
{
    size_t size = count * element_size(DTYPE);
    if (source_count != 2 || finish || stays_unaligned(DTYPE, to, size))
        return 0;
#if IS_COMMON
    (void)kernel;
    if (uses_floats(DTYPE, op) && !fpu_is_default())
        return 0;
    struct pass pass = {.op = op, .fixed = 1, .unroll = 1, .stream = 1, .source_count = 2};
    pass.first = sources[0];
    pass.second = sources[1];
    NAMED(run)(pass, to, size);
    vec_streaming_end();
#else
    (void)op;
    stream_pieces(kernel, to, sources, size, element_size(DTYPE));
#endif
    return 1;
}

#define KERNEL(name, op)                                                                                     \
    static void NAMED(name)(void *to, const void *const *sources, int source_count, size_t count,            \
                            uint32_t finish)                                                                 \
    {                                                                                                        \
        NAMED(reduce)(op, to, sources, source_count, count, finish);                                         \
    }                                                                                                        \
    static void NAMED(name##_streaming)(void *to, const void *const *sources, int source_count,              \
                                        size_t count, uint32_t finish)                                       \
    {                                                                                                        \
        if (!NAMED(stream)(op, to, sources, source_count, count, finish, NAMED(name)))                       \
            NAMED(name)(to, sources, source_count, count, finish);                                           \
    }
KERNELS

#undef KERNEL
#undef NAMED
#undef PASTE
#undef PASTE_NAMES
#undef IS_COMMON
#undef KERNELS
#undef DTYPE
#undef ELEMENT
