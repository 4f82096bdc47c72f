#include "bindings/torch/csrc/backend.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/from_blob.h>

#include "bindings/torch/csrc/work.hpp"

namespace torch_weft
{

// A rank that leaves waits so long for those that still use the group.
static constexpr std::chrono::milliseconds LEAVING{30000};

Backend::Backend(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                 c10::intrusive_ptr<WeftOptions> options)
    : c10d::Backend(rank, size), options_(std::move(options))
{
    group_ = Group::meet(Library::get(options_->transports, options_->ofi_provider), store, rank, size,
                         options_->group_name, options_->timeout);
    init();
}

Backend::Backend(std::shared_ptr<Group> group, int rank, int size, c10::intrusive_ptr<WeftOptions> options)
    : c10d::Backend(rank, size), group_(std::move(group)), options_(std::move(options))
{
    init();
}

Backend::~Backend() = default;

// --- calls that are one work

void Backend::startCoalescing()
{
    std::lock_guard<std::mutex> guard(lock_);
    const auto me = std::this_thread::get_id();
    for (const Coalescing &coalescing : coalescing_)
        TORCH_CHECK(coalescing.thread != me, "weft: startCoalescing() within another");
    coalescing_.push_back({me, std::make_shared<Operation>(group_, "coalesced", kNoTimeout), {}, sequence_});
}

Backend::WorkPointer Backend::endCoalescing()
{
    Coalescing mine;
    {
        std::lock_guard<std::mutex> guard(lock_);
        const auto me = std::this_thread::get_id();
        auto at = std::find_if(coalescing_.begin(), coalescing_.end(),
                               [&](const Coalescing &coalescing) { return coalescing.thread == me; });
        TORCH_CHECK(at != coalescing_.end(), "weft: endCoalescing() without startCoalescing()");
        mine = std::move(*at);
        coalescing_.erase(at);
    }
    if (!mine.events.empty())
        mine.operation->keep();
    return c10::make_intrusive<Work>(getRank(), c10d::OpType::COALESCED, mine.sequence,
                                     std::move(mine.operation), std::move(mine.events), false, true);
}

// --- groups

// Called by the members alone; ranks are this group's.
c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store> &,
                                                 const std::vector<int> &ranks,
                                                 const c10::intrusive_ptr<c10d::Backend::Options> &opts)
{
    const auto at = std::find(ranks.begin(), ranks.end(), getRank());
    if (at == ranks.end())
        return nullptr;
    auto options = c10::make_intrusive<WeftOptions>(opts ? opts->timeout : options_->timeout);
    options->transports = options_->transports;
    options->ofi_provider = options_->ofi_provider;
    if (opts) {
        options->group_name = opts->group_name;
        options->group_desc = opts->group_desc;
        options->global_ranks_in_group = opts->global_ranks_in_group;
    }
    auto part = group_->part(ranks, options->group_name);
    if (options->timeout != options_->timeout)
        part->set_timeout(options->timeout);
    return c10::make_intrusive<Backend>(std::move(part), static_cast<int>(at - ranks.begin()),
                                        static_cast<int>(ranks.size()), std::move(options));
}

uint64_t Backend::getSequenceNumberForGroup()
{
    std::lock_guard<std::mutex> guard(lock_);
    return sequence_;
}

void Backend::eagerConnectSingleDevice(at::Device)
{
    group_->connect();
}

void Backend::setTimeout(std::chrono::milliseconds timeout)
{
    group_->set_timeout(timeout);
    options_->timeout = timeout;
}

void Backend::abort()
{
    group_->abort("ProcessGroup.abort()");
}

void Backend::shutdown()
{
    group_->close(std::min(LEAVING, options_->timeout));
}

// --- memory that peers read in place

// PyTorch asks with a device's number, of which the host has none.
bool Backend::supportsTensorAlloc(c10::DeviceIndex device)
{
    return device < 0;
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options)
{
    TORCH_CHECK(size >= 0, "weft: allocate_tensor: ", size, " elements");
    TORCH_CHECK(options.device().is_cpu(), "weft: allocate_tensor: memory of the host is expected, not of ",
                options.device());
    auto library = group_->library();
    const size_t bytes = std::max<size_t>(static_cast<size_t>(size) * options.dtype().itemsize(), 1);
    void *memory = nullptr;
    check(weft_mem_alloc(library->context(), bytes, &memory), "allocating a tensor");
    return at::from_blob(
        memory, {size}, [library](void *gone) { weft_mem_free(library->context(), gone); }, options);
}

} // namespace torch_weft
