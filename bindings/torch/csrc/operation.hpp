// SPDX-License-Identifier: Apache-2.0
// An operation in flight: weft's works, the tensors that are theirs meanwhile, and what is left to do at the end.
//
// Who drives it. A work of weft's belongs to one thread at a time. As long as nobody but its caller is interested, that is the
// thread in wait() or isCompleted(): nothing is handed over, and small operations cost no wake-up. When a future is asked
// for, or the work is dropped, nobody may ever wait: then weft drives it, and says when its works have ended. Whoever waits is woken by
// that, and the keeper sees to what is left.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <c10/util/SmallVector.h>

#include "bindings/torch/csrc/library.hpp"

namespace torch_weft
{

class Group;

class Operation : public std::enable_shared_from_this<Operation>
{
  public:
    using Milliseconds = std::chrono::milliseconds;
    using Clock = std::chrono::steady_clock;

    // name: what texts call it ("allreduce"), static. is_message: others need not fail with it. timeout: of wait() where the caller gives
    // none; zero: the communicator's deadline counts.
    Operation(std::shared_ptr<Group> group, const char *name, bool is_message, Milliseconds timeout);
    ~Operation();
    Operation(const Operation &) = delete;
    Operation &operator=(const Operation &) = delete;

    // --- while it is being made, by one thread
    void add(weft_work *work)
    {
        works_.push_back(work);
    }
    // It is a receive, of so many bytes: otherwise it fails. What weft writes into.
    weft_message *expect(size_t bytes);
    void capture(const at::Tensor &tensor)
    {
        held_.push_back(tensor);
    }
    void capture(std::shared_ptr<const void> anything);
    // Once all works have ended well, in the order of these calls; not where they have failed.
    void after(std::function<void()> last);
    // Stream-ordered: it has ended when this has happened, too. since: NULL, or when it has begun there.
    void watch(std::shared_ptr<c10::Event> event, std::shared_ptr<c10::Event> since);
    // How long it takes is going to be asked.
    void time(Clock::time_point begin);
    // Its making has failed: what has begun runs to its end, and nothing is done then.
    void abandon();
    // What result() and futures hand out.
    void give(const std::vector<at::Tensor> &tensors)
    {
        outputs_ = tensors;
    }
    // Waits for a moment. True: it has ended, and nobody needs it any more.
    bool end_at_once();
    // It is made: the group's end waits for it from now on.
    void enter();

    // --- from then on, any thread
    // Whether it has ended, well or not; drives progress, never waits.
    bool poll();
    // Waits, zero: until the operation's own timeout. Throws what it has failed with, or that time is up; then it runs on.
    void wait(Milliseconds timeout);
    // The same since a moment in the past, but no longer than a part of it: false where it has not ended and there is time. What it has failed
    // with is for wait() to throw.
    bool wait_part(Milliseconds timeout, Clock::time_point since, Milliseconds part);
    // Whether it has ended, without a look.
    bool ended() const
    {
        return has_ended_.load(std::memory_order_acquire);
    }
    // NULL: it runs, or has ended well.
    std::exception_ptr error() const;
    // Of a receive that has ended.
    int source() const
    {
        return message_.source;
    }
    const std::vector<at::Tensor> &outputs() const
    {
        return outputs_;
    }
    c10::intrusive_ptr<c10::ivalue::Future> future();
    // It need not be waited for: weft and the keeper see to its end.
    void keep();
    // Whether another work is going to hold it, when the one that it has goes.
    void set_collected(bool is_collected)
    {
        is_collected_ = is_collected;
    }
    bool is_collected() const
    {
        return is_collected_;
    }
    // Whose streams what follows a future waits for.
    std::vector<c10::Device> devices() const;
    // Of what is timed: when it began and, if it has, ended.
    bool is_timed() const
    {
        return is_timed_;
    }
    Clock::time_point begin_time() const
    {
        return begin_time_;
    }
    Clock::time_point end_time() const
    {
        return end_time_;
    }
    // The device's own time, of what is stream-ordered; negative: it is not.
    double device_milliseconds() const;

    // --- the keeper's: all works have ended
    void see_to_the_end();

  private:
    friend class Group;
    class Driving;
    static void work_has_ended(void *arg, int status, const char *detail);
    bool may_be_driven() const // [lock_]
    {
        return !is_driven_ && (!is_watched_ || has_arrived_);
    }
    // How long a thread waits: until is where time is up, which is thrown, and pause where it only comes back. max(): never.
    struct Patience {
        Milliseconds timeout;
        Clock::time_point until, pause;
    };
    Patience patience(Milliseconds timeout, Clock::time_point since) const;
    bool finish(const Patience &patience);
    bool drive(const Patience &patience); // [Driving]
    bool look();                          // [Driving]
    void settle();                        // [Driving]
    bool pause_or_throw(const Patience &patience);
    void end_work(weft_work *&work, int status);
    void check_message();
    void fail(int status, const std::string &detail);
    void be_watched();
    void one_has_ended();
    void notify();
    [[noreturn]] void late(Milliseconds timeout);

    const std::shared_ptr<Group> group_;
    const char *const name_;
    const Milliseconds timeout_;
    const bool is_message_;
    bool is_timed_ = false;
    bool is_receive_ = false;
    size_t bytes_ = 0; // of a receive
    weft_message message_ = WEFT_MESSAGE_INIT;
    c10::SmallVector<weft_work *, 1> works_; // NULL: it has ended
    c10::SmallVector<at::Tensor, 2> held_;
    std::vector<std::shared_ptr<const void>> kept_alive_;
    std::vector<std::function<void()>> after_;
    std::vector<at::Tensor> outputs_;
    std::shared_ptr<c10::Event> event_, since_;
    Clock::time_point begin_time_, end_time_;

    Operation *next_ = nullptr, *previous_ = nullptr; // the group's, under its lock
    bool is_entered_ = false;

    std::shared_ptr<Operation> self_; // while weft has to say that works have ended
    std::atomic<size_t> left_{0};     // of them

    mutable std::mutex lock_; // what follows
    std::condition_variable changed_;
    bool is_driven_ = false;   // a thread uses the works
    bool is_kept_ = false;     // weft is to drive it, as soon as that thread is done,
    bool is_watched_ = false;  // and does,
    bool has_arrived_ = false; // and has said that all works have ended
    c10::intrusive_ptr<c10::ivalue::Future> future_;
    std::exception_ptr error_;
    std::atomic<bool> has_ended_{false}, is_collected_{false};
};

} // namespace torch_weft
