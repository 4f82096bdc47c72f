// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/order.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace torch_weft
{

StreamOrder::StreamOrder(c10::Device device, bool async)
    : device_(device), kind_(c10::DeviceTypeName(device.type(), true))
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
}

void StreamOrder::put_into(weft_call_options &options) const
{
    options.stream = c10::impl::VirtualGuardImpl(device_.type()).getStreamNativeHandle(*stream_);
    options.stream_kind = kind_.c_str();
    options.stream_ordinal = device_.index();
}

std::shared_ptr<c10::Event> StreamOrder::mark(bool is_timed)
{
    auto event = std::make_shared<c10::Event>(device_.type(), is_timed ? c10::EventFlag::BACKEND_DEFAULT
                                                                       : c10::EventFlag::PYTORCH_DEFAULT);
    event->record(*stream_);
    return event;
}

} // namespace torch_weft
