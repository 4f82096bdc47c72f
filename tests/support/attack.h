/* SPDX-License-Identifier: Apache-2.0 */
/* What strangers do to a listener: for tests and for the measurement of what it costs.
 *
 * Everything here connects to 127.0.0.1:port and knows no secret. Connections that are kept are in the caller's
 * array, -1 where there is none; attack_end() closes them. Threads: no shared state.
 */
#ifndef WEFT_TESTS_ATTACK_H
#define WEFT_TESTS_ATTACK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes that went from one rank to a listener, for replaying them. */
#define ATTACK_RECORD_MAX 8192
struct attack_record {
    size_t size;
    unsigned char bytes[ATTACK_RECORD_MAX];
};

/* Lets this process have so many descriptors; 0 when it may not. */
int attack_may_have(int descriptors);

/* What a rank says first, as if it had been recorded on another connection: a proof of TEST_SECRET, and a frame. */
void attack_make_record(struct attack_record *record);

/* Connects and closes, at once or after random bytes. */
void attack_scan(uint16_t port, int times);
/* Connects and says nothing. */
void attack_silent(uint16_t port, int *fds, int count);
/* Connects and says less than a proof: the beginning of a right one, or random bytes. */
void attack_half(uint16_t port, int *fds, int count);
/* Connects and says everything that a rank once said. */
void attack_replay(uint16_t port, const struct attack_record *record, int *fds, int count);
/* Tries to be a rank with another secret. */
void attack_wrong_secret(uint16_t port, int *fds, int count);
void attack_end(int *fds, int count);

/* The port of a listening TCP socket that a process has, other than not_this; 0 while there is none. */
uint16_t attack_find_listener(pid_t pid, uint16_t not_this);

/* Passes connections to *from_fd (a listening socket) on to a port, and records the first to be made, from the dialer
 * to the listener. Does not return; for a process of its own. */
__attribute__((noreturn)) void attack_record_proxy(int from_fd, uint16_t port, struct attack_record *record);

#endif
