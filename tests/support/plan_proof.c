/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/plan_proof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "tests/support/plan_hosts.h"
#include "tests/support/effort.h"

struct weft_plan **plan_proof_make(struct weft_plan_request request)
{
    struct weft_plan **plans;
    if (weft_plans_make(&request, &plans) != WEFT_OK)
        fail_msg("%s", weft_error_detail());
    return plans;
}

void plan_proof_expect(const struct weft_plan_request *request, struct weft_plan **plans,
                       const struct weft_verify_options *options)
{
    struct weft_verify_report report;
    if (weft_plans_verify((const struct weft_plan *const *)plans, request->ranks, options, &report) !=
        WEFT_OK)
        fail_msg("%s by %s, %u ranks, root %d%s%s, window %u, %s: %s",
                 weft_collective_name(request->collective), weft_algorithm_name(request->algorithm),
                 request->ranks, request->root, request->in_place ? ", in place" : "",
                 request->unequal ? ", unequal" : "", options->window,
                 request->hosts ? plan_hosts_name(request->hosts) : "one host", weft_error_detail());
}

uint32_t plan_proof_ranks(uint32_t ordinary, uint32_t sanitized)
{
    return test_is_sanitized() ? sanitized : ordinary;
}

void plan_proof_expect_large(const struct weft_hosts *hosts, enum weft_collective collective,
                             enum weft_algorithm algorithm, int root)
{
    int more = getenv("WEFT_LONG") != NULL;
    struct weft_plan_request request = {.collective = collective,
                                        .algorithm = algorithm,
                                        .ranks = hosts->ranks,
                                        .root = root,
                                        .hosts = hosts};
    struct weft_plan **plans = plan_proof_make(request);
    uint32_t chunks = plans[0]->chunks, piece = more ? 2048 : 64;
    uint32_t stride = more ? piece : chunks;
    if (chunks <= piece)
        plan_proof_expect(&request, plans, &(struct weft_verify_options){.window = 32});
    for (uint32_t first = more ? 0 : chunks / 2; first < chunks && chunks > piece; first += stride) {
        struct weft_verify_options options = {.window = 32, .chunk_first = first, .chunk_count = piece};
        if (piece > chunks - first)
            options.chunk_count = chunks - first;
        plan_proof_expect(&request, plans, &options);
    }
    weft_plans_free(plans, hosts->ranks);
}
