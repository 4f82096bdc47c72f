/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowed mappings: device memory of a rank that another one of the same process works on by the owner's own pointer.
 *
 * Between processes the reader has a mapping of its own. Where both are one process there is nothing of the kind: when the owner ends early and
 * gives its memory back, work that the reader has queued would read what is gone, which ends some devices' contexts. So the owner notes a
 * borrowed mapping, the reader says in which command queue (devmem/command_queue.h) it reads, and an owner that ends early recalls: the command queue
 * takes no more work, and the owner waits for what it holds. It waits for the device only, never for the other rank's thread, which may be
 * anywhere, also waiting for this one.
 *
 * A borrowed mapping has one owner and one reader, and a number that is never used again; it travels with the offer. A number that is made up
 * by a rank of this process, which could as well write anywhere, takes another rank's borrowed mapping at most, whose operation fails then.
 *
 * Threads: any; one table for the process. Only recall() waits.
 */
#ifndef WEFT_DEVMEM_BORROWED_H
#define WEFT_DEVMEM_BORROWED_H

#include <stdint.h>

#include "devmem/command_queue.h"

/* The number is not 0. */
int weft_borrowed_open(uint64_t *borrowed);
/* The reader has done with it, or never had it. 0 is allowed. */
void weft_borrowed_close(uint64_t borrowed);
/* The reader may have work on it. Closes it; when that work is done, WEFT_OK, and also where it has failed. Otherwise nobody knows that it
 * is: WEFT_TIMEOUT, it was not in time; WEFT_TRANSPORT, the command queue was left to the driver with it; or why it cannot be asked. The
 * command queue's operation fails. */
int weft_borrowed_recall(uint64_t borrowed, int64_t timeout_ms);

/* Before anything in the command queue reads the memory. WEFT_PEER_FAILED: it has been closed or recalled, or never was. */
int weft_borrowed_take(uint64_t borrowed, struct weft_command_queue *commands);
/* What who reads it gets then: WEFT_PEER_FAILED with the text. */
int weft_borrowed_gone(void);
/* Nothing in the command queue reads it any more. 0 is allowed. Not needed where the command queue ends: it returns what it has borrowed. */
void weft_borrowed_return(uint64_t borrowed);
/* All that the command queue has borrowed: the command queue's. is_done: its work is. */
void weft_borrowed_return_all(const struct weft_command_queue *commands, int is_done);

#endif
