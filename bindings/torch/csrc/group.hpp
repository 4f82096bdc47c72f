// SPDX-License-Identifier: Apache-2.0
// A communicator, with what has to outlive the backend object that PyTorch holds: operations in flight keep it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include <unistd.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "bindings/torch/csrc/library.hpp"

namespace torch_weft
{

class Operation;

class Group
{
  public:
    using Milliseconds = std::chrono::milliseconds;

    // All ranks of the group are here at the same time. Throws with the names of those that have not come, and what look() throws, which is
    // called now and then.
    static std::shared_ptr<Group> meet(const std::string &settings,
                                       const c10::intrusive_ptr<c10d::Store> &store, int rank, int ranks,
                                       const std::string &name, Milliseconds timeout, void (*look)());
    ~Group();
    Group(const Group &) = delete;
    Group &operator=(const Group &) = delete;

    // Some of this group's ranks as a group: only they are here. Throws.
    std::shared_ptr<Group> part(const std::vector<int> &ranks, const std::string &name);
    // The group without some of its ranks, which are not here: they are dead, or will leave. Throws, with their names, where others have died,
    // too. Nobody is waited for in this group from then on.
    std::shared_ptr<Group> without(const std::vector<int64_t> &excluded, bool after_abort);

    // Calls with the communicator, which stays as long as that takes. Throws after close().
    template <typename Call> auto use(Call call) const
    {
        std::shared_lock<std::shared_timed_mutex> used(used_);
        check_open();
        return call(comm_);
    }
    void check_open() const
    {
        if (is_closing_)
            throw_closed();
    }
    [[noreturn]] void throw_closed() const;
    // A call that is being made, of one or several of weft's: close() waits for its end, and what it has begun is an operation then. Throws after
    // close().
    class Visit
    {
      public:
        explicit Visit(Group &group) : group_(group)
        {
            group_.visits_++; // before the look: close() looks the other way round
            if (group_.is_closing_) {
                end();
                group_.throw_closed();
            }
        }
        ~Visit()
        {
            end();
        }
        Visit(const Visit &) = delete;
        Visit &operator=(const Visit &) = delete;
        template <typename Call> auto use(Call call) const
        {
            std::shared_lock<std::shared_timed_mutex> used(group_.used_);
            if (!group_.comm_) // it has lasted longer than close() waits
                group_.throw_closed();
            return call(group_.comm_);
        }

      private:
        void end()
        {
            if (--group_.visits_ == 0 && group_.is_closing_)
                group_.report_visits();
        }
        Group &group_;
    };
    const std::shared_ptr<Library> &library() const
    {
        return library_;
    }
    // Held while a call is made on the communicator, so that ranks make them in one order.
    std::mutex &order()
    {
        return order_;
    }

    void set_timeout(Milliseconds timeout);
    // Ends what runs, on all ranks.
    void abort(const std::string &reason);
    // Waits for what runs, at most patience; what runs on is ended, on all ranks. Then leaves, where the other ranks have as much time to come.
    // Calls that follow throw.
    // moment: how long this call waits for them; a thread does for longer.
    void close(Milliseconds patience, Milliseconds moment = Milliseconds(1000));
    // The end of the program, while whoever waits for futures can still be notified: what runs may end, but where the program has failed.
    static void end_all(bool has_failed);
    // Whether that has begun: what fails from then on does so because of it.
    static bool is_program_over();
    // What this rank waits for, in lines of text.
    std::string dump() const;
    weft_comm_stats stats() const;

    // The first failure of the group is remembered; those of one operation alone, as of its arguments, are not.
    void note_failure(int status);
    c10d::ErrorType error() const
    {
        return error_;
    }

    // Operations that begin from now on are timed.
    void time_operations()
    {
        is_timed_ = true;
    }
    bool is_timed() const
    {
        return is_timed_.load(std::memory_order_relaxed);
    }

  private:
    friend class Operation;
    Group(std::shared_ptr<Library> library, weft_comm *comm, const std::string &name);
    static std::shared_ptr<Group> make(std::shared_ptr<Library> library, weft_comm *comm,
                                       const std::string &name);
    void enter(Operation *operation);
    void leave(Operation *operation);
    void end(Milliseconds patience);
    bool finish_operations(Milliseconds patience);
    bool finish_visits(Milliseconds patience);
    void report_visits();
    weft_comm *subset(const std::vector<int> &ranks, const std::string &name);
    weft_comm *survivors();

    std::shared_ptr<Library> library_;
    const std::string name_;
    std::mutex order_;
    mutable std::shared_timed_mutex used_; // alone: who ends the communicator
    weft_comm *comm_;
    const pid_t process_ = getpid(); // a forked child has no part in it
    std::atomic<bool> is_closing_{false}, is_left_{false}, is_timed_{false};
    std::atomic<int> visits_{0};
    mutable std::mutex lock_;      // what follows
    Operation *running_ = nullptr; // a list
    std::condition_variable visited_;
    std::atomic<c10d::ErrorType> error_{c10d::ErrorType::SUCCESS};
};

} // namespace torch_weft
