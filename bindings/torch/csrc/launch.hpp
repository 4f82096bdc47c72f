// SPDX-License-Identifier: Apache-2.0
// How a call starts: what every collective and message does around weft's own call.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <c10/util/FunctionRef.h>

#include "bindings/torch/csrc/backend.hpp"
#include "bindings/torch/csrc/order.hpp"
#include "bindings/torch/csrc/types.hpp"

namespace torch_weft
{

// The one tensor that a call takes.
const at::Tensor &only(const std::vector<at::Tensor> &tensors, const char *name);

// A root's number, which is one of the ranks'.
int root_of(int64_t root, int ranks, const char *name);

// One call, in its caller's thread. Made in this order: memory by input(), output() and inout(); start(), once or, of lists, several
// times; finish().
class Launch
{
  public:
    // name: static. inputs: what a profiler shows; the first one's device is the call's, none: the host. async: whether the caller wants to go on
    // before the operation has ended.
    Launch(Backend &backend, c10d::OpType type, const char *name, at::TensorList inputs,
           std::chrono::milliseconds timeout, bool async);
    ~Launch();

    // Contiguous memory: the tensor's own where it is. What is read,
    at::Tensor input(const at::Tensor &tensor);
    // what is written, and is the tensor's at the end,
    at::Tensor output(const at::Tensor &tensor);
    // and both.
    at::Tensor inout(const at::Tensor &tensor);
    // One piece of memory for several tensors: of each, in their order, all elements. There is at least one.
    // beside: what is written meanwhile; the memory is not the tensors' own then where they share a storage.
    at::Tensor joined_input(const std::vector<at::Tensor> &tensors, const at::Tensor &beside = {});
    at::Tensor joined_output(const std::vector<at::Tensor> &tensors);

    // The input multiplied, where weft does not do that itself.
    static at::Tensor scaled(const at::Tensor &input, const Reduction &reduction);
    // What is needed of it stays as long as the call runs.
    Reduction reduction(const c10d::ReduceOp &op, const at::Tensor &tensor);

    // Makes the call, which starts a work.
    using Call = c10::function_ref<int(weft_comm *, const weft_call_options *)>;
    void start(Call call);
    using Receive = c10::function_ref<int(weft_comm *, weft_message *, const weft_call_options *)>;
    void start_receive(size_t bytes, Receive receive);

    // outputs: what result() and futures hand out. NULL, which PyTorch takes for the end: the caller waits, and the operation has ended in a moment.
    // A longer one gets a work, so that no thread waits where Python's end would find it in PyTorch's own frames.
    c10::intrusive_ptr<c10d::Work> finish(const std::vector<at::Tensor> &outputs);

  private:
    void after(std::function<void()> last);
    void take(const at::Tensor &plain);
    void check_tensor(const at::Tensor &tensor) const;
    void check_output(const at::Tensor &tensor) const;
    at::TensorOptions contiguous_options(const at::Tensor &tensor) const;
    bool is_usable(const at::Tensor &tensor) const;
    at::Tensor in_a_row(const std::vector<at::Tensor> &tensors) const;

    Backend &backend_;
    const Group::Visit visit_; // throws where there is no group any more
    const c10d::OpType type_;
    const char *const name_;
    const at::Device device_; // of the tensors,
    at::Device memory_;       // and of what weft gets: the host where weft does not know the device
    const bool is_message_, is_async_;
    std::optional<StreamOrder> order_;  // of a device's tensors
    std::shared_ptr<c10::Event> since_; // where its stream is timed
    std::optional<c10::Stream> stream_; // the caller's, on a device that weft does not know
    std::shared_ptr<Operation> operation_;
    bool is_shown_, is_finished_ = false, has_memory_ = false;
    uint64_t sequence_;
    std::vector<std::function<void()>> last_; // of a device's: queued behind the call
};

} // namespace torch_weft
