// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/types.hpp"

#include <optional>

#include <ATen/ops/scalar_tensor.h>

namespace torch_weft
{

static std::optional<weft_dtype> dtype_of(at::ScalarType type)
{
    switch (type) {
    case at::kChar:
        return WEFT_INT8;
    case at::kByte:
        return WEFT_UINT8;
    case at::kShort:
        return WEFT_INT16;
    case at::kUInt16:
        return WEFT_UINT16;
    case at::kInt:
        return WEFT_INT32;
    case at::kUInt32:
        return WEFT_UINT32;
    case at::kLong:
        return WEFT_INT64;
    case at::kUInt64:
        return WEFT_UINT64;
    case at::kHalf:
        return WEFT_FLOAT16;
    case at::kFloat:
        return WEFT_FLOAT32;
    case at::kDouble:
        return WEFT_FLOAT64;
    case at::kBFloat16:
        return WEFT_BFLOAT16;
    case at::kFloat8_e4m3fn:
        return WEFT_FLOAT8_E4M3;
    case at::kFloat8_e5m2:
        return WEFT_FLOAT8_E5M2;
    case at::kComplexFloat:
        return WEFT_COMPLEX64;
    case at::kComplexDouble:
        return WEFT_COMPLEX128;
    case at::kBool:
        return WEFT_BOOL;
    default:
        return std::nullopt;
    }
}

Elements moved_as(at::ScalarType type)
{
    if (auto dtype = dtype_of(type))
        return {*dtype, 1};
    return {WEFT_UINT8, c10::elementSize(
                            type)}; // bytes are bytes: quantized, 8-bit floats of other kinds, complex halves
}

size_t moved_count(const at::Tensor &tensor, const Elements &elements)
{
    return static_cast<size_t>(tensor.numel()) * elements.per_element;
}

static weft_op op_of(const c10d::ReduceOp &op, at::ScalarType type)
{
    const bool is_bool = type == at::kBool;
    switch (op.op_) {
    case c10d::ReduceOp::SUM:
        return WEFT_SUM;
    case c10d::ReduceOp::AVG:
        TORCH_CHECK(!is_bool, "weft: ReduceOp.AVG has no meaning for tensors of bool");
        return WEFT_AVG;
    case c10d::ReduceOp::PRODUCT:
        return WEFT_PROD;
    case c10d::ReduceOp::MIN:
        return WEFT_MIN;
    case c10d::ReduceOp::MAX:
        return WEFT_MAX;
    // Of one bit each.
    case c10d::ReduceOp::BAND:
        return is_bool ? WEFT_MIN : WEFT_AND;
    case c10d::ReduceOp::BOR:
        return is_bool ? WEFT_MAX : WEFT_OR;
    case c10d::ReduceOp::BXOR:
        return WEFT_XOR;
    default:
        TORCH_CHECK(false, "weft: unknown ReduceOp ", static_cast<int>(op.op_));
    }
}

static Reduction premul_of(Library &library, const c10d::ReduceOp &op, const at::Tensor &tensor,
                           weft_dtype dtype)
{
    const auto *supplement = dynamic_cast<const c10d::PreMulSumSupplement *>(op.supplement_.get());
    TORCH_CHECK(supplement, "weft: PREMUL_SUM without a factor");
    TORCH_CHECK(tensor.is_floating_point() || tensor.is_complex(),
                "weft: PREMUL_SUM is for floating-point and complex tensors, not ", tensor.scalar_type());
    const at::Tensor &given = supplement->tensor_factor;
    if (given.defined() && !given.device().is_cpu())
        return {dtype, WEFT_SUM, nullptr, given}; // its value is the device's business
    at::Tensor factor = given.defined() ? given.reshape({}).to(tensor.scalar_type())
                                        : at::scalar_tensor(supplement->double_factor, tensor.scalar_type());
    auto made = library.premul(dtype, factor.const_data_ptr());
    TORCH_CHECK(made, "weft: PREMUL_SUM with more factors at a time than there can be");
    return {dtype, *made, made, {}};
}

Reduction reduction_of(Library &library, const c10d::ReduceOp &op, const at::Tensor &tensor)
{
    const auto type = tensor.scalar_type();
    const auto dtype = dtype_of(type);
    TORCH_CHECK(dtype, "weft: reductions of ", type, " are not supported");
    if (op.op_ == c10d::ReduceOp::PREMUL_SUM)
        return premul_of(library, op, tensor, *dtype);
    const bool bits =
        op.op_ == c10d::ReduceOp::BAND || op.op_ == c10d::ReduceOp::BOR || op.op_ == c10d::ReduceOp::BXOR;
    TORCH_CHECK(!bits || c10::isIntegralType(type, true),
                "weft: a bitwise ReduceOp is for integral types, not ", type);
    const bool sums =
        op.op_ == c10d::ReduceOp::SUM || op.op_ == c10d::ReduceOp::AVG || op.op_ == c10d::ReduceOp::PRODUCT;
    TORCH_CHECK(sums || !c10::isComplexType(type),
                "weft: complex tensors can be added, multiplied and averaged, not more");
    // Of bytes that are 0 or 1.
    const bool flips = type == at::kBool && op.op_ == c10d::ReduceOp::BXOR;
    return {flips ? WEFT_UINT8 : *dtype, op_of(op, type), nullptr, {}};
}

} // namespace torch_weft
