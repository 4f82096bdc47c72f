/* SPDX-License-Identifier: Apache-2.0 */
/* The merged picture: what every rank says about itself (weft_comm_dump()), in a few lines whatever their number. */
#ifndef WEFT_PERF_PICTURE_H
#define WEFT_PERF_PICTURE_H

#include <stddef.h>
#include <stdio.h>

#define PERF_PICTURE_TEXT 8192 /* of one rank's dump */

/* Prints who is in which call, who has not come to it, and who waits for whom. texts[rank] is that rank's dump, NULL
 * where it did not answer. 0, or -1 when out of memory. */
int perf_picture_print(const char *const *texts, int ranks, FILE *out);

#endif
