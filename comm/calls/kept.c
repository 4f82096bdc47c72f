/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept from one call for the next that is like it: the algorithm, the plan, and the executor's request. Belongs to the thread that
 * makes calls; what progress starts does without. */
#include "comm/calls/collective.h"
#include "comm/calls/op.h"
#include "devmem/devices.h"

#define IS_KEY (UINT64_C(1) << 63)

/* All but the count: of unequal calls that is a hash of the counts that all ranks know. */
static uint64_t key_of(const struct weft_operands *operands)
{
    return IS_KEY | (uint64_t)(uint32_t)(operands->root + 1) << 24 | (uint64_t)operands->op << 16 |
           (uint64_t)operands->dtype << 11 | (uint64_t)operands->algorithm << 7 |
           (uint64_t)operands->collective << 3 | (uint64_t)(operands->in_place != 0) << 1 |
           (operands->unequal != 0);
}

struct weft_kept_call *weft_kept_get(struct weft_comm *comm, const struct weft_operands *operands)
{
    const size_t *counts = operands->unequal ? weft_operands_common_counts(operands) : NULL;
    uint64_t key = key_of(operands);
    uint64_t count = counts ? weft_counts_hash(counts, (size_t)comm->ranks) : operands->count;
    struct weft_kept_call *kept =
        &comm->kept[((count ^ key << 20) * 0x9e3779b97f4a7c15u >> 58) % WEFT_KEPT_CALLS];
    if (__builtin_expect(kept->key != key || kept->count != count, 0)) {
        kept->algorithm = weft_collective_choose(comm, operands);
        kept->key = key;
        kept->count = count;
        kept->prepared = 0;
    }
    return kept;
}

/* Memory of the host, blocks of one size, an operation of weft's own, and no copy of the input. */
static int may_keep(const struct weft_comm *comm, const struct weft_operands *operands)
{
    return !operands->unequal && weft_op_is_builtin(operands->op) &&
           !(operands->in_place && operands->collective == WEFT_ALLTOALL) &&
           !weft_devices_in_use(comm->context->devices.kinds);
}

const struct weft_exec_request *weft_kept_find(const struct weft_comm *comm, struct weft_kept_call *kept,
                                               const struct weft_operands *operands,
                                               const struct weft_call *call, struct weft_kept_plan **plan)
{
    if (kept->prepared != kept->key || kept->request.call.algorithm != call->algorithm ||
        weft_devices_in_use(comm->context->devices.kinds))
        return NULL;
    struct weft_exec_request *request = &kept->request;
    request->input = operands->send;
    request->output = operands->recv;
    request->digest = weft_call_digest(call);
    request->call = *call;
    kept->plan->users++;
    *plan = kept->plan;
    return request;
}

void weft_kept_put(const struct weft_comm *comm, struct weft_kept_call *kept,
                   const struct weft_operands *operands, const struct weft_exec_request *request,
                   struct weft_kept_plan *plan)
{
    if (!may_keep(comm, operands))
        return;
    weft_plans_put(kept->plan);
    plan->users++;
    kept->plan = plan;
    kept->request = *request;
    kept->request.call.label = NULL;
    kept->prepared = kept->key;
}
