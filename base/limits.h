/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of this process, of descriptors above all. Threads: any. */
#ifndef WEFT_BASE_LIMITS_H
#define WEFT_BASE_LIMITS_H

#include <stdint.h>

/* Descriptors ran out: for weft_limits_descriptors(), as there may be some again when the failure shows. Other values of
 * errno are not noted. */
void weft_limits_note(int error);

/* What has been noted in the last 10 s, or 0. */
int weft_limits_noted(void);

/* 0, or the errno value with which descriptors could not be made, a few now or one in the last 10 s.
 * Libraries and peers often report something else when descriptors have run out: asked right after such a failure,
 * this is a good guess. */
int weft_limits_descriptors(void);

/* Whether locking `more` bytes would go beyond the limit of locked memory (RLIMIT_MEMLOCK), with what is pinned already.
 * It does not count for a thread that has CAP_IPC_LOCK.
 * Libraries say ENOMEM for that as well as for a malloc() that failed. */
struct weft_limits_locked {
    uint64_t limit, pinned; /* bytes; limit UINT64_MAX: none that counts */
};
int weft_limits_locked(uint64_t more, struct weft_limits_locked *locked);

/* Lets the kernel's table of descriptors hold `more` beyond fd, a descriptor of weft's, if it may. The kernel
 * doubles the table whenever it is full, and in a process of several threads waits each time for an RCU grace period,
 * some milliseconds (Linux, fs/file.c, expand_fdtable); this does so at most once. The early one does it
 * where it costs no wait, as long as there is a single thread, and otherwise nothing. */
void weft_limits_make_room(int fd, int more);
void weft_limits_make_room_early(int fd, int more);

#endif
