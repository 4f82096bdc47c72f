/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered calls between real ranks: what any kind with streams and stream waits must do. Everything is shown
 * from outside: by what the stream's own work sees, and by one thread that lets a stream go on only after its calls have
 * returned, so that a call which waited would hang the test. */
#ifndef WEFT_TESTS_STREAM_CALLS_H
#define WEFT_TESTS_STREAM_CALLS_H

#include "tests/support/collective_sweep.h"
#include "tests/support/device_suite.h"

/* In a body of test_ranks_*(). 0, or 1 after a line on stderr. */

/* Every collective in scopes where place says, and what follows. */
int stream_calls_check(const struct weft_device_kind *kind, const struct device_streams *streams,
                       collective_place *place);
/* Calls that end early: aborted (0), past their deadline (1), the communicator destroyed (2). Two ranks. */
int stream_ends_check(const struct weft_device_kind *kind, const struct device_streams *streams, int which);

#endif
