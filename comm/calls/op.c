/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/calls/op.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/struct.h"
#include "comm/exec/call.h"

/* A user-defined operation. */
struct weft_user_op {
    weft_reduce_callback *reduce; /* NULL: a sum, of inputs that are multiplied by scalar before */
    void *arg;
    int commutes;
    weft_dtype dtype; /* of scalar */
    _Alignas(16) uint8_t scalar[16];
};

static const struct weft_user_op *find(const struct weft_context *context, weft_op op)
{
    unsigned slot = (unsigned)op - WEFT_OP_USER;
    return slot < WEFT_USER_OPS ? context->calls.user_ops[slot] : NULL;
}

int weft_op_check(const struct weft_context *context, weft_op op, weft_dtype dtype)
{
    const struct weft_user_op *user = find(context, op);
    if (!user && !weft_op_is_builtin(op))
        return weft_fail(WEFT_INVALID,
                         "op is %d: expected 0 to %d, or what weft_op_create() has made in this context",
                         (int)op, WEFT_OP_COUNT - 1);
    if (user && user->reduce)
        return WEFT_OK;
    if (user && user->dtype != dtype)
        return weft_fail(WEFT_INVALID, "dtype is %s: expected %s, which op %d multiplies by",
                         weft_dtype_name(dtype), weft_dtype_name(user->dtype), (int)op);
    if (!weft_reduce_find(dtype, user ? WEFT_SUM : op))
        return weft_fail(WEFT_UNSUPPORTED, "%s of %s is not supported", weft_op_name(op),
                         weft_dtype_name(dtype));
    return WEFT_OK;
}

int weft_op_commutes(const struct weft_context *context, weft_op op)
{
    const struct weft_user_op *user = find(context, op);
    return !user || user->commutes;
}

int weft_op_is_function(const struct weft_context *context, weft_op op)
{
    const struct weft_user_op *user = find(context, op);
    return user && user->reduce;
}

weft_op weft_op_kernel(const struct weft_context *context, weft_op op)
{
    return find(context, op) ? WEFT_SUM : op;
}

void weft_op_request(const struct weft_context *context, weft_op op, weft_dtype dtype, int ranks,
                     int streaming, struct weft_exec_request *request, const void **scalar)
{
    const struct weft_user_op *user = find(context, op);
    if (user && user->reduce) {
        request->user.reduce = user->reduce;
        request->user.arg = user->arg;
        request->user.dtype = dtype;
        return;
    }
    *scalar = user ? user->scalar : NULL;
    op = user ? WEFT_SUM : op;
    request->op = op;
    request->dtype = dtype;
    request->reduce = streaming ? weft_reduce_find_streaming(dtype, op) : weft_reduce_find(dtype, op);
    request->finish = op == WEFT_AVG ? (uint32_t)ranks : 0;
}

int weft_op_alone(const struct weft_context *context, weft_op op, weft_dtype dtype, void *result,
                  const void *input, size_t count)
{
    const struct weft_user_op *user = find(context, op);
    const void *sources[1] = {input};
    if (user && user->reduce) {
        if (result != input)
            weft_copy(result, input, count * weft_dtype_size(dtype));
        return WEFT_OK;
    }
    if (user)
        return weft_scale(dtype, result, input, count, user->scalar);
    weft_reduce_find(dtype, op)(result, sources, 1, count, op == WEFT_AVG ? 1 : 0);
    return WEFT_OK;
}

/* Puts a new operation into a free slot. */
static int add(weft_context *context, const struct weft_user_op *made, weft_op *op)
{
    struct weft_user_op *user = malloc(sizeof *user);
    if (!user)
        return weft_fail(WEFT_NOMEM, "no memory for an operation");
    *user = *made;
    unsigned slot = 0;
    weft_context_lock(context);
    while (slot < WEFT_USER_OPS && context->calls.user_ops[slot])
        slot++;
    if (slot < WEFT_USER_OPS)
        context->calls.user_ops[slot] = user;
    weft_context_unlock(context);
    if (slot == WEFT_USER_OPS) {
        free(user);
        return weft_fail(WEFT_BUSY, "the context has %d user-defined operations already: expected no more",
                         WEFT_USER_OPS);
    }
    *op = (weft_op)(WEFT_OP_USER + slot);
    return WEFT_OK;
}

static int read_scalar(const weft_op_options *options, struct weft_user_op *user)
{
    weft_dtype dtype = options->scalar_dtype;
    size_t size = weft_dtype_size(dtype);
    if (!size)
        return weft_fail(WEFT_INVALID, "scalar_dtype is %d: expected 0 to %d", (int)dtype,
                         WEFT_DTYPE_COUNT - 1);
    if (weft_scale(dtype, user->scalar, options->scalar, 0, options->scalar) != WEFT_OK)
        return weft_fail(WEFT_UNSUPPORTED, "%s cannot be multiplied", weft_dtype_name(dtype));
    user->commutes = 1;
    user->dtype = dtype;
    memcpy(user->scalar, options->scalar, size);
    return WEFT_OK;
}

int weft_op_create(weft_context *context, const weft_op_options *given, weft_op *op)
{
    static const struct weft_struct about = WEFT_STRUCT(weft_op_options, WEFT_OP_OPTIONS_INIT, scalar_dtype);
    weft_op_options options = WEFT_OP_OPTIONS_INIT;
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context || !given || !op)
        return weft_fail(WEFT_INVALID, "%s is NULL", !context ? "context" : !given ? "options" : "op");
    int status = weft_struct_read(&about, &options, given);
    if (status != WEFT_OK)
        return status;
    if (!options.reduce == !options.scalar)
        return weft_fail(WEFT_INVALID, "reduce and scalar are %s: expected one of them",
                         options.reduce ? "both given" : "NULL");
    struct weft_user_op user = {
        .reduce = options.reduce, .arg = options.arg, .commutes = options.commutative != 0};
    if (options.scalar)
        status = read_scalar(&options, &user);
    return status == WEFT_OK ? add(context, &user, op) : status;
}

int weft_op_free(weft_context *context, weft_op op)
{
    weft_error_clear();
    if (weft_fork_is_child())
        return weft_fork_refuse();
    if (!context)
        return weft_fail(WEFT_INVALID, "context is NULL");
    if (!find(context, op))
        return weft_fail(WEFT_INVALID, "op is %d: expected what weft_op_create() has made in this context",
                         (int)op);
    weft_context_lock(context);
    free(context->calls.user_ops[op - WEFT_OP_USER]);
    context->calls.user_ops[op - WEFT_OP_USER] = NULL;
    weft_context_unlock(context);
    return WEFT_OK;
}
