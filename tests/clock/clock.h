/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of a test program: the linker puts it in front of the system's (tests/clock/wraps), for the library and the test
 * alike. Each process has its own. It shows the system's time until a test says otherwise.
 *
 * A deadline that must pass is long, so that a loaded machine cannot let it pass by accident. The rank that is to see it pass lets
 * its clock run faster meanwhile:
 *
 *     test_clock_hurry(1000);
 *     CHECK(weft_recv(...) == WEFT_TIMEOUT);
 *     test_clock_hurry(1);
 *
 * How long that took, by weft_clock_ns(), is what the rank has seen; the test need not wait for it.
 */
#ifndef WEFT_TESTS_CLOCK_H
#define WEFT_TESTS_CLOCK_H

#include <stdint.h>

/* From now on time runs that many times faster in this process, also for threads that sleep already; 1: as usual. Heartbeats go by it, too: the
 * others, whose clocks are not hurried, must not be silent for too long by this one. A transport's timers (how long a stranger may be silent) keep
 * the system's time. Short waits in which the library asks others something are as hurried as a long deadline: where their outcome matters the
 * clock jumps instead. */
void test_clock_hurry(int64_t factor);

/* From now on time runs that many times slower: the patience that the library has with a slow machine grows. */
void test_clock_slow(int64_t divisor);

/* The clock jumps as soon as ready() says so in a thread of its own, and some seconds later again, until the end. NULL: no
 * thread. What a transport's connecting must not take for silence is over by then: exchange something before. */
struct test_clock_jump;
struct test_clock_jump *test_clock_jump_when(int (*ready)(void *arg), void *arg, int64_t by_ms);
void test_clock_jump_end(struct test_clock_jump *jump);

/* From now on sleeps of at least this long last until something ends them: a wake-up that the library forgets, and makes up
 * for by looking now and then, is a hang. 0: as usual. */
void test_clock_no_rescue(int64_t from_ms);

#endif
