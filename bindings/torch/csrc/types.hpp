// SPDX-License-Identifier: Apache-2.0
// Element types and reductions: PyTorch's names and weft's.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "bindings/torch/csrc/library.hpp"

namespace torch_weft
{

// How elements are counted when they are only moved: any type of PyTorch's that has a fixed size, in units of weft's.
struct Elements {
    weft_dtype dtype;
    size_t per_element; // of weft's in one of PyTorch's
};
Elements moved_as(at::ScalarType type);
size_t moved_count(const at::Tensor &tensor, const Elements &elements);

// A reduction as weft makes it. keeps: what has to stay while it is in flight.
struct Reduction {
    weft_dtype dtype;
    weft_op op;
    std::shared_ptr<const weft_op> keeps;
    at::Tensor factor; // defined: the input is multiplied by it first, by PyTorch
};
// Throws for a pair that does not exist.
Reduction reduction_of(Library &library, const c10d::ReduceOp &op, const at::Tensor &tensor);

} // namespace torch_weft
