// SPDX-License-Identifier: Apache-2.0
// An operation under way: weft's works, the tensors that are theirs meanwhile, and what is left to do at the end.
//
// Who drives it. A work of weft's belongs to one thread at a time. As long as nobody but its caller is interested, that is the
// thread in wait() or isCompleted(): nothing is handed over, and small operations cost no wake-up. When a future is asked
// for, or the work is dropped, nobody may ever wait: then the operation goes to the keeper, a thread of the library's, and
// stays there; whoever waits then waits for the keeper.
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

#include "bindings/torch/csrc/library.hpp"

namespace torch_weft
{

class Group;

class Operation : public std::enable_shared_from_this<Operation>
{
  public:
    using Milliseconds = std::chrono::milliseconds;

    // name: what texts call it ("allreduce"). timeout: of wait() where the caller gives none; zero: the communicator's deadline counts.
    Operation(std::shared_ptr<Group> group, std::string name, Milliseconds timeout);
    ~Operation();
    Operation(const Operation &) = delete;
    Operation &operator=(const Operation &) = delete;

    // --- while it is being made, by one thread
    // is_message: others need not fail with it.
    void add(weft_work *work, std::string name, bool is_message);
    // A receive: what comes must be so long. Otherwise the operation fails.
    void add_receive(weft_work *work, size_t bytes);
    void hold(const at::Tensor &tensor);
    void hold(std::shared_ptr<const void> anything);
    // Once all works have ended well, in the order of these calls; not where they have failed.
    void after(std::function<void()> last);
    // In the order of a device's streams: it has ended when this has happened, too.
    void watch(std::shared_ptr<c10::Event> event);
    // Its making has failed: what has begun runs to its end, and nothing is done then.
    void abandon();
    // What result() and futures hand out.
    void give(const at::Tensor &tensor);
    // It is made: the group's end waits for it from now on.
    void enter();

    // --- from then on, any thread
    // Whether it has ended, well or not; drives progress, never waits.
    bool poll();
    // Waits, zero: until the operation's own timeout. Throws what it has failed with, or that time is up; then it runs on.
    void wait(Milliseconds timeout);
    // Whether it has ended, without a look.
    bool ended() const
    {
        return ended_.load(std::memory_order_acquire);
    }
    // NULL: it runs, or has ended well.
    std::exception_ptr error() const;
    // Of a receive that has ended.
    int source() const
    {
        return source_;
    }
    const std::vector<at::Tensor> &outputs() const
    {
        return outputs_;
    }
    c10::intrusive_ptr<c10::ivalue::Future> future();
    // It need not be waited for: the keeper sees to its end.
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

    // --- the keeper's
    std::chrono::steady_clock::time_point kept_at() const
    {
        return kept_at_;
    }
    // A look that may wait for a moment; true: it has ended.
    bool drive_a_while(int64_t wait_ms);
    bool look_once();
    // Completes the future of what has ended, once. Whoever waits for that runs in it, and may wait for other operations.
    void tell();

  private:
    struct Part {
        weft_work *work;
        std::string name;
        bool is_message, is_receive;
        size_t bytes;
    };
    bool look(); // [driving_]
    void end_part(Part &part, int status);
    void settle(); // [driving_]
    void wait_for_keeper(Milliseconds timeout);
    void drive(Milliseconds timeout); // [driving_]
    [[noreturn]] void late(Milliseconds timeout);
    void fail(int status, const Part &part, const std::string &detail);
    int check_message(const Part &part);

    std::shared_ptr<Group> group_;
    const std::string name_;
    const Milliseconds timeout_;
    std::vector<Part> parts_;
    std::vector<at::Tensor> held_, outputs_;
    std::vector<std::shared_ptr<const void>> kept_alive_;
    std::vector<std::function<void()>> after_;
    std::shared_ptr<c10::Event> event_;
    int source_ = -1;

    std::timed_mutex driving_; // whose holder uses the works
    mutable std::mutex lock_;  // what follows, and error_
    std::condition_variable changed_;
    bool kept_ = false;
    std::chrono::steady_clock::time_point kept_at_; // before the keeper has it
    c10::intrusive_ptr<c10::ivalue::Future> future_;
    std::exception_ptr error_;
    std::atomic<bool> ended_{false}, is_collected_{false};
};

} // namespace torch_weft
