// SPDX-License-Identifier: Apache-2.0
// How calls on a device's tensors are stream-ordered.
//
// A call waits for what the caller's stream holds, and whoever waits for the work makes a stream wait for the call: in between
// it runs on a stream of its own, beside the caller's. A call that is synchronous by name runs on the caller's stream itself.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include "bindings/torch/csrc/library.hpp"

namespace torch_weft
{

// A scope of the calling thread: PyTorch's current stream is the call's.
class StreamOrder
{
  public:
    // way: to the device, which weft knows.
    StreamOrder(const Way &way, c10::Device device, bool async);
    StreamOrder(const StreamOrder &) = delete;
    StreamOrder &operator=(const StreamOrder &) = delete;

    // The call's stream, for weft. What is given must not outlast this. has_memory: the call has memory on the device.
    void put_into(weft_call_options &options, bool has_memory) const;
    // Behind what has been put into the stream so far.
    std::shared_ptr<c10::Event> mark(bool is_timed);

  private:
    c10::EventFlag flag(bool is_timed) const;

    const Way &way_;
    const c10::Device device_;
    std::optional<c10::StreamGuard> guard_;
    std::optional<c10::Stream> stream_;
};

} // namespace torch_weft
