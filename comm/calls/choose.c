/* SPDX-License-Identifier: Apache-2.0 */
/* Which algorithm a call gets. Everything it depends on is the same on all ranks. */
#include "algos/choose.h"
#include "base/error.h"
#include "comm/calls/collective.h"
#include "comm/calls/op.h"

static int has_order(const struct weft_comm *comm, const struct weft_operands *operands)
{
    return weft_operands_reduces(operands) && !weft_op_commutes(comm->context, operands->op);
}

int weft_collective_is_strict(const struct weft_comm *comm, const struct weft_operands *operands)
{
    return comm->context->settings.strict && weft_operands_reduces(operands) && !has_order(comm, operands);
}

/* As struct weft_choice wants it. */
static uint64_t bytes_of(const struct weft_comm *comm, const struct weft_operands *operands)
{
    const size_t *counts = weft_operands_common_counts(operands);
    uint64_t elements = operands->count;
    if (operands->unequal) {
        elements = 0;
        for (int r = 0; counts && r < comm->ranks; r++)
            elements += counts[r];
    } else if (weft_collective_blocks(operands->collective)) {
        elements *= (uint64_t)comm->ranks;
    }
    return elements * operands->element_bytes;
}

static enum weft_algorithm choose(const struct weft_comm *comm, const struct weft_operands *operands,
                                  uint64_t bytes)
{
    const struct weft_settings *settings = &comm->context->settings;
    const struct weft_choice choice = {
        .collective = operands->collective,
        .ranks = (uint32_t)comm->ranks,
        .bytes = bytes,
        .algorithm = operands->algorithm ? (int64_t)operands->algorithm : settings->algorithm,
        .rd_bytes = settings->rd_bytes,
        .rab_bytes = settings->rab_bytes,
        .one_host = comm->one_host,
        .oversubscribed = comm->some_host_crowded,
        .unequal = operands->unequal,
        .strict = weft_collective_is_strict(comm, operands),
        .keep_order = has_order(comm, operands),
        .hosts = comm->hosts,
    };
    return weft_algorithm_choose(&choice);
}

enum weft_algorithm weft_collective_choose(const struct weft_comm *comm, const struct weft_operands *operands)
{
    return choose(comm, operands, bytes_of(comm, operands));
}

int weft_operands_check_algorithm(const struct weft_comm *comm, const struct weft_operands *operands)
{
    enum weft_algorithm wanted = operands->algorithm;
    if (wanted == WEFT_ALGO_AUTO || weft_collective_choose(comm, operands) == wanted)
        return WEFT_OK;
    return weft_fail(WEFT_UNSUPPORTED,
                     "algorithm '%s' does not serve this %s: docs/operations.md has those that do",
                     weft_algorithm_name(wanted), weft_collective_name(operands->collective));
}
