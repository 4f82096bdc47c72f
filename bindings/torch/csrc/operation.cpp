// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/operation.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include "bindings/torch/csrc/group.hpp"
#include "bindings/torch/csrc/keeper.hpp"

namespace torch_weft
{

// What a call that waits is worth to its caller before it hands out a work: small operations end in it.
static constexpr int64_t MOMENT_MS = 1;

Operation::Operation(std::shared_ptr<Group> group, const char *name, bool is_message, Milliseconds timeout)
    : group_(std::move(group)), name_(name), timeout_(timeout), is_message_(is_message)
{
}

// What is still in flight has its memory: tensors and all are left to it.
Operation::~Operation()
{
    bool is_used = false;
    for (weft_work *work : works_) {
        is_used = is_used || work;
        weft_work_free(work);
    }
    if (is_used) {
        new auto(std::move(held_));
        new auto(std::move(kept_alive_));
    }
    if (is_entered_)
        group_->leave(this);
}

weft_message *Operation::expect(size_t bytes)
{
    is_receive_ = true;
    bytes_ = bytes;
    return &message_;
}

void Operation::capture(std::shared_ptr<const void> anything)
{
    if (anything)
        kept_alive_.push_back(std::move(anything));
}

void Operation::after(std::function<void()> last)
{
    after_.push_back(std::move(last));
}

void Operation::watch(std::shared_ptr<c10::Event> event, std::shared_ptr<c10::Event> since)
{
    event_ = std::move(event);
    since_ = std::move(since);
}

void Operation::time(Clock::time_point begin)
{
    is_timed_ = true;
    begin_time_ = begin;
}

double Operation::device_milliseconds() const
{
    return event_ && since_ ? since_->elapsedTime(*event_) : -1;
}

void Operation::enter()
{
    group_->enter(this);
}

void Operation::abandon()
{
    enter();
    after_.clear();
    if (!works_.empty())
        keep();
}

std::exception_ptr Operation::error() const
{
    std::lock_guard<std::mutex> guard(lock_);
    return error_;
}

// The first failure counts: those that follow come from it.
void Operation::fail(int status, const std::string &detail)
{
    std::exception_ptr error;
    try {
        raise(status, name_, detail);
    } catch (...) {
        error = std::current_exception();
    }
    if (status != WEFT_TIMEOUT || !is_message_) // the others have not heard of that
        group_->note_failure(status);
    std::lock_guard<std::mutex> guard(lock_);
    if (!error_)
        error_ = error;
}

// PyTorch's receives say how much they expect.
void Operation::check_message()
{
    if (message_.bytes != bytes_)
        fail(WEFT_MISMATCH, "rank " + std::to_string(message_.source) + " has sent " +
                                std::to_string(message_.bytes) + " bytes where " + std::to_string(bytes_) +
                                " were expected");
}

void Operation::end_work(weft_work *&work, int status)
{
    if (status != WEFT_OK)
        fail(status, weft_error_detail());
    else if (is_receive_)
        check_message();
    weft_work_free(work);
    work = nullptr;
}

// WEFT_AGAIN: it is still in flight. Its own deadline, which ends it, is not the time that is given here.
static int wait_for(weft_work *work, int64_t timeout_ms)
{
    const int status = weft_work_wait(work, timeout_ms);
    return status == WEFT_TIMEOUT && timeout_ms > 0 ? weft_work_wait(work, 0) : status;
}

bool Operation::end_at_once()
{
    for (weft_work *&work : works_) {
        const int status = wait_for(work, MOMENT_MS);
        if (status == WEFT_AGAIN)
            return false;
        end_work(work, status);
    }
    settle();
    return true;
}

// --- who drives

// A thread that uses the works. If somebody has wanted meanwhile that the operation is kept, it is, unless it has ended.
class Operation::Driving
{
  public:
    // With the operation's lock, which is given back.
    Driving(Operation &operation, std::unique_lock<std::mutex> &guard) : operation_(operation)
    {
        operation_.is_driven_ = true;
        guard.unlock();
    }
    ~Driving()
    {
        std::unique_lock<std::mutex> guard(operation_.lock_);
        operation_.is_driven_ = false;
        const bool begins = operation_.is_kept_ && !operation_.is_watched_ && !operation_.ended();
        operation_.is_watched_ |= begins;
        guard.unlock();
        operation_.changed_.notify_all();
        if (begins)
            operation_.be_watched();
    }
    Driving(const Driving &) = delete;
    Driving &operator=(const Driving &) = delete;

