// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/order.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace torch_weft
{

StreamOrder::StreamOrder(const Way &way, c10::Device device, bool async) : way_(way), device_(device)
{
    const c10::impl::VirtualGuardImpl impl(device.type());
    const c10::Stream current = impl.getStream(device);
    stream_ = async ? impl.getStreamFromGlobalPool(device, true) : current;
    if (async) {
        c10::Event reached(device.type());
        reached.record(current);
        reached.block(*stream_);
    }
    // SYCL's queue may be a list for each thread, and one more for copies: a command of SYCL's in front of weft's barrier is behind them all.
    if (device.is_xpu())
        c10::Event(device.type(), flag(false)).record(*stream_);
    guard_.emplace(*stream_);
}

// SYCL makes no command for an event of a queue in order: it gives out that of its own last command, and does not know what weft has put
// behind that. Of an event that notes the time it makes one.
c10::EventFlag StreamOrder::flag(bool is_timed) const
{
    return is_timed || device_.is_xpu() ? c10::EventFlag::BACKEND_DEFAULT : c10::EventFlag::PYTORCH_DEFAULT;
}

void StreamOrder::put_into(weft_call_options &options, bool has_memory) const
{
    if (way_.ordinal < 0 && !has_memory)
        return; // which device it is nothing says, and there is nothing to be in order with
    void *const handle = c10::impl::VirtualGuardImpl(device_.type()).getStreamNativeHandle(*stream_);
    options.stream = device_.is_xpu() ? ze_stream_of(handle) : handle;
    if (way_.ordinal >= 0) {
        options.stream_kind = way_.kind.c_str();
        options.stream_ordinal = way_.ordinal;
    }
}

std::shared_ptr<c10::Event> StreamOrder::mark(bool is_timed)
{
    auto event = std::make_shared<c10::Event>(device_.type(), flag(is_timed));
    event->record(*stream_);
    return event;
}

} // namespace torch_weft
