/* SPDX-License-Identifier: Apache-2.0 */
/* A few instances of the verbs transport in one thread, whose out-of-band messages the test hands over: for tests of its links on the
 * device in memory. */
#ifndef WEFT_TESTS_VERBS_NODES_H
#define WEFT_TESTS_VERBS_NODES_H

#include <stddef.h>
#include <stdint.h>
#include <weft/transport.h>

#define VERBS_NODES 3

struct verbs_node {
    struct weft_transport *transport; /* NULL: closed */
    uint8_t address[WEFT_ADDRESS_MAX];
    size_t size; /* 0: nobody has it any more */
    int received, failed, filled, put;
    int status;     /* of the last link that failed */
    int put_status; /* of the last put that ended */
    uint8_t last[8];
};

struct verbs_nodes_message {
    int from, to;
    size_t size;
    uint8_t bytes[WEFT_OOB_MAX];
};

extern struct weft_transport_ops verbs_nodes_ops;
extern struct verbs_node verbs_nodes[VERBS_NODES];
extern struct verbs_nodes_message verbs_nodes_oob[64]; /* that wait */
extern int verbs_nodes_oob_count;
extern int verbs_nodes_hold; /* out-of-band messages wait while it is set */

/* devices and settings: NULL for the defaults. */
void verbs_nodes_open(const char *devices, const struct weft_verbs_settings *settings);
void verbs_nodes_close(void);
/* As cmocka's fixtures: with one rail, and nothing of the device is left behind. */
int verbs_nodes_setup(void **state);
int verbs_nodes_teardown(void **state);
void verbs_nodes_hand_over(const struct verbs_nodes_message *oob);
/* Hands over the out-of-band messages and lets all instances poll, so many times. */
void verbs_nodes_turns(int count);
/* Lets one instance poll, that many times. */
void verbs_nodes_poll(int node, int times);
struct weft_link *verbs_nodes_begin(int from, int to);
/* The same, and the link is up. */
struct weft_link *verbs_nodes_join(int from, int to);
/* Sends at most 8 characters, which arrive. */
void verbs_nodes_say(struct weft_link *link, const char *text, int to);

#endif
