/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that must be proven: the test fails with the verifier's reason where they are not. For tests with cmocka. */
#ifndef WEFT_TESTS_PLAN_PROOF_H
#define WEFT_TESTS_PLAN_PROOF_H

#include "algos/hosts.h"
#include "algos/proof/verify.h"

/* The plans of all ranks; weft_plans_free() frees them. */
struct weft_plan **plan_proof_make(struct weft_plan_request request);

/* request: what the plans were made for, for the text of a failure. */
void plan_proof_expect(const struct weft_plan_request *request, struct weft_plan **plans,
                       const struct weft_verify_options *options);

/* Makes and proves plans of many ranks. Of data in many chunks the values of a few are followed; WEFT_LONG: of all. */
void plan_proof_expect_large(const struct weft_hosts *hosts, enum weft_collective collective,
                             enum weft_algorithm algorithm, int root);

/* How many ranks to try: fewer under sanitizers, which are slow. */
uint32_t plan_proof_ranks(uint32_t ordinary, uint32_t sanitized);

#endif
