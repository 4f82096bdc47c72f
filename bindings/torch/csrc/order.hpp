// SPDX-License-Identifier: Apache-2.0
// Where calls on a device's tensors stand in the order of its streams.
//
// A call waits for what the caller's stream holds, and whoever waits for the work makes a stream wait for the call: in between
// it runs on a stream of its own, beside the caller's. A call that is synchronous by name runs on the caller's stream itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include "bindings/torch/csrc/library.hpp"

namespace torch_weft
{

// A scope of the calling thread: PyTorch's current stream is the call's, and so is weft's.
class StreamOrder
{
  public:
    StreamOrder(Library &library, c10::Device device, bool async);
    ~StreamOrder();
    StreamOrder(const StreamOrder &) = delete;
    StreamOrder &operator=(const StreamOrder &) = delete;

    // Behind what has been put into the stream so far.
    std::shared_ptr<c10::Event> mark();

  private:
    Library &library_;
    const c10::Device device_;
    std::optional<c10::StreamGuard> guard_;
    std::optional<c10::Stream> stream_;
};

} // namespace torch_weft
