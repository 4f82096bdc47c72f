/* SPDX-License-Identifier: Apache-2.0 */
/* Allreduces of a few ranks on a simulated device, one by one or many at a time, in memory that the device and the host reach. In a cmocka
 * test: what is wrong fails it. One at a time. */
#ifndef WEFT_TESTS_EXEC_FEW_H
#define WEFT_TESTS_EXEC_FEW_H

#include "tests/support/sim_scene.h"

#define FEW_RANKS 3
#define FEW_OPS   24
#define FEW_BYTES (1u << 20) /* of the largest operation that can be a program */

struct few_work {
    struct weft_plan *plan;
    struct weft_exec_request request;
    struct weft_exec_op *op;
    int32_t *input, *output;
    size_t count;
};

struct few {
    struct exec_world *world;
    struct few_work works[FEW_OPS][FEW_RANKS];
    uint32_t ops;
    enum weft_device_collective_mode mode;
    size_t count; /* of all operations; 0: various */
};
extern struct few few;

/* hosts: ranks, as bits, that run every third operation on the host. few.mode and few.count are set before. */
void few_open_on(const char *device, uint32_t ops, uint32_t hosts, exec_world_mangle *mangle);
void few_open(uint32_t ops, uint32_t hosts, exec_world_mangle *mangle);
void few_close(void);

void few_start(uint32_t number, uint32_t rank);
/* WEFT_AGAIN also where it has not been started. */
int few_status(uint32_t number, uint32_t rank);
/* Turns until the operations before `ops` have ended, or something fails: the first status that is not 0. */
int few_turn_until(uint32_t ops);
void few_turn(int times);
/* Starts them on all ranks, and turns until they have ended, one after the other. */
void few_one_by_one(uint32_t from, uint32_t end);
void few_expect_sums(uint32_t ops);
/* How many of them have been programs, at each rank. */
uint64_t few_collectives(void);

#endif
