/* SPDX-License-Identifier: Apache-2.0 */
/* What CUDA C, OpenCL C and C call differently, for the text of kernels that all three compile. */
#ifndef WEFT_DEVMEM_KERNELS_LANGUAGE_H
#define WEFT_DEVMEM_KERNELS_LANGUAGE_H

#ifdef __OPENCL_C_VERSION__
#pragma OPENCL FP_CONTRACT OFF
typedef char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uint uint32_t;
typedef ulong uint64_t;
#else
#include <stdint.h>
#include <string.h>
#endif

/* WEFT_GLOBAL: of a pointer into memory that the host gave; WEFT_SHARED: into memory of a block's. */
#ifdef __OPENCL_C_VERSION__
#define WEFT_ELEMENTWISE static inline __attribute__((always_inline))
#define WEFT_GLOBAL      __global
#define WEFT_SHARED      __local
#elif defined(__CUDACC__)
#define WEFT_ELEMENTWISE static __device__ __forceinline__
#define WEFT_GLOBAL
#else
#define WEFT_ELEMENTWISE static inline
#define WEFT_GLOBAL
#endif
#ifndef WEFT_SHARED
#define WEFT_SHARED
#endif

/* The tests compile OpenCL C as C, and then divide as it does. */
#if defined(__OPENCL_C_VERSION__) || defined(WEFT_OPENCL_AS_C)
#define WEFT_DIVIDES_BY_INTEGERS
#endif

#endif
