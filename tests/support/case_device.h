/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's buffers of collective_case.h in device memory.
 *
 * Ownership: case_device_put() allocates copies, case_device_get() brings them back and frees them. What fails ends the
 * test. */
#ifndef WEFT_TESTS_CASE_DEVICE_H
#define WEFT_TESTS_CASE_DEVICE_H

#include "devmem/devices.h"
#include "tests/support/collective_case.h"

enum case_where { CASE_INPUT = 1, CASE_OUTPUT = 2, CASE_BOTH = 3 };

struct case_device {
    const struct weft_device_kind *kind;
    int ordinal, where;
    void *copies[2]; /* of the buffers' whole memory, NULL where there is none */
    void *input;     /* what is passed in place of the rank's pointers */
    void *output;
};

/* Copies what `where` names (enum case_where; buffers of one memory go together). kind, ordinal and where are set. */
void case_device_put(struct case_device *device, const struct case_rank *made);
/* The other way, and frees. */
void case_device_get(struct case_device *device, struct case_rank *made);

/* Copies between ordinary memory and the kind's, and waits. */
void case_device_move(const struct weft_device_kind *kind, int ordinal, void *to, const void *from,
                      size_t size);

#endif
