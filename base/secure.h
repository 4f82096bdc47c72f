/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that name a file, a descriptor or a library.
 *
 * In a program that runs with more rights than its caller (set-uid, set-gid, file capabilities) the caller chose the
 * environment but must not choose what such a program opens, writes or loads. There these variables are ignored, with
 * one warning in all. Threads: any.
 */
#ifndef WEFT_BASE_SECURE_H
#define WEFT_BASE_SECURE_H

/* Whether this program runs with more rights than its caller. */
int weft_secure_mode(void);

/* The variable's value; NULL when it is unset, empty, or ignored for the reason above. */
const char *weft_secure_getenv(const char *name);

#endif
