// Messages from one rank to another, and the barrier that names who has not come.
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "bindings/torch/csrc/launch.hpp"

namespace torch_weft
{

using Clock = std::chrono::steady_clock;

// Tags from here on are the backend's own; PyTorch's are ints.
static constexpr int64_t OWN_TAGS = int64_t{1} << 32;

static size_t bytes_of(const at::Tensor &tensor)
{
    return static_cast<size_t>(tensor.nbytes());
}

static const at::Tensor &only(const std::vector<at::Tensor> &tensors, const char *name)
{
    TORCH_CHECK(tensors.size() == 1, "weft: ", name, ": one tensor is expected, there are ", tensors.size());
    return tensors.front();
}

static void check_message(int peer, int tag, int ranks, const char *name)
{
    TORCH_CHECK(peer >= 0 && peer < ranks, "weft: ", name, ": rank ", peer, " is not one of ", ranks);
    TORCH_CHECK(tag >= 0, "weft: ", name, ": the tag, ", tag, ", is negative");
}

Backend::WorkPointer Backend::send(Tensors &tensors, int peer, int tag)
{
    const at::Tensor &tensor = only(tensors, "send");
    check_message(peer, tag, getSize(), "send");
    Launch launch(*this, c10d::OpType::SEND, "send", tensor.device(), c10d::kUnsetTimeout, true);
    at::Tensor from = launch.input(tensor);
    launch.start([&](weft_comm *comm, weft_work **work) {
        return weft_send_start(comm, from.data_ptr(), bytes_of(from), WEFT_UINT8, peer, tag, work);
    });
    return launch.finish(tensors);
}

Backend::WorkPointer Backend::recv(Tensors &tensors, int peer, int tag)
{
    const at::Tensor &tensor = only(tensors, "recv");
    check_message(peer, tag, getSize(), "recv");
    Launch launch(*this, c10d::OpType::RECV, "recv", tensor.device(), c10d::kUnsetTimeout, true);
    at::Tensor to = launch.output(tensor);
    launch.start_receive(bytes_of(to), [&](weft_comm *comm, weft_work **work) {
        return weft_recv_start(comm, to.data_ptr(), bytes_of(to), WEFT_UINT8, peer, tag, work);
    });
    return launch.finish(tensors);
}

Backend::WorkPointer Backend::recvAnysource(Tensors &tensors, int tag)
{
    const at::Tensor &tensor = only(tensors, "recv");
    check_message(0, tag, getSize(), "recv");
    Launch launch(*this, c10d::OpType::RECVANYSOURCE, "recv", tensor.device(), c10d::kUnsetTimeout, true);
    at::Tensor to = launch.output(tensor);
    launch.start_receive(bytes_of(to), [&](weft_comm *comm, weft_work **work) {
        return weft_recv_start(comm, to.data_ptr(), bytes_of(to), WEFT_UINT8, WEFT_ANY_SOURCE, tag, work);
    });
    return launch.finish(tensors);
}

// --- monitoredBarrier

namespace
{

// Empty messages of one barrier: each rank's to rank 0, and rank 0's answers.
class Roll
{
  public:
    Roll(weft_comm *comm, int64_t number, std::chrono::milliseconds timeout)
        : comm_(comm), tag_(OWN_TAGS + 2 * number), until_(Clock::now() + timeout)
    {
    }

    int call(int rank)
    {
        return weft_send(comm_, nullptr, 0, WEFT_UINT8, rank, tag_ + (rank != 0));
    }

    // from_root: an answer.
    weft_work *expect(int rank, bool from_root)
    {
        weft_work *work = nullptr;
        check(weft_recv_start(comm_, nullptr, 0, WEFT_UINT8, rank, tag_ + from_root, &work),
              "monitored_barrier");
        return work;
    }

    // Whether it has come in time; the work is gone afterwards.
    bool has_come(weft_work *work)
    {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(until_ - Clock::now()).count();
        int status = weft_work_wait(work, left > 0 ? left : 0);
        if (status != WEFT_OK)
            weft_work_cancel(work);
        weft_work_free(work);
        return status == WEFT_OK;
    }

  private:
    weft_comm *comm_;
    const int64_t tag_;
    const Clock::time_point until_;
};

} // namespace

// wait_all_ranks: rank 0 names all that are missing, not just the first.
void Backend::monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks)
{
    const auto timeout =
        opts.timeout == c10d::kUnsetTimeout || opts.timeout == kNoTimeout ? options_->timeout : opts.timeout;
    int64_t number;
    {
        std::lock_guard<std::mutex> guard(lock_);
        number = monitored_++;
    }
    Roll roll(group_->comm(), number, timeout);
    if (getRank() != 0) {
        weft_work *answer = roll.expect(0, true);
        check(roll.call(0), "monitored_barrier");
        TORCH_CHECK_WITH(DistBackendError, roll.has_come(answer), "weft: monitored_barrier: rank ", getRank(),
                         " is here, and rank 0 has not answered in ", timeout.count(),
                         " ms; it names the ranks that are not");
        return;
    }
    std::vector<weft_work *> expected(1, nullptr);
    for (int rank = 1; rank < getSize(); rank++)
        expected.push_back(roll.expect(rank, false));
    std::string missing;
    int count = 0;
    for (int rank = 1; rank < getSize(); rank++) {
        const bool is_asked = !count || wait_all_ranks;
        if (roll.has_come(expected[static_cast<size_t>(rank)]) || !is_asked)
            continue;
        missing += (count++ ? ", " : "") + std::to_string(rank);
    }
    TORCH_CHECK_WITH(DistBackendError, !count, "weft: [Rank 0]: Rank", count > 1 ? "s " : " ", missing,
                     " failed to pass monitoredBarrier in ", timeout.count(), " ms");
    for (int rank = 1; rank < getSize(); rank++)
        check(roll.call(rank), "monitored_barrier");
}

} // namespace torch_weft
