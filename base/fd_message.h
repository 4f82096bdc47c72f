/* SPDX-License-Identifier: Apache-2.0 */
/* One message of a UNIX socket that keeps messages apart (SOCK_SEQPACKET), with descriptors beside its bytes (SCM_RIGHTS, unix(7)).
 * Nothing here blocks. Threads: any, one at a time for each socket. */
#ifndef WEFT_BASE_FD_MESSAGE_H
#define WEFT_BASE_FD_MESSAGE_H

#include <stddef.h>
#include <sys/types.h>

#define WEFT_FD_MESSAGE_FDS 2 /* at most in one message */

/* The descriptors are weft's, and stay the caller's. 0, or an errno: EBADF where one is not weft's any more, EAGAIN where the socket is full, or too many are in flight. */
int weft_fd_message_send(int socket_fd, const void *data, size_t size, const int *fds, int count);

/* Bytes of a message: those of data, whatever the message has behind them. -1 with errno, 0 at the end. fds: WEFT_FD_MESSAGE_FDS
 * descriptors, which are weft's (base/fd.h) and the caller's, and -1 for each that did not come. *is_cut: the message was longer, or had descriptors
 * that did not arrive; errno is EMFILE then where there was no room for them in this process. */
ssize_t weft_fd_message_receive(int socket_fd, void *data, size_t size, int *fds, int *is_cut);

/* Closes those that came. */
void weft_fd_message_close(int *fds);

#endif
