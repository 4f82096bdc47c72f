/* SPDX-License-Identifier: Apache-2.0 */
/* What a reduction is: one of weft's own, or one that the caller has made for this context (comm/calls/op.c). */
#ifndef WEFT_COMM_CALLS_OP_H
#define WEFT_COMM_CALLS_OP_H

#include "comm/drive/context.h"
#include "comm/exec/call.h"
#include "comm/exec/exec.h"

/* Whether the context can reduce elements of this type with op: WEFT_INVALID or WEFT_UNSUPPORTED say what is wrong. */
int weft_op_check(const struct weft_context *context, weft_op op, weft_dtype dtype);

/* What the executor needs of op: reduce or user, and finish. scalar is set to what each rank multiplies its input by
 * before, or NULL. */
void weft_op_request(const struct weft_context *context, weft_op op, weft_dtype dtype, int ranks,
                     int streaming, struct weft_exec_request *request, const void **scalar);

/* Whether it is a function of the program's, which only the host can call. */
int weft_op_is_function(const struct weft_context *context, weft_op op);
/* What kernels compute for one that is not: of a premultiplied sum a sum. */
weft_op weft_op_kernel(const struct weft_context *context, weft_op op);
/* Whether contributions may be put together in any order of ranks. */
int weft_op_commutes(const struct weft_context *context, weft_op op);
static inline int weft_op_is_builtin(weft_op op)
{
    return (unsigned)op < WEFT_OP_COUNT;
}
/* As ranks compare it: which numbers a rank's premultiplied sums have is its own affair, so all are compared as WEFT_OP_ANNOUNCED_PREMUL. */
static inline uint8_t weft_op_announced(const struct weft_context *context, weft_op op)
{
    return (uint8_t)(weft_op_is_builtin(op) || weft_op_is_function(context, op) ? op
                                                                                : WEFT_OP_ANNOUNCED_PREMUL);
}
/* The result of one rank alone. */
int weft_op_alone(const struct weft_context *context, weft_op op, weft_dtype dtype, void *result,
                  const void *input, size_t count);

#endif
