/* SPDX-License-Identifier: Apache-2.0 */
/* The transport contract (include/weft/transport.h) as tests, run on any backend.
 *
 * A test program names its backends in a table and calls conform_run(). Tests open several instances in one
 * process and drive them from one thread, from two, or from a forked process where a backend can.
 */
#ifndef WEFT_TESTS_CONFORM_H
#define WEFT_TESTS_CONFORM_H

#include <weft/transport.h>

struct conform_backend {
    const char *label;     /* of this row */
    const char *transport; /* name for loop_find() */
    const char *provider;  /* params.provider */
    const char *local_address;
    const char *(*devices)(void);                        /* params.devices of the next instance, or NULL */
    void (*verbs)(struct weft_verbs_settings *settings); /* makes params.verbs from the defaults, or NULL */
    uint32_t offers; /* the WEFT_CAP_PUT and WEFT_CAP_READ it must have; tests of what it lacks do not run */
    int direct;      /* params.direct */
    int processes;   /* instances of different processes reach each other */
    int peers;       /* how many instances the test with many links opens */
    int notifies;    /* has WEFT_CAP_NOTIFY */
    int sleepless;   /* has no descriptors to sleep on */
    int endless;     /* never answers AGAIN by itself within reasonable memory: skip the backpressure test */
    int reads_maps_only_alloc; /* map() works for memory of alloc() only */
    int takes_back;            /* unexpose() makes later reads fail */
    int lossy_oob;             /* some out-of-band messages are lost, some come twice */
    int only_puts;             /* the row differs from others in its puts only: runs no other tests */
    /* NULL, or the reason why this machine cannot run the row. May be NULL. */
    const char *(*absent)(void);
};

/* Runs the suite on each row; returns the number of failed tests, or 77 (skipped) when no row could run here. */
int conform_run(const struct conform_backend *backends, size_t count);

/* --- for the suite's own files --- */

struct test_watcher;
struct test_oob;

struct conform_message {
    size_t offset, size; /* in bytes of the node */
};

/* One instance and what has been reported to it. */
struct conform_node {
    const struct conform_backend *backend;
    struct weft_transport_ops ops;
    struct weft_transport *transport;
    struct weft_verbs_settings verbs;
    struct test_oob *oob;
    struct weft_transport_caps caps;
    uint8_t address[WEFT_ADDRESS_MAX];
    size_t address_size;
    uint8_t *bytes;
    size_t used, capacity;
    struct conform_message *messages;
    size_t message_count, message_capacity;
    uint64_t put_done[4096], filled[4096];
    int put_status[4096];
    size_t put_done_count, filled_count;
    void *failed[64];
    int failed_status[64];
    size_t failed_count;
    int misaligned;
};

struct conform_world {
    const struct conform_backend *backend;
    struct test_watcher *watcher;
    struct conform_node *nodes;
    int count;
};

void conform_open(struct conform_world *world, const struct conform_backend *backend, int count);
void conform_close(struct conform_world *world);
/* One instance, for processes and threads; no assertions, 0 or a status. */
int conform_node_open(struct conform_node *node, const struct conform_backend *backend,
                      struct test_watcher *watcher);
void conform_node_close(struct conform_node *node);
/* Delivers events, and out-of-band messages behind them. */
void conform_poll(struct conform_node *node, int budget);
void conform_turn(struct conform_world *world);

/* Turns until *value reaches at least wanted; fails the test when it has not grown for 20 s. */
void conform_until(struct conform_world *world, const size_t *value, size_t wanted);
/* Turns for a moment in which nothing must happen. */
void conform_settle(struct conform_world *world);

/* Connects and waits until the link is up. */
struct weft_link *conform_connect(struct conform_world *world, int from, int to, void *context);
/* Sends, turning the world while the answer is AGAIN. */
void conform_send(struct conform_world *world, int from, struct weft_link *link, const void *header,
                  size_t header_size, const void *payload, size_t payload_size);

/* Test messages: {seed, size} and a pattern that depends on both, at least 8 bytes. */
void conform_fill(uint8_t *bytes, size_t size, uint32_t seed);
/* Whether message `index` of the node is what conform_fill() made. */
int conform_matches(const struct conform_node *node, size_t index, size_t size, uint32_t seed);

struct CMUnitTest;
/* Parts of the suite: fills up to capacity tests that suit the row, returns how many. */
size_t conform_message_tests(const struct conform_backend *backend, struct CMUnitTest *tests,
                             size_t capacity);
size_t conform_memory_tests(const struct conform_backend *backend, struct CMUnitTest *tests, size_t capacity);
size_t conform_put_tests(const struct conform_backend *backend, struct CMUnitTest *tests, size_t capacity);
size_t conform_process_tests(const struct conform_backend *backend, struct CMUnitTest *tests,
                             size_t capacity);
size_t conform_life_tests(const struct conform_backend *backend, struct CMUnitTest *tests, size_t capacity);

/* Appends one group of tests. */
size_t conform_append(struct CMUnitTest *tests, size_t capacity, const struct CMUnitTest *more, size_t count);

/* The row under test. */
const struct conform_backend *conform_backend(void **state);

#endif
