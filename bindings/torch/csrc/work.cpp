#include "bindings/torch/csrc/work.hpp"

#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace torch_weft
{

Work::Work(int rank, c10d::OpType type, uint64_t sequence, std::shared_ptr<Operation> operation,
           Events events, bool blocks_host, bool is_owner)
    : c10d::Work(rank, type), sequence_(sequence), operation_(std::move(operation)),
      events_(std::move(events)), blocks_host_(blocks_host), is_owner_(is_owner)
{
}

// A work that is dropped ends all the same.
Work::~Work()
{
    if (is_owner_)
        operation_->keep();
}

bool Work::isCompleted()
{
    return operation_->poll();
}

bool Work::isSuccess() const
{
    return operation_->ended() && !operation_->error();
}

std::exception_ptr Work::exception() const
{
    return operation_->error();
}

int Work::sourceRank() const
{
    return operation_->source();
}

std::vector<at::Tensor> Work::result()
{
    return operation_->outputs();
}

void Work::synchronize()
{
    wait(kNoTimeout);
}

bool Work::wait(std::chrono::milliseconds timeout)
{
    if (!events_.empty() && !blocks_host_ && !operation_->ended()) {
        blockCurrentStream();
        return true;
    }
    operation_->wait(timeout);
    return true;
}

void Work::blockCurrentStream()
{
    if (events_.empty())
        operation_->wait(kNoTimeout);
    for (const auto &event : events_) {
        const c10::impl::VirtualGuardImpl guard(event->device_type());
        event->block(guard.getStream(c10::Device(event->device_type(), event->device_index())));
    }
}

void Work::abort()
{
    TORCH_CHECK(false, "weft: one operation cannot be ended alone; ProcessGroup.abort() ends all of a group");
}

// What is in the order of a stream is done as far as the host is concerned; whoever uses the values is made to wait for the event.
c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture()
{
    std::lock_guard<std::mutex> guard(futures_);
    if (!future_)
        future_ = operation_->future();
    return future_;
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFutureResult()
{
    auto done = getFuture();
    std::lock_guard<std::mutex> guard(futures_);
    if (!result_)
        result_ = done->then(
            [](c10::ivalue::Future &future) {
                auto result = future.hasError() ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS;
                return at::IValue(static_cast<int64_t>(result));
            },
            c10::IntType::get());
    return result_;
}

} // namespace torch_weft
