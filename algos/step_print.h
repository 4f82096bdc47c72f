/* SPDX-License-Identifier: Apache-2.0 */
/* A plan's step as text, for errors and dumps. Threads: any. */
#ifndef WEFT_ALGOS_STEP_PRINT_H
#define WEFT_ALGOS_STEP_PRINT_H

#include <stddef.h>

#include "algos/plan.h"

/* One step or record in short, as in "REDUCE chunk 3: OUTPUT <- SLOT 0, INPUT, finish". Strides show as
 * "(+1)". Returns what snprintf() would. Unknown values print as numbers. */
int weft_step_print(const struct weft_step *step, char *text, size_t size);

/* "SEND", "SLOT": NULL for numbers that mean nothing. */
const char *weft_step_kind_name(unsigned kind);
const char *weft_buffer_name(unsigned buffer);

#endif
