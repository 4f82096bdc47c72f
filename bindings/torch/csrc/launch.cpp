// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/launch.hpp"

#include <utility>

#include <ATen/MemoryOverlap.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "bindings/torch/csrc/profile.hpp"
#include "bindings/torch/csrc/work.hpp"

namespace torch_weft
{

const at::Tensor &only(const std::vector<at::Tensor> &tensors, const char *name)
{
    TORCH_CHECK(tensors.size() == 1, "weft: ", name, ": one tensor is expected, there are ", tensors.size());
    return tensors.front();
}

int root_of(int64_t root, int ranks, const char *name)
{
    TORCH_CHECK(root >= 0 && root < ranks, "weft: ", name, ": root rank ", root, " is not one of ", ranks);
    return static_cast<int>(root);
}

static std::chrono::milliseconds own_timeout(std::chrono::milliseconds given,
                                             const c10d::Backend::Options &options)
{
    if (given == c10d::kUnsetTimeout || given == kNoTimeout || given == options.timeout)
        return kNoTimeout; // the communicator's deadline
    return given;
}

Launch::Launch(Backend &backend, c10d::OpType type, const char *name, at::TensorList inputs,
               std::chrono::milliseconds timeout, bool async)
    : backend_(backend), visit_(*backend.group()), type_(type), name_(name),
      device_(inputs.empty() ? at::kCPU : inputs.front().device()), memory_(device_),
      is_message_(c10d::isP2POp(type)), is_async_(async)
{
    const std::shared_ptr<Group> &group = backend.group();
    if (!device_.is_cpu()) {
        const Way &way = group->library()->way_of(device_);
        if (way.kind.empty()) {
            memory_ = at::kCPU;
            stream_.emplace(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
        } else {
            order_.emplace(way, device_, async);
        }
    }
    sequence_ = is_message_ ? backend.getSequenceNumberForGroup() : backend.next_sequence();
    operation_ =
        std::make_shared<Operation>(group, name_, is_message_, own_timeout(timeout, backend.options()));
    if (group->is_timed()) {
        operation_->time(Operation::Clock::now());
        if (order_)
            since_ = order_->mark(true);
    }
    auto range = begin_range(type, inputs);
    is_shown_ = range != nullptr;
    operation_->capture(std::move(range));
}

Launch::~Launch()
{
    if (!is_finished_)
        operation_->abandon();
}

void Launch::check_tensor(const at::Tensor &tensor) const
{
    TORCH_CHECK(tensor.layout() == at::kStrided, "weft: ", name_, ": dense tensors are expected, not ",
                tensor.layout());
    TORCH_CHECK(tensor.device() == device_ || tensor.device() == memory_, "weft: ", name_,
                ": one tensor is on ", device_, ", another on ", tensor.device());
}

// Before anything begins: a result that cannot be written would be found out at the end.
void Launch::check_output(const at::Tensor &tensor) const
{
    check_tensor(tensor);
    TORCH_CHECK(tensor.numel() == 0 || at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
                "weft: ", name_, ": elements of the result share memory (sizes ", tensor.sizes(),
                ", strides ", tensor.strides(),
                "): expected a tensor with memory for each, as clone() makes");
}

// Of the host's: by whoever sees the operation's end, with what this thread has set (inference mode and the like).
void Launch::after(std::function<void()> last)
{
    if (order_)
        last_.push_back(std::move(last));
    else
        operation_->after([last = std::move(last), state = at::ThreadLocalState(), stream = stream_] {
            at::ThreadLocalStateGuard guard(state);
            std::optional<c10::StreamGuard> on_stream;
            if (stream)
                on_stream.emplace(*stream); // behind what the caller has put there
            at::NoGradGuard no_grad;
            last();
        });
}

// As it is.
bool Launch::is_usable(const at::Tensor &tensor) const
{
    return tensor.device() == memory_ && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

// What weft gets.
void Launch::take(const at::Tensor &plain)
{
    has_memory_ |= plain.numel() > 0;
    operation_->capture(plain);
}

at::Tensor Launch::input(const at::Tensor &tensor)
{
    check_tensor(tensor);
    at::NoGradGuard no_grad;
    at::Tensor plain =
        is_usable(tensor) ? tensor : tensor.to(memory_).resolve_conj().resolve_neg().contiguous();
    take(plain);
    if (!plain.is_same(tensor))
        operation_->capture(tensor); // which a device may still have to read
    return plain;
}

at::TensorOptions Launch::contiguous_options(const at::Tensor &tensor) const
{
    return tensor.options().device(memory_).memory_format(at::MemoryFormat::Contiguous);
}

at::Tensor Launch::output(const at::Tensor &tensor)
{
    check_output(tensor);
    if (is_usable(tensor)) {
        take(tensor);
        return tensor;
    }
    operation_->capture(tensor);
    at::NoGradGuard no_grad;
    at::Tensor plain = at::empty(tensor.sizes(), contiguous_options(tensor));
    take(plain);
    after([tensor, plain] { tensor.copy_(plain); });
    return plain;
}

at::Tensor Launch::inout(const at::Tensor &tensor)
{
    at::Tensor plain = output(tensor);
    if (plain.is_same(tensor))
        return plain;
    at::NoGradGuard no_grad;
    return plain.copy_(tensor);
}

// All elements of the tensors as one tensor of one dimension, where they lie behind each other in one storage.
at::Tensor Launch::in_a_row(const std::vector<at::Tensor> &tensors) const
{
    const at::Tensor &first = tensors.front();
    int64_t count = 0;
    for (const at::Tensor &tensor : tensors) {
        if (!is_usable(tensor) || tensor.scalar_type() != first.scalar_type() || !tensor.is_alias_of(first) ||
            tensor.storage_offset() != first.storage_offset() + count)
            return {};
        count += tensor.numel();
    }
    return first.as_strided({count}, {1});
}

at::Tensor Launch::joined_input(const std::vector<at::Tensor> &tensors, const at::Tensor &beside)
{
    at::NoGradGuard no_grad;
    for (const at::Tensor &tensor : tensors) {
        check_tensor(tensor);
        operation_->capture(tensor);
    }
    at::Tensor joined;
    if (!beside.defined() || !beside.is_alias_of(tensors.front()))
        joined = in_a_row(tensors);
    if (!joined.defined()) {
        std::vector<at::Tensor> flat;
        for (const at::Tensor &tensor : tensors)
            flat.push_back(tensor.to(memory_).reshape({-1}));
        joined = at::cat(flat);
    }
    take(joined);
    return joined;
}

at::Tensor Launch::joined_output(const std::vector<at::Tensor> &tensors)
{
    at::NoGradGuard no_grad;
    int64_t count = 0;
    for (const at::Tensor &tensor : tensors) {
        check_output(tensor);
        operation_->capture(tensor);
        count += tensor.numel();
    }
    has_memory_ |= count > 0;
    at::Tensor joined = in_a_row(tensors);
    if (joined.defined())
        return joined;
    joined = at::empty({count}, contiguous_options(tensors.front()));
    operation_->capture(joined);
    after([tensors, joined] {
        int64_t from = 0;
        for (const at::Tensor &tensor : tensors) {
            tensor.copy_(joined.narrow(0, from, tensor.numel()).view(tensor.sizes()));
            from += tensor.numel();
        }
    });
    return joined;
}

at::Tensor Launch::scaled(const at::Tensor &input, const Reduction &reduction)
{
    at::NoGradGuard no_grad;
    return reduction.factor.defined() ? input.mul(reduction.factor.to(input.options())) : input;
}

Reduction Launch::reduction(const c10d::ReduceOp &op, const at::Tensor &tensor)
{
    Reduction reduction = reduction_of(*backend_.group()->library(), op, tensor);
    operation_->capture(reduction.keeps);
    return reduction;
}

void Launch::start(Call call)
{
    Group &group = *backend_.group();
    // Collectives begin in one order on all ranks; messages need not wait for a collective that waits for room.
    std::unique_lock<std::mutex> order(group.order(), std::defer_lock);
    if (!is_message_)
        order.lock();
    weft_work *work = nullptr;
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    options.work = &work;
    if (order_)
        order_->put_into(options, has_memory_);
    const int status = visit_.use([&](weft_comm *comm) { return call(comm, &options); });
    if (status != WEFT_OK) {
        if (status != WEFT_TIMEOUT || !is_message_)
            group.note_failure(status);
        raise(status, name_, weft_error_detail());
    }
    operation_->add(work);
}

void Launch::start_receive(size_t bytes, Receive receive)
{
    weft_message *message = operation_->expect(bytes);
    start([&](weft_comm *comm, const weft_call_options *options) { return receive(comm, message, options); });
}

c10::intrusive_ptr<c10d::Work> Launch::finish(const std::vector<at::Tensor> &outputs)
{
    if (!is_async_ && !order_ && !backend_.is_coalescing() &&
        !c10d::allow_inflight_collective_as_graph_input()) {
        if (operation_->end_at_once()) {
            is_finished_ = true;
            if (auto failure = operation_->error())
                std::rethrow_exception(failure);
            return nullptr;
        }
    }
    operation_->give(outputs);
    operation_->enter();
    std::shared_ptr<c10::Event> event;
    if (order_) {
        at::NoGradGuard no_grad;
        for (auto &last : last_)
            last();
        event = order_->mark(since_ != nullptr);
        operation_->watch(event, since_);
    }
    Work::Events events;
    if (event)
        events.push_back(event);
    auto work = c10::make_intrusive<Work>(backend_.getRank(), type_, sequence_, Work::Operations{operation_},
                                          std::move(events));
    backend_.coalesce(operation_, event);
    is_finished_ = true;
    // wait() does not look at a device's; a range, or a time, ends when the operation does, and not when somebody looks
    if (order_ || is_shown_ || operation_->is_timed())
        operation_->keep();
    return work;
}

} // namespace torch_weft
