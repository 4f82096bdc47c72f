/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/nccl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 32, FAR = 99 };

/* Of several names for one type the first is the one that is printed. */
static const struct {
    const char *name;
    weft_dtype dtype;
} dtypes[] = {
    {"half", WEFT_FLOAT16},
    {"float", WEFT_FLOAT32},
    {"double", WEFT_FLOAT64},
    {"f8e4m3", WEFT_FLOAT8_E4M3},
    {"f8e5m2", WEFT_FLOAT8_E5M2},
    {"fp8_e4m3", WEFT_FLOAT8_E4M3},
    {"fp8_e5m2", WEFT_FLOAT8_E5M2},
    {"float8e4m3", WEFT_FLOAT8_E4M3},
    {"float8e5m2", WEFT_FLOAT8_E5M2},
    {"char", WEFT_INT8},
    {"int", WEFT_INT32},
    {"bf16", WEFT_BFLOAT16},
    {"fp16", WEFT_FLOAT16},
    {"fp32", WEFT_FLOAT32},
    {"fp64", WEFT_FLOAT64},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes, PRINTED = 5 };

const char *perf_nccl_dtype(const char *name)
{
    for (int i = 0; i < DTYPES; i++)
        if (strcmp(name, dtypes[i].name) == 0)
            return weft_dtype_name(dtypes[i].dtype);
    return name;
}

const char *perf_nccl_dtype_name(weft_dtype dtype)
{
    for (int i = 0; i < PRINTED; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return weft_dtype_name(dtype);
}

/* Small letters without what is between words, and without the end that nccl-tests' programs have: some builds of it, and
 * packages, call those with MPI all_reduce_perf_mpi. */
static void squeeze(const char *name, char *text)
{
    static const char *const ends[] = {"perf", "perfmpi"};
    size_t length = 0;
    for (; *name && length < NAME_BYTES - 1; name++)
        if (*name != '_' && *name != '-')
            text[length++] = (char)tolower((unsigned char)*name);
    text[length] = '\0';
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t tail = strlen(ends[i]);
        if (length > tail && strcmp(text + length - tail, ends[i]) == 0)
            text[length - tail] = '\0';
    }
}

int perf_nccl_is_command(const char *name, const char *command)
{
    char left[NAME_BYTES], right[NAME_BYTES];
    squeeze(name, left);
    squeeze(command, right);
    return strlen(name) < NAME_BYTES && strcmp(left, right) == 0;
}

const char *perf_nccl_test_name(const char *command, char *text, size_t capacity)
{
    static const char *const names[][2] = {
        {"allreduce", "all_reduce"}, {"allgather", "all_gather"}, {"reduce_scatter", "reduce_scatter"},
        {"broadcast", "broadcast"},  {"reduce", "reduce"},        {"gather", "gather"},
        {"scatter", "scatter"},      {"alltoall", "alltoall"},    {"alltoallv", "alltoallv"},
        {"sendrecv", "sendrecv"},
    };
    snprintf(text, capacity, "%s", command);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(command, names[i][0]) == 0)
            snprintf(text, capacity, "%s_perf", names[i][1]);
    return text;
}

size_t perf_nccl_distance(const char *name, const char *command)
{
    char left[NAME_BYTES], right[NAME_BYTES];
    size_t row[NAME_BYTES + 1];
    if (strlen(name) >= NAME_BYTES)
        return FAR;
    squeeze(name, left);
    squeeze(command, right);
    size_t width = strlen(right);
    for (size_t k = 0; k <= width; k++)
        row[k] = k;
    for (size_t i = 0; left[i]; i++) {
        size_t before = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < width; k++) {
            size_t best = before + (left[i] != right[k]);
            before = row[k + 1];
            best = before + 1 < best ? before + 1 : best;
            row[k + 1] = row[k] + 1 < best ? row[k] + 1 : best;
        }
    }
    return row[width];
}
