// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/order.hpp"

#include <string>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace torch_weft
{

StreamOrder::StreamOrder(Library &library, c10::Device device, bool async)
    : library_(library), device_(device)
{
    const c10::impl::VirtualGuardImpl impl(device.type());
    const c10::Stream current = impl.getStream(device);
    stream_ = async ? impl.getStreamFromGlobalPool(device, true) : current;
    if (async) {
        c10::Event reached(device.type());
        reached.record(current);
        reached.block(*stream_);
    }
    guard_.emplace(*stream_);
    const std::string kind = c10::DeviceTypeName(device.type(), true);
    check(weft_stream_begin(library.context(), kind.c_str(), device.index(),
                            impl.getStreamNativeHandle(*stream_)),
          "calls in the order of a stream");
}

StreamOrder::~StreamOrder()
{
    weft_stream_end(library_.context());
}

std::shared_ptr<c10::Event> StreamOrder::mark()
{
    auto event = std::make_shared<c10::Event>(device_.type());
    event->record(*stream_);
    return event;
}

} // namespace torch_weft
