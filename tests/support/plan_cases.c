/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/plan_cases.h"

#include "algos/hosts.h"

struct plan_cases plan_cases_start(uint32_t ranks, uint32_t roots)
{
    return (struct plan_cases){.request = {.ranks = ranks}, .roots = roots < ranks ? roots : ranks};
}

struct plan_cases plan_cases_on(const struct weft_hosts *hosts, uint32_t roots)
{
    struct plan_cases cases = plan_cases_start(hosts->ranks, roots);
    cases.request.hosts = hosts;
    return cases;
}

/* The next digit of a mixed-radix number. */
static uint32_t digit(uint64_t *number, uint32_t base)
{
    uint32_t value = (uint32_t)(*number % base);
    *number /= base;
    return value;
}

static int makes_sense(const struct weft_plan_request *request, uint32_t root)
{
    enum weft_collective collective = request->collective;
    enum weft_algorithm algorithm = request->algorithm;
    return weft_algorithm_serves(collective, algorithm) &&
           (!request->unequal || weft_algorithm_serves_unequal(collective, algorithm)) &&
           (!request->strict || weft_algorithm_serves_strict(collective, algorithm)) &&
           (!request->hosts || weft_algorithm_follows_order(collective, algorithm)) &&
           (!request->in_place || collective != WEFT_ALLTOALL) &&
           (root == 0 || weft_collective_has_root(collective));
}

int plan_cases_next(struct plan_cases *cases)
{
    struct weft_plan_request *request = &cases->request;
    for (;;) {
        uint64_t number = cases->next++;
        request->in_place = (int)digit(&number, 2);
        uint32_t root = digit(&number, cases->roots);
        request->unequal = (int)digit(&number, 2);
        request->strict = (int)digit(&number, 2);
        request->algorithm = (enum weft_algorithm)digit(&number, WEFT_ALGO_COUNT);
        request->collective = (enum weft_collective)digit(&number, WEFT_COLLECTIVE_COUNT);
        if (number > 0)
            return 0;
        if (!makes_sense(request, root))
            continue;
        request->root = -1;
        if (weft_collective_has_root(request->collective))
            request->root = cases->roots == 1
                                ? (int)(request->ranks / 3)
                                : (int)((uint64_t)root * (request->ranks - 1) / (cases->roots - 1));
        return 1;
    }
}
