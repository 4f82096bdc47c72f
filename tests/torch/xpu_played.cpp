// SPDX-License-Identifier: Apache-2.0
// A PyTorch with XPUs, played for one that is built for the CPU: what c10_xpu and libsycl.so do of streams, events and memory, on Level Zero as
// its loader has it, which the tests give a driver of their own (tests/fakes/ze/). The file is built as libsycl.so.8.
//
// As in PyTorch and SYCL: a stream is a sycl::queue in order, which is an immediate command list; an event without a time is that of the queue's
// last command of SYCL's, for which nothing is put into the list; an event with a time is a command. PyTorch's devices are counted
// backwards here, so that their numbers are not Level Zero's.
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <level_zero/ze_api.h>
#include <torch/library.h>

#define _Atomic // of C; what is there lies the same
#include "tests/fakes/ze/ze_fake.h"
#undef _Atomic

#define SHOWN __attribute__((visibility("default")))

static void ok(ze_result_t result, const char *what)
{
    TORCH_CHECK(result == ZE_RESULT_SUCCESS, what, " answers ", static_cast<unsigned>(result));
}
#define OK(call) ok(call, #call)

static bool plays(const char *scene)
{
    const char *set = getenv("WEFT_TEST_XPU");
    return set && strcmp(set, scene) == 0;
}

// --- devices

namespace
{
struct Gpus {
    ze_context_handle_t context;
    std::vector<ze_device_handle_t> devices;
};

// What a command signals when it is done.
struct Signal {
    Signal();
    ~Signal()
    {
        zeEventDestroy(event);
        zeEventPoolDestroy(pool);
    }
    Signal(const Signal &) = delete;
    Signal &operator=(const Signal &) = delete;
    bool is_done() const
    {
        return zeEventQueryStatus(event) == ZE_RESULT_SUCCESS;
    }
    ze_event_pool_handle_t pool;
    ze_event_handle_t event;
};
using Done = std::shared_ptr<Signal>;
} // namespace

