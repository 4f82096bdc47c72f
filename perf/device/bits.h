/* SPDX-License-Identifier: Apache-2.0 */
/* Elements for reductions on a device: random bits, the same again for the same stream and position.
 *
 * What is compared is one implementation's arithmetic with another's, so any bits will do, and those that show differences
 * are best: in PERF_BITS_ANY half of the elements are any bits at all (NaN, infinities, denormals), and the others are numbers
 * of about the same size, whose sums have to be rounded. PERF_BITS_TAME has only the latter, for timing: no processor is slower with
 * them than with other numbers.
 */
#ifndef WEFT_PERF_DEVICE_BITS_H
#define WEFT_PERF_DEVICE_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

enum perf_bits { PERF_BITS_ANY, PERF_BITS_TAME };

/* Fills count elements; stream sets one input, block or call apart from another. */
void perf_bits_fill(weft_dtype dtype, enum perf_bits bits, uint64_t stream, void *elements, size_t count);

#endif
