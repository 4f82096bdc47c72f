// SPDX-License-Identifier: Apache-2.0
// What PyTorch's profilers show of a call: a range "weft:all_reduce" with its inputs, from the call to the end of its operation.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace torch_weft
{

// The range ends when the last reference goes, in whichever thread that is. NULL: nobody records.
std::shared_ptr<const void> begin_range(c10d::OpType type, at::TensorList inputs);

} // namespace torch_weft
