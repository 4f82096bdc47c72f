/* SPDX-License-Identifier: Apache-2.0 */
/* A small fake of the context's service thread: watches descriptors for transports under test.
 *
 * Threads: any. unwatch returns only when the descriptor's callback is not running, unless it is called from
 * that callback.
 */
#ifndef WEFT_TESTS_WATCHER_H
#define WEFT_TESTS_WATCHER_H

#include <weft/transport.h>

struct test_watcher;

struct test_watcher *test_watcher_start(void);
void test_watcher_stop(struct test_watcher *watcher);

/* Fills what a transport needs to be opened: watching, failing, logging, a random instance number. */
void test_watcher_params(struct test_watcher *watcher, struct weft_transport_params *params);

#endif
