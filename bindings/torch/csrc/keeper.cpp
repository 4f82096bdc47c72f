#include "bindings/torch/csrc/keeper.hpp"

#include <condition_variable>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <c10/util/thread_name.h>

#include "bindings/torch/csrc/operation.hpp"

namespace torch_weft
{

using Operations = std::vector<std::shared_ptr<Operation>>;

struct Keeper::Room {
    std::mutex lock;
    std::condition_variable changed;
    Operations waiting; // for a leader
    bool is_led = false;
    bool stop = false;
    int idle = 0;
    std::vector<std::thread> threads;

    // Somebody leads what is waiting. [lock]
    void see_to_it(const std::shared_ptr<Room> &self)
    {
        if (waiting.empty() || is_led)
            return;
        if (idle == 0)
            threads.emplace_back(run, self);
        else
            changed.notify_one();
    }
};

Keeper::Keeper() : room_(std::make_shared<Room>())
{
}

Keeper::~Keeper()
{
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

void Keeper::take(std::shared_ptr<Operation> operation)
{
    std::lock_guard<std::mutex> guard(room_->lock);
    room_->waiting.push_back(std::move(operation));
    room_->see_to_it(room_);
}

void Keeper::run(std::shared_ptr<Room> room)
{
    c10::setThreadName("weft-keeper");
    Operations mine, ended;
    std::unique_lock<std::mutex> guard(room->lock);
    for (;;) {
        room->idle++;
        room->changed.wait(guard, [&] { return room->stop || (!room->is_led && !room->waiting.empty()); });
        room->idle--;
        if (room->stop)
            return;
        room->is_led = true;
        while (ended.empty()) {
            mine.insert(mine.end(), std::make_move_iterator(room->waiting.begin()),
                        std::make_move_iterator(room->waiting.end()));
            room->waiting.clear();
            guard.unlock();
            bool is_first = true;
            Operations running;
            for (auto &operation : mine) {
                bool has_ended =
                    std::exchange(is_first, false) ? operation->drive_a_while() : operation->look_once();
                (has_ended ? ended : running).push_back(std::move(operation));
            }
            mine.swap(running);
            guard.lock();
        }
        room->waiting.insert(room->waiting.begin(), std::make_move_iterator(mine.begin()),
                             std::make_move_iterator(mine.end()));
        mine.clear();
        room->is_led = false;
        room->see_to_it(room);
        guard.unlock();
        for (auto &operation : ended)
            operation->tell();
        ended.clear(); // the library may go here
        guard.lock();
    }
}

} // namespace torch_weft