static const Gpus &gpus()
{
    static const Gpus found = [] {
        Gpus made;
        uint32_t one = 1, count = 0;
        ze_driver_handle_t driver;
        const ze_context_desc_t desc = {ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
        OK(zeInit(0));
        OK(zeDriverGet(&one, &driver));
        OK(zeContextCreate(driver, &desc, &made.context));
        OK(zeDeviceGet(driver, &count, nullptr));
        made.devices.resize(count);
        OK(zeDeviceGet(driver, &count, made.devices.data()));
        return Gpus{made.context, {made.devices.rbegin(), made.devices.rend()}};
    }();
    return found;
}

Signal::Signal()
{
    const ze_event_pool_desc_t of_one = {ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr,
                                         ZE_EVENT_POOL_FLAG_HOST_VISIBLE, 1};
    ze_event_desc_t desc = {};
    desc.stype = ZE_STRUCTURE_TYPE_EVENT_DESC;
    desc.signal = desc.wait = ZE_EVENT_SCOPE_FLAG_HOST;
    OK(zeEventPoolCreate(gpus().context, &of_one, 0, nullptr, &pool));
    OK(zeEventCreate(pool, &desc, &event));
}

// --- SYCL's queues

namespace sycl
{
inline namespace _V1
{
enum class backend : char { opencl = 1, ext_oneapi_level_zero = 2 };

class SHOWN queue
{
  public:
    explicit queue(ze_device_handle_t device)
    {
        ze_command_queue_desc_t desc = {};
        desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
        desc.ordinal = 1;
        desc.mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS;
        if (plays("queue"))
            OK(zeCommandQueueCreate(gpus().context, device, &desc, &commands));
        else
            OK(zeCommandListCreateImmediate(gpus().context, device, &desc, &immediate));
        gpu = device;
    }
    uintptr_t getNative(int32_t &description) const;
    backend get_backend() const noexcept;
    void ext_oneapi_prod();

    // In order: a barrier before and behind. The last one signals.
    Done barrier(const Done &behind = nullptr)
    {
        Done done = std::make_shared<Signal>();
        run([&](ze_command_list_handle_t list) {
            OK(zeCommandListAppendBarrier(list, done->event, behind ? 1 : 0,
                                          behind ? &behind->event : nullptr));
        });
        kept.push_back(done);
        if (behind)
            kept.push_back(behind);
        return last = done;
    }
    void copy(void *to, const void *from, size_t bytes)
    {
        barrier();
        run([&](ze_command_list_handle_t list) {
            OK(zeCommandListAppendMemoryCopy(list, to, from, bytes, nullptr, 0, nullptr));
        });
        barrier();
    }
    template <typename Append> void run(const Append &append)
    {
        if (immediate)
            return append(immediate);
        ze_command_list_handle_t list;
        ze_command_list_desc_t desc = {};
        desc.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC;
        desc.commandQueueGroupOrdinal = 1;
        OK(zeCommandListCreate(gpus().context, gpu, &desc, &list));
        append(list);
        OK(zeCommandListClose(list));
        OK(zeCommandQueueExecuteCommandLists(commands, 1, &list, nullptr));
    }
    ze_device_handle_t gpu;
    ze_command_list_handle_t immediate = nullptr;
    ze_command_queue_handle_t commands = nullptr; // where there is no such list
    Done last;                                    // of SYCL's own
    std::vector<Done> kept;
};

uintptr_t queue::getNative(int32_t &description) const
{
    if (plays("throws"))
        throw std::runtime_error("the queue is recorded");
    description = plays("number") ? 7 : immediate ? 1 : 0;
    return immediate ? reinterpret_cast<uintptr_t>(immediate) : reinterpret_cast<uintptr_t>(commands);
}
backend queue::get_backend() const noexcept
{
    return plays("opencl") ? backend::opencl : backend::ext_oneapi_level_zero;
}
void queue::ext_oneapi_prod()
{
}
} // namespace _V1
} // namespace sycl

// --- PyTorch's streams and events

static constexpr int STREAMS = 4;

static sycl::queue &queue_of(c10::Stream stream)
{
    static std::mutex lock;
    static std::array<std::array<std::unique_ptr<sycl::queue>, STREAMS>, ZE_FAKE_DEVICES> queues;
    std::lock_guard<std::mutex> guard(lock);
    auto &queue = queues.at(static_cast<size_t>(stream.device_index())).at(static_cast<size_t>(stream.id()));
    if (!queue)
        queue = std::make_unique<sycl::queue>(gpus().devices.at(static_cast<size_t>(stream.device_index())));
    return *queue;
}

namespace
{
thread_local c10::DeviceIndex current_device;
thread_local std::array<c10::StreamId, ZE_FAKE_DEVICES> current_streams;

struct Devices : c10::impl::DeviceGuardImplInterface {
    static constexpr c10::DeviceType static_type = c10::DeviceType::XPU;

    c10::DeviceType type() const override
    {
        return static_type;
    }
    c10::Device exchangeDevice(c10::Device device) const override
    {
        return c10::Device(static_type, std::exchange(current_device, device.index()));
    }
    c10::Device getDevice() const override
    {
        return c10::Device(static_type, current_device);
    }
    void setDevice(c10::Device device) const override
    {
        current_device = device.index();
    }
    void uncheckedSetDevice(c10::Device device) const noexcept override
    {
        current_device = device.index();
    }
    c10::DeviceIndex deviceCount() const noexcept override
    {
        return static_cast<c10::DeviceIndex>(gpus().devices.size());
    }
};

struct Streams : Devices {
    c10::Stream getStream(c10::Device device) const override
    {
        return c10::Stream(c10::Stream::UNSAFE, device, current_streams[static_cast<size_t>(device.index())]);
    }
    c10::Stream getDefaultStream(c10::Device device) const override
    {
        return c10::Stream(c10::Stream::UNSAFE, device, 0);
    }
    c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override
    {
        static std::atomic<int> next;
        return c10::Stream(c10::Stream::UNSAFE, device, 1 + next++ % (STREAMS - 1));
    }
    c10::Stream exchangeStream(c10::Stream stream) const override
    {
        const c10::Stream before = getStream(stream.device());
        current_streams[static_cast<size_t>(stream.device_index())] = stream.id();
        return before;
    }
    void *getStreamNativeHandle(const c10::Stream stream) const override
    {
        return &queue_of(stream);
    }
    bool queryStream(const c10::Stream &stream) const override
    {
        const Done last = queue_of(stream).last;
        return !last || last->is_done();
    }
    void synchronizeStream(const c10::Stream &stream) const override
    {
        OK(zeEventHostSynchronize(queue_of(stream).barrier()->event, UINT64_MAX));
    }
};

struct Guard final : Streams {
    explicit Guard(c10::DeviceType = static_type)
    {
    }
    void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override
    {
        delete static_cast<Done *>(event);
    }
    void record(void **event, const c10::Stream &stream, const c10::DeviceIndex,
                const c10::EventFlag flag) const override
    {
        TORCH_CHECK(flag != c10::EventFlag::BACKEND_DEFAULT || !plays("untimed"),
                    "the device notes no time in a queue");
        sycl::queue &queue = queue_of(stream);
        delete static_cast<Done *>(*event);
        *event = new Done(flag == c10::EventFlag::BACKEND_DEFAULT ? queue.barrier() : queue.last);
    }
    void block(void *event, const c10::Stream &stream) const override
    {
        if (event && *static_cast<Done *>(event))
            queue_of(stream).barrier(*static_cast<Done *>(event));
    }
    bool queryEvent(void *event) const override
    {
        return !event || !*static_cast<Done *>(event) || (*static_cast<Done *>(event))->is_done();
    }
    void synchronizeEvent(void *event) const override
    {
        if (event && *static_cast<Done *>(event))
            OK(zeEventHostSynchronize((*static_cast<Done *>(event))->event, UINT64_MAX));
    }
    double elapsedTime(void *, void *, const c10::DeviceIndex) const override
    {
        return 1;
    }
    void recordDataPtrOnStream(const c10::DataPtr &, const c10::Stream &) const override
    {
    }
};

C10_REGISTER_GUARD_IMPL(XPU, Guard)
} // namespace

static c10::Stream current_stream(c10::Device device)
{
    return Guard().getStream(device);
}

// --- tensors

static at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type, int64_t index)
{
    const c10::Device device(c10::DeviceType::XPU, static_cast<c10::DeviceIndex>(index));
    size_t bytes = c10::elementSize(type);
    for (int64_t size : sizes)
        bytes *= static_cast<size_t>(size);
    ze_device_mem_alloc_desc_t desc = {};
    desc.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC;
    void *memory = nullptr;
    if (bytes)
        OK(zeMemAllocDevice(gpus().context, &desc, bytes, 64, gpus().devices.at(static_cast<size_t>(index)),
                            &memory));
    return at::from_blob(
        memory, sizes, [](void *gone) { gone ? (void)zeMemFree(gpus().context, gone) : (void)0; },
        at::TensorOptions().dtype(type).device(device), device);
}

