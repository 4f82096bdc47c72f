/* SPDX-License-Identifier: Apache-2.0 */
/* Element types and operations: sizes and names. */
#include <weft/weft.h>

static const struct {
    const char *name;
    size_t size;
} types[WEFT_DTYPE_COUNT] = {
    [WEFT_INT8] = {"int8", 1},
    [WEFT_UINT8] = {"uint8", 1},
    [WEFT_INT32] = {"int32", 4},
    [WEFT_UINT32] = {"uint32", 4},
    [WEFT_INT64] = {"int64", 8},
    [WEFT_UINT64] = {"uint64", 8},
    [WEFT_FLOAT16] = {"float16", 2},
    [WEFT_FLOAT32] = {"float32", 4},
    [WEFT_FLOAT64] = {"float64", 8},
    [WEFT_BFLOAT16] = {"bfloat16", 2},
    [WEFT_INT16] = {"int16", 2},
    [WEFT_UINT16] = {"uint16", 2},
    [WEFT_FLOAT8_E4M3] = {"float8_e4m3", 1},
    [WEFT_FLOAT8_E5M2] = {"float8_e5m2", 1},
    [WEFT_COMPLEX64] = {"complex64", 8},
    [WEFT_COMPLEX128] = {"complex128", 16},
    [WEFT_BOOL] = {"bool", 1},
};

static const char *const ops[WEFT_OP_COUNT] = {
    [WEFT_SUM] = "sum", [WEFT_PROD] = "prod", [WEFT_MAX] = "max", [WEFT_MIN] = "min",
    [WEFT_AVG] = "avg", [WEFT_AND] = "and",   [WEFT_OR] = "or",   [WEFT_XOR] = "xor",
};

size_t weft_dtype_size(weft_dtype dtype)
{
    return (unsigned)dtype < WEFT_DTYPE_COUNT ? types[dtype].size : 0;
}

const char *weft_dtype_name(weft_dtype dtype)
{
    return (unsigned)dtype < WEFT_DTYPE_COUNT ? types[dtype].name : "unknown";
}

const char *weft_op_name(weft_op op)
{
    return (unsigned)op < WEFT_OP_COUNT ? ops[op] : "unknown";
}
