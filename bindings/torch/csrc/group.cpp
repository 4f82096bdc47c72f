#include "bindings/torch/csrc/group.hpp"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>

#include "bindings/torch/csrc/operation.hpp"
#include "bindings/torch/csrc/store.hpp"

namespace torch_weft
{

Group::Group(std::shared_ptr<Library> library, weft_comm *comm, const std::string &name)
    : library_(std::move(library)), name_(name), ranks_(weft_comm_size(comm)), comm_(comm)
{
}

std::shared_ptr<Group> Group::meet(std::shared_ptr<Library> library,
                                   const c10::intrusive_ptr<c10d::Store> &store, int rank, int ranks,
                                   const std::string &name, Milliseconds timeout)
{
    StoreAdapter adapter(store);
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.ranks = ranks;
    options.name = "torch"; // the store is this group's alone
    options.store = adapter.callbacks();
    options.timeout_ms = milliseconds_of(timeout);
    std::vector<uint8_t> secret;
    if (ranks > 1) {
        secret = adapter.secret(rank, timeout);
        options.secret = secret.empty() ? nullptr : secret.data();
        options.secret_size = secret.size();
    }
    weft_comm *comm = nullptr;
    int status = weft_comm_create(library->context(), &options, &comm);
    if (status != WEFT_OK) {
        std::string detail = weft_error_detail();
        if (!adapter.failure().empty())
            detail += "; the store says: " + adapter.failure();
        raise(status, "making the group " + name, detail);
    }
    return std::shared_ptr<Group>(new Group(std::move(library), comm, name));
}

// Nobody has closed it: neither PyTorch nor the end of the program. The others are not waited for long.
Group::~Group()
{
    static constexpr Milliseconds PATIENCE{1000};
    close(PATIENCE);
}

weft_comm *Group::comm() const
{
    std::lock_guard<std::mutex> guard(lock_);
    TORCH_CHECK_WITH(DistBackendError, comm_, "weft: the group ", name_, " has been shut down");
    return comm_;
}

// The members have to agree on a number: all of them know the new group's name.
static int64_t tag_of(const std::string &name)
{
    uint64_t hash = 1469598103934665603u; // FNV-1a
    for (unsigned char byte : name)
        hash = (hash ^ byte) * 1099511628211u;
    return static_cast<int64_t>(hash >> 1);
}

std::shared_ptr<Group> Group::part(const std::vector<int> &ranks, const std::string &name)
{
    std::lock_guard<std::mutex> guard(order_);
    weft_comm *made = nullptr;
    int status = weft_comm_subset(comm(), ranks.data(), static_cast<int>(ranks.size()), tag_of(name), &made);
    if (status != WEFT_OK)
        raise(status, "splitting the group " + name_, weft_error_detail());
    return std::shared_ptr<Group>(new Group(library_, made, name));
}

void Group::set_timeout(Milliseconds timeout)
{
    check(weft_comm_set_timeout(comm(), milliseconds_of(timeout)), "setting the timeout");
}

void Group::connect()
{
    std::lock_guard<std::mutex> guard(order_);
    check(weft_comm_connect(comm()), "connecting all ranks");
}

void Group::abort(const std::string &reason)
{
    std::lock_guard<std::mutex> guard(lock_);
    if (comm_)
        weft_comm_abort(comm_, reason.c_str());
}

void Group::enter(Operation *operation)
{
    std::lock_guard<std::mutex> guard(lock_);
    running_.insert(operation);
}

void Group::leave(Operation *operation)
{
    std::lock_guard<std::mutex> guard(lock_);
    running_.erase(operation);
}

// Results of operations that nobody has waited for are there, as far as they have come in time.
bool Group::finish_operations(Milliseconds patience)
{
    const auto until = std::chrono::steady_clock::now() + patience;
    bool all = true;
    std::vector<std::shared_ptr<Operation>> running;
    {
        std::lock_guard<std::mutex> guard(lock_);
        for (Operation *operation : running_)
            if (auto mine = operation->weak_from_this().lock())
                running.push_back(std::move(mine));
    }
    for (auto &operation : running) {
        const auto left = std::chrono::duration_cast<Milliseconds>(until - std::chrono::steady_clock::now());
        try {
            operation->wait(std::max(left, Milliseconds(1)));
        } catch (const std::exception &) {
            // Told to whoever asks the work.
        }
        all = all && operation->ended();
    }
    return all;
}

void Group::close(Milliseconds patience)
{
    std::lock_guard<std::mutex> order(order_);
    if (std::unique_lock<std::mutex> guard(lock_); !comm_)
        return;
    if (!finish_operations(patience)) {
        abort("left with operations under way");
        finish_operations(patience);
    }
    weft_comm_set_timeout(comm_, milliseconds_of(patience));
    weft_comm *comm;
    {
        std::lock_guard<std::mutex> guard(lock_);
        comm = std::exchange(comm_, nullptr);
    }
    weft_comm_destroy(comm); // late ranks have been waited for; they find a group that has gone
}

std::string Group::dump() const
{
    std::lock_guard<std::mutex> guard(lock_);
    char text[4096] = "";
    if (comm_)
        weft_comm_dump(comm_, text, sizeof text, nullptr);
    return text;
}

weft_comm_stats Group::stats() const
{
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    check(weft_comm_get_stats(comm(), &stats), "asking for what has been moved");
    return stats;
}

void Group::note_failure(int status)
{
    auto kind = status == WEFT_TIMEOUT       ? c10d::ErrorType::TIMEOUT
                : status == WEFT_PEER_FAILED ? c10d::ErrorType::REMOTE_ERROR
                                             : c10d::ErrorType::COMM_ERROR;
    auto none = c10d::ErrorType::SUCCESS;
    error_.compare_exchange_strong(none, kind);
}

} // namespace torch_weft
