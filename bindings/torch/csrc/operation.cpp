// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/operation.hpp"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include "bindings/torch/csrc/group.hpp"
#include "bindings/torch/csrc/keeper.hpp"

namespace torch_weft
{

using Clock = std::chrono::steady_clock;

Operation::Operation(std::shared_ptr<Group> group, std::string name, Milliseconds timeout)
    : group_(std::move(group)), name_(std::move(name)), timeout_(timeout)
{
}

// What is still under way has its memory: tensors and all are left to it.
Operation::~Operation()
{
    bool is_used = false;
    for (Part &part : parts_) {
        is_used = is_used || part.work;
        weft_work_free(part.work);
    }
    if (is_used) {
        new auto(std::move(held_));
        new auto(std::move(kept_alive_));
    }
    group_->leave(this);
}

void Operation::add(weft_work *work, std::string name, bool is_message)
{
    parts_.push_back({work, std::move(name), is_message, false, 0});
}

void Operation::add_receive(weft_work *work, size_t bytes)
{
    parts_.push_back({work, "recv", true, true, bytes});
}

void Operation::hold(const at::Tensor &tensor)
{
    held_.push_back(tensor);
}

void Operation::hold(std::shared_ptr<const void> anything)
{
    if (anything)
        kept_alive_.push_back(std::move(anything));
}

void Operation::after(std::function<void()> last)
{
    after_.push_back(std::move(last));
}

void Operation::watch(std::shared_ptr<c10::Event> event)
{
    event_ = std::move(event);
}

void Operation::enter()
{
    group_->enter(this);
}

void Operation::abandon()
{
    enter();
    after_.clear();
    if (!parts_.empty())
        keep();
}

void Operation::give(const at::Tensor &tensor)
{
    outputs_.push_back(tensor);
}

std::exception_ptr Operation::error() const
{
    std::lock_guard<std::mutex> guard(lock_);
    return error_;
}

// The first failure counts: those that follow come from it.
void Operation::fail(int status, const Part &part, const std::string &detail)
{
    std::exception_ptr error;
    try {
        raise(status, part.name, detail);
    } catch (...) {
        error = std::current_exception();
    }
    if (status != WEFT_TIMEOUT || !part.is_message) // the others have not heard of that
        group_->note_failure(status);
    std::lock_guard<std::mutex> guard(lock_);
    if (!error_)
        error_ = error;
}

// PyTorch's receives say how much they expect.
int Operation::check_message(const Part &part)
{
    weft_message message = WEFT_MESSAGE_INIT;
    int status = weft_work_get_message(part.work, &message);
    if (status != WEFT_OK)
        return status;
    source_ = message.source;
    if (message.bytes == part.bytes)
        return WEFT_OK;
    fail(WEFT_MISMATCH, part,
         "rank " + std::to_string(message.source) + " has sent " + std::to_string(message.bytes) +
             " bytes where " + std::to_string(part.bytes) + " were expected");
    return WEFT_OK;
}

void Operation::end_part(Part &part, int status)
{
    std::string detail = status == WEFT_OK ? "" : weft_error_detail();
    if (status == WEFT_OK && part.is_receive) {
        status = check_message(part);
        detail = weft_error_detail();
    }
    if (status != WEFT_OK)
        fail(status, part, detail);
    weft_work_free(part.work);
    part.work = nullptr;
}

bool Operation::look()
{
    if (ended())
        return true;
    bool all = true;
    for (Part &part : parts_) {
        if (!part.work)
            continue;
        int done = 0;
        int status = weft_work_test(part.work, &done);
        if (status == WEFT_OK && !done)
            all = false;
        else
            end_part(part, status);
    }
    if (!all || (event_ && !event_->query()))
        return false;
    settle();
    return true;
}

void Operation::settle()
{
    if (!error()) {
        try {
            at::NoGradGuard no_grad;
            for (auto &last : after_)
                last();
        } catch (...) {
            std::lock_guard<std::mutex> guard(lock_);
            error_ = std::current_exception();
        }
    }
    after_.clear();
    held_.clear();
    kept_alive_.clear();
    {
        std::lock_guard<std::mutex> guard(lock_);
        ended_.store(true, std::memory_order_release);
    }
    changed_.notify_all();
    group_->leave(this);
}

// Under no lock of ours.
void Operation::tell()
{
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (!ended())
            return;
        future = std::exchange(future_, nullptr);
    }
    if (!future || future->completed())
        return;
    if (auto failure = error())
        future->setError(failure);
    else
        future->markCompleted(at::IValue(outputs_));
}

