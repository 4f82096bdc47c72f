/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all types and operations, for whatever does struct weft_device_reduction: against the host's kernels, bit for bit, with 1 to 8 sources, odd
 * alignments, in place, two results, scaled, divided, special elements in all combinations. */
#ifndef WEFT_TESTS_REDUCE_TABLE_H
#define WEFT_TESTS_REDUCE_TABLE_H

#include <stddef.h>
#include <weft/device.h>

#define REDUCE_TABLE_BYTES ((size_t)4 << 20)

struct reduce_table {
    unsigned char *memory; /* REDUCE_TABLE_BYTES that host and device use, aligned to 64 */
    /* Does it, and waits until it has been done; 0 on success. */
    int (*reduce)(const struct weft_device_reduction *reduction);
    /* NULL, or whether a pair is left out. */
    int (*leaves_out)(weft_dtype dtype, weft_op op);
    int stride;                         /* every one, or one in so many */
    unsigned long tried, wrong, failed; /* reductions */
    unsigned long pairs;                /* of types and operations */
};

/* Says of the first ones that are wrong what they are, on stderr. */
void reduce_table_run(struct reduce_table *table);

#endif
