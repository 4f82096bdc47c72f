// SPDX-License-Identifier: Apache-2.0
// How a rank leaves its groups. Ending a communicator waits for the other ranks, so that what has been sent to late ones still reaches them.
// Who leaves need not wait with it, and may be what they wait for: a thread does.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "bindings/torch/csrc/library.hpp"

namespace torch_weft
{

// Ends the communicator, for which the other ranks have so much time. Waits for that for a moment only, in which all of it ends where all ranks
// leave together.
void leave(std::shared_ptr<Library> library, weft_comm *comm, const std::string &name,
           std::chrono::milliseconds patience, std::chrono::milliseconds moment);

// Waits until all that has been left has ended: the end of a program.
void finish_leaving();

} // namespace torch_weft
