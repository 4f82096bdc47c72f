/* SPDX-License-Identifier: Apache-2.0 */
/* weft-perf --devices: which devices weft knows here, what each supports, and why a kind is missing. */
#ifndef WEFT_PERF_DEVICES_H
#define WEFT_PERF_DEVICES_H

/* Prints the list. Returns an exit status of weft-perf. */
int perf_devices(void);

#endif
