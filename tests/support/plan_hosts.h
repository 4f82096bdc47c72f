/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts for tests of plans: any partition of the ranks, in any order. The caller frees them with weft_hosts_free(). */
#ifndef WEFT_TESTS_PLAN_HOSTS_H
#define WEFT_TESTS_PLAN_HOSTS_H

#include "algos/hosts.h"

/* A partition of the ranks into hosts of any sizes, few or many; half of them with an order of their own, a third with several
 * rings, which pass the ranks of each host at random. The same for the same seed. */
struct weft_hosts *plan_hosts_random(uint32_t ranks, uint64_t seed);

/* The same with as many rings. */
struct weft_hosts *plan_hosts_rings(uint32_t ranks, uint32_t rings, uint64_t seed);

/* The hosts of a layout that weft_order_ranks() makes: on a fabric of as many rails, with a GPU and a NIC on each, one rank
 * near each GPU. Seeds differ, by their bits from the lowest: only some GPUs of each host have a rank; each rail has leaves of
 * its own; ranks are numbered at random. */
struct weft_hosts *plan_hosts_railed(uint32_t ranks, uint32_t rails, uint64_t seed);

/* Composition number 0 to 2^(ranks-1) - 1: bit i set means that a host ends after position i. order: NULL, or as in
 * weft_hosts_make(). */
struct weft_hosts *plan_hosts_composition(uint32_t ranks, uint64_t number, const uint32_t *order);

/* `count` hosts of `size` ranks, but the last of `last`. shuffled: in a random order. */
struct weft_hosts *plan_hosts_even(uint32_t count, uint32_t size, uint32_t last, int shuffled);

/* "hosts 3,1,4, order 2 0 1 ..."; static text. */
const char *plan_hosts_name(const struct weft_hosts *hosts);

#endif
