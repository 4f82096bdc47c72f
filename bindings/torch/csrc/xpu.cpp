// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/xpu.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <dlfcn.h>
#include <link.h>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <weft/device.h>

namespace torch_weft
{

namespace
{

// Members of sycl::queue, as C++ calls them on every system that SYCL has Linux binaries for: the object is the first argument. The names
// carry the parameters. Source: SYCL headers of DPC++, sycl/queue.hpp; libsycl.so.9 of intel-sycl-rt 2026.2 exports them.
struct Sycl {
    // A handle; what it is comes in the number: 1 an immediate command list, 0 a command queue.
    uintptr_t (*get_native)(const void *queue, int32_t *description) = nullptr;
    char (*get_backend)(const void *queue) = nullptr;
    void (*submit)(void *queue) = nullptr;
    std::string why_not;
};

constexpr char LEVEL_ZERO = 2; // sycl::backend::ext_oneapi_level_zero

} // namespace

static int note_if_sycl(struct dl_phdr_info *info, size_t size, void *names)
{
    static const char begin[] = "libsycl.so";
    const char *slash = strrchr(info->dlpi_name, '/');
    if (strncmp(slash ? slash + 1 : info->dlpi_name, begin, sizeof begin - 1) == 0)
        static_cast<std::vector<std::string> *>(names)->push_back(info->dlpi_name);
    return 0;
}

template <typename Function> static bool find_symbol(void *library, const char *name, Function &function)
{
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

// It may not be loaded where symbols are looked for by default, so it is looked for among all that is loaded.
static Sycl find_sycl()
{
    Sycl sycl;
    std::vector<std::string> names;
    dl_iterate_phdr(note_if_sycl, &names);
    if (names.size() != 1) {
        sycl.why_not = names.empty() ? "no libsycl.so is loaded" : "several libsycl.so are loaded";
        return sycl;
    }
    void *library =
        dlopen(names.front().c_str(), RTLD_LAZY | RTLD_NOLOAD); // not closed: it is used from now on
    if (!library || !find_symbol(library, "_ZNK4sycl3_V15queue9getNativeERi", sycl.get_native) ||
        !find_symbol(library, "_ZNK4sycl3_V15queue11get_backendEv", sycl.get_backend) ||
        !find_symbol(library, "_ZN4sycl3_V15queue15ext_oneapi_prodEv", sycl.submit))
        sycl.why_not = names.front() + " does not give out the handles of queues as it should";
    return sycl;
}

static const Sycl &sycl()
{
    static const Sycl found = find_sycl();
    return found;
}

void *ze_stream_of(void *queue)
{
    TORCH_CHECK(sycl().why_not.empty(), sycl().why_not);
    TORCH_CHECK(queue, "the stream has no queue");
    const char backend = sycl().get_backend(queue);
    TORCH_CHECK(backend == LEVEL_ZERO, "the queue is of SYCL's backend ", static_cast<int>(backend),
                ", not of Level Zero's");
    sycl().submit(queue);
    int32_t description = 0;
    const uintptr_t handle = sycl().get_native(queue, &description);
    TORCH_CHECK(handle && (handle & 1) == 0 && (description == 0 || description == 1),
                "SYCL gives out a handle that is neither a command list nor a command queue (", handle,
                ", kind ", description, ")");
    return reinterpret_cast<void *>(description ? handle : handle | 1);
}

static std::string why_no_ze(const std::vector<weft_device_entry> &entries)
{
    std::string why = "weft was built without Level Zero";
    bool is_there = false;
    for (const weft_device_entry &entry : entries) {
        if (strcmp(entry.kind, "ze") != 0)
            continue;
        if (entry.ordinal < 0)
            why = entry.reason;
        else if (!(entry.flags & WEFT_DEVICE_STREAM_WAITS)) // PyTorch's device may be any of them
            return std::string("streams of ze:") + std::to_string(entry.ordinal) + " cannot wait";
        else
            is_there = true;
    }
    return is_there ? "" : why;
}

Way way_of_xpu(const std::vector<weft_device_entry> &entries, c10::Device device)
{
    Way way;
    way.why_not = why_no_ze(entries);
    if (!way.why_not.empty())
        return way;
    try {
        const c10::impl::VirtualGuardImpl impl(device.type());
        const c10::Stream stream = impl.getStream(device);
        ze_stream_of(impl.getStreamNativeHandle(stream));
        c10::Event(device.type(), c10::EventFlag::BACKEND_DEFAULT).record(stream); // as StreamOrder does
    } catch (const c10::Error &error) {
        way.why_not = error.what_without_backtrace();
        return way;
    } catch (const std::exception &error) {
        way.why_not = error.what();
        return way;
    }
    way.kind =
        "ze"; // PyTorch counts the devices of one platform of SYCL's, which weft may have by other numbers: the memory says it
    return way;
}

} // namespace torch_weft
