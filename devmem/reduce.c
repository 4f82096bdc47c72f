/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction set's kernels run here: decided at the first call and never again. */
#include "devmem/reduce.h"

#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/log.h"
#include "devmem/reduce_table.h"

/* Best first. */
static const struct weft_reduce_table *const tables[] = {
#ifdef __x86_64__
    &weft_reduce_avx512,
    &weft_reduce_avx2,
#endif
    &weft_reduce_portable,
};

#define TABLE_COUNT (sizeof tables / sizeof *tables)

#ifdef __x86_64__
/* F16C, which not every compiler's __builtin_cpu_supports() knows. */
static int converts_halves(void)
{
    unsigned eax, ebx, ecx = 0, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
#endif

/* Whether processor and operating system support a table. */
static int table_runs(const struct weft_reduce_table *table)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    if (table == &weft_reduce_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("bmi2");
    if (table == &weft_reduce_avx2)
        return __builtin_cpu_supports("avx2") && converts_halves();
#endif
    return table == &weft_reduce_portable;
}

static const struct weft_reduce_table *table_named(const char *isa)
{
    for (size_t i = 0; i < TABLE_COUNT; i++)
        if (strcmp(tables[i]->isa, isa) == 0)
            return table_runs(tables[i]) ? tables[i] : NULL;
    return NULL;
}

static const struct weft_reduce_table *table_choose(void)
{
    const char *isa = getenv("WEFT_ISA");
    const struct weft_reduce_table *table = isa && *isa ? table_named(isa) : NULL;
    for (size_t i = 0; !table; i++)
        if (table_runs(tables[i]))
            table = tables[i];
    if (isa && *isa && strcmp(isa, table->isa) != 0)
        weft_log(WEFT_LOG_WARN, "WEFT_ISA is '%s', which this machine lacks or weft does not know: using %s",
                 isa, table->isa);
    return table;
}

/* Threads that race here decide alike. */
static const struct weft_reduce_table *table_in_use(void)
{
    static const struct weft_reduce_table *chosen;
    const struct weft_reduce_table *table = __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
    if (!table) {
        table = table_choose();
        __atomic_store_n(&chosen, table, __ATOMIC_RELEASE);
    }
    return table;
}

static int pair_exists(weft_dtype dtype, weft_op op)
{
    return (unsigned)dtype < WEFT_DTYPE_COUNT && (unsigned)op < WEFT_OP_COUNT;
}

weft_reduce_function *weft_reduce_find(weft_dtype dtype, weft_op op)
{
    return pair_exists(dtype, op) ? table_in_use()->kernels[dtype][op] : NULL;
}

weft_reduce_function *weft_reduce_find_streaming(weft_dtype dtype, weft_op op)
{
    return pair_exists(dtype, op) ? table_in_use()->streaming[dtype][op] : NULL;
}

weft_reduce_function *weft_reduce_find_isa(const char *isa, weft_dtype dtype, weft_op op)
{
    const struct weft_reduce_table *table = table_named(isa);
    return table && pair_exists(dtype, op) ? table->kernels[dtype][op] : NULL;
}

weft_reduce_function *weft_reduce_find_streaming_isa(const char *isa, weft_dtype dtype, weft_op op)
{
    const struct weft_reduce_table *table = table_named(isa);
    return table && pair_exists(dtype, op) ? table->streaming[dtype][op] : NULL;
}

const char *weft_reduce_isa(void)
{
    return table_in_use()->isa;
}

int weft_scale(weft_dtype dtype, void *destination, const void *source, size_t count, const void *scalar)
{
    enum { BLOCK_BYTES = 4096 };
    size_t element = weft_dtype_size(dtype);
    if (!element || dtype == WEFT_BOOL)
        return WEFT_UNSUPPORTED;
    weft_reduce_function *multiply = weft_reduce_find(dtype, WEFT_PROD);
    char scalars[BLOCK_BYTES], *to = destination;
    const char *from = source;
    size_t block = BLOCK_BYTES / element < count ? BLOCK_BYTES / element : count;
    for (size_t i = 0; i < block; i++)
        memcpy(scalars + i * element, scalar, element);
    for (size_t piece; count > 0; count -= piece, from += piece * element, to += piece * element) {
        piece = count < block ? count : block;
        multiply(to, (const void *[]){from, scalars}, 2, piece, 0);
    }
    return WEFT_OK;
}

/* From here on the end of a destination pushes its beginning out of a cache of common size; measured,
 * streaming stores then win. */
#define COPY_STREAMING_BYTES ((size_t)12 << 20)

void weft_copy(void *destination, const void *source, size_t size)
{
    if (size >= COPY_STREAMING_BYTES)
        weft_copy_streaming(destination, source, size);
    else
        memcpy(destination, source, size);
}

void weft_copy_streaming(void *destination, const void *source, size_t size)
{
    table_in_use()->copy_streaming(destination, source, size);
}
