/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a device that a rank lends to another one of the same process, whose device works on it by the owner's own pointer.
 *
 * Between processes the reader has a mapping of its own. Where both are one process there is nothing of the kind: when the owner ends early and
 * gives its memory back, work that the reader has queued would read what is gone, which ends some devices' contexts. So the owner notes a
 * loan, the reader says in which lane (devmem/lane.h) it reads, and an owner that ends early recalls: the lane takes no more
 * work, and the owner waits for what it holds. It waits for the device only, never for the other rank's thread, which may be
 * anywhere, also waiting for this one.
 *
 * A loan has one owner and one reader, and a number that is never used again; it travels with the offer. A number that is made up by a
 * rank of this process, which could as well write anywhere, takes another rank's loan at most, whose operation fails then.
 *
 * Threads: any; one table for the process. Only recall() waits.
 */
#ifndef WEFT_DEVMEM_LOAN_H
#define WEFT_DEVMEM_LOAN_H

#include <stdint.h>

#include "devmem/lane.h"

/* *loan is not 0. */
int weft_loan_open(uint64_t *loan);
/* The reader has done with it, or never had it. 0 is allowed. */
void weft_loan_close(uint64_t loan);
/* The reader may have work on it. Closes it; when that work is done, WEFT_OK, and also where it has failed. Otherwise nobody knows that it
 * is: WEFT_TIMEOUT, it was not in time; WEFT_TRANSPORT, the lane was left to the driver with it; or why it cannot be asked. The
 * lane's operation fails. */
int weft_loan_recall(uint64_t loan, int64_t timeout_ms);

/* Before anything in the lane reads the memory. WEFT_PEER_FAILED: it has been closed or recalled, or never was. */
int weft_loan_borrow(uint64_t loan, struct weft_lane *lane);
/* What who reads it is told then: WEFT_PEER_FAILED with the text. */
int weft_loan_gone(void);
/* Nothing in the lane reads it any more. 0 is allowed. Not needed where the lane ends: it returns what it has borrowed. */
void weft_loan_return(uint64_t loan);
/* All that the lane has borrowed: the lane's. is_done: its work is. */
void weft_loans_return(const struct weft_lane *lane, int is_done);

#endif
