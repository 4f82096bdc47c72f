// SPDX-License-Identifier: Apache-2.0
// Messages from one rank to another, and the barrier that names who has not come.
#include <chrono>
#include <memory>
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

static void check_message(int peer, int tag, int ranks, const char *name)
{
    TORCH_CHECK(peer >= 0 && peer < ranks, "weft: ", name, ": rank ", peer, " is not one of ", ranks);
    TORCH_CHECK(tag >= 0, "weft: ", name, ": the tag, ", tag, ", is negative");
}

Backend::WorkPointer Backend::send(Tensors &tensors, int peer, int tag)
{
    const at::Tensor &tensor = only(tensors, "send");
    check_message(peer, tag, getSize(), "send");
    Launch launch(*this, c10d::OpType::SEND, "send", tensor, c10d::kUnsetTimeout, true);
    at::Tensor from = launch.input(tensor);
    launch.start([&](weft_comm *comm, const weft_call_options *options) {
        return weft_send(comm, from.data_ptr(), bytes_of(from), WEFT_UINT8, peer, tag, options);
    });
    return launch.finish(tensors);
}

Backend::WorkPointer Backend::recv(Tensors &tensors, int peer, int tag)
{
    const at::Tensor &tensor = only(tensors, "recv");
    check_message(peer, tag, getSize(), "recv");
    Launch launch(*this, c10d::OpType::RECV, "recv", tensor, c10d::kUnsetTimeout, true);
    at::Tensor to = launch.output(tensor);
    launch.start_receive(
        bytes_of(to), [&](weft_comm *comm, weft_message *message, const weft_call_options *options) {
            return weft_recv(comm, to.data_ptr(), bytes_of(to), WEFT_UINT8, peer, tag, message, options);
        });
    return launch.finish(tensors);
}

Backend::WorkPointer Backend::recvAnysource(Tensors &tensors, int tag)
{
    const at::Tensor &tensor = only(tensors, "recv");
    check_message(0, tag, getSize(), "recv");
    Launch launch(*this, c10d::OpType::RECVANYSOURCE, "recv", tensor, c10d::kUnsetTimeout, true);
    at::Tensor to = launch.output(tensor);
    launch.start_receive(bytes_of(to),
                         [&](weft_comm *comm, weft_message *message, const weft_call_options *options) {
                             return weft_recv(comm, to.data_ptr(), bytes_of(to), WEFT_UINT8, WEFT_ANY_SOURCE,
                                              tag, message, options);
                         });
    return launch.finish(tensors);
}

// --- monitoredBarrier

namespace
{

// A receive that nobody needs any more when this goes.
struct Ended {
    void operator()(weft_work *work) const
    {
        weft_work_cancel(work);
        weft_work_free(work);
    }
};
using Receive = std::unique_ptr<weft_work, Ended>;

// Empty messages of one barrier: each rank's to rank 0, and rank 0's answers.
class Roll
{
  public:
    Roll(const Group::Visit &visit, int64_t number, std::chrono::milliseconds timeout)
        : visit_(visit), tag_(OWN_TAGS + 2 * number), until_(Clock::now() + timeout)
    {
    }

    void call(int rank)
    {
        int status = visit_.use([&](weft_comm *comm) {
            return weft_send(comm, nullptr, 0, WEFT_UINT8, rank, tag_ + (rank != 0), nullptr);
        });
        check(status, "monitored_barrier");
    }

    // is_answer: of rank 0's.
    Receive expect(int rank, bool is_answer)
    {
        weft_work *work = nullptr;
        weft_call_options options = WEFT_CALL_OPTIONS_INIT;
        options.work = &work;
        int status = visit_.use([&](weft_comm *comm) {
            return weft_recv(comm, nullptr, 0, WEFT_UINT8, rank, tag_ + is_answer, nullptr, &options);
        });
        check(status, "monitored_barrier");
        return Receive(work);
    }

    // Whether it has come in time.
    bool has_come(const Receive &receive) const
    {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(until_ - Clock::now()).count();
        return weft_work_wait(receive.get(), left > 0 ? left : 0) == WEFT_OK;
    }

  private:
    const Group::Visit &visit_;
    const int64_t tag_;
    const Clock::time_point until_;
};

} // namespace

// wait_all_ranks: rank 0 names all that are missing, not just the first.
void Backend::monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks)
{
    const auto timeout =
        opts.timeout == c10d::kUnsetTimeout ? options_->timeout : opts.timeout; // 0: who is late, now
    const Group::Visit visit(*group_);
    int64_t number;
    {
        std::lock_guard<std::mutex> guard(lock_);
        number = monitored_++;
    }
    Roll roll(visit, number, timeout);
    if (getRank() != 0) {
        Receive answer = roll.expect(0, true);
        roll.call(0);
        TORCH_CHECK_WITH(DistBackendError, roll.has_come(answer), "weft: [Rank ", getRank(), "]: Rank ",
                         getRank(),
                         " successfully reached monitoredBarrier, but received errors while waiting for"
                         " send/recv from rank 0: no answer in ",
                         timeout.count(), " ms; it names the ranks that have not come");
        return;
    }
    std::vector<Receive> expected(1);
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
                     " failed to pass monitoredBarrier: Rank 0 timed out in monitoredBarrier after ",
                     timeout.count(), " ms");
    for (int rank = 1; rank < getSize(); rank++)
        roll.call(rank);
}

} // namespace torch_weft
