// SPDX-License-Identifier: Apache-2.0
// Sees operations to their end which nobody may wait for.
//
// weft says when their works have ended, in a thread of its own that must not wait. A thread of the keeper's does what is left, one operation after
// the other: it sleeps until there is one. Who waits for a future runs then and there, and may itself wait for other operations (comm
// hooks do). When it waits for long, what has ended behind it is reported by another thread, as that may be what it waits for.
// Threads start when they are needed and end with the library.
#pragma once

#include <chrono>
#include <memory>

namespace torch_weft
{

class Operation;

class Keeper
{
  public:
    Keeper();
    ~Keeper();
    // An operation is going to come. False in a forked child, to which none comes.
    bool expect();
    // One that is expected is about to be given by take().
    void announce();
    void take(std::shared_ptr<Operation> operation);
    // Waits until what has ended by now has been reported and let go, at most so long.
    void settle(std::chrono::milliseconds patience);

  private:
    struct Room;
    static void run(std::shared_ptr<Room> room);

    std::shared_ptr<Room>
        room_; // the threads' as well: one of them may let go of the last operation, and so of the library
};

} // namespace torch_weft
