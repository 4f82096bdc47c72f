/* SPDX-License-Identifier: Apache-2.0 */
/* What of the fabric's degraded links lies between two hosts: for tools that have found a slow pair and want to know why.
 *
 * A link lies between them where bytes may pass it: it is on a shortest route between any of their ports, as messages are
 * spread over all of these and nobody but the switches knows how. Threads: one at a time. */
#ifndef WEFT_TOPO_REPORT_BETWEEN_H
#define WEFT_TOPO_REPORT_BETWEEN_H

#include <stdint.h>

struct weft_between;

/* Reads the fabric from a file, or a synthetic text, as WEFT_TOPO_FILE names it. */
int weft_between_open(const char *path, struct weft_between **between);
void weft_between_close(struct weft_between *between); /* NULL: nothing */

/* Calls say() with a line for each degraded link between two hosts, which are found by their names with or without
 * their domain. Hosts that the fabric does not have are no failure. */
int weft_between_say(const struct weft_between *between, const char *host_a, const char *host_b,
                     void (*say)(void *arg, const char *text), void *arg);

#endif
