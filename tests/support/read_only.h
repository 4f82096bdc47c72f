/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the program itself may only read. */
#ifndef WEFT_TESTS_READ_ONLY_H
#define WEFT_TESTS_READ_ONLY_H

#include <stddef.h>

#include "tests/support/job.h"

/* A file's pages, private or shared; pages of the process's own. */
enum read_only_kind { READ_ONLY_PRIVATE, READ_ONLY_SHARED, READ_ONLY_OWN, READ_ONLY_KINDS };

/* Pages with a copy of these bytes, to be given to munmap(); NULL when there is no memory. */
void *read_only_make(enum read_only_kind kind, const void *bytes, size_t size);

/* In a body of two ranks: messages and collectives from such memory, each kind of it, of several sizes; registered, too. 0, or 1
 * and said on stderr. */
int read_only_is_sent_from(struct job *job);

#endif
