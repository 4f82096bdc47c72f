/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __AVX2__ /* the Makefile gives the flags on x86-64; elsewhere this object is empty */
#define REDUCE_TABLE weft_reduce_avx2
#define REDUCE_ISA   "avx2"
#define VECTOR_BYTES 32
#include "devmem/reduce_kernel.h"
#else
typedef int weft_reduce_avx2_absent;
#endif
