/* SPDX-License-Identifier: Apache-2.0 */
/* loop: the in-process transport, for tests of the executor and for its micro-benchmark.
 *
 * Instances of one process reach each other, from one thread or several. What an instance offers is chosen by
 * params.provider:
 *   "map" (default)  reads, by map() and pull()
 *   "pull"           reads, by pull() only
 *   "put"            puts only
 *   "eager"          messages only
 *   "all"            reads by map() and pull(), and puts
 * followed by ":oob" for links that come up when the peer has answered an oob message, and then
 * by ":storm=SEED" for the hard weather that a contract allows: links come up late, send() and put()
 * answer WEFT_AGAIN for no reason, puts copy and complete late and in any order, poll() delivers little.
 * All instances of one test should be opened with the same mode.
 *
 * This is the one transport with process-wide state (the list of open instances): its addresses mean nothing
 * outside the process.
 */
#ifndef WEFT_TESTS_FAKES_LOOP_H
#define WEFT_TESTS_FAKES_LOOP_H

#include <weft/transport.h>

extern const struct weft_transport_ops weft_loop_ops;

/* As weft_transport_find() (transport/registry.h), and "loop" is known too. */
const struct weft_transport_ops *loop_find(const char *name);

#endif
