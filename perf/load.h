/* SPDX-License-Identifier: Apache-2.0 */
/* Allreduces that run beside a measurement, on a thread of their own, on all ranks. */
#ifndef WEFT_PERF_LOAD_H
#define WEFT_PERF_LOAD_H

#include <stdint.h>
#include <weft/weft.h>

enum { PERF_LOAD_BYTES = 16384 };

struct perf_load;

/* Starts them on comm, on which nothing else may be called but point-to-point until perf_load_stop(); collective. 0, or
 * -1 after a message. */
int perf_load_start(weft_comm *comm, struct perf_load **load);

/* Ends them on all ranks after the same one, and says how many there were and how many elements of them were wrong;
 * collective. 0, or -1 after a message. */
int perf_load_stop(struct perf_load *load, uint64_t *calls, uint64_t *wrong);

#endif
