/* SPDX-License-Identifier: Apache-2.0 */
/* Thread-local words that every call looks at.
 *
 * A library that is loaded later, as Python loads one, reaches thread-local memory by a call of the loader for each look. The loader
 * keeps a little room (512 bytes of glibc's) where it needs none: for these words alone, a few bytes each.
 *
 * Source: U. Drepper, ELF Handling For Thread-Local Storage, section 4.4.6 (initial exec).
 */
#ifndef WEFT_BASE_THREAD_WORD_H
#define WEFT_BASE_THREAD_WORD_H

#define WEFT_THREAD_WORD _Thread_local __attribute__((tls_model("initial-exec")))

#endif
