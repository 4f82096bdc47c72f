/* SPDX-License-Identifier: Apache-2.0 */
/* The environment, as the call found it that reads it.
 *
 * A program may change its environment once a call has returned. A thread of weft's that goes on with the call then reads a copy, which
 * the call has made. What libfabric and PMIx read is out of reach.
 */
#ifndef WEFT_BASE_ENVIRONMENT_H
#define WEFT_BASE_ENVIRONMENT_H

/* To weft_environment_free(), which wipes it; that takes NULL, too. NULL: no memory. */
char *weft_environment_copy(void);
void weft_environment_free(char *copy);

/* Has the calling thread read that copy from now on, which must stay as long. */
void weft_environment_use(const char *copy);

/* getenv() of the copy that the thread uses, or else of the process. */
const char *weft_environment_get(const char *name);

#endif
