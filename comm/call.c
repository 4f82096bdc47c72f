#include "comm/call.h"

#include <inttypes.h>
#include <stdio.h>

#include "algos/plan.h"
#include <weft/weft.h>

const char *weft_call_name(const struct weft_call *call)
{
    switch (call->collective) {
    case WEFT_CALL_DUP:
        return "weft_comm_dup";
    case WEFT_CALL_SPLIT:
        return "weft_comm_split";
    case WEFT_CALL_DESTROY:
        return "weft_comm_destroy";
    default:
        return "allreduce";
    }
}

int weft_call_print(const struct weft_call *call, char *text, size_t capacity)
{
    if (weft_call_is_on_comm(call->collective))
        return snprintf(text, capacity, "%s #%" PRIu64, weft_call_name(call), call->sequence);
    const char *algorithm = call->algorithm ? weft_algorithm_name(call->algorithm) : NULL;
    return snprintf(text, capacity, "%s #%" PRIu64 ": %s, %" PRIu64 " %s, %s%s%s%s", weft_call_name(call),
                    call->sequence, call->started ? "started" : "blocking", call->count,
                    weft_dtype_name((weft_dtype)call->dtype), weft_op_name((weft_op)call->op),
                    algorithm ? ", " : "", algorithm ? algorithm : "", call->in_place ? ", in place" : "");
}