std::vector<c10::Device> Operation::devices() const
{
    std::set<c10::Device, bool (*)(const c10::Device &, const c10::Device &)> found(
        [](const c10::Device &a, const c10::Device &b) { return a.index() < b.index(); });
    if (event_)
        for (const at::Tensor &output : outputs_)
            found.insert(output.device());
    return {found.begin(), found.end()};
}

c10::intrusive_ptr<c10::ivalue::Future> Operation::future()
{
    auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices());
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (future_)
            return future_;
        future_ = future;
    }
    tell(); /* it may have ended before */
    keep();
    return future;
}

void Operation::keep()
{
    if (ended())
        return;
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (std::exchange(kept_, true))
            return;
        kept_at_ = Clock::now();
        changed_.notify_all();
    }
    group_->library()->keeper().take(shared_from_this());
}

bool Operation::poll()
{
    if (ended())
        return true;
    if (!look_once())
        return false;
    tell();
    return true;
}

bool Operation::look_once()
{
    std::unique_lock<std::timed_mutex> driving(driving_, std::try_to_lock);
    return driving.owns_lock() ? look() : ended();
}

bool Operation::drive_a_while(int64_t wait_ms)
{
    std::unique_lock<std::timed_mutex> driving(driving_, std::try_to_lock);
    if (!driving.owns_lock()) { // somebody waits in it
        std::unique_lock<std::mutex> guard(lock_);
        changed_.wait_for(guard, Milliseconds(wait_ms), [this] { return ended(); });
        return ended();
    }
    if (look())
        return true;
    for (Part &part : parts_) {
        if (!part.work)
            continue;
        weft_work_wait(part.work, wait_ms); // what has ended is told again by look()
        return look();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50)); // for the device
    return look();
}

void Operation::late(Milliseconds timeout)
{
    C10_THROW_ERROR(DistBackendError, "weft: " + name_ + ": " + words_of(WEFT_TIMEOUT) + ": not done after " +
                                          std::to_string(timeout.count()) + " ms; the operation goes on\n" +
                                          group_->dump());
}

void Operation::wait_for_keeper(Milliseconds timeout)
{
    std::unique_lock<std::mutex> guard(lock_);
    auto is_over = [this] { return ended(); };
    if (timeout.count() <= 0)
        changed_.wait(guard, is_over); // the keeper tells when the communicator's deadline passes
    else if (!changed_.wait_for(guard, timeout, is_over)) {
        guard.unlock();
        late(timeout);
    }
}

void Operation::drive(Milliseconds timeout)
{
    const auto until = Clock::now() + timeout;
    for (Part &part : parts_) {
        if (!part.work)
            continue;
        int64_t left = -1;
        if (timeout.count() > 0)
            left =
                std::max<int64_t>(std::chrono::duration_cast<Milliseconds>(until - Clock::now()).count(), 1);
        int status = weft_work_wait(part.work, left);
        if (status == WEFT_TIMEOUT && left > 0) {
            int done = 0;
            status = weft_work_test(part.work, &done);
            if (status == WEFT_OK && !done)
                late(timeout);
        }
        end_part(part, status);
    }
    if (event_)
        event_->synchronize();
    settle();
}

void Operation::wait(Milliseconds timeout)
{
    if (timeout.count() <= 0)
        timeout = timeout_;
    if (!ended()) {
        std::unique_lock<std::timed_mutex> driving(driving_, std::defer_lock);
        bool is_kept;
        {
            std::lock_guard<std::mutex> guard(lock_);
            is_kept = kept_;
        }
        if (is_kept || !driving.try_lock()) {
            keep(); // whoever drives it now may stop to wait
            wait_for_keeper(timeout);
        } else if (!ended()) {
            drive(timeout);
            driving.unlock();
            tell();
        }
    }
    if (auto failure = error())
        std::rethrow_exception(failure);
}

} // namespace torch_weft
