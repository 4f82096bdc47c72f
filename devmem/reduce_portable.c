/* SPDX-License-Identifier: Apache-2.0 */
#define REDUCE_TABLE weft_reduce_portable
#define REDUCE_ISA   "portable"
#define VECTOR_BYTES 16
#include "devmem/reduce_kernel.h"
