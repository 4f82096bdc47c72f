/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of an exec_world that are wrong, or lie, about their memory and in what they send. One world at a time has such ranks. */
#ifndef WEFT_TESTS_EXEC_LIAR_H
#define WEFT_TESTS_EXEC_LIAR_H

#include "tests/support/exec_world.h"

/* Takes the place of some of the operations of the transport loop, as the world's options say. */
void exec_liar_spoil(const struct exec_world_options *options, struct weft_transport_ops *ops);

#endif
