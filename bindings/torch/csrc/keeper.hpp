// SPDX-License-Identifier: Apache-2.0
// Sees operations to their end which nobody may wait for.
//
// One thread at a time leads: it waits in the newest operation, a moment at a time, and looks at the others. What has ended is told, one
// after the other, by a thread that has given the lead away before: who waits for a future runs then and there, and may
// itself wait for other operations (comm hooks do). When it waits for long, what has ended behind it is told by another thread, as
// that may be what it waits for. Threads start when they are needed and end with the library.
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
    void take(std::shared_ptr<Operation> operation);
    // Waits until what has ended by now has been told and let go, at most so long.
    void settle(std::chrono::milliseconds patience);

  private:
    struct Room;
    static void run(std::shared_ptr<Room> room);

    std::shared_ptr<Room>
        room_; // the threads' as well: one of them may let go of the last operation, and so of the library
};

} // namespace torch_weft
