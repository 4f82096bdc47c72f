/* SPDX-License-Identifier: Apache-2.0 */
/* Who runs collectives on a device: of devices on which those of one process do not get on beside each other
 * (WEFT_DEVICE_COLLECTIVES_BESIDE), one at a time may wait for others. All contexts of the process share what is claimed.
 * Any thread. */
#ifndef WEFT_DEVMEM_CLAIM_H
#define WEFT_DEVMEM_CLAIM_H

/* 1: it is the caller's until it gives it back; 0: somebody has it. kind: its name. */
int weft_claim_take(const char *kind, int ordinal);
void weft_claim_give(const char *kind, int ordinal);

#endif
