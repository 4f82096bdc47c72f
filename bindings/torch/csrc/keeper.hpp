// Sees operations to their end which nobody may wait for.
//
// One thread at a time leads: it waits for the oldest operation, a moment at a time, and looks at the others. When some have ended it
// gives the lead away before it completes their futures, since whoever waits for those runs then and there, and may itself
// wait for other operations (comm hooks do). Another thread, idle or new, leads on. Threads start when they are needed
// and end with the library.
#pragma once

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

  private:
    struct Room;
    static void run(std::shared_ptr<Room> room);

    std::shared_ptr<Room>
        room_; // the threads' as well: one of them may let go of the last operation, and so of the library
};

} // namespace torch_weft
