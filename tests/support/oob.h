/* SPDX-License-Identifier: Apache-2.0 */
/* Out-of-band messages between transports under test: oob_send() and oob_receive() of include/weft/transport.h without a communicator.
 *
 * Every instance has a datagram socket in the abstract namespace, named by its address, so that out-of-band messages reach
 * instances of other processes of the same network namespace as well as those of the own one. One thread per instance,
 * like the instance itself.
 */
#ifndef WEFT_TESTS_SUPPORT_OOB_H
#define WEFT_TESTS_SUPPORT_OOB_H

#include <weft/transport.h>

struct test_oob;

/* lossy: every third out-of-band message is lost, and every fifth arrives twice. Aborts where there is no socket. */
struct test_oob *test_oob_open(int lossy);
void test_oob_close(struct test_oob *oob);
/* Before the instance is opened: it may send at once. */
void test_oob_params(struct test_oob *oob, struct weft_transport_params *params);
/* Once its address is known: it gets messages. */
void test_oob_bind(struct test_oob *oob, const void *address, size_t size);
/* Hands over what has arrived; returns how many out-of-band messages. */
int test_oob_deliver(struct test_oob *oob, const struct weft_transport_ops *ops,
                     struct weft_transport *transport);
/* Readable when out-of-band messages wait. */
int test_oob_fd(const struct test_oob *oob);

#endif
