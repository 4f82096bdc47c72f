/* SPDX-License-Identifier: Apache-2.0 */
/* Letters between transports under test: tell() and told() of include/weft/transport.h without a communicator.
 *
 * Every instance has a datagram socket in the abstract namespace, named by its address, so that letters reach
 * instances of other processes of the same network namespace as well as those of the own one. One thread per instance,
 * like the instance itself.
 */
#ifndef WEFT_TESTS_LETTERS_H
#define WEFT_TESTS_LETTERS_H

#include <weft/transport.h>

struct test_letters;

/* lossy: every third letter is lost, and every fifth arrives twice. Aborts where there is no socket. */
struct test_letters *test_letters_open(int lossy);
void test_letters_close(struct test_letters *letters);
/* Before the instance is opened: it may tell. */
void test_letters_params(struct test_letters *letters, struct weft_transport_params *params);
/* Once its address is known: it is told. */
void test_letters_bind(struct test_letters *letters, const void *address, size_t size);
/* Hands over what has arrived; returns how many letters. */
int test_letters_deliver(struct test_letters *letters, const struct weft_transport_ops *ops,
                         struct weft_transport *transport);
/* Readable when letters wait. */
int test_letters_fd(const struct test_letters *letters);

#endif
