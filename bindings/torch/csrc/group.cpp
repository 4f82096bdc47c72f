// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/group.hpp"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>

#include "bindings/torch/csrc/leaving.hpp"
#include "bindings/torch/csrc/operation.hpp"
#include "bindings/torch/csrc/store.hpp"

namespace torch_weft
{

// How long what has ended may take to be reported, when a group goes.
static constexpr std::chrono::milliseconds SETTLING{1000};

Group::Group(std::shared_ptr<Library> library, weft_comm *comm, const std::string &name)
    : library_(std::move(library)), name_(name), comm_(comm)
{
}

namespace
{

// What weft uses while ranks meet, from a thread of its own.
struct Meeting {
    Meeting(const c10::intrusive_ptr<c10d::Store> &store, int rank) : adapter(store, rank)
    {
    }
    StoreAdapter adapter;
    weft_comm *comm = nullptr;
};

} // namespace

static std::string first_line(const std::string &text)
{
    return text.substr(0, text.find('\n'));
}

static int await(weft_work *work, StoreAdapter &adapter, const std::string &name, void (*look)())
{
    int status;
    while ((status = weft_work_wait(work, BETWEEN_LOOKS.count())) == WEFT_TIMEOUT || status == WEFT_AGAIN) {
        status = weft_work_wait(work, 0); // its own deadline, perhaps
        if (status != WEFT_AGAIN)
            break;
        look();
        const std::string reason = adapter.refusal();
        if (!reason.empty())
            raise(WEFT_PEER_FAILED, "making the group " + name, reason);
    }
    return status;
}

// Whether it is this rank's own trouble, of which the others may not hear otherwise.
static bool is_own(int status)
{
    return status != WEFT_RANKS_ABSENT && status != WEFT_PEER_FAILED && status != WEFT_REVOKED &&
           status != WEFT_TIMEOUT;
}

[[noreturn]] static void give_up(StoreAdapter &adapter, int status, int rank, const std::string &name,
                                 std::string detail)
{
    if (is_own(status))
        adapter.refuse("rank " + std::to_string(rank) + ": " + words_of(status) + ": " + detail);
    if (!adapter.failure().empty())
        detail += "; the store says: " + adapter.failure();
    raise(status, "making the group " + name, detail);
}

std::shared_ptr<Group> Group::meet(const std::string &settings, const c10::intrusive_ptr<c10d::Store> &store,
                                   int rank, int ranks, const std::string &name, Milliseconds timeout,
                                   void (*look)())
{
    auto meeting = std::make_shared<Meeting>(store, rank);
    StoreAdapter &adapter = meeting->adapter;
    std::shared_ptr<Library> library;
    try {
        library = Library::get(settings);
    } catch (const std::exception &error) {
        adapter.refuse("rank " + std::to_string(rank) + ": " + first_line(error.what()));
        throw;
    }
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.ranks = ranks;
    options.name = adapter.name().c_str();
    options.store = adapter.callbacks();
    options.timeout_ms = milliseconds_of(timeout);
    std::vector<uint8_t> secret;
    if (ranks > 1) {
        secret = adapter.secret(timeout, look);
        options.secret = secret.empty() ? nullptr : secret.data();
        options.secret_size = secret.size();
    }
    weft_work *work = nullptr;
    options.work = &work;
    int status = weft_comm_create(library->context(), &options, &meeting->comm);
    if (status != WEFT_OK)
        give_up(adapter, status, rank, name, weft_error_detail());
    try {
        status = await(work, adapter, name, look);
    } catch (...) { // the meeting goes on until its deadline, and has its work
        new auto(std::move(meeting));
        new auto(std::move(library));
        throw;
    }
    const std::string detail = status == WEFT_OK ? "" : weft_error_detail();
    weft_work_free(work);
    if (status != WEFT_OK)
        give_up(adapter, status, rank, name, detail);
    return make(std::move(library), meeting->comm, name);
}

namespace
{

struct Open {
    std::mutex lock;
    std::vector<std::weak_ptr<Group>> groups;
};

} // namespace

// Not destroyed: groups may go later than this file's static objects.
static Open &open_groups()
{
    static auto &open = *new Open;
    return open;
}

std::shared_ptr<Group> Group::make(std::shared_ptr<Library> library, weft_comm *comm, const std::string &name)
{
    std::shared_ptr<Group> made(new Group(std::move(library), comm, name));
    Open &open = open_groups();
    std::lock_guard<std::mutex> guard(open.lock);
    auto &groups = open.groups;
    groups.erase(std::remove_if(groups.begin(), groups.end(), [](const auto &one) { return one.expired(); }),
                 groups.end());
    groups.push_back(made);
    return made;
}

// Of what nobody has closed. The others are not waited for long.
static constexpr std::chrono::milliseconds AT_THE_END{1000};

Group::~Group()
{
    try {
        close(AT_THE_END);
    } catch (const std::exception &) {
        // A mutex of the system's: nothing more can be done.
    }
}

static std::atomic<bool> program_is_over{false};

bool Group::is_program_over()
{
    return program_is_over;
}

void Group::end_all(bool has_failed)
{
    program_is_over = true;
    std::vector<std::shared_ptr<Group>> groups;
    {
        Open &open = open_groups();
        std::lock_guard<std::mutex> guard(open.lock);
        for (const auto &one : open.groups)
            if (auto group = one.lock())
                groups.push_back(std::move(group));
    }
    const auto until = std::chrono::steady_clock::now() + AT_THE_END;
    for (const auto &group : groups) {
        const auto left = std::chrono::duration_cast<Milliseconds>(until - std::chrono::steady_clock::now());
        group->end(has_failed ? Milliseconds(0) : std::max(left, Milliseconds(1)));
    }
}

// The communicator stays: weft ends it with the process, by the exit status.
void Group::end(Milliseconds patience)
{
    if (process_ != getpid() || is_closing_.exchange(true) || patience == Milliseconds(0))
        return;
    finish_visits(patience);
    finish_operations(patience);
    library_->keeper().settle(SETTLING);
}

void Group::throw_closed() const
{
    C10_THROW_ERROR(DistBackendError, "weft: the group " + name_ + " has been shut down");
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
    weft_comm *made = subset(ranks, name);
    if (!made)
        raise(WEFT_REVOKED, "splitting the group " + name_, weft_error_detail());
    return make(library_, made, name);
}

// NULL where the communicator has failed: the detail says why.
weft_comm *Group::subset(const std::vector<int> &ranks, const std::string &name)
{
    weft_comm *made = nullptr;
    int status = use([&](weft_comm *comm) {
        return weft_comm_subset(comm, ranks.data(), static_cast<int>(ranks.size()), tag_of(name), &made,
                                nullptr);
    });
    if (status == WEFT_PEER_FAILED || status == WEFT_REVOKED)
        return nullptr;
    if (status != WEFT_OK)
        raise(status, "splitting the group " + name_, weft_error_detail());
    return made;
}

weft_comm *Group::survivors()
{
    weft_comm *made = nullptr;
    int status = use([&](weft_comm *comm) { return weft_comm_shrink(comm, &made, nullptr); });
    if (status != WEFT_OK)
        raise(status, "shrinking the group " + name_, weft_error_detail());
    return made;
}

// Where nothing has failed those that stay make a communicator of a part. Otherwise that fails, at whoever has heard of it by then or hears of it
// meanwhile, and weft knows who is there.
std::shared_ptr<Group> Group::without(const std::vector<int64_t> &excluded, bool after_abort)
{
    std::vector<int> staying;
    for (int r = 0, ranks = use(weft_comm_size); r < ranks; r++)
        if (std::find(excluded.begin(), excluded.end(), r) == excluded.end())
            staying.push_back(r);
    const std::string name = name_ + ":shrunk";
    weft_comm *comm = nullptr;
    if (after_abort)
        abort("the group is shrunk");
    else
        comm = subset(staying, name);
    std::shared_ptr<Group> made = make(library_, comm ? comm : survivors(), name);
    is_left_ = true;
    const int64_t mine = use(weft_comm_rank);
    std::vector<int64_t> there(static_cast<size_t>(made->use(weft_comm_size)));
    if (there.size() == staying.size())
        return made;
    check(made->use([&](weft_comm *comm) {
        return weft_allgather(comm, &mine, there.data(), 1, WEFT_INT64, nullptr);
    }),
          "asking who has come");
    std::string missing;
    for (int r : staying)
        if (std::find(there.begin(), there.end(), r) == there.end())
            missing += (missing.empty() ? "without rank " : ", ") + std::to_string(r);
    raise(WEFT_PEER_FAILED, "shrinking the group " + name_,
          "of " + std::to_string(staying.size()) + " ranks that should stay " + std::to_string(there.size()) +
              " have come, " + missing);
}

void Group::set_timeout(Milliseconds timeout)
{
    check(use([&](weft_comm *comm) { return weft_comm_set_timeout(comm, milliseconds_of(timeout)); }),
          "setting the timeout");
}

void Group::abort(const std::string &reason)
{
    std::shared_lock<std::shared_timed_mutex> used(used_);
    if (comm_)
        weft_comm_abort(comm_, reason.c_str());
}

void Group::enter(Operation *operation)
{
    std::lock_guard<std::mutex> guard(lock_);
    operation->is_entered_ = true;
    operation->next_ = running_;
    if (running_)
        running_->previous_ = operation;
    running_ = operation;
}

void Group::leave(Operation *operation)
{
    std::lock_guard<std::mutex> guard(lock_);
    operation->is_entered_ = false;
    (operation->previous_ ? operation->previous_->next_ : running_) = operation->next_;
    if (operation->next_)
        operation->next_->previous_ = operation->previous_;
}

// Results of operations that nobody has waited for are there, as far as they have come in time.
bool Group::finish_operations(Milliseconds patience)
{
    const auto until = std::chrono::steady_clock::now() + patience;
    bool all = true;
    std::vector<std::shared_ptr<Operation>> running;
    {
        std::lock_guard<std::mutex> guard(lock_);
        for (Operation *operation = running_; operation; operation = operation->next_)
            if (auto mine = operation->weak_from_this().lock())
                running.push_back(std::move(mine));
    }
    for (auto &operation : running) {
        const auto left = std::chrono::duration_cast<Milliseconds>(until - std::chrono::steady_clock::now());
        try {
            operation->wait(std::max(left, Milliseconds(1)));
        } catch (const std::exception &) {
            // Reported to whoever asks the work.
        }
        all = all && operation->ended();
    }
    return all;
}

void Group::report_visits()
{
    std::lock_guard<std::mutex> guard(lock_);
    visited_.notify_all();
}

bool Group::finish_visits(Milliseconds patience)
{
    std::unique_lock<std::mutex> guard(lock_);
    return visited_.wait_for(guard, patience, [this] { return visits_ == 0; });
}

void Group::close(Milliseconds patience, Milliseconds moment)
{
    if (process_ != getpid() || is_closing_.exchange(true))
        return;
    if (is_left_)
        patience = std::min(patience, SETTLING);
    const bool are_done = finish_visits(patience) && finish_operations(patience);
    library_->keeper().settle(
        SETTLING); // with the group still there: what waits for futures may ask it things
    std::unique_lock<std::shared_timed_mutex> used(used_, std::defer_lock);
    if (!are_done || !used.try_lock_for(patience)) {
        abort("left with operations in flight");
        finish_visits(patience);
        finish_operations(patience);
        library_->keeper().settle(SETTLING);
        used.lock();
    }
    weft_comm *comm = std::exchange(comm_, nullptr);
    used.unlock(); // whoever aborts now need not wait
    torch_weft::leave(library_, comm, name_, patience, moment);
}

std::string Group::dump() const
{
    std::shared_lock<std::shared_timed_mutex> used(used_);
    char text[4096] = "";
    if (comm_)
        weft_comm_dump(comm_, text, sizeof text, nullptr);
    return text;
}

weft_comm_stats Group::stats() const
{
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    check(use([&](weft_comm *comm) { return weft_comm_get_stats(comm, &stats); }),
          "asking for what has been moved");
    return stats;
}

void Group::note_failure(int status)
{
    auto kind = c10d::ErrorType::COMM_ERROR;
    if (status == WEFT_TIMEOUT)
        kind = c10d::ErrorType::TIMEOUT;
    else if (status == WEFT_PEER_FAILED || status == WEFT_RANKS_ABSENT)
        kind = c10d::ErrorType::REMOTE_ERROR;
    else if (status != WEFT_REVOKED && status != WEFT_TRANSPORT && status != WEFT_PROTOCOL)
        return;
    auto none = c10d::ErrorType::SUCCESS;
    error_.compare_exchange_strong(none, kind);
}

} // namespace torch_weft
