/* SPDX-License-Identifier: Apache-2.0 */
/* Which algorithm a call gets. Everything it depends on is the same on all ranks. */
#include "algos/choose.h"
#include "comm/collective.h"
#include "comm/op.h"

static int has_order(const struct weft_comm *comm, const struct weft_operands *operands)
{
    return weft_collective_reduces(operands->collective) && operands->collective != WEFT_BARRIER &&
           !weft_op_commutes(comm->context, operands->op);
}

int weft_collective_is_strict(const struct weft_comm *comm, const struct weft_operands *operands)
{
    return comm->context->settings.strict && weft_collective_reduces(operands->collective) &&
           operands->collective != WEFT_BARRIER && !has_order(comm, operands);
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
        .algorithm = settings->algorithm,
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

enum weft_algorithm weft_collective_choose_cached(struct weft_comm *comm,
                                                  const struct weft_operands *operands)
{
    uint64_t bytes = bytes_of(comm, operands);
    uint32_t key = 1u | (uint32_t)operands->collective << 8 | (operands->unequal != 0) << 1 |
                   (uint32_t)has_order(comm, operands) << 2;
    struct weft_chosen *chosen =
        &comm->chosen[(bytes * 0x9e3779b97f4a7c15u >> 58 ^ operands->collective) % WEFT_CHOSEN];
    if (chosen->bytes != bytes || chosen->key != key)
        *chosen = (struct weft_chosen){bytes, key, choose(comm, operands, bytes)};
    return (enum weft_algorithm)chosen->algorithm;
}
