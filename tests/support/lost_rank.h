/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that is lost in the middle of allreduces, over a network transport: the others hear which one and on what host,
 * a communicator without it goes on, and so do they in a smaller one. One that was only stopped hears it, too, when it wakes.
 * Over verbs nobody holds anything of a device when its context is closed. */
#ifndef WEFT_TESTS_LOST_RANK_H
#define WEFT_TESTS_LOST_RANK_H

#include <stddef.h>

/* Asserts it for three ranks, each a process, the second of which gets SIGKILL or SIGSTOP; count elements. */
void lost_rank_is_named(const char *transports, const char *provider, int signal, size_t count);

#endif
