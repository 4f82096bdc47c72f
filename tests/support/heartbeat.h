/* SPDX-License-Identifier: Apache-2.0 */
/* How long a rank of a test may be silent. The library's default, two seconds, calls a healthy rank dead now and then where
 * a machine is busy with other things. So test programs, and the scripts that tests/run.sh runs, have a heartbeat of ten
 * minutes, which is long also for a rank whose clock is hurried (tests/clock/clock.h). A test of silence sets one of its own. */
#ifndef WEFT_TESTS_HEARTBEAT_H
#define WEFT_TESTS_HEARTBEAT_H

/* For bootstraps that tests open themselves, past the settings. */
#define TEST_HEARTBEAT_MS 600000

/* For a test of silence: longer where the machine is busy, so that a rank which nobody has stopped is not silent for so long. */
int test_silence_ms(void);

/* The same, as WEFT_HEARTBEAT_MS of this process. */
void test_silence_set(void);

#endif