  private:
    Operation &operation_;
};

bool Operation::look()
{
    bool all = true;
    for (weft_work *&work : works_) {
        if (!work)
            continue;
        const int status = weft_work_wait(work, 0);
        if (status == WEFT_AGAIN)
            all = false;
        else
            end_work(work, status);
    }
    if (!all || (event_ && !event_->query()))
        return false;
    settle();
    return true;
}

// Time is up, or this part of it is.
bool Operation::pause_or_throw(const Patience &patience)
{
    if (patience.until <= patience.pause)
        late(patience.timeout);
    return false;
}

bool Operation::drive(const Patience &patience)
{
    const auto end = std::min(patience.until, patience.pause);
    for (weft_work *&work : works_) {
        if (!work)
            continue;
        int64_t left = -1;
        if (end != Clock::time_point::max())
            left = std::max<int64_t>(std::chrono::duration_cast<Milliseconds>(end - Clock::now()).count(), 1);
        const int status = wait_for(work, left);
        if (status == WEFT_AGAIN)
            return pause_or_throw(patience);
        end_work(work, status);
    }
    if (event_)
        event_->synchronize();
    settle();
    return true;
}

void Operation::settle()
{
    if (!after_.empty() && !error()) {
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
    if (is_timed_ && end_time_ < begin_time_) // weft has not said it
        end_time_ = Clock::now();
    {
        std::lock_guard<std::mutex> guard(lock_);
        has_ended_.store(true, std::memory_order_release);
    }
    changed_.notify_all();
    if (is_entered_)
        group_->leave(this);
}

void Operation::late(Milliseconds timeout)
{
    C10_THROW_ERROR(DistBackendError, std::string("weft: ") + name_ + ": " + words_of(WEFT_TIMEOUT) +
                                          ": not done after " + std::to_string(timeout.count()) +
                                          " ms; the operation goes on\n" + group_->dump());
}

Operation::Patience Operation::patience(Milliseconds timeout, Clock::time_point since) const
{
    if (timeout.count() <= 0)
        timeout = timeout_;
    const auto never = Clock::time_point::max();
    return {timeout, timeout.count() > 0 ? since + timeout : never, never};
}

bool Operation::finish(const Patience &patience)
{
    const auto end = std::min(patience.until, patience.pause);
    std::unique_lock<std::mutex> guard(lock_);
    const auto has_come = [this] { return ended() || may_be_driven(); };
    if (end == Clock::time_point::max()) {
        changed_.wait(guard, has_come); // weft says when the communicator's deadline passes
    } else if (!changed_.wait_until(guard, end, has_come)) {
        guard.unlock();
        return pause_or_throw(patience);
    }
    if (ended())
        return true;
    const bool is_ours = !is_watched_;
    bool has_ended;
    {
        Driving driving(*this, guard);
        has_ended = drive(patience);
    }
    if (has_ended && is_ours) // of others the keeper does
        notify();
    return has_ended;
}

void Operation::wait(Milliseconds timeout)
{
    if (!ended())
        finish(patience(timeout, Clock::now()));
    if (auto failure = error())
        std::rethrow_exception(failure);
}

bool Operation::wait_part(Milliseconds timeout, Clock::time_point since, Milliseconds part)
{
    Patience part_of = patience(timeout, since);
    part_of.pause = Clock::now() + part;
    return ended() || finish(part_of);
}

bool Operation::poll()
{
    std::unique_lock<std::mutex> guard(lock_);
    if (ended() || !may_be_driven())
        return ended();
    const bool is_ours = !is_watched_;
    bool has_ended;
    {
        Driving driving(*this, guard);
        has_ended = look();
    }
    if (has_ended && is_ours)
        notify();
    return has_ended;
}

// --- who is notified

void Operation::keep()
{
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (ended() || std::exchange(is_kept_, true) || is_driven_) // whoever drives it hands it over
            return;
        is_watched_ = true;
    }
    be_watched();
}

// Under no lock of ours: what has ended already is said at once, and weft may say it from a thread of its own before this is through.
void Operation::be_watched()
{
    if (!group_->library()->keeper().expect()) {
        new std::shared_ptr<Operation>(
            shared_from_this()); // of a process that has forked: its end is that one's business
        return;
    }
    self_ = shared_from_this();
    size_t count = 1; // this call
    for (weft_work *work : works_)
        count += work != nullptr;
    left_ = count;
    for (weft_work *work : works_)
        if (work && weft_work_set_callback(work, work_has_ended, this) != WEFT_OK)
            one_has_ended(); // whoever drives it then waits for it
    one_has_ended();
}

void Operation::work_has_ended(void *arg, int, const char *)
{
    static_cast<Operation *>(arg)->one_has_ended();
}

// In a thread of weft's, which must not wait. This object may be gone with the keeper's last reference as soon as it has that.
void Operation::one_has_ended()
{
    if (left_.fetch_sub(1) != 1)
        return;
    Keeper &keeper = group_->library()->keeper();
    keeper.announce();
    end_time_ = Clock::now();
    {
        std::lock_guard<std::mutex> guard(lock_);
        has_arrived_ = true;
        changed_.notify_all();
    }
    keeper.take(std::move(self_));
}

void Operation::see_to_the_end()
{
    try {
        const auto never = Clock::time_point::max();
        finish({Milliseconds(0), never, never});
    } catch (...) {
        // A device's, or a mutex of the system's: it stays as it is.
    }
    notify();
}

// Under no lock of ours.
void Operation::notify()
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
    const auto failure = error();
    if (!failure)
        future->markCompleted(at::IValue(outputs_));
    else if (!Group::is_program_over())
        future->setError(failure);
    else // of the group's end: it wakes no thread that would come back to Python's
        new auto(std::move(future));
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
    notify(); /* it may have ended before */
    keep();
    return future;
}

} // namespace torch_weft
