// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/profile.hpp"

#include <string>
#include <utility>
#include <vector>

#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>

namespace torch_weft
{

// As PyTorch's other backends call them: what it looks for behind their name and a colon.
static const char *title_of(c10d::OpType type)
{
    switch (type) {
    case c10d::OpType::ALLREDUCE:
    case c10d::OpType::ALLREDUCE_COALESCED:
        return "weft:all_reduce";
    case c10d::OpType::BROADCAST:
        return "weft:broadcast";
    case c10d::OpType::REDUCE:
        return "weft:reduce";
    case c10d::OpType::ALLGATHER:
    case c10d::OpType::ALLGATHER_COALESCED:
        return "weft:all_gather";
    case c10d::OpType::_ALLGATHER_BASE:
        return "weft:all_gather_into_tensor";
    case c10d::OpType::COALESCED:
        return "weft:all_gather_into_tensor_coalesced";
    case c10d::OpType::GATHER:
        return "weft:gather";
    case c10d::OpType::SCATTER:
        return "weft:scatter";
    case c10d::OpType::REDUCE_SCATTER:
        return "weft:reduce_scatter";
    case c10d::OpType::_REDUCE_SCATTER_BASE:
        return "weft:reduce_scatter_tensor";
    case c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED:
        return "weft:reduce_scatter_tensor_coalesced";
    case c10d::OpType::ALLTOALL:
    case c10d::OpType::ALLTOALL_BASE:
        return "weft:all_to_all";
    case c10d::OpType::BARRIER:
        return "weft:barrier";
    case c10d::OpType::SEND:
        return "weft:send";
    case c10d::OpType::RECV:
        return "weft:recv";
    case c10d::OpType::RECVANYSOURCE:
        return "weft:recvAnySource";
    default:
        return "weft:unknown";
    }
}

namespace
{

// A profiler may be one of the calling thread's alone: it hears of the end with what that thread has set.
struct Range {
    explicit Range(at::StepCallbacks &&callbacks) : record(std::move(callbacks))
    {
    }
    Range(const Range &) = delete;
    Range &operator=(const Range &) = delete;
    ~Range()
    {
        at::ThreadLocalStateGuard guard(state);
        record.end();
    }
    at::RecordFunction record;
    at::ThreadLocalState state;
};

} // namespace

std::shared_ptr<const void> begin_range(c10d::OpType type, at::TensorList inputs)
{
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (!callbacks)
        return nullptr;
    auto range = std::make_shared<Range>(std::move(*callbacks));
    range->record._setAsync(); // it may end in another thread
    std::vector<c10::IValue> values;
    if (range->record.needsInputs())
        values.assign(inputs.begin(), inputs.end());
    range->record.before(title_of(type), &values); // looked at now, not later
    return range;
}

} // namespace torch_weft
