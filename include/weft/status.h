/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes: the one error convention of weft.
 *
 * Every call that can fail returns an int: 0, or one of the negative values below. The list is the only
 * place where a code, its number and its text are defined. Numbers are frozen: new ones go to the end.
 */
#ifndef WEFT_STATUS_H
#define WEFT_STATUS_H

#define WEFT_STATUS_LIST(X)                                                                                  \
    X(WEFT_OK, 0, "success")                                                                                 \
    X(WEFT_AGAIN, -1, "not ready yet, try again")                                                            \
    X(WEFT_INVALID, -2, "invalid argument")                                                                  \
    X(WEFT_NOMEM, -3, "out of memory")                                                                       \
    X(WEFT_UNSUPPORTED, -4, "not supported here")                                                            \
    X(WEFT_TIMEOUT, -5, "deadline passed")                                                                   \
    X(WEFT_PEER_FAILED, -6, "a rank failed")                                                                 \
    X(WEFT_REVOKED, -7, "communicator was revoked by an earlier failure")                                    \
    X(WEFT_MISMATCH, -8, "ranks disagree on an operation")                                                   \
    X(WEFT_SETTINGS, -9, "ranks disagree on a setting")                                                      \
    X(WEFT_PROTOCOL, -10, "malformed or unexpected bytes from a peer")                                       \
    X(WEFT_SYSTEM, -11, "a system call failed")                                                              \
    X(WEFT_TRANSPORT, -12, "a transport failed")                                                             \
    X(WEFT_NOT_FOUND, -13, "a library, device or file was not found")                                        \
    X(WEFT_RANKS_ABSENT, -14, "ranks did not arrive")                                                        \
    X(WEFT_CANCELLED, -15, "operation was cancelled")                                                        \
    X(WEFT_ACCESS, -16, "permission denied")                                                                 \
    X(WEFT_BUSY, -17, "object is still in use")                                                              \
    X(WEFT_INTERNAL, -18, "internal error")

enum weft_status {
#define X(name, value, text) name = value,
    WEFT_STATUS_LIST(X)
#undef X
};

#endif
