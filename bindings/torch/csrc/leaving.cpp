// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/leaving.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include <unistd.h>

#include <c10/util/Exception.h>

namespace torch_weft
{

namespace
{

struct Leavers {
    std::mutex lock;
    std::condition_variable changed;
    std::set<uint64_t> running;
    uint64_t last = 0;
    const pid_t process = getpid();
};

} // namespace

// Not destroyed: threads may outlast this file's static objects. A forked child begins anew: the threads are not there, and one of them may
// have had the lock.
static Leavers &leavers()
{
    static std::atomic<Leavers *> known{new Leavers};
    Leavers *all = known;
    if (all->process == getpid())
        return *all;
    auto *anew = new Leavers;
    if (known.compare_exchange_strong(all, anew))
        return *anew;
    delete anew;
    return *all;
}

static void end(weft_comm *comm, const std::string &name, std::chrono::milliseconds patience)
{
    weft_comm_set_timeout(comm, milliseconds_of(patience));
    // Late ranks have been waited for, and find a group that has gone. What is still used stays, with all that belongs to it.
    if (weft_comm_destroy(comm) == WEFT_BUSY)
        TORCH_WARN("weft: the group ", name, " is not ended: ", weft_error_detail());
}

void leave(std::shared_ptr<Library> library, weft_comm *comm, const std::string &name,
           std::chrono::milliseconds patience, std::chrono::milliseconds moment)
{
    Leavers &all = leavers();
    std::unique_lock<std::mutex> guard(all.lock);
    const uint64_t mine = ++all.last;
    all.running.insert(mine);
    try {
        std::thread([&all, mine, library, comm, name, patience]() mutable {
            end(comm, name, patience);
            library.reset();
            std::lock_guard<std::mutex> done(all.lock);
            all.running.erase(mine);
            all.changed.notify_all();
        }).detach();
    } catch (const std::system_error &) { // no threads any more
        all.running.erase(mine);
        guard.unlock();
        end(comm, name, patience);
        return;
    }
    all.changed.wait_for(guard, moment, [&] { return all.running.count(mine) == 0; });
}

void finish_leaving()
{
    Leavers &all = leavers();
    std::unique_lock<std::mutex> guard(all.lock);
    all.changed.wait(guard, [&] { return all.running.empty(); });
}

} // namespace torch_weft
