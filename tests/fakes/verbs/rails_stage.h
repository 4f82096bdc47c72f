/* SPDX-License-Identifier: Apache-2.0 */
/* Two instances of the verbs transport, each with two ports of the device in memory and failover on: one sends and puts,
 * the other answers and has receive buffers. For tests of rails that fail. */
#ifndef WEFT_TESTS_RAILS_STAGE_H
#define WEFT_TESTS_RAILS_STAGE_H

#include "tests/support/conform.h"
#include "transport/verbs/failover.h"

#define STAGE_PUTS    6
#define STAGE_SIZE    40001
#define STAGE_PATTERN 0x5a

/* Rows: as it is, with out-of-band messages that get lost, and with two queue pairs per rail and no memory windows. */
extern const struct conform_backend stage_plain, stage_lossy, stage_bare;

/* Instance 0 sends and puts to instance 1, which answers each message. */
struct stage {
    struct conform_world world;
    struct conform_node *nodes;
    struct weft_link *to, *back;
    uint8_t *source, *target;
    struct weft_region *source_region, *target_region;
    struct weft_token tokens[STAGE_PUTS];
    size_t sent, answered, put;
    uint32_t seed;
};

void stage_open(struct stage *stage, const struct conform_backend *backend);
void stage_close(struct stage *stage);
/* Sends what the window takes, until `most` have been sent in all, and lets the other end answer what has come. */
void stage_chat(struct stage *stage, size_t most);
/* All messages so far have come, once each and in order, in both directions. */
void stage_finish_chat(struct stage *stage);
/* Receive buffers of two sizes: every second one is cut over all rails. */
size_t stage_put_size(size_t number);
void stage_advertise(struct stage *stage);
void stage_put(struct stage *stage);
/* All puts have arrived and ended, with the right bytes and none beside; the memory is used for something else then. */
void stage_finish_puts(struct stage *stage);
/* Nobody has written into that memory. */
void stage_check_untouched(const struct stage *stage);
/* Until the link is up with so many queue pairs. */
void stage_until_qps(struct stage *stage, int qps);

#endif
