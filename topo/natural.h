/* SPDX-License-Identifier: Apache-2.0 */
/* Names in the order in which people count: "node9" before "node10". */
#ifndef WEFT_TOPO_NATURAL_H
#define WEFT_TOPO_NATURAL_H

/* Below, equal to or above 0. Runs of digits compare by their number, of any length, everything else by its bytes. Names
 * that differ never compare equal ("a01" and "a1": by bytes), so the order is total. */
int weft_natural_compare(const char *a, const char *b);

#endif
