/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that end with communicators they have not destroyed.
 *
 * What ends well (exit status 0 by way of exit()) leaves: the others go on among themselves. All else is a failure: they hear
 * of it once the program has ended, and of its exit status where exit() was called.
 *
 * Threads: all of it is safe from any thread.
 */
#ifndef WEFT_COMM_FORM_ENDING_H
#define WEFT_COMM_FORM_ENDING_H

#include <stdint.h>

struct weft_comm;

/* A communicator has been made, and the program's end is its end from now on. */
void weft_ending_add(struct weft_comm *comm);
/* It is being destroyed. 0: its program is ending, and has said so to the others already. */
int weft_ending_remove(struct weft_comm *comm);

/* leave.c: the ranks meet once more, or this one leaves where others have, and where it exits and they do not come in time. */
int weft_comm_part(struct weft_comm *comm, int64_t deadline_ns, int exits);

#endif
