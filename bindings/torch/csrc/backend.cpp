// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/backend.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "bindings/torch/csrc/work.hpp"

namespace torch_weft
{

// A rank that leaves waits so long for those that still use the group.
static constexpr std::chrono::milliseconds LEAVING{30000};

Backend::Backend(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                 c10::intrusive_ptr<WeftOptions> options, void (*look)())
    : c10d::Backend(rank, size), options_(std::move(options))
{
    group_ =
        Group::meet(options_->settings, store, rank, size, options_->group_name, options_->timeout, look);
    init();
}

Backend::Backend(std::shared_ptr<Group> group, int rank, int size, c10::intrusive_ptr<WeftOptions> options)
    : c10d::Backend(rank, size), group_(std::move(group)), options_(std::move(options))
{
    init();
}

Backend::~Backend() = default;

// --- calls that are one work

using Operations = std::vector<std::shared_ptr<Operation>>;

static const Operations &released(const Operations &operations)
{
    for (const auto &operation : operations)
        operation->set_collected(false);
    return operations;
}

// What an exception has kept from being ended before is forgotten: its operations go their way.
void Backend::startCoalescing()
{
    std::lock_guard<std::mutex> guard(lock_);
    const auto me = std::this_thread::get_id();
    for (const Coalescing &coalescing : coalescing_)
        if (coalescing.thread == me)
            for (const auto &operation : released(coalescing.operations))
                operation->keep();
    coalescing_.remove_if([me](const Coalescing &coalescing) { return coalescing.thread == me; });
    coalescing_.push_back({me, {}, {}, sequence_, std::chrono::steady_clock::now()});
    coalescing_threads_ = coalescing_.size();
}

// Nobody puts calls together for so long: an exception has kept the end from coming. What has ended well is let go then.
static constexpr std::chrono::seconds FORGOTTEN{60};

void Backend::coalesce(const std::shared_ptr<Operation> &operation, const std::shared_ptr<c10::Event> &event)
{
    if (!is_coalescing()) // this thread would see its own
        return;
    std::lock_guard<std::mutex> guard(lock_);
    for (Coalescing &mine : coalescing_) {
        if (mine.thread != std::this_thread::get_id())
            continue;
        if (std::chrono::steady_clock::now() - mine.since > FORGOTTEN) {
            for (const auto &one : released(mine.operations))
                one->keep();
            mine.operations.erase(
                std::remove_if(mine.operations.begin(), mine.operations.end(),
                               [](const auto &one) { return one->ended() && !one->error(); }),
                mine.operations.end());
        } else {
            operation->set_collected(true); // its own work may go
        }
        mine.operations.push_back(operation);
        mine.sequence = sequence_;
        if (event)
            mine.events.push_back(event);
    }
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
        coalescing_threads_ = coalescing_.size();
    }
    released(mine.operations);
    return c10::make_intrusive<Work>(getRank(), c10d::OpType::COALESCED, mine.sequence,
                                     std::move(mine.operations), std::move(mine.events));
}

// --- groups

// The context is this group's, and so are the ways that it uses.
c10::intrusive_ptr<WeftOptions>
Backend::options_of_part(const c10::intrusive_ptr<c10d::Backend::Options> &opts) const
{
    auto options = c10::make_intrusive<WeftOptions>(opts ? opts->timeout : options_->timeout);
    options->settings = options_->settings;
    if (opts) {
        options->group_name = opts->group_name;
        options->group_desc = opts->group_desc;
        options->global_ranks_in_group = opts->global_ranks_in_group;
    }
    return options;
}

// Called by the members alone; ranks are this group's.
c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store> &,
                                                 const std::vector<int> &ranks,
                                                 const c10::intrusive_ptr<c10d::Backend::Options> &opts)
{
    const auto at = std::find(ranks.begin(), ranks.end(), getRank());
    if (at == ranks.end())
        return nullptr;
    auto options = options_of_part(opts);
    auto part = group_->part(ranks, options->group_name);
    if (options->timeout != options_->timeout)
        part->set_timeout(options->timeout);
    return c10::make_intrusive<Backend>(std::move(part), static_cast<int>(at - ranks.begin()),
                                        static_cast<int>(ranks.size()), std::move(options));
}

// Called by those that stay alone; flags: torch.distributed's, of which one is there.
c10::intrusive_ptr<c10d::Backend> Backend::shrink(const std::vector<int64_t> &excluded, int flags,
                                                  const c10::intrusive_ptr<c10d::Backend::Options> &opts)
{
    static constexpr int SHRINK_ABORT = 1;
    auto options = options_of_part(opts);
    if (options->timeout == kBackendDefaultTimeout) // nobody has asked for another one
        options->timeout = options_->timeout;
    if (options->group_name.empty())
        options->group_name = options_->group_name + ":shrunk";
    auto smaller = group_->without(excluded, flags & SHRINK_ABORT);
    smaller->set_timeout(options->timeout);
    const int rank = smaller->use(weft_comm_rank), ranks = smaller->use(weft_comm_size);
    return c10::make_intrusive<Backend>(std::move(smaller), rank, ranks, std::move(options));
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
    if (!options.device().is_cpu())
        return at::empty({size}, options);
    auto library = group_->library();
    const size_t bytes = std::max<size_t>(static_cast<size_t>(size) * options.dtype().itemsize(), 1);
    void *memory = nullptr;
    check(weft_mem_alloc(library->context(), bytes, &memory), "allocating a tensor");
    return at::from_blob(
        memory, {size}, [library](void *gone) { weft_mem_free(library->context(), gone); }, options);
}

} // namespace torch_weft
