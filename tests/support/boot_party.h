/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a bootstrap test: a service thread and a bootstrap on the address of test_ranks_*(). */
#ifndef WEFT_TESTS_BOOT_PARTY_H
#define WEFT_TESTS_BOOT_PARTY_H

#include <stdint.h>
#include "comm/boot/bootstrap.h"
#include "tests/support/ranks.h"

#define PATIENCE_MS 60000 /* nothing waits that long unless it is broken */

struct party {
    struct weft_service *service;
    struct weft_bootstrap *b;
    int calls; /* of failed, atomic */
};

/* weft_bootstrap_open()'s status; 1 when not even a service thread could be had. Close the party either way.
 */
int party_open(struct party *party, int rank, int ranks, const char *name, int64_t timeout_ms);
void party_close(struct party *party);

/* What options party_open() adds to; {0} by default. Set before the ranks start. */
struct party_extra {
    const char *address;  /* of rank 0, instead of the one on loopback */
    int64_t heartbeat_ms; /* TEST_HEARTBEAT_MS by default */
    /* arg is received_args[rank of the receiver] */
    void (*received)(void *arg, int rank, enum weft_oob_channel channel, const void *bytes, size_t size);
    void *const *received_args;
    int (*cancelled)(void *arg);
    void *cancelled_arg;
};
void party_extra(const struct party_extra *extra);

/* Dies as far as the others can see: all edges close without a goodbye. Close the party afterwards. */
void party_die(struct party *party);

/* Whether the calling thread's error detail contains part; prints it when not. */
int party_detail_has(const char *part);

/* Waits until a failure is known and failed has been called `calls` times; 0 when that does not happen. */
int party_wait_failed(struct party *party, int calls);

/* test_ranks_threads() as an assertion-friendly count: ranks that went wrong, plus kinds of things left
 * behind. */
int party_run_threads(int ranks, test_rank_function *function, void *arg);

#endif
