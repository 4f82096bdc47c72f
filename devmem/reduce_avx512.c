/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __AVX512BW__ /* the Makefile gives the flags on x86-64; elsewhere this object is empty */
#define REDUCE_TABLE weft_reduce_avx512
#define REDUCE_ISA   "avx512"
#define VECTOR_BYTES 64
#include "devmem/reduce_kernel.h"
#else
typedef int weft_reduce_avx512_absent;
#endif
