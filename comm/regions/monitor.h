/* SPDX-License-Identifier: Apache-2.0 */
/* Reports when memory of this process goes: unmapped, moved, discarded, by any thread and in any way. Linux reports it through a
 * userfaultfd (userfaultfd(2), ioctl_userfaultfd(2)).
 *
 * Watched memory is registered for write protection, and nothing is ever write-protected: so no access ever faults, and
 * the program notices nothing. (Registration for missing pages would stop every first touch of a page, and system calls that
 * touch one, read() into fresh memory for instance, would fail with EFAULT.) What is left are the events: a thread that
 * unmaps watched memory waits in the kernel until somebody has read that it does. Reading is the job of a thread of its
 * own, `weft-cache`. That thread must never wait for one that frees memory, which may hold any lock of malloc()
 * or of weft: it allocates nothing, frees nothing, logs nothing, and takes two locks, the one below and its service's,
 * under which nobody allocates or frees while anything is watched.
 *
 * When memory has gone, and when that is known. The kernel unmaps first, then queues the event, so in between another thread may
 * already be given the same address by mmap(). weft_monitor_quiet() closes that gap. The kernel counts, per userfaultfd,
 * changes whose events have not been taken (mmap_changing in fs/userfaultfd.c): up under the lock of the address space, before
 * the memory goes, down after the event has been read; and UFFDIO_WRITEPROTECT answers EAGAIN while the count is not zero, before it
 * looks at its arguments. Let thread A unmap X, and thread B use X afterwards, as new memory. B was given X under the
 * lock of the address space after A had released it, so B sees A's count. Either quiet() says no, and B uses nothing
 * that is known of X. Or the count has gone down again: then the event was read, by the thread here, which has
 * held `lock` since before that read(), and lets go only when gone() has run. B takes `lock` after quiet(), and so sees what
 * gone() did. Kernels before 5.18 are left out: their count was a flag, which the first of two changes cleared.
 *
 * madvise(MADV_DONTNEED, MADV_FREE) is reported before the pages go. Memory in use by one thread while another one discards it
 * has no defined content anyway; who wants to be safe does not watch it anew at that moment.
 *
 * A forked child's memory is not watched (the kernel drops it there), and its copy of the descriptor is closed.
 */
#ifndef WEFT_COMM_REGIONS_MONITOR_H
#define WEFT_COMM_REGIONS_MONITOR_H

#include <pthread.h>
#include <stdint.h>

struct weft_monitor;

/* Called on the monitor's thread with its lock held: [begin, end) is not what it was. watched: it is still watched, under
 * this address, or has come to be watched by a move; the callee ends that or not. */
typedef void weft_monitor_gone(void *arg, uintptr_t begin, uintptr_t end, int watched);

/* Starts the thread. WEFT_UNSUPPORTED, saying why, where the kernel refuses. lock is the caller's, and is held by nobody who
 * allocates, frees or waits for a thread that does. */
int weft_monitor_start(pthread_mutex_t *lock, weft_monitor_gone *gone, void *arg,
                       struct weft_monitor **monitor);
/* Joins the thread; nothing is watched any more. Not with the lock held. */
void weft_monitor_stop(struct weft_monitor *monitor);

/* Whole pages. 0, or -1 when this memory cannot be watched: it is no memory, of a file, or another userfaultfd has it. */
int weft_monitor_add(const struct weft_monitor *monitor, uintptr_t begin, uintptr_t end);
void weft_monitor_remove(const struct weft_monitor *monitor, uintptr_t begin, uintptr_t end);

/* Whether every change so far has been reported, or is being reported under the lock: ask, then take the lock, then look. */
int weft_monitor_quiet(const struct weft_monitor *monitor);

/* Whether all of it is private, anonymous memory. Pages of mapped files and of shared memory can be taken out of it by
 * ftruncate() or fallocate() of the file without an event, also those that a private mapping has of its own. */
int weft_monitor_is_private(const struct weft_monitor *monitor, uintptr_t begin, uintptr_t end);

#endif