static at::Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef,
                                std::optional<at::ScalarType> type, std::optional<at::Layout>,
                                std::optional<at::Device> device, std::optional<bool>)
{
    return empty(C10_AS_INTARRAYREF_SLOW(sizes), type.value_or(at::kFloat), device->index());
}

static at::Tensor &copy(at::Tensor &to, const at::Tensor &from, bool non_blocking)
{
    TORCH_CHECK(to.is_contiguous() && from.is_contiguous() && to.dtype() == from.dtype() &&
                    to.nbytes() == from.nbytes(),
                "the played XPU copies contiguous tensors only");
    const c10::Stream stream = current_stream(to.is_xpu() ? to.device() : from.device());
    if (to.nbytes())
        queue_of(stream).copy(to.data_ptr(), from.data_ptr(), to.nbytes());
    if (!non_blocking)
        Guard().synchronizeStream(stream);
    return to;
}

// The current stream waits until it is opened.
static std::vector<Done> &shuts()
{
    static auto &all = *new std::vector<Done>;
    return all;
}

static void shut(int64_t index)
{
    shuts().push_back(std::make_shared<Signal>());
    queue_of(current_stream(c10::Device(c10::DeviceType::XPU, static_cast<c10::DeviceIndex>(index))))
        .barrier(shuts().back());
}

static void open()
{
    for (const Done &shut : shuts())
        OK(zeEventHostSignal(shut->event));
}

// Called without the GIL, as PyTorch's own.
extern "C" SHOWN void played_synchronize(int index)
{
    Guard().synchronizeStream(
        current_stream(c10::Device(c10::DeviceType::XPU, static_cast<c10::DeviceIndex>(index))));
}

// What the driver of the tests has found against the specification.
static std::string violation()
{
    void *library = dlopen(getenv("ZE_ENABLE_ALT_DRIVERS"), RTLD_LAZY | RTLD_NOLOAD);
    const auto *fake = static_cast<const ze_fake *>(library ? dlsym(library, "ze_fake") : nullptr);
    return !fake ? "the driver is not there" : fake->violations ? fake->first_violation : "";
}

TORCH_LIBRARY(played, m)
{
    m.def("empty(int[] sizes, ScalarType type, int device) -> Tensor", empty);
    m.def("shut(int device) -> ()", shut);
    m.def("open() -> ()", open);
    m.def("violation() -> str", violation);
}

// A torch for the CPU has no operators of c10d for XPUs, which are the same as the CPU's: each calls the group's backend of its device, and
// weft's is one for all.
static void as_of_the_cpu(const c10::OperatorHandle &operation, torch::jit::Stack *stack)
{
    operation.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

TORCH_LIBRARY_IMPL(c10d, XPU, m)
{
    for (const char *name : {"allreduce_", "broadcast_", "reduce_", "_allgather_base_", "allgather_",
                             "_reduce_scatter_base_", "alltoall_base_", "send", "recv_", "barrier"})
        m.impl(name, torch::CppFunction::makeFromBoxedFunction<&as_of_the_cpu>());
}

TORCH_LIBRARY_IMPL(aten, XPU, m)
{
    m.impl("copy_", copy);
    m.impl("empty_strided", empty_strided);
}
