// SPDX-License-Identifier: Apache-2.0
// PyTorch's XPUs are Level Zero's devices, weft's kind "ze", and their streams are SYCL's queues. Nothing of SYCL's is built against: what
// is asked of a queue is asked of the libsycl.so that PyTorch has loaded.
#pragma once

#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <weft/weft.h>

namespace torch_weft
{

// How calls on a device's tensors get to weft.
struct Way {
    std::string
        kind; // weft's name of such devices; "": it does not know them, and tensors go through the host's memory
    int ordinal = -1;    // -1: that of the call's memory
    std::string why_not; // in words, where there is something to say
};

// entries: what weft_context_get_devices() lists. PyTorch has the device ready.
Way way_of_xpu(const std::vector<weft_device_entry> &entries, c10::Device device);

// What weft takes for a stream of kind "ze". queue: a sycl::queue, what PyTorch gives out as the native handle of an XPU's stream. What the
// queue has collected is submitted. Throws c10::Error where the queue is none of Level Zero's.
void *ze_stream_of(void *queue);

} // namespace torch_weft
