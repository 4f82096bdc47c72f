// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/keeper.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <iterator>
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
using Operations = std::vector<std::shared_ptr<Operation>>;

// The room whose futures this thread completes: what waits for one may end a group.
static thread_local const void *telling = nullptr;

// How long one future's followers may run before the next future is completed beside them.
static constexpr Milliseconds TELLING{5};
// How long the leader waits in one operation before it looks at the others.
static constexpr int64_t SLICE_MS = 1;
// What has been kept for longer may be a receive that stays open: it is looked at from time to time, so that nobody waits behind it.
static constexpr Milliseconds FRESH{20}, NOW_AND_THEN{2};

struct Keeper::Room {
    const pid_t process = getpid();
    std::mutex lock;
    std::condition_variable changed, settled;
    std::condition_variable come;                 // for the leader: there is something waiting
    Operations waiting;                           // for a leader
    std::deque<std::shared_ptr<Operation>> ended; // for somebody to tell
    bool is_led = false;
    bool stop = false;
    int idle = 0, tellers = 0;
    uint64_t rounds = 0; // looks of leaders at all that they have
    Clock::time_point telling_since;
    std::vector<std::thread> threads;

    // Somebody leads where there is something to do. Where no thread can be had the next one that comes by does. [lock]
    void see_to_it(const std::shared_ptr<Room> &self)
    {
        if (stop || (waiting.empty() && ended.empty()) || is_led)
            return;
        if (idle > 0) {
            changed.notify_one();
            return;
        }
        try {
            threads.emplace_back(run, self);
        } catch (const std::system_error &) {
        }
    }

    bool is_time_to_tell() const
    {
        return !ended.empty() && (tellers == 0 || Clock::now() - telling_since > TELLING);
    }

    void lead(std::unique_lock<std::mutex> &guard);
    void tell(std::unique_lock<std::mutex> &guard, const std::shared_ptr<Room> &self);
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
    room_->come.notify_all();
    for (std::thread &thread : threads) {
        if (thread.get_id() == std::this_thread::get_id())
            thread.detach(); // it ends when it comes back from here
        else
            thread.join();
    }
}

void Keeper::take(std::shared_ptr<Operation> operation)
{
    if (room_->process != getpid()) {
        new std::shared_ptr<Operation>(std::move(operation)); // its end is the parent's business
        return;
    }
    std::lock_guard<std::mutex> guard(room_->lock);
    room_->waiting.push_back(std::move(operation));
    room_->come.notify_one();
    room_->see_to_it(room_);
}

void Keeper::settle(Milliseconds patience)
{
    std::unique_lock<std::mutex> guard(room_->lock);
    const uint64_t enough = room_->rounds + 2; // one of them may be under way
    room_->settled.wait_for(guard, patience, [&] {
        const bool have_looked = room_->rounds >= enough || (!room_->is_led && room_->waiting.empty());
        return have_looked && room_->ended.empty() && room_->tellers == (telling == room_.get() ? 1 : 0);
    });
}

// Until there is something to tell, or nothing to do.
void Keeper::Room::lead(std::unique_lock<std::mutex> &guard)
{
    Operations mine; // the oldest first
    is_led = true;
    const auto is_called = [this] { return stop || !waiting.empty(); };
    while (!stop) {
        mine.insert(mine.end(), std::make_move_iterator(waiting.begin()),
                    std::make_move_iterator(waiting.end()));
        waiting.clear();
        if (is_time_to_tell() || (mine.empty() && ended.empty()))
            break;
        if (mine.empty()) { // somebody tells
            come.wait_for(guard, TELLING, is_called);
            continue;
        }
        const auto since = Clock::now() - FRESH;
        const auto newest = std::find_if(mine.rbegin(), mine.rend(),
                                         [&](const auto &operation) { return operation->kept_at() > since; });
        Operation *fresh = newest == mine.rend() ? nullptr : newest->get();
        if (!fresh && come.wait_for(guard, NOW_AND_THEN, is_called))
            continue;
        guard.unlock();
        Operations running, done;
        for (auto &operation : mine) {
            bool has_ended =
                operation.get() == fresh ? operation->drive_a_while(SLICE_MS) : operation->look_once();
            (has_ended ? done : running).push_back(std::move(operation));
        }
        mine.swap(running);
        guard.lock();
        ended.insert(ended.end(), std::make_move_iterator(done.begin()), std::make_move_iterator(done.end()));
        rounds++;
        settled.notify_all();
    }
    waiting.insert(waiting.begin(), std::make_move_iterator(mine.begin()),
                   std::make_move_iterator(mine.end()));
    is_led = false;
    settled.notify_all();
}

void Keeper::Room::tell(std::unique_lock<std::mutex> &guard, const std::shared_ptr<Room> &self)
{
    tellers++;
    telling = this;
    while (!ended.empty()) {
        auto operation = std::move(ended.front());
        ended.pop_front();
        telling_since = Clock::now();
        see_to_it(self);
        guard.unlock();
        operation->tell();
        operation.reset(); // the library may go here
        guard.lock();
    }
    tellers--;
    telling = nullptr;
    settled.notify_all();
}

void Keeper::run(std::shared_ptr<Room> room)
{
    c10::setThreadName("weft-keeper");
    std::unique_lock<std::mutex> guard(room->lock);
    while (!room->stop) {
        room->idle++;
        room->changed.wait(guard, [&] {
            return room->stop || (!room->is_led && (!room->waiting.empty() || !room->ended.empty()));
        });
        room->idle--;
        if (room->stop)
            return;
        room->lead(guard);
        if (room->is_time_to_tell())
            room->tell(guard, room);
    }
}

} // namespace torch_weft
