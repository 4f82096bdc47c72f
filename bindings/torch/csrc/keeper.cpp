// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/keeper.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <c10/util/thread_name.h>

#include "bindings/torch/csrc/operation.hpp"

namespace torch_weft
{

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// The room whose futures this thread completes: what waits for one may end a group.
static thread_local const void *notifying = nullptr;

// How long one future's followers may run before the next future is completed beside them.
static constexpr Milliseconds NOTIFYING{5};

struct Keeper::Room {
    const pid_t process = getpid();
    std::atomic<int> announced{0};
    std::mutex lock; // what follows
    std::condition_variable changed, settled;
    std::deque<std::shared_ptr<Operation>> ended; // for somebody to report
    size_t expected = 0;                          // with those in `ended`
    bool stop = false;
    int idle = 0, notifiers = 0;
    Clock::time_point notifying_since;
    std::vector<std::thread> threads;

    // Somebody is there for what is going to end. Where no thread can be had the next one that comes by starts one. [lock]
    void see_to_it(const std::shared_ptr<Room> &self)
    {
        if (stop || expected == 0 || idle > 0)
            return;
        try {
            threads.emplace_back(run, self);
            idle++;
        } catch (const std::system_error &) {
        }
    }

    bool is_time_to_notify() const
    {
        return !ended.empty() && (notifiers == 0 || Clock::now() - notifying_since > NOTIFYING);
    }

    void notify(std::unique_lock<std::mutex> &guard, const std::shared_ptr<Room> &self);
};

Keeper::Keeper() : room_(std::make_shared<Room>())
{
}

// A forked child has the memory, but not the threads, and may have a lock that one of them held.
Keeper::~Keeper()
{
    if (room_->process != getpid()) {
        new std::vector<std::thread>(std::move(room_->threads));
        new std::shared_ptr<Room>(std::move(room_));
        return;
    }
    std::vector<std::thread> threads;
    {
        std::lock_guard<std::mutex> guard(room_->lock);
        room_->stop = true;
        threads.swap(room_->threads);
    }
    room_->changed.notify_all();
    for (std::thread &thread : threads) {
        if (thread.get_id() == std::this_thread::get_id())
            thread.detach(); // it ends when it comes back from here
        else
            thread.join();
    }
}

bool Keeper::expect()
{
    if (room_->process != getpid())
        return false;
    std::lock_guard<std::mutex> guard(room_->lock);
    room_->expected++;
    room_->see_to_it(room_);
    return true;
}

void Keeper::announce()
{
    room_->announced++;
}

void Keeper::take(std::shared_ptr<Operation> operation)
{
    auto room = room_; // this object goes with the operation's library
    std::lock_guard<std::mutex> guard(room->lock);
    room->announced--;
    room->ended.push_back(std::move(operation));
    room->changed.notify_one();
}

void Keeper::settle(Milliseconds patience)
{
    std::unique_lock<std::mutex> guard(room_->lock);
    room_->settled.wait_for(guard, patience, [&] {
        return room_->announced == 0 && room_->ended.empty() &&
               room_->notifiers == (notifying == room_.get() ? 1 : 0);
    });
}

void Keeper::Room::notify(std::unique_lock<std::mutex> &guard, const std::shared_ptr<Room> &self)
{
    notifiers++;
    notifying = this;
    while (!ended.empty()) {
        auto operation = std::move(ended.front());
        ended.pop_front();
        expected--;
        notifying_since = Clock::now();
        see_to_it(self);
        guard.unlock();
        operation->see_to_the_end();
        operation.reset(); // the library may go here
        guard.lock();
    }
    notifiers--;
    notifying = nullptr;
    settled.notify_all();
}

void Keeper::run(std::shared_ptr<Room> room)
{
    c10::setThreadName("weft-keeper");
    std::unique_lock<std::mutex> guard(room->lock);
    while (!room->stop) {
        if (room->is_time_to_notify()) {
            room->idle--;
            room->notify(guard, room);
            room->idle++;
        } else if (room->ended.empty()) {
            room->changed.wait(guard);
        } else { // somebody reports
            room->changed.wait_until(guard, room->notifying_since + NOTIFYING);
        }
    }
}

} // namespace torch_weft
