// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/work.hpp"

#include <algorithm>
#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace torch_weft
{

using Future = c10::ivalue::Future;

Work::Work(int rank, c10d::OpType type, uint64_t sequence, Operations operations, Events events)
    : c10d::Work(rank, type), sequence_(sequence), operations_(std::move(operations)),
      events_(std::move(events))
{
}

// A work that is dropped ends all the same.
Work::~Work()
{
    for (const auto &operation : operations_)
        if (!operation->is_collected())
            operation->keep();
}

bool Work::isCompleted()
{
    bool all = true;
    for (const auto &operation : operations_)
        all = operation->poll() && all;
    return all;
}

bool Work::have_ended() const
{
    return std::all_of(operations_.begin(), operations_.end(),
                       [](const auto &operation) { return operation->ended(); });
}

bool Work::isSuccess() const
{
    return have_ended() && !exception();
}

std::exception_ptr Work::exception() const
{
    for (const auto &operation : operations_)
        if (auto error = operation->error())
            return error;
    return nullptr;
}

int Work::sourceRank() const
{
    return operations_.empty() ? -1 : operations_.front()->source();
}

std::vector<at::Tensor> Work::result()
{
    std::vector<at::Tensor> tensors;
    for (const auto &operation : operations_)
        tensors.insert(tensors.end(), operation->outputs().begin(), operation->outputs().end());
    return tensors;
}

void Work::synchronize()
{
    wait(kNoTimeout);
}

bool Work::wait(std::chrono::milliseconds timeout)
{
    try {
        await(timeout);
    } catch (...) {
        if (have_ended())
            forget();
        throw;
    }
    forget();
    return true;
}

bool Work::wait_part(std::chrono::milliseconds timeout, Operation::Clock::time_point since,
                     std::chrono::milliseconds part)
{
    if (!events_.empty())
        return true;
    return std::all_of(operations_.begin(), operations_.end(),
                       [&](const auto &operation) { return operation->wait_part(timeout, since, part); });
}

// As c10d::Work::synchronize(): PyTorch keeps the works of tensors that a graph may still wait for.
void Work::forget()
{
    if (c10d::allow_inflight_collective_as_graph_input())
        c10d::unregister_work(c10::intrusive_ptr<c10d::Work>::unsafe_reclaim_from_nonowning(this));
}

void Work::await(std::chrono::milliseconds timeout)
{
    for (const auto &operation : operations_)
        if (events_.empty() || operation->ended())
            operation->wait(timeout); // throws what it has failed with
    if (!events_.empty())
        blockCurrentStream();
}

void Work::blockCurrentStream()
{
    if (events_.empty())
        wait(kNoTimeout);
    for (const auto &event : events_) {
        const c10::impl::VirtualGuardImpl guard(event->device_type());
        event->block(guard.getStream(c10::Device(event->device_type(), event->device_index())));
    }
}

void Work::abort()
{
    TORCH_CHECK(false, "weft: one operation cannot be ended alone; ProcessGroup.abort() ends all of a group");
}

namespace
{

// Completes one future when several have been completed, with the values of all or the first error among them.
struct Joint {
    std::mutex lock;
    size_t left;
    c10::intrusive_ptr<Future> future;
    std::vector<at::Tensor> values;

    void one_less(const Future &done)
    {
        if (done.hasError()) // before it is counted: whoever is the last sees it
            future->setErrorIfNeeded(done.exception_ptr());
        std::unique_lock<std::mutex> guard(lock);
        const bool is_last = --left == 0;
        guard.unlock();
        if (is_last && !future->completed())
            future->markCompleted(at::IValue(values));
    }
};

} // namespace

// What is stream-ordered completes its future when the device is done.
c10::intrusive_ptr<Future> Work::getFuture()
{
    std::lock_guard<std::mutex> guard(futures_);
    if (future_)
        return future_;
    if (operations_.size() == 1)
        return future_ = operations_.front()->future();
    std::vector<c10::Device> devices;
    for (const auto &operation : operations_)
        for (const c10::Device &device : operation->devices())
            if (std::find(devices.begin(), devices.end(), device) == devices.end())
                devices.push_back(device);
    future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
    auto joint = std::make_shared<Joint>();
    joint->left = operations_.size();
    joint->future = future_;
    joint->values = result();
    if (operations_.empty())
        future_->markCompleted(at::IValue(joint->values));
    for (const auto &operation : operations_)
        operation->future()->addCallback([joint](Future &done) { joint->one_less(done); });
    return future_;
}

float Work::getDuration() const
{
    TORCH_CHECK(!operations_.empty(), "weft: getDuration: there is no operation");
    auto begin = Operation::Clock::time_point::max(), end = Operation::Clock::time_point::min();
    double on_device = -1;
    for (const auto &operation : operations_) {
        TORCH_CHECK(operation->is_timed(), "weft: getDuration only works if timing was enabled: before the "
                                           "call, by enableCollectivesTiming()");
        TORCH_CHECK(operation->ended(), "weft: getDuration: the operation has not ended");
        begin = std::min(begin, operation->begin_time());
        end = std::max(end, operation->end_time());
        on_device = std::max(on_device, operation->device_milliseconds());
    }
    if (on_device >= 0)
        return static_cast<float>(on_device);
    return std::chrono::duration<float, std::milli>(end - begin).count();
}

c10::intrusive_ptr<Future> Work::getFutureResult()
{
    auto done = getFuture();
    std::lock_guard<std::mutex> guard(futures_);
    if (!result_)
        result_ = done->then(
            [](Future &future) {
                auto result = future.hasError() ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS;
                return at::IValue(static_cast<int64_t>(result));
            },
            c10::IntType::get());
    return result_;
}

} // namespace torch_weft
