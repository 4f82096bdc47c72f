/* SPDX-License-Identifier: Apache-2.0 */
/* Where the victim dies: the hooks behind the linker's --wrap (tests/kill/wraps).
 *
 * The program is linked with wrappers around the executor's entry points (point.c) and a transport's table (moves.c), and the library's
 * system calls pass the fault injector (tests/faults/inject.h). All are counted; when the count of the case is reached, the process
 * writes down the time and sends the signal to itself. Where a point is never reached, since a step has no
 * message, say, death comes at the end of the step, the operation or the stage.
 *
 * One rank per process. State is static and belongs to the rank; hooks may run on any of its threads.
 */
#ifndef WEFT_TESTS_KILL_POINT_H
#define WEFT_TESTS_KILL_POINT_H

#include <stdatomic.h>
#include <stdint.h>

#include "tests/kill/case.h"

/* In memory that the ranks share. */
struct kill_clock {
    _Atomic int64_t fired_ns; /* 0 until the victim is at its point */
    _Atomic int fired_stage;  /* enum kill_stage in which it was */
    _Atomic int victim_op;    /* operation the victim is in, -1 before */
};

/* Arms the hooks of this rank; without a case they only count system calls. */
void kill_point_arm(const struct kill_case *c, struct kill_clock *clock);

/* The rank is now in a stage; op counts within KILL_OPERATION. Leaving it is the last occasion to die there. */
void kill_point_enter(int stage, int op);
void kill_point_leave(void);

/* System calls counted in a stage so far. */
unsigned kill_point_calls(int stage);

/* For the wrappers: at a call into the transport (done 0: before, 1: behind it). */
void kill_at_move(int done);
void kill_at_notify(void);

#endif
