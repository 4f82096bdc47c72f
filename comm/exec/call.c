/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/call.h"

#include <inttypes.h>
#include <stdio.h>

#include "algos/plan.h"
#include <weft/weft.h>

void weft_label_set(char text[WEFT_LABEL_BYTES], const char *label)
{
    size_t i = 0;
    for (; label && label[i] && i < WEFT_LABEL_BYTES - 1; i++)
        text[i] = (unsigned char)label[i] < ' ' || label[i] == 0x7f ? '?' : label[i];
    text[i] = '\0';
}

const char *weft_call_name(const struct weft_call *call)
{
    static const char *const unequal[WEFT_COLLECTIVE_COUNT] = {
        [WEFT_ALLGATHER] = "allgatherv",           [WEFT_GATHER] = "gatherv",     [WEFT_SCATTER] = "scatterv",
        [WEFT_REDUCE_SCATTER] = "reduce_scatterv", [WEFT_ALLTOALL] = "alltoallv",
    };
    static const char *const others[] = {
        [WEFT_CALL_ALLREDUCE_LIST] = "allreduce_list",
        [WEFT_CALL_ALLGATHER_LIST] = "allgather_list",
        [WEFT_CALL_REDUCE_SCATTER_LIST] = "reduce_scatter_list",
        [WEFT_CALL_SPLIT] = "weft_comm_split",
        [WEFT_CALL_GROW] = "weft_comm_grow",
        [WEFT_CALL_DESTROY] = "weft_comm_destroy",
        [WEFT_CALL_EXIT] = "exit",
    };
    const char *name = NULL;
    if (call->collective < WEFT_COLLECTIVE_COUNT)
        name = call->unequal ? unequal[call->collective] : weft_collective_name(call->collective);
    else if (call->collective < sizeof others / sizeof *others)
        name = others[call->collective];
    return name ? name : "unknown call";
}

int weft_call_is_list(const struct weft_call *call)
{
    return call->collective >= WEFT_CALL_ALLREDUCE_LIST && call->collective <= WEFT_CALL_REDUCE_SCATTER_LIST;
}

int weft_call_is_sized(const struct weft_call *call)
{
    return call->unequal && (call->collective == WEFT_GATHER || call->collective == WEFT_SCATTER ||
                             call->collective == WEFT_ALLTOALL);
}

int weft_call_is_paired(const struct weft_call *call)
{
    return call->unequal && call->collective == WEFT_ALLTOALL;
}

int weft_call_is_hashed(const struct weft_call *call)
{
    return weft_call_is_list(call) || (call->unequal && !weft_call_is_sized(call));
}

int weft_call_moves(const struct weft_call *call)
{
    return call->collective < WEFT_COLLECTIVE_COUNT || weft_call_is_list(call);
}

int weft_call_reduces(const struct weft_call *call)
{
    return weft_collective_reduces(call->collective) || call->collective == WEFT_CALL_ALLREDUCE_LIST ||
           call->collective == WEFT_CALL_REDUCE_SCATTER_LIST;
}

void weft_call_op_name(const struct weft_call *call, char *text, size_t capacity)
{
    if (call->op < WEFT_OP_COUNT)
        snprintf(text, capacity, "%s", weft_op_name((weft_op)call->op));
    else if (call->op == WEFT_OP_ANNOUNCED_PREMUL)
        snprintf(text, capacity, "premultiplied sum");
    else
        snprintf(text, capacity, "op %u", call->op);
}

void weft_call_count_text(const struct weft_call *call, char *text, size_t capacity)
{
    if (call->unequal || weft_call_is_list(call))
        snprintf(text, capacity, "with hash %" PRIx64, call->count);
    else
        snprintf(text, capacity, "%" PRIu64, call->count);
}

int weft_call_title(const struct weft_call *call, char *text, size_t capacity)
{
    int labelled = call->label != NULL;
    return snprintf(text, capacity, "%s #%" PRIu64 "%s%s%s", weft_call_name(call), call->sequence,
                    labelled ? " '" : "", labelled ? call->label : "", labelled ? "'" : "");
}

int weft_call_print(const struct weft_call *call, char *text, size_t capacity)
{
    char title[WEFT_CALL_TITLE];
    weft_call_title(call, title, sizeof title);
    if (!weft_call_moves(call))
        return snprintf(text, capacity, "%s", title);
    const char *algorithm = call->algorithm ? weft_algorithm_name(call->algorithm) : NULL;
    char op[16] = "", root[24] = "", count[32];
    if (weft_call_reduces(call))
        weft_call_op_name(call, op, sizeof op);
    if (call->root >= 0)
        snprintf(root, sizeof root, ", root %d", (int)call->root);
    if (call->unequal || weft_call_is_list(call))
        snprintf(count, sizeof count, "several");
    else
        weft_call_count_text(call, count, sizeof count);
    return snprintf(text, capacity, "%s: %s, %s %s%s%s%s%s%s%s", title,
                    call->started ? "started" : "blocking", count, weft_dtype_name((weft_dtype)call->dtype),
                    *op ? ", " : "", op, root, algorithm ? ", " : "", algorithm ? algorithm : "",
                    call->in_place ? ", in place" : "");
}
