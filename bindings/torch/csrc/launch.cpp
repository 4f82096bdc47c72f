#include "bindings/torch/csrc/launch.hpp"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "bindings/torch/csrc/work.hpp"

namespace torch_weft
{

static std::chrono::milliseconds own_timeout(std::chrono::milliseconds given,
                                             const c10d::Backend::Options &options)
{
    if (given == c10d::kUnsetTimeout || given == kNoTimeout || given == options.timeout)
        return kNoTimeout; // the communicator's deadline
    return given;
}

Launch::Launch(Backend &backend, c10d::OpType type, std::string name, at::Device device,
               std::chrono::milliseconds timeout, bool async)
    : backend_(backend), type_(type), name_(std::move(name)), device_(device)
{
    backend.group_->comm(); // throws where there is none any more
    if (!device.is_cpu())
        order_.emplace(*backend.group_->library(), device, async);
    const bool is_message = c10d::isP2POp(type);
    {
        std::lock_guard<std::mutex> guard(backend.lock_);
        for (auto &coalescing : backend.coalescing_) {
            if (coalescing.thread != std::this_thread::get_id())
                continue;
            is_coalesced_ = true;
            if (coalescing.operation)
                operation_ = coalescing.operation;
        }
        sequence_ = is_message ? backend.sequence_ : ++backend.sequence_;
    }
    if (!operation_)
        operation_ =
            std::make_shared<Operation>(backend.group_, name_, own_timeout(timeout, *backend.options_));
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
    TORCH_CHECK(tensor.device() == device_, "weft: ", name_, ": one tensor is on ", device_, ", another on ",
                tensor.device());
}

void Launch::after(std::function<void()> last)
{
    if (order_)
        last_.push_back(std::move(last));
    else
        operation_->after(std::move(last));
}

static bool is_plain(const at::Tensor &tensor)
{
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor Launch::input(const at::Tensor &tensor)
{
    check_tensor(tensor);
    at::NoGradGuard no_grad;
    at::Tensor plain = is_plain(tensor) ? tensor : tensor.resolve_conj().resolve_neg().contiguous();
    operation_->hold(plain);
    return plain;
}

at::Tensor Launch::output(const at::Tensor &tensor)
{
    check_tensor(tensor);
    operation_->hold(tensor);
    if (is_plain(tensor))
        return tensor;
    at::NoGradGuard no_grad;
    at::Tensor plain =
        at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous));
    operation_->hold(plain);
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
static at::Tensor in_a_row(const std::vector<at::Tensor> &tensors)
{
    const at::Tensor &first = tensors.front();
    int64_t count = 0;
    for (const at::Tensor &tensor : tensors) {
        if (!is_plain(tensor) || tensor.scalar_type() != first.scalar_type() || !tensor.is_alias_of(first) ||
            tensor.storage_offset() != first.storage_offset() + count)
            return {};
        count += tensor.numel();
    }
    return first.as_strided({count}, {1});
}

at::Tensor Launch::joined_input(const std::vector<at::Tensor> &tensors)
{
    at::NoGradGuard no_grad;
    for (const at::Tensor &tensor : tensors)
        check_tensor(tensor);
    at::Tensor joined = in_a_row(tensors);
    if (!joined.defined()) {
        std::vector<at::Tensor> flat;
        for (const at::Tensor &tensor : tensors)
            flat.push_back(tensor.reshape({-1}));
        joined = at::cat(flat);
    }
    operation_->hold(joined);
    return joined;
}

at::Tensor Launch::joined_output(const std::vector<at::Tensor> &tensors)
{
    at::NoGradGuard no_grad;
    int64_t count = 0;
    for (const at::Tensor &tensor : tensors) {
        check_tensor(tensor);
        operation_->hold(tensor);
        count += tensor.numel();
    }
    at::Tensor joined = in_a_row(tensors);
    if (joined.defined())
        return joined;
    joined = at::empty({count}, tensors.front().options().memory_format(at::MemoryFormat::Contiguous));
    operation_->hold(joined);
    after([tensors, joined] {
        int64_t from = 0;
        for (const at::Tensor &tensor : tensors) {
            tensor.copy_(joined.narrow(0, from, tensor.numel()).view(tensor.sizes()));
            from += tensor.numel();
        }
    });
    return joined;
}

Reduction Launch::reduction(const c10d::ReduceOp &op, const at::Tensor &tensor)
{
    Reduction reduction = reduction_of(*backend_.group_->library(), op, tensor);
    operation_->hold(reduction.keeps);
    return reduction;
}

weft_work *Launch::call(const std::function<int(weft_comm *, weft_work **)> &call)
{
    Group &group = *backend_.group_;
    std::lock_guard<std::mutex> order(group.order());
    weft_work *work = nullptr;
    int status = call(group.comm(), &work);
    if (status != WEFT_OK) {
        group.note_failure(status);
        raise(status, name_, weft_error_detail());
    }
    return work;
}

void Launch::start(const std::function<int(weft_comm *, weft_work **)> &made)
{
    operation_->add(call(made), name_);
}

void Launch::start_receive(size_t bytes, const std::function<int(weft_comm *, weft_work **)> &made)
{
    operation_->add_receive(call(made), bytes);
}

c10::intrusive_ptr<c10d::Work> Launch::finish(const std::vector<at::Tensor> &outputs, bool blocks_host)
{
    std::shared_ptr<c10::Event> event;
    is_finished_ = true;
    for (const at::Tensor &output : outputs)
        operation_->give(output);
    if (order_) {
        for (auto &last : last_)
            last();
        event = order_->mark();
    }
    if (is_coalesced_) {
        std::lock_guard<std::mutex> guard(backend_.lock_);
        for (auto &coalescing : backend_.coalescing_) {
            if (coalescing.thread != std::this_thread::get_id())
                continue;
            coalescing.operation = operation_;
            coalescing.sequence = sequence_;
            if (event)
                coalescing.events.push_back(event);
        }
    } else if (order_) {
        operation_->keep(); // wait() does not look at it
    }
    std::vector<std::shared_ptr<c10::Event>> events;
    if (event)
        events.push_back(std::move(event));
    return c10::make_intrusive<Work>(backend_.getRank(), type_, sequence_, operation_, std::move(events),
                                     blocks_host, !is_coalesced_);
}

} // namespace torch_weft
