/* SPDX-License-Identifier: Apache-2.0 */
/* The names that nccl-tests and RCCL's tests have for types and programs, beside weft's. */
#ifndef WEFT_PERF_NCCL_H
#define WEFT_PERF_NCCL_H

#include <stddef.h>
#include <weft/weft.h>

/* weft's name of the type; name itself where nccl-tests has no other. */
const char *perf_nccl_dtype(const char *name);

/* As nccl-tests prints it; weft's name where it has no such type. */
const char *perf_nccl_dtype_name(weft_dtype dtype);

/* Whether name is the command's own or nccl-tests' for it: all_reduce_perf and AllReduce are allreduce. */
int perf_nccl_is_command(const char *name, const char *command);

/* The program of nccl-tests that does what the command does; the command where there is none. text holds it. */
const char *perf_nccl_test_name(const char *command, char *text, size_t capacity);

/* How many characters the name is away from the command's, spelled alike. */
size_t perf_nccl_distance(const char *name, const char *command);

#endif
