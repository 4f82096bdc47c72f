/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping signal dispositions as they are while somebody else's library is loaded.
 *
 * Libraries that weft loads, or their plug-ins, may install signal handlers. Between save and restore the
 * caller has the turn: nobody else in this process loads anything through weft, so that what restore puts back
 * is what the program had. Threads: any; save waits for the turn.
 */
#ifndef WEFT_BASE_SIGNALS_H
#define WEFT_BASE_SIGNALS_H

#include <signal.h>

#define WEFT_SIGNALS 64

struct weft_signals {
    struct sigaction actions[WEFT_SIGNALS + 1];
    int has_turn;
};

/* Takes the turn and notes what every signal does. */
void weft_signals_save(struct weft_signals *signals);

/* Puts back whatever has changed, and ends the turn. */
void weft_signals_restore(struct weft_signals *signals);

/* From any thread: ends the turn of a loader that does not come back, so that others need not wait for it. Its
 * restore does nothing then. */
void weft_signals_give_up(struct weft_signals *signals);

#endif
