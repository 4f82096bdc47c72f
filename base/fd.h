/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that are weft's: which they are, and whether a number is still the file that weft has made.
 *
 * A program may close descriptors that it does not know, as some daemonisers do with all of them, or dup2() over them,
 * and may have opened files of its own under the same numbers since. Those are not to be read, written, closed or
 * taken out of an epoll set. So every descriptor that weft keeps is made known here together with the file's identity:
 * its device and inode, or a mark on the open file: where files have no inode of their own (eventfds, timers, epoll sets), and for
 * connections, which are looked at most often.
 *
 * A number that was taken from weft is never given to another owner of weft's, who would share it with one that
 * does not know yet. Closing it does nothing but count it as lost.
 *
 * Threads: any. Losses are counted per thread, and taken over by the context that the thread works for before it turns to
 * another. For what a forked child must not keep see base/fork.h.
 */
#ifndef WEFT_BASE_FD_H
#define WEFT_BASE_FD_H

#include <sys/types.h>

/* Makes a descriptor known that the caller has just made, and returns it, perhaps under another number. A negative fd
 * is passed through; on failure fd is closed, errno set, and the result -1: `fd = weft_fd_add(socket(...))`
 * needs no other check than that of the call inside. */
int weft_fd_add(int fd);

/* Closes such a descriptor, unless it was lost. One that was not added is closed all the same; a negative one is ignored. */
void weft_fd_close(int fd);

/* The same for a descriptor that a library has made and will close itself: note it after it is made (0, or -1 with
 * errno, and nothing is closed), forget it right before the library closes it. */
int weft_fd_note(int fd);
void weft_fd_forget(int fd);

/* Whether it has been added or noted, and neither closed nor forgotten since. */
int weft_fd_is_known(int fd);

/* Whether a descriptor that was added or noted is still the same file: one system call. 0 with errno EBADF. */
int weft_fd_is_own(int fd);

/* The calls of these names, on a descriptor that is still weft's; else -1 with errno EBADF, and nothing is touched. */
ssize_t weft_fd_read(int fd, void *bytes, size_t size);
ssize_t weft_fd_write(int fd, const void *bytes, size_t size);
ssize_t weft_fd_recv(int fd, void *bytes, size_t size, int flags);
ssize_t weft_fd_send(int fd, const void *bytes, size_t size, int flags);

struct epoll_event;
int weft_fd_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
int weft_fd_epoll_wait(int epoll_fd, struct epoll_event *events, int events_max, int timeout_ms);

/* Takes fd out of an epoll set, if that is still weft's. */
void weft_fd_unpoll(int epoll_fd, int fd);

/* Descriptors that were no longer weft's when they were to be closed. */
struct weft_fd_losses {
    unsigned count;
    int first; /* the number of one of them */
};
/* Whether any thread has ever lost one: cheap. */
int weft_fd_has_losses(void);
/* Forgets those of the calling thread, which were nobody's. */
void weft_fd_losses_drop(void);
/* Adds those of the calling thread, and begins to count anew. */
void weft_fd_losses_take(struct weft_fd_losses *losses);
/* Adds losses to those of the calling thread. */
void weft_fd_losses_add(const struct weft_fd_losses *losses);

/* For the handler of a forked child (base/fork.c), where this is the only thread: closes all that is weft's and forgets it.
 * Returns whether anything was open. Async-signal-safe. */
int weft_fd_drop_all(void);

#endif
